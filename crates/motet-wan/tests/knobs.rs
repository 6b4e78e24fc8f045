//! The knobs hand beside the others: switched off it changes nothing, and what it says is what is run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;

use motet_control::hand::{Call, Hand, HandKind, Hands, KnobsHand, Proposal, Ran};
use motet_net::Network;
use motet_net::builders::{self, Params};
use motet_units::Seed;
use motet_wan::account::What;
use motet_wan::formats::ScenarioFile;
use motet_wan::{Account, Mode, Scenario, Strength, knobs, run_mode, run_with};

fn logical() -> Network {
    let params = Params::from_words(["fabric=logical", "wan-latency=1 ms"]).unwrap();
    builders::find("two-dc").unwrap().build(&params).unwrap()
}

fn scenario<'a>(network: &'a Network, more: &str) -> Scenario<'a> {
    let text = format!(
        "cluster = \"two-dc\"\ncount = 60\n[[collective]]\nkind = \"allreduce\"\nsize = \"64 MB\"\n\
         [[collective]]\nkind = \"alltoall\"\nsize = \"8 MB\"\n[variation]\nkind = \"uniform\"\n\
         intra = [\"20 Gbit/s\", \"200 Gbit/s\"]\nwan = [\"10 Gbit/s\", \"100 Gbit/s\"]\n{more}"
    );
    let file = ScenarioFile::read(&text).unwrap_or_else(|it| panic!("{it}"));
    file.resolve(network, None, Seed::new(3)).unwrap_or_else(|it| panic!("{it}"))
}

/// Always the same setting; it keeps what it is told.
#[derive(Default)]
struct Always {
    setting: Option<usize>,
    told: Vec<Ran>,
}

impl Hand<Call> for Always {
    type Action = usize;
    type Outcome = Ran;
    type Error = Infallible;

    fn kind(&self) -> HandKind {
        HandKind::Knobs
    }

    fn propose(&mut self, _call: Call) -> Result<Option<Proposal<usize>>, Infallible> {
        Ok(self.setting.map(Proposal::free))
    }

    fn learn(&mut self, ran: &Ran) {
        self.told.push(*ran);
    }
}

fn with(scenario: &Scenario<'_>, mode: Mode, setting: Option<usize>) -> (Account, Vec<Ran>) {
    let mut hand = Always { setting, ..Always::default() };
    let account = run_with(scenario, mode, Some(&mut hand as &mut dyn KnobsHand), &|_| {});
    (account.unwrap_or_else(|it| panic!("{it}")), hand.told)
}

const MODES: [Mode; 4] =
    [Mode::Base, Mode::Routes, Mode::Programs(Strength::Synth), Mode::Both(Strength::Synth)];

#[test]
fn switched_off_it_changes_nothing() {
    let network = logical();
    // Moves that cost something and take time to compute, so that more than times could differ.
    let costs = "[routes]\nevery = 1\ncompute = \"20 ms\"\nconverge = \"1 ms\"\n[programs]\nevery = 4\ndistribute = \"3 ms\"\n";
    let scenario = scenario(&network, costs);
    for mode in MODES {
        let without = run_mode(&scenario, mode, &|_| {}).unwrap();
        // The bandwidth is in the timeline of the base mode only.
        let moves = |it: &Account| {
            let mut events = it.events.clone();
            events.retain(|it| !matches!(it.what, What::Bandwidth { .. }));
            events
        };
        let same = |it: &Account| {
            it.times == without.times
                && moves(it) == moves(&without)
                && it.total() == without.total()
        };
        // Not there; there and not allowed to move; there and content; out of its mind.
        assert!(same(&run_mode(&scenario, mode.with_knobs(), &|_| {}).unwrap()));
        let (idle, told) = with(&scenario, mode, Some(2));
        assert!(same(&idle) && told.is_empty() && idle.settings.is_empty(), "{}", mode.name());
        for setting in [None, Some(0), Some(1000)] {
            let (content, told) = with(&scenario, mode.with_knobs(), setting);
            assert!(same(&content), "{} {setting:?}", mode.name());
            assert_eq!((content.knob_moves, told.len()), (0, 60));
        }
    }
}

#[test]
fn what_it_says_is_run_and_timed() {
    let network = logical();
    let scenario = scenario(&network, "");
    let settings = knobs::settings(&scenario).unwrap();
    assert!(settings[0].len() > 4, "{settings:?}");
    assert_eq!(settings[1].len(), 1, "NCCL has no algorithms for AllToAll");
    assert!(settings[0][0].algorithm.is_none() && settings[0][1].algorithm.is_some());
    let base = run_mode(&scenario, Mode::Base, &|_| {}).unwrap();
    for mode in MODES {
        for setting in 1..settings[0].len() {
            let (account, told) = with(&scenario, mode.with_knobs(), Some(setting));
            assert_eq!(account.settings, [vec_with(settings[0].len(), setting), vec![30]]);
            assert_eq!(told.iter().map(|it| it.time).collect::<Vec<_>>(), account.times);
            let of = |it: &Ran| (it.task, it.setting);
            assert_eq!((of(&told[0]), of(&told[1])), ((0, setting), (1, 0)));
            let other = account.times.iter().zip(&base.times).any(|(a, b)| a != b);
            assert!(other, "{} {setting}", mode.name());
        }
    }
}

fn vec_with(length: usize, at: usize) -> Vec<u64> {
    let mut all = vec![0; length];
    all[at] = 30;
    all
}

#[test]
fn a_mode_is_a_set_of_hands() {
    let routes = Hands::NONE.with(HandKind::Routes);
    assert_eq!(Mode::Base.hands(), Hands::NONE);
    assert_eq!(Mode::Routes.hands(), routes);
    let all = Mode::Both(Strength::Remap).with_knobs().hands();
    assert_eq!(all, routes.with(HandKind::Programs).with(HandKind::Knobs));
    for mode in Mode::ALL {
        let more = mode.with_knobs();
        assert_eq!(more.hands(), mode.hands().with(HandKind::Knobs));
        assert_eq!((more.with_knobs(), more.strength()), (more, mode.strength()));
        assert_ne!(more.name(), mode.name());
    }
}

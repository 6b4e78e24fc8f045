//! Modes over scenarios: what adapting buys, that nothing is lost, and what bad scenarios get.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use motet_net::Network;
use motet_net::builders::{self, Params};
use motet_units::{Duration, Seed};
use motet_wan::account::What;
use motet_wan::formats::ScenarioFile;
use motet_wan::{Account, Mode, Scenario, Strength, WanError, run_mode};

fn logical() -> Network {
    let mut params = Params::new();
    params.set("fabric", "logical");
    builders::find("two-dc").unwrap().build(&params).unwrap()
}

const UNIFORM: &str = "[variation]\nkind = \"uniform\"\nintra = [\"20 Gbit/s\", \"200 Gbit/s\"]\n\
                       wan = [\"10 Gbit/s\", \"100 Gbit/s\"]\n";

fn text(count: u32, more: &str) -> String {
    format!(
        "cluster = \"two-dc\"\ncount = {count}\n[[collective]]\nkind = \"allgather\"\n\
         chunk = \"8 MB\"\n{more}"
    )
}

fn scenario<'a>(network: &'a Network, text: &str) -> Scenario<'a> {
    let file = ScenarioFile::read(text).unwrap_or_else(|it| panic!("{it}"));
    file.resolve(network, None, Seed::new(3)).unwrap_or_else(|it| panic!("{it}"))
}

fn run(scenario: &Scenario<'_>, mode: Mode) -> Account {
    run_mode(scenario, mode, &|_| {}).unwrap_or_else(|it| panic!("{it}"))
}

#[test]
fn each_hand_helps_and_both_help_most() {
    let network = logical();
    let scenario = scenario(&network, &text(600, UNIFORM));
    let total = |mode| run(&scenario, mode).completion();
    let (base, routes) = (total(Mode::Base), total(Mode::Routes));
    assert!(routes < base);
    for strength in [Strength::Remap, Strength::Synth] {
        let (programs, both) = (total(Mode::Programs(strength)), total(Mode::Both(strength)));
        assert!(programs < base, "{strength:?}");
        assert!(both <= routes && both <= programs, "{strength:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_account() {
    let network = logical();
    let scenario = scenario(&network, &text(100, UNIFORM));
    for mode in Mode::ALL {
        let (first, second) = (run(&scenario, mode), run(&scenario, mode));
        assert_eq!(first.times, second.times, "{}", mode.name());
        assert_eq!(first.events, second.events);
        let sum: Duration = first.times.iter().copied().sum();
        assert_eq!(sum, first.collectives);
        assert_eq!(first.times.len(), 100);
    }
}

#[test]
fn without_variation_every_collective_takes_the_same() {
    let network = logical();
    let scenario = scenario(&network, &text(20, ""));
    let account = run(&scenario, Mode::Base);
    assert!(account.times.iter().all(|it| *it == account.times[0]));
    assert_eq!(account.route_moves + account.program_moves, 0);
}

#[test]
fn a_partition_that_heals_costs_its_time_and_nothing_else() {
    let network = logical();
    let fault = "[[fault]]\nregion = \"dc1\"\nat = \"20 ms\"\nfor = \"3 s\"\n";
    let calm = scenario(&network, &text(50, ""));
    let cut = scenario(&network, &text(50, fault));
    for mode in [Mode::Base, Mode::Both(Strength::Synth)] {
        let (calm, cut) = (run(&calm, mode), run(&cut, mode));
        assert_eq!(cut.times.len(), 50);
        assert!(cut.stalls > Duration::ZERO && cut.stalls <= Duration::from_ms(3000));
        assert!(cut.events.iter().any(|it| matches!(it.what, What::Stalled { .. })));
        let parts = [cut.collectives, cut.pauses, cut.stalls, cut.gaps];
        assert_eq!(cut.total(), parts.into_iter().sum::<Duration>());
        if mode == Mode::Base {
            assert_eq!(cut.collectives, calm.collectives);
        }
    }
}

#[test]
fn after_a_partition_the_states_are_those_of_a_run_without_one() {
    let network = logical();
    // The fault begins while a collective runs, so that whole collectives wait and none is lost.
    let fault = format!("{UNIFORM}[[fault]]\nregion = \"dc1\"\nat = \"20 ms\"\nfor = \"3 s\"\n");
    let calm = run(&scenario(&network, &text(60, UNIFORM)), Mode::Base);
    let cut = run(&scenario(&network, &text(60, &fault)), Mode::Base);
    assert!(cut.stalls > Duration::from_ms(2900));
    assert_eq!(cut.times, calm.times);
    assert_eq!(cut.total(), calm.total() + cut.stalls);
}

#[test]
fn a_partition_that_stays_is_an_error_with_its_cut() {
    let network = logical();
    let fault = "[[fault]]\nregion = \"dc1\"\nat = \"0 s\"\n";
    let scenario = scenario(&network, &text(50, fault));
    for mode in Mode::ALL {
        match run_mode(&scenario, mode, &|_| {}) {
            Err(WanError::Cut { index: 0, cut: Some(_), .. }) => {}
            other => panic!("{}: {other:?}", mode.name()),
        }
    }
}

#[test]
fn a_failed_link_is_gone_around() {
    let network = logical();
    let fault = "[[fault]]\nlink = \"dc0-border0 -> dc1-border0\"\nat = \"50 ms\"\n";
    let scenario = scenario(&network, &text(40, fault));
    for mode in Mode::ALL {
        let account = run(&scenario, mode);
        assert_eq!((account.times.len(), account.stalls), (40, Duration::ZERO));
    }
}

#[test]
fn a_failure_inside_a_region_is_gone_around_too() {
    let network = logical();
    let fault = "[[fault]]\nlink = \"dc0-gpu0 -> dc0-gpu1\"\nat = \"50 ms\"\n";
    let scenario = scenario(&network, &text(40, fault));
    for mode in Mode::ALL {
        let account = run(&scenario, mode);
        assert_eq!((account.times.len(), account.stalls), (40, Duration::ZERO), "{}", mode.name());
    }
}

#[test]
fn a_hand_that_could_help_is_asked_when_nothing_else_runs() {
    // A border router goes, and the ring's flows know no way but through it. The hands look at
    // every hundredth collective only, and deciding takes a second.
    let network = logical();
    let lazy = "[routes]\nevery = 100\npaths = 1\n[programs]\nevery = 100\ncompute = \"1 s\"\n\
                [[fault]]\nnode = \"dc0-border0\"\nat = \"50 ms\"\nfor = \"60 s\"\n";
    let scenario = scenario(&network, &text(40, lazy));
    let base = run(&scenario, Mode::Base);
    let synth = run(&scenario, Mode::Both(Strength::Synth));
    assert_eq!((base.times.len(), synth.times.len()), (40, 40));
    assert!(base.stalls > Duration::from_ms(50_000));
    assert!(synth.stalls < Duration::from_ms(2000), "{}", synth.stalls);
}

#[test]
fn what_lies_beyond_the_run_changes_nothing() {
    let network = logical();
    let late = "[[fault]]\nregion = \"dc1\"\nat = \"1 h\"\n";
    let (calm, late) = (text(40, ""), text(40, late));
    let times = |text: &str| run(&scenario(&network, text), Mode::Base).times;
    assert_eq!(times(&calm), times(&late));
}

#[test]
fn a_run_longer_than_the_clock_is_an_error() {
    let network = logical();
    let text = format!("gap = \"1000 h\"\n{}", text(40, ""));
    match run_mode(&scenario(&network, &text), Mode::Base, &|_| {}) {
        Err(WanError::TooLong { index: 5 }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn thresholds_move_less_often_than_a_cadence() {
    let network = logical();
    let moves = |more: &str| {
        let text = text(300, &format!("{UNIFORM}{more}"));
        run(&scenario(&network, &text), Mode::Routes).route_moves
    };
    let (cadence, threshold) =
        (moves(""), moves("[routes]\ntrigger = \"threshold\"\nabove = 1.5\n"));
    assert!(threshold > 0 && threshold < cadence / 2, "{threshold} of {cadence}");
}

#[test]
fn moves_cost_what_the_scenario_says() {
    let network = logical();
    let costs = format!("{UNIFORM}[routes]\nconverge = \"2 ms\"\n");
    let account = run(&scenario(&network, &text(100, &costs)), Mode::Routes);
    assert_eq!(account.pauses, Duration::from_ms(2 * account.route_moves));
    // A move that is worth less than it costs is not made.
    let careful = format!("{UNIFORM}[routes]\ntrigger = \"gain\"\nconverge = \"1 s\"\n");
    let account = run(&scenario(&network, &text(100, &careful)), Mode::Routes);
    assert_eq!(account.route_moves, 0);
    // What takes longer to compute than the run lasts never comes into force.
    let late =
        format!("{UNIFORM}[routes]\ncompute = \"1000 s\"\n[programs]\ncompute = \"1000 s\"\n");
    let late = scenario(&network, &text(100, &late));
    let base = run(&late, Mode::Base);
    assert_eq!(run(&late, Mode::Both(Strength::Synth)).times, base.times);
}

#[test]
fn every_collective_runs_in_every_mode() {
    let network = logical();
    let skewed: Vec<String> =
        (0..8).map(|a| format!("{:?}", (0..8).map(|b| (a * b) % 5).collect::<Vec<_>>())).collect();
    for kind in motet_collective::CollectiveKind::ALL {
        let counts = match kind {
            motet_collective::CollectiveKind::AllToAllV => {
                format!("counts = [{}]\n", skewed.join(", "))
            }
            _ => String::new(),
        };
        let text = format!(
            "cluster = \"two-dc\"\ncount = 12\n[[collective]]\nkind = \"{kind}\"\n\
             size = \"16 MB\"\n{counts}{UNIFORM}"
        );
        let scenario = scenario(&network, &text);
        for mode in Mode::ALL {
            assert_eq!(run(&scenario, mode).times.len(), 12, "{kind}");
        }
    }
}

#[test]
fn bad_scenarios_are_refused_at_their_place() {
    let network = logical();
    for (bad, line, says) in [
        ("[routes]\nevery = 0\n", 7, "is not from 1"),
        ("[programs]\nevery = 0\n", 7, "is not from 1"),
        ("[variation]\nkind = \"uniform\"\nwan = [\"10\", \"100\"]\n", 8, "unit"),
        ("[variation]\nkind = \"sometimes\"\n", 7, "there is no variation"),
        ("[variation]\nkind = \"uniform\"\nwan = [\"2 Gbit/s\", \"1 Gbit/s\"]\n", 8, "up"),
        ("[[fault]]\nlink = \"a -> b\"\nat = \"1 s\"\n", 7, "there is no node"),
        ("[[fault]]\nregion = \"dc9\"\nat = \"1 s\"\n", 6, "no link"),
        ("[routes]\ntrigger = \"threshold\"\nabove = 1.2\nbelow = 1.3\n", 9, "above `above`"),
        ("[routes]\ncompute = \"5\"\n", 7, "unit"),
        ("[[fault]]\nregion = \"dc1\"\nat = \"1\"\n", 8, "unit"),
        ("[programs]\nsplit = 2\n", 7, "keys of [routes]"),
        ("[routes]\nbogus = 2\n", 7, "unknown field"),
        ("[programs]\nbase = \"magic\"\n", 7, "magic"),
        ("[testbed]\nrouters = \"bird\"\n", 7, "there are no routers `bird`"),
        ("[testbed]\nlinks = \"netem\"\n", 7, "there are no links `netem`"),
    ] {
        let text = text(10, bad);
        let found = ScenarioFile::read(&text)
            .and_then(|it| it.resolve(&network, None, Seed::new(1)).map(|_| ()));
        let error = found.unwrap_err();
        assert_eq!(error.at.map(|it| it.line), Some(line), "{bad}: {error}");
        assert!(error.to_string().contains(says), "{bad}: {error}");
    }
}

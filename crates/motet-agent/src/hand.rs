//! [`PolicyHand`]: any policy as the knobs hand of a simulation: of collectives over a WAN, or of a training step on rails.
//!
//! The simulation lists the settings of each of its calls, with the time of each on an idle network. The policy chooses one before
//! every call and learns how long the call took. It is not told what else happens in the simulation (changes of circuits, routes
//! and programs, other traffic).

use std::convert::Infallible;
use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_control::hand::{Call, Hand, HandKind, Proposal, Ran};
use motet_nccl::{Algorithm, NcclOptions, Protocol};
use motet_net::Network;
use motet_units::{Bytes, Duration, Seed};

use crate::desk::{Desk, Topic};
use crate::env::{Brief, Place, PlaceError};
use crate::policy::{Choice, Registered};
use crate::state::TopologyClass;

/// An alternative setting for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub algorithm: Algorithm,
    pub channels: u32,
    /// Its time on an idle network.
    pub nominal: Duration,
}

/// A recurring call. Setting 0 leaves it as it is, setting n + 1 is `offers[n]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub kind: CollectiveKind,
    /// The size in nccl-tests' sense.
    pub bytes: Bytes,
    /// Its time with setting 0 on an idle network.
    pub nominal: Duration,
    pub offers: Vec<Offer>,
}

/// A task in the policy's terms.
#[derive(Clone, Debug)]
struct Known {
    kind: CollectiveKind,
    bytes: Bytes,
    brief: Arc<Brief>,
    /// The setting of each action. Actions without a setting have 0 here and an infinite time, so that no policy takes them.
    settings: Vec<usize>,
    /// The policy's last choice.
    proposed: Choice,
    /// The setting that was run last.
    in_use: usize,
}

/// A policy as the knobs hand ([`Hand`]) over a fixed list of tasks.
#[derive(Debug)]
pub struct PolicyHand {
    desk: Desk,
    /// `None` for calls that NCCL has no algorithms for, which always get setting 0.
    tasks: Vec<Option<Known>>,
}

impl PolicyHand {
    /// A new policy for tasks among all ranks of a network. Its random choices come from the seed.
    pub fn new(
        policy: &Registered,
        seed: Seed,
        network: Network,
        tasks: &[Task],
    ) -> Result<Self, PlaceError> {
        let place =
            Place::new("network", network, TopologyClass::Mixed, NcclOptions::default(), None)?;
        let known = |task: &Task| match known(&place, task) {
            Ok(it) => Ok(Some(it)),
            Err(PlaceError::NoPrice { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let tasks = tasks.iter().map(known).collect::<Result<_, _>>()?;
        let desk = Desk::new(policy.make(seed), place.topology, *place.terms());
        Ok(Self { desk, tasks })
    }
}

fn known(place: &Place, task: &Task) -> Result<Known, PlaceError> {
    let offered = |algorithm, protocol, channels| {
        let is = |it: &Offer| Some(it.algorithm) == algorithm && Some(it.channels) == channels;
        // All offers use the protocol Simple.
        let simple = protocol == Some(Protocol::Simple);
        task.offers.iter().position(is).filter(|_| simple)
    };
    let mut brief = place.timed(task.kind, task.bytes, |action| {
        let at = offered(action.algorithm, action.protocol, action.channels)?;
        Some(task.offers[at].nominal.as_us_f64())
    })?;
    if let Some(as_it_is) = brief.nominal.first_mut() {
        *as_it_is = task.nominal.as_us_f64();
    }
    let setting = |it: &crate::action::Action| {
        offered(it.algorithm, it.protocol, it.channels).map_or(0, |it| it + 1)
    };
    let settings = brief.space.actions().map(|it| setting(&it)).collect();
    // Under setting 0 a call may run any program. The policy must not take it for one of the offers, or let it share their model
    // errors, so it gets an algorithm and protocol that no offer has.
    let all = Algorithm::ALL.iter().flat_map(|a| Protocol::ALL.iter().map(move |p| (*a, *p)));
    let free = all.into_iter().find(|it| !brief.kernels.contains(it));
    if let (Some(kernel), Some(free)) = (brief.kernels.first_mut(), free) {
        *kernel = free;
    }
    let (kind, bytes, brief) = (task.kind, task.bytes, Arc::new(brief));
    Ok(Known { kind, bytes, brief, settings, proposed: Choice::DEFAULT, in_use: 0 })
}

impl Known {
    fn topic(&self, number: usize) -> Topic<'_> {
        Topic { number, kind: self.kind, bytes: self.bytes, brief: &self.brief }
    }
}

impl Hand<Call> for PolicyHand {
    type Action = usize;
    type Outcome = Ran;
    type Error = Infallible;

    fn kind(&self) -> HandKind {
        HandKind::Knobs
    }

    fn propose(&mut self, call: Call) -> Result<Option<Proposal<usize>>, Infallible> {
        let Some(Some(task)) = self.tasks.get_mut(call.task) else { return Ok(None) };
        task.proposed = self.desk.choose(task.topic(call.task));
        let setting = task.settings.get(task.proposed.action).copied().unwrap_or(0);
        Ok(Some(Proposal::free(setting)))
    }

    fn learn(&mut self, ran: &Ran) {
        let Some(Some(task)) = self.tasks.get_mut(ran.task) else { return };
        // The proposed setting may not have been possible, and another one been run.
        let proposed = task.settings.get(task.proposed.action) == Some(&ran.setting);
        let action = task.settings.iter().skip(1).position(|it| *it == ran.setting && *it > 0);
        let choice = match (proposed, action) {
            (true, _) => task.proposed,
            (false, Some(at)) => Choice::best(at + 1),
            (false, None) => Choice::DEFAULT,
        };
        let switched = std::mem::replace(&mut task.in_use, ran.setting) != ran.setting;
        self.desk.learn(task.topic(ran.task), choice, ran.time.as_us_f64(), switched);
    }
}

#[cfg(test)]
mod tests {
    use motet_net::builders::{Params, find};

    use super::*;
    use crate::policy;

    fn two_dcs() -> Network {
        let params = Params::from_words(["fabric=logical", "wan-latency=1 ms"]).unwrap();
        find("two-dc").unwrap().build(&params).unwrap()
    }

    fn task(kind: CollectiveKind) -> Task {
        let offer =
            |algorithm, us| Offer { algorithm, channels: 1, nominal: Duration::from_us(us) };
        let offers = vec![offer(Algorithm::Ring, 900), offer(Algorithm::Tree, 700)];
        Task { kind, bytes: Bytes::mib(1), nominal: Duration::from_us(1000), offers }
    }

    /// Runs calls that take the times that `micros` gives for their settings; returns the settings that were
    /// run.
    fn run(hand: &mut PolicyHand, calls: usize, micros: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut ran = Vec::new();
        for _ in 0..calls {
            let Ok(proposal) = hand.propose(Call { task: 0 });
            let setting = proposal.map_or(0, |it| it.action);
            let time = Duration::from_us(micros(setting));
            hand.learn(&Ran { task: 0, setting, time });
            ran.push(setting);
        }
        ran
    }

    #[test]
    fn a_policy_finds_the_best_setting_and_leaves_what_got_slow() {
        let make = |name: &str| {
            let policy = policy::find(name).unwrap();
            PolicyHand::new(policy, Seed::new(1), two_dcs(), &[task(CollectiveKind::AllReduce)])
        };
        let mut hand = make("infer").unwrap();
        assert_eq!(hand.kind(), HandKind::Knobs);
        let ran = run(&mut hand, 400, |it| [1000, 900, 700][it]);
        let trees = ran[300..].iter().filter(|it| **it == 2).count();
        assert!(trees > 90, "{ran:?}");
        // Trees take twice as long from here on, so that rings are the best.
        let ran = run(&mut hand, 400, |it| [1000, 900, 1400][it]);
        assert!(ran[300..].iter().filter(|it| **it == 2).count() < 10, "{ran:?}");
        // Whoever asks for NCCL's own choice gets no proposal to leave the program in force.
        assert!(run(&mut make("nccl").unwrap(), 50, |_| 1000).iter().all(|it| *it == 0));
    }

    #[test]
    fn what_nccl_has_no_algorithm_for_is_left_alone() {
        let policy = policy::default_policy();
        let tasks = [task(CollectiveKind::AllToAll)];
        let mut hand = PolicyHand::new(policy, Seed::new(1), two_dcs(), &tasks).unwrap();
        assert_eq!(hand.propose(Call { task: 0 }), Ok(None));
        assert_eq!(hand.propose(Call { task: 9 }), Ok(None));
        hand.learn(&Ran { task: 9, setting: 0, time: Duration::from_us(1) });
    }
}

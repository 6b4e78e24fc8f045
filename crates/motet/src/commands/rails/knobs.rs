//! The knobs hand of `motet rails sim`: a policy of `motet-agent` that chooses algorithms of AllReduces before every step, beside the
//! hand that changes circuits.

use std::collections::BTreeMap;
use std::convert::Infallible;

use motet_agent::hand::{Offer, PolicyHand, Task};
use motet_agent::policy::{Registered, find};
use motet_collective::CollectiveKind;
use motet_control::hand::{Call, Hand, HandKind, Proposal, Ran};
use motet_nccl::Algorithm;
use motet_net::Network;
use motet_net::builders::{Params, find as find_template};
use motet_rails::knobs;
use motet_units::Seed;

use crate::failure::Failure;

/// A hand for each number of ranks: a policy is asked about one communicator.
pub(super) struct Hands {
    hands: Vec<PolicyHand>,
    /// The hand of each task, and the task's number there.
    of: Vec<(usize, usize)>,
}

/// The policy of this name.
pub(super) fn policy(name: &str) -> Result<&'static Registered, Failure> {
    // An oracle must be told what nobody knows here.
    find(name).filter(|it| it.name != "oracle").ok_or_else(|| {
        let known = motet_agent::pilot::live().map(|it| it.name).collect::<Vec<_>>();
        Failure::unreadable(format!("no policy `{name}` for the knobs of a call"))
            .with_remedy(format!("there are {}", known.join(", ")))
    })
}

impl Hands {
    pub(super) fn new(policy: &Registered, tasks: &[knobs::Task]) -> Result<Self, Failure> {
        let mut by_ranks: BTreeMap<u32, Vec<Task>> = BTreeMap::new();
        let mut of = Vec::new();
        for it in tasks {
            let own = by_ranks.entry(it.ranks).or_default();
            of.push((it.ranks, own.len()));
            own.push(Task {
                kind: CollectiveKind::AllReduce,
                bytes: it.bytes,
                nominal: it.rings,
                offers: vec![Offer { algorithm: Algorithm::Tree, channels: 1, nominal: it.trees }],
            });
        }
        let ranks: Vec<u32> = by_ranks.keys().copied().collect();
        let hands = by_ranks.into_iter().map(|(ranks, tasks)| {
            let seed = Seed::new(1).named("knobs").numbered(u64::from(ranks));
            PolicyHand::new(policy, seed, star(ranks)?, &tasks)
                .map_err(|it| Failure::wrong(format!("the knobs hand: {it}")))
        });
        let hands = hands.collect::<Result<_, _>>()?;
        let place = |it: u32| ranks.iter().position(|own| *own == it).unwrap_or(0);
        Ok(Self { hands, of: of.into_iter().map(|it| (place(it.0), it.1)).collect() })
    }
}

/// So many GPUs, each a server of its own, for the model of what NCCL offers there.
fn star(ranks: u32) -> Result<Network, Failure> {
    let wrong = |it: String| Failure::wrong(format!("the knobs hand has no network: {it}"));
    let words = [format!("count={ranks}")];
    let params =
        Params::from_words(words.iter().map(String::as_str)).map_err(|it| wrong(it.to_string()))?;
    let template = find_template("gh200").map_err(|it| wrong(it.to_string()))?;
    template.build(&params).map_err(|it| wrong(it.to_string()))
}

impl Hand<Call> for Hands {
    type Action = usize;
    type Outcome = Ran;
    type Error = Infallible;

    fn kind(&self) -> HandKind {
        HandKind::Knobs
    }

    fn propose(&mut self, call: Call) -> Result<Option<Proposal<usize>>, Infallible> {
        let Some((hand, task)) = self.of.get(call.task).copied() else { return Ok(None) };
        self.hands.get_mut(hand).map_or(Ok(None), |it| it.propose(Call { task }))
    }

    fn learn(&mut self, ran: &Ran) {
        let Some((hand, task)) = self.of.get(ran.task).copied() else { return };
        if let Some(it) = self.hands.get_mut(hand) {
            it.learn(&Ran { task, ..*ran });
        }
    }
}

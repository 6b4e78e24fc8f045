//! All policies by name, as `motet agent eval --policy` takes them.

use motet_units::Seed;

use super::Policy;
use super::bandit::Bandit;
use super::bandit::linucb::LinUcb;
use super::bandit::rules::{EpsilonGreedy, Prober, Thompson};
use super::fixed::{NcclDefault, Oracle, PlanTable};
use super::guard::Guarded;
use super::infer::Infer;
use crate::trigger::Gated;

/// A policy that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    pub name: &'static str,
    pub doc: &'static str,
    make: fn(Seed) -> Box<dyn Policy>,
}

impl Registered {
    /// A new policy that has learned nothing. Its random choices come from the seed.
    #[must_use]
    pub fn make(&self, seed: Seed) -> Box<dyn Policy> {
        (self.make)(seed)
    }
}

static ALL: [Registered; 9] = [
    Registered { name: "nccl", doc: "NCCL's own choice", make: |_| Box::new(NcclDefault) },
    Registered {
        name: "plan",
        doc: "the plan's table: the best by the model, nobody else being there",
        make: |_| Box::new(PlanTable),
    },
    Registered {
        name: "epsilon",
        doc: "the best so far, and now and then one at random",
        make: |seed| Box::new(Guarded::new(Bandit::new(EpsilonGreedy::new(seed)))),
    },
    Registered {
        name: "linucb",
        doc: "a linear model over all sizes of a communicator, and optimism where it is uncertain",
        make: |_| Box::new(Guarded::new(LinUcb::default())),
    },
    Registered {
        name: "thompson",
        doc: "Thompson sampling that starts anew when CUSUM finds a change",
        make: |seed| Box::new(Guarded::new(Bandit::new(Thompson::new(seed)))),
    },
    Registered {
        name: "star",
        doc: "each candidate in turn, then the best until something changes, as STAR-MPI does",
        make: |_| Box::new(Guarded::new(Bandit::new(Prober))),
    },
    Registered {
        name: "infer",
        doc: "infers load and model error from all calls, and takes the model's best under them",
        make: |_| Box::new(Guarded::new(Infer::default())),
    },
    Registered {
        name: "infer-triggered",
        doc: "the same while the trigger has an alarm, and the table it has made otherwise",
        make: |_| Box::new(Gated::new(Guarded::new(Infer::default()), "infer-triggered")),
    },
    Registered {
        name: "oracle",
        doc: "the best by the true means, which nobody knows: the ceiling",
        make: |_| Box::new(Oracle::default()),
    },
];

/// The policy that is shipped as the default. It is chosen among the policies that, deciding call by call,
/// were never more than [`MOST_LOST`] slower than NCCL's own choice in any held-out or fresh scenario that
/// was run; of these it has the least regret on held-out families over both seeds that docs/agent.md reports.
/// `motet agent eval` computes the figures.
pub const DEFAULT: &str = "infer";

/// By how much a default may be slower than NCCL's own choice, as a share of a scenario's whole time.
pub const MOST_LOST: f64 = 0.02;

/// The [`DEFAULT`].
#[must_use]
pub fn default_policy() -> &'static Registered {
    // A test ensures that the name exists; if it did not, NCCL's own choice would be used.
    find(DEFAULT).unwrap_or(&ALL[0])
}

/// All of them.
#[must_use]
pub fn registered() -> &'static [Registered] {
    &ALL
}

/// The policy with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Registered> {
    ALL.iter().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_policies_own() {
        for (at, it) in ALL.iter().enumerate() {
            assert!(ALL[at + 1..].iter().all(|other| other.name != it.name), "{}", it.name);
            assert_eq!(it.make(Seed::new(1)).name(), it.name);
            assert_eq!(find(it.name).map(|it| it.doc), Some(it.doc));
        }
        assert!(find("chance").is_none());
        assert_eq!(default_policy().name, DEFAULT);
    }
}

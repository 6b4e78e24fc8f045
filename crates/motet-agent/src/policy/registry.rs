//! All policies by name, as `motet agent eval --policy` takes them.

use motet_units::Seed;

use super::Policy;
use super::fixed::{NcclDefault, Oracle, PlanTable};
use super::infer::Infer;

/// A policy that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Registered {
    pub name: &'static str,
    pub doc: &'static str,
    make: fn(Seed) -> Box<dyn Policy>,
}

impl Registered {
    /// A new one that has learned nothing. What it leaves to chance comes from the seed.
    #[must_use]
    pub fn make(&self, seed: Seed) -> Box<dyn Policy> {
        (self.make)(seed)
    }
}

static ALL: [Registered; 4] = [
    Registered { name: "nccl", doc: "NCCL's own choice", make: |_| Box::new(NcclDefault) },
    Registered {
        name: "plan",
        doc: "the plan's table: the best by the model, nobody else being there",
        make: |_| Box::new(PlanTable),
    },
    Registered {
        name: "infer",
        doc: "infers load and model error from all calls, and takes the model's best under them",
        make: |_| Box::new(Infer::default()),
    },
    Registered {
        name: "oracle",
        doc: "the best by the true means, which nobody knows: the ceiling",
        make: |_| Box::new(Oracle::default()),
    },
];

/// All of them.
#[must_use]
pub fn registered() -> &'static [Registered] {
    &ALL
}

/// The one of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Registered> {
    ALL.iter().find(|it| it.name == name)
}

//! [`Action`]: a decision about a call: what carries it out, and the knobs that NCCL's tuner interface can set (§12 of
//! DynamICCL's design-space analysis).
//!
//! - [`heads`]: the decisions an action is made of, one after the other, with their values;
//! - [`mask`]: which actions are invalid, and why;
//! - [`space`]: the valid actions for a collective on a communicator, numbered.
//!
//! What NCCL itself offers comes from `motet_nccl::offer`. Where that analysis ("the text" in this crate) and
//! NCCL differ, we follow NCCL: PAT is an algorithm too; "hierarchical" and "2D torus" are not
//! ([`prior`](crate::prior) says what replaces them); the number of threads is set per communicator, not per
//! call; and since tuner v6 a call can have its own chunk size.

pub mod heads;
pub mod mask;
pub mod space;

use motet_nccl::{Algorithm, Protocol};
use motet_runtime::{Method, Setting, TableKnobs};
use motet_units::Bytes;

pub use heads::{Head, Levels, Order, Path};
pub use mask::Masked;
pub use space::{ActionSpace, Grain, Scope, SpaceSpec};

/// A decision about a call. Knobs that are `None` are left to NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    pub path: Path,
    pub algorithm: Option<Algorithm>,
    pub protocol: Option<Protocol>,
    pub channels: Option<u32>,
    pub threads: Option<u32>,
    pub chunk: Option<Bytes>,
    pub extensions: Extensions,
}

/// Decisions that the text reserves for what NCCL cannot do today. Only the neutral value of each is valid now; they exist so that
/// policies keep their shape when that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extensions {
    /// Over how many NICs a rank's data is spread (nic_stripe_factor, after HiCCL).
    pub nic_stripe: u32,
    /// How many pieces follow each other through the levels (pipeline_depth m, after HiCCL).
    pub pipeline_depth: u32,
    /// The order in which rings and trees visit ranks (after R²CCL).
    pub order: Order,
    /// One set of knobs for the whole call, or one for each level (after HiCCL).
    pub levels: Levels,
}

impl Extensions {
    pub const NONE: Self =
        Self { nic_stripe: 1, pipeline_depth: 1, order: Order::AsGiven, levels: Levels::Whole };
}

impl Action {
    /// Leaves everything to NCCL: valid on every communicator, and always the action with index 0.
    pub const DEFAULT: Self = Self {
        path: Path::Nccl,
        algorithm: None,
        protocol: None,
        channels: None,
        threads: None,
        chunk: None,
        extensions: Extensions::NONE,
    };

    /// Switches carry the collective out, without NCCL.
    pub const PASSTHROUGH: Self = Self { path: Path::Passthrough, ..Self::DEFAULT };

    /// The plan's program for the task.
    pub const PROGRAM: Self = Self { path: Path::Program, ..Self::DEFAULT };

    /// NCCL with this algorithm and protocol.
    #[must_use]
    pub const fn nccl(algorithm: Algorithm, protocol: Protocol) -> Self {
        Self { algorithm: Some(algorithm), protocol: Some(protocol), ..Self::DEFAULT }
    }

    /// The run-time table's entry for it; `program` is the plan's program for this task. `None` if there is nothing to
    /// set: the call bypasses NCCL, or the plan has no program.
    #[must_use]
    pub fn setting(&self, program: Option<Method>) -> Option<Setting> {
        let knobs = TableKnobs {
            // motet-runtime has types of its own, which are converted by their names.
            protocol: self.protocol.and_then(|it| it.name().parse().ok()),
            channels: self.channels,
            threads: self.threads,
            buffer: None,
            chunk: self.chunk,
        };
        match self.path {
            Path::Nccl => {
                let algorithm = self.algorithm.and_then(|it| it.name().parse().ok());
                Some(Setting { method: Method::Nccl { algorithm }, knobs })
            }
            Path::Passthrough => None,
            Path::Program => program.map(|method| Setting { method, knobs }),
        }
    }
}

#[cfg(test)]
mod tests {
    use motet_runtime::Checksum;

    use super::*;

    #[test]
    fn settings_have_the_same_algorithm_and_protocol() {
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                let action = Action { channels: Some(4), ..Action::nccl(algorithm, protocol) };
                let setting = action.setting(None).unwrap();
                let Method::Nccl { algorithm: Some(found) } = setting.method else {
                    panic!("{algorithm} is lost")
                };
                assert_eq!(found.index(), algorithm.index());
                assert_eq!(setting.knobs.protocol.unwrap().index(), protocol.index());
                assert_eq!(setting.knobs.channels, Some(4));
            }
        }
    }

    #[test]
    fn other_paths_set_no_knobs_of_nccl() {
        assert_eq!(Action::PASSTHROUGH.setting(None), None);
        assert_eq!(Action::PROGRAM.setting(None), None);
        let program = Method::Program { name: "a".into(), checksum: Checksum(1) };
        let setting = Action::PROGRAM.setting(Some(program.clone())).unwrap();
        assert_eq!(setting, Setting { method: program, knobs: TableKnobs::default() });
    }
}

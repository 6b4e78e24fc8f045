//! [`gate`]: the rules that decide some calls before any policy is asked (§13.2–13.4 and the sparse fork of §14).
//!
//! | if | then | because |
//! | --- | --- | --- |
//! | switches reduce gradients in the network and the call is a reduction | bypass NCCL | NCCL would reduce again, and gradients would count twice |
//! | the library is not NCCL | the library's own default | an action of NCCL means nothing to it |
//! | the job is 3D-parallel and large, and the role is known | the role's expert | sizes are bimodal: one policy for their mean suits neither |
//! | gradients are sparsified by top-k | suggest a library that sends sparse data as such | NCCL sends zeros |
//!
//! The first two decide the call; the last two only add information for the policy and the user. A gate is a pure function of
//! the state, so all ranks get the same result.

use std::fmt;

use crate::state::{Library, Packing, Role, Spread, State};
use crate::words::category;

category! {
    /// A head of the policy with weights of its own.
    Expert {
        /// For all calls without an expert of their own.
        Shared = "shared",
        /// For small, frequent messages, which are bound by latency.
        Small = "small",
        /// For bulk transfers, which are bound by bandwidth.
        Bulk = "bulk",
    }
}

/// Which expert serves which role, and from which size of model on. The text says two heads for four roles;
/// activations are small wherever they go, so three roles share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Models of more parameters than this have experts (threshold_LLM, whose value the text leaves open).
    pub above: u64,
    /// The expert of each role, by [`Role::index`].
    pub of_role: [Expert; Role::ALL.len()],
}

impl Default for Experts {
    fn default() -> Self {
        Self {
            above: 10_000_000_000,
            of_role: [Expert::Shared, Expert::Small, Expert::Bulk, Expert::Small, Expert::Small],
        }
    }
}

impl Experts {
    /// The expert for a state.
    fn of(&self, state: &State) -> Expert {
        let large = state.model.parameters > self.above;
        let three_d = state.model.spread == Spread::ThreeD || state.model.three_d;
        let role = state.scheduler.role.index();
        if large && three_d { self.of_role[role] } else { Expert::Shared }
    }
}

/// Libraries that send sparse data as such.
pub fn sparse_aware() -> impl Iterator<Item = Library> {
    Library::ALL.iter().copied().filter(|it| it.is_sparse_aware())
}

/// What decides a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the network's switches carry the collective out.
    Passthrough,
    /// The default of the library that runs it.
    LibraryDefault,
    /// The policy, using this expert head.
    Policy(Expert),
}

/// The reason for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateReason {
    /// Switches reduce by themselves.
    InNetwork,
    /// The library is this one, not NCCL.
    Library(Library),
    /// A large 3D-parallel job, and the call has this role in it.
    Role(Role),
    /// No rule applies, so the policy is free to choose.
    Open,
}

/// The result of the gate. Its `Display` is a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub verdict: Verdict,
    pub reason: GateReason,
    /// A library that sends sparse data as such would serve this job better; which to take is the user's to decide.
    pub suggests_sparse: bool,
}

/// Applies the rules of this module to a state.
#[must_use]
pub fn gate(state: &State, experts: &Experts) -> Gate {
    let library = state.topology.library;
    let suggests_sparse = state.workload.packing == Packing::TopK && !library.is_sparse_aware();
    let (verdict, reason) = if state.topology.in_network && state.call.kind.reduces() {
        (Verdict::Passthrough, GateReason::InNetwork)
    } else if library != Library::Nccl {
        (Verdict::LibraryDefault, GateReason::Library(library))
    } else {
        match experts.of(state) {
            Expert::Shared => (Verdict::Policy(Expert::Shared), GateReason::Open),
            expert => (Verdict::Policy(expert), GateReason::Role(state.scheduler.role)),
        }
    };
    Gate { verdict, reason, suggests_sparse }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.verdict, self.reason) {
            (Verdict::Passthrough, _) => {
                write!(f, "passed through: switches add up, and NCCL would add up again")?;
            }
            (Verdict::LibraryDefault, GateReason::Library(library)) => {
                write!(f, "left to {library}: the agent knows NCCL's knobs only")?;
            }
            (Verdict::LibraryDefault, _) => write!(f, "left to the library")?,
            (Verdict::Policy(expert), GateReason::Role(role)) => {
                write!(f, "expert `{expert}`: {role} of a large 3D-parallel job")?;
            }
            (Verdict::Policy(expert), _) => write!(f, "expert `{expert}`")?,
        }
        if self.suggests_sparse {
            let names: Vec<&str> = sparse_aware().map(Library::name).collect();
            write!(f, "; top-k gradients are sparse: consider {}", names.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;

    use super::*;

    fn passes(change: impl Fn(&mut State)) -> Gate {
        let mut state = State::BLANK;
        change(&mut state);
        gate(&state, &Experts::default())
    }

    #[test]
    fn in_network_aggregation_passes_nccl_by() {
        let open = passes(|_| {});
        assert_eq!(
            (open.verdict, open.reason),
            (Verdict::Policy(Expert::Shared), GateReason::Open)
        );
        let active = passes(|it| it.topology.in_network = true);
        assert_eq!((active.verdict, active.reason), (Verdict::Passthrough, GateReason::InNetwork));
        // A gather adds nothing up, so that NCCL does it as ever.
        let gather = passes(|it| {
            it.topology.in_network = true;
            it.call.kind = CollectiveKind::AllGather;
        });
        assert_eq!(gather.verdict, Verdict::Policy(Expert::Shared));
    }

    #[test]
    fn other_libraries_keep_their_defaults() {
        for library in Library::ALL {
            let found = passes(|it| it.topology.library = *library);
            let policy = matches!(found.verdict, Verdict::Policy(_));
            assert_eq!(policy, *library == Library::Nccl, "{library}");
        }
        let both = passes(|it| {
            it.topology.in_network = true;
            it.topology.library = Library::OmniReduce;
        });
        assert_eq!(both.verdict, Verdict::Passthrough);
    }

    #[test]
    fn roles_have_experts_in_large_3d_jobs_only() {
        let of = |role: Role, spread: Spread, parameters: u64| {
            let found = passes(|it| {
                it.scheduler.role = role;
                (it.model.spread, it.model.parameters) = (spread, parameters);
            });
            found.verdict
        };
        let large = 100_000_000_000;
        let expected = [Expert::Shared, Expert::Small, Expert::Bulk, Expert::Small, Expert::Small];
        for (role, expert) in Role::ALL.iter().zip(expected) {
            assert_eq!(of(*role, Spread::ThreeD, large), Verdict::Policy(expert), "{role}");
            let above = Experts::default().above;
            assert_eq!(of(*role, Spread::ThreeD, above), Verdict::Policy(Expert::Shared));
            assert_eq!(of(*role, Spread::Dp, large), Verdict::Policy(Expert::Shared));
        }
        // A model of experts that is 3D-parallel counts too.
        let moe = passes(|it| {
            (it.model.spread, it.model.three_d) = (Spread::Moe, true);
            it.model.parameters = large;
            it.scheduler.role = Role::InterStage;
        });
        assert_eq!(moe.verdict, Verdict::Policy(Expert::Bulk));
        assert_eq!(moe.to_string(), "expert `bulk`: inter_stage_AR of a large 3D-parallel job");
    }

    #[test]
    fn top_k_suggests_a_library() {
        for packing in Packing::ALL {
            let found = passes(|it| it.workload.packing = *packing);
            assert_eq!(found.suggests_sparse, *packing == Packing::TopK, "{packing}");
            // It changes nothing else.
            assert_eq!(found.verdict, Verdict::Policy(Expert::Shared));
        }
        let served = passes(|it| {
            it.workload.packing = Packing::TopK;
            it.topology.library = Library::OkTopk;
        });
        assert!(!served.suggests_sparse);
        let found = passes(|it| it.workload.packing = Packing::TopK);
        assert_eq!(
            found.to_string(),
            "expert `shared`; top-k gradients are sparse: consider sparcml, omnireduce, ok-topk, commlib, deepreduce"
        );
    }
}

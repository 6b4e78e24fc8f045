//! [`Bias`]: which algorithms and protocols to try first, by how computing and sending overlap (§10.5) and by
//! the family of the fabric (§10.4).
//!
//! A bias is a starting point, not a mask. The tables name "hierarchical" and "2D torus", which are not algorithms of NCCL. The
//! first is represented by Tree, which reduces inside a server before it sends to others; the second by Ring, as §10.4 itself
//! says below its table. Fabrics that are rewired for each job get programs made for them, so they have no bias here.

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};

use super::tables::Suit;
use crate::action::Action;
use crate::state::{Role, TopologyClass};
use crate::words::category;

category! {
    /// How a framework sends gradients and activations while it computes.
    Overlap {
        /// A call for each layer as soon as its gradients are there.
        Wfbp = "WFBP",
        /// As WFBP, with small layers merged into one call.
        MgWfbp = "MG-WFBP",
        /// Tensors cut into parts that go side by side.
        TensorPartition = "tensor partition",
        /// Activations of tensor parallelism within a pipeline.
        PipelineTensor = "pipeline TP",
        /// Gradients of pipeline stages.
        PipelineBulk = "pipeline PP",
        /// Both, distinguished by the call's role.
        ThreeD = "3D-parallel",
        /// Gradients in another order than layers.
        OutOfOrder = "OOO BackProp",
    }
}

/// What to try first; an empty list means no preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bias {
    pub algorithms: &'static [Algorithm],
    pub protocols: &'static [Protocol],
    /// Whether to prefer many channels.
    pub many_channels: bool,
}

impl Bias {
    pub const NONE: Self = Self { algorithms: &[], protocols: &[], many_channels: false };

    const fn protocols(protocols: &'static [Protocol]) -> Self {
        Self { protocols, ..Self::NONE }
    }

    const fn algorithms(algorithms: &'static [Algorithm]) -> Self {
        Self { algorithms, ..Self::NONE }
    }

    /// The bias of §10.5. For 3D-parallel jobs it depends on the role of the call.
    #[must_use]
    pub const fn of_overlap(overlap: Overlap, role: Role) -> Self {
        const SMALL: Bias =
            Bias { algorithms: &[Algorithm::Tree], ..Bias::protocols(&[Protocol::Ll]) };
        const BULK: Bias =
            Bias { algorithms: &[Algorithm::Ring], ..Bias::protocols(&[Protocol::Simple]) };
        match overlap {
            Overlap::Wfbp => Self::protocols(&[Protocol::Ll, Protocol::Ll128]),
            Overlap::MgWfbp => Self::protocols(&[Protocol::Simple]),
            Overlap::TensorPartition => Self { many_channels: true, ..Self::NONE },
            Overlap::PipelineTensor => SMALL,
            Overlap::PipelineBulk => BULK,
            Overlap::ThreeD => match role {
                Role::IntraStage | Role::ActivationSend | Role::ActivationRecv => SMALL,
                Role::InterStage => BULK,
                Role::None => Self::NONE,
            },
            // Only the times of calls change, not their sizes.
            Overlap::OutOfOrder => Self::NONE,
        }
    }

    /// The bias of §10.4.
    #[must_use]
    pub const fn of_topology(class: TopologyClass) -> Self {
        match class {
            TopologyClass::FatTree => Self::algorithms(&[Algorithm::Ring, Algorithm::Tree]),
            TopologyClass::BCube | TopologyClass::HammingMesh => {
                Self::algorithms(&[Algorithm::Tree])
            }
            TopologyClass::Jellyfish | TopologyClass::Torus => Self::algorithms(&[Algorithm::Ring]),
            TopologyClass::SipOcs | TopologyClass::TopoOpt | TopologyClass::Mixed => Self::NONE,
        }
    }

    /// How well an action agrees with the bias: the share of the bias's preferences that the action meets, or
    /// `None` without preferences. A knob that the action leaves to NCCL does not meet a preference. Many
    /// channels means 8 or more.
    #[must_use]
    pub fn agreement(&self, action: &Action) -> Option<f64> {
        let says = [!self.algorithms.is_empty(), !self.protocols.is_empty(), self.many_channels];
        let has = [
            action.algorithm.is_some_and(|it| self.algorithms.contains(&it)),
            action.protocol.is_some_and(|it| self.protocols.contains(&it)),
            action.channels.is_some_and(|it| it >= 8),
        ];
        let said = says.iter().filter(|it| **it).count();
        let agreed = says.iter().zip(has).filter(|(says, has)| **says && *has).count();
        (said > 0).then(|| agreed as f64 / said as f64)
    }
}

/// How a fabric suits a collective, by §10.4. Its word "natural" is read as optimal; collectives that its
/// table lacks are [`Suit::NotSaid`].
#[must_use]
pub const fn topology(class: TopologyClass, kind: CollectiveKind) -> Suit {
    use Suit::{Bad, Good, NotSaid, Ok, Optimal, Rare};
    let row = match class {
        TopologyClass::FatTree => [Good, Good, Good],
        TopologyClass::BCube => [Optimal, Ok, Ok],
        TopologyClass::Jellyfish => [Ok, Good, Good],
        TopologyClass::Torus => [Optimal, Bad, Ok],
        TopologyClass::HammingMesh => [Optimal, Good, Good],
        TopologyClass::SipOcs => [Optimal, Optimal, Optimal],
        TopologyClass::TopoOpt => [Optimal, Rare, Rare],
        TopologyClass::Mixed => [NotSaid, NotSaid, NotSaid],
    };
    match kind {
        CollectiveKind::AllReduce => row[0],
        CollectiveKind::AllToAll | CollectiveKind::AllToAllV => row[1],
        CollectiveKind::AllGather => row[2],
        _ => NotSaid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_bias_as_the_table_says() {
        let of = |it| Bias::of_overlap(it, Role::None);
        assert_eq!(of(Overlap::Wfbp).protocols, [Protocol::Ll, Protocol::Ll128]);
        assert_eq!(of(Overlap::MgWfbp).protocols, [Protocol::Simple]);
        assert!(of(Overlap::TensorPartition).many_channels);
        assert_eq!(of(Overlap::PipelineTensor).algorithms, [Algorithm::Tree]);
        assert_eq!(of(Overlap::PipelineTensor).protocols, [Protocol::Ll]);
        assert_eq!(of(Overlap::PipelineBulk).algorithms, [Algorithm::Ring]);
        assert_eq!(of(Overlap::PipelineBulk).protocols, [Protocol::Simple]);
        assert_eq!(of(Overlap::OutOfOrder), Bias::NONE);
        let role = |it| Bias::of_overlap(Overlap::ThreeD, it);
        assert_eq!(role(Role::IntraStage), of(Overlap::PipelineTensor));
        assert_eq!(role(Role::InterStage), of(Overlap::PipelineBulk));
        assert_eq!(role(Role::None), Bias::NONE);
    }

    #[test]
    fn fabrics_bias_as_the_table_says() {
        let of = |it| Bias::of_topology(it).algorithms;
        assert_eq!(of(TopologyClass::Torus), [Algorithm::Ring]);
        assert_eq!(of(TopologyClass::FatTree), [Algorithm::Ring, Algorithm::Tree]);
        assert_eq!(of(TopologyClass::BCube), [Algorithm::Tree]);
        assert_eq!(topology(TopologyClass::Torus, CollectiveKind::AllToAll), Suit::Bad);
        assert_eq!(topology(TopologyClass::BCube, CollectiveKind::AllReduce), Suit::Optimal);
        assert_eq!(topology(TopologyClass::FatTree, CollectiveKind::Reduce), Suit::NotSaid);
    }

    #[test]
    fn agreement_counts_what_is_said() {
        let small = Bias::of_overlap(Overlap::PipelineTensor, Role::None);
        let of = |algorithm, protocol| small.agreement(&Action::nccl(algorithm, protocol));
        assert_eq!(of(Algorithm::Tree, Protocol::Ll), Some(1.0));
        assert_eq!(of(Algorithm::Tree, Protocol::Simple), Some(0.5));
        assert_eq!(of(Algorithm::Ring, Protocol::Simple), Some(0.0));
        assert_eq!(small.agreement(&Action::DEFAULT), Some(0.0));
        let many = Bias::of_overlap(Overlap::TensorPartition, Role::None);
        let ring = Action::nccl(Algorithm::Ring, Protocol::Simple);
        assert_eq!(many.agreement(&Action { channels: Some(16), ..ring }), Some(1.0));
        assert_eq!(many.agreement(&Action { channels: Some(2), ..ring }), Some(0.0));
        assert_eq!(Bias::NONE.agreement(&ring), None);
    }
}

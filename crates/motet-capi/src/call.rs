//! [`Call`]: a call as it is asked for, and how long a rank's buffers for it are.

use motet_collective::{Buffer, CollectiveKind, Program};
use motet_exec::{Element, Reduction};
use motet_synth::Goal;
use motet_units::{Bytes, Rank};

use crate::error::CommError;

/// A collective, with its reduction and its root where it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    AllReduce(Reduction),
    ReduceScatter(Reduction),
    Reduce(Reduction, u32),
    AllGather,
    AllToAll,
    Broadcast(u32),
    Gather(u32),
    Scatter(u32),
    /// Rank 0 of two sends to rank 1.
    Send,
}

/// A call as it is asked for. Equal calls are of the same sort: the same operations serve them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub kind: Kind,
    pub element: Element,
    /// Elements of a part: what the smaller of a rank's two buffers holds.
    pub count: usize,
}

impl Call {
    /// A call. Data that is only moved, and not reduced, is moved as bytes, so that all types share an operation.
    pub fn new(kind: Kind, element: Element, count: usize) -> Result<Self, CommError> {
        if kind.reduction().is_some() {
            return Ok(Self { kind, element, count });
        }
        let bytes = count.checked_mul(element.bytes());
        let count =
            bytes.ok_or_else(|| CommError::invalid("more elements than can be addressed"))?;
        Ok(Self { kind, element: Element::U8, count })
    }

    /// Bytes of a part.
    pub(crate) const fn part(&self) -> usize {
        self.count.saturating_mul(self.element.bytes())
    }

    /// How many bytes a rank's input and its output have.
    #[must_use]
    pub fn bytes(&self, rank: u32, ranks: u32) -> (usize, usize) {
        let part = self.part();
        let all = part.saturating_mul(ranks as usize);
        let only = |root: u32, bytes: usize| if rank == root { bytes } else { 0 };
        match self.kind {
            Kind::AllReduce(_) => (part, part),
            Kind::ReduceScatter(_) => (all, part),
            Kind::Reduce(_, root) => (part, only(root, part)),
            Kind::AllGather => (part, all),
            Kind::AllToAll => (all, all),
            Kind::Broadcast(root) => (only(root, part), part),
            Kind::Gather(root) => (part, only(root, all)),
            Kind::Scatter(root) => (only(root, all), part),
            Kind::Send => (only(0, part), only(1, part)),
        }
    }

    /// The size in nccl-tests' sense, which programs are made for.
    pub(crate) fn size(&self, ranks: u32) -> Bytes {
        let parts = match self.kind {
            Kind::AllReduce(_) | Kind::Reduce(..) | Kind::Broadcast(_) | Kind::Send => 1,
            _ => u64::from(ranks),
        };
        Bytes::new((self.part() as u64).saturating_mul(parts).max(1))
    }

    /// Whether calls of a program are registered in place, with the input in the output's buffer, which can be the caller's own. All
    /// ranks must decide alike, so it follows from the program alone, not from the buffers of a call.
    pub(crate) fn in_place(program: &Program) -> bool {
        let forms = program.forms();
        if !(forms.in_place && forms.out_of_place) {
            return forms.in_place;
        }
        match program.collective().kind() {
            // In place the output would lie in the input, which is not to be written.
            CollectiveKind::ReduceScatter | CollectiveKind::Scatter => false,
            // Out of place unless ranks send from their outputs. Then ranks of one host read only the small inputs, and the
            // large outputs can be the caller's own.
            CollectiveKind::AllGather => {
                let all = program.transfers().iter();
                all.filter(|it| it.src.rank != it.dst.rank)
                    .any(|it| it.src.buffer == Buffer::Output)
            }
            // Most callers have input and output apart, so in place all of the input would have to be copied to the output.
            CollectiveKind::AllToAll => false,
            _ => true,
        }
    }

    pub(crate) fn goal(&self, ranks: u32) -> Result<Goal, CommError> {
        let goal = match self.kind {
            Kind::Send => Goal::send_recv(vec![Some(Rank(1)), None]),
            kind => Goal::rooted(kind.collective(), ranks, Rank(kind.root().unwrap_or(0))),
        };
        goal.map_err(|it| CommError::invalid(it.to_string()))
    }
}

impl Kind {
    #[must_use]
    pub const fn collective(self) -> CollectiveKind {
        match self {
            Self::AllReduce(_) => CollectiveKind::AllReduce,
            Self::ReduceScatter(_) => CollectiveKind::ReduceScatter,
            Self::Reduce(..) => CollectiveKind::Reduce,
            Self::AllGather => CollectiveKind::AllGather,
            Self::AllToAll => CollectiveKind::AllToAll,
            Self::Broadcast(_) => CollectiveKind::Broadcast,
            Self::Gather(_) => CollectiveKind::Gather,
            Self::Scatter(_) => CollectiveKind::Scatter,
            Self::Send => CollectiveKind::SendRecv,
        }
    }

    #[must_use]
    pub const fn root(self) -> Option<u32> {
        match self {
            Self::Reduce(_, root)
            | Self::Broadcast(root)
            | Self::Gather(root)
            | Self::Scatter(root) => Some(root),
            _ => None,
        }
    }

    pub(crate) const fn reduction(self) -> Option<Reduction> {
        match self {
            Self::AllReduce(it) | Self::ReduceScatter(it) | Self::Reduce(it, _) => Some(it),
            _ => None,
        }
    }
}

//! Programs for runtimes whose thread blocks reach into other GPUs' memory, as MSCCL++'s do.
//!
//! On such a runtime nobody receives: a thread block writes into another GPU's buffer or reads from
//! it. What costs time there is not in the model of ideal links: how many operations a block does one
//! after the other, how often it waits for a signal, how many blocks move data at once. The programs
//! here are made for that. All of them go straight from source to destination, so they suit GPUs that
//! all reach one another (an NVLink domain), and they come with their lanes (thread blocks).
//!
//! A [`Pattern`] says how the data moves, a [`Shape`] on how many thread blocks:
//!
//! | pattern | copies | reductions | signals |
//! | --- | --- | --- | --- |
//! | [`Pattern::Direct`] | the source writes into the destination's output | the destination reads all inputs and sums them in one operation | at the begin and end of a call |
//! | [`Pattern::Pull`] | AllGather in place: the destination reads from the source | – | at the begin and end, relaxed: nobody writes elsewhere |
//! | [`Pattern::Packets`] | as packets into the destination's scratch, which unpacks them | as packets; the destination sums them | none: every packet carries a flag |
//! | [`Pattern::DirectTwice`] | – | AllReduce: each rank sums its part of all inputs and writes the sum to all outputs | as for direct |
//! | [`Pattern::PacketsTwice`] | – | the same with packets | none |
//! | [`Pattern::Rails`] | packets to the same GPU of every other server, which hands them on within its own | summed within a server, then between servers | none |
//! | [`Pattern::Staged`] | AllToAll: into the destination's scratch, which copies them to its output | – | as for direct |
//!
//! `parts` says what every collective is made of, `build` puts it on lanes. Which pattern and shape is
//! best for a size is decided by price (`motet-nccl`), not here.

mod build;
mod parts;
mod ports;
mod rails;
#[cfg(test)]
mod tests;

use motet_collective::program::{Forms, Program};
use motet_collective::{CollectiveError, CollectiveKind};

/// How data moves between thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Straight into or out of the other GPU's input and output.
    Direct,
    /// AllGather by reading from every other GPU's buffer. The signals at the end of a call need not wait
    /// until others see what was written, as those of [`Pattern::Direct`] do, for a block writes only at home.
    /// In place alone: where a part lies elsewhere in the source than in the destination, MSCCL++'s executor
    /// (up to 0.10) exchanges the two places.
    Pull,
    /// AllReduce as ReduceScatter and AllGather, both direct, in one operation of each block.
    DirectTwice,
    /// Straight to the other GPU's scratch, with a flag in every 16 bytes.
    Packets,
    /// AllReduce as ReduceScatter and AllGather, both with packets.
    PacketsTwice,
    /// Packets within a server, and over ports only between GPUs of the same number, so that every rank posts
    /// once for each other server and not for each GPU there.
    Rails,
    /// AllToAll by way of the other GPU's scratch. In place, what arrives must not overwrite what is
    /// still to be sent; as packets it would take twice the bytes.
    Staged,
}

impl Pattern {
    pub const ALL: [Self; 7] = [
        Self::Direct,
        Self::Pull,
        Self::DirectTwice,
        Self::Packets,
        Self::PacketsTwice,
        Self::Rails,
        Self::Staged,
    ];

    /// As in the names of programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Pull => "pull",
            Self::DirectTwice => "direct-twice",
            Self::Packets => "packets",
            Self::PacketsTwice => "packets-twice",
            Self::Rails => "rails",
            Self::Staged => "staged",
        }
    }

    /// What it does, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Direct => "straight into or out of others' buffers",
            Self::Pull => "straight out of others' buffers",
            Self::DirectTwice => {
                "each rank sums its part of all inputs and writes it to all outputs"
            }
            Self::Packets => "packets straight to everyone",
            Self::PacketsTwice => "packets to the rank that sums a part, and the sum to everyone",
            Self::Rails => "packets to the same GPU of other servers, and on within each",
            Self::Staged => "into others' scratch, and from there to their output",
        }
    }

    /// Whether data travels as packets, for which the protocol is LL.
    #[must_use]
    pub const fn has_packets(self) -> bool {
        matches!(self, Self::Packets | Self::PacketsTwice | Self::Rails)
    }

    /// Whether there is such a program for the collective: one that an execution plan of MSCCL++ can
    /// state, which has no place for a root.
    #[must_use]
    pub const fn does(self, kind: CollectiveKind) -> bool {
        use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
        match self {
            Self::DirectTwice | Self::PacketsTwice => matches!(kind, AllReduce),
            Self::Rails => matches!(kind, AllGather | ReduceScatter | AllReduce),
            Self::Staged => matches!(kind, AllToAll),
            Self::Pull => matches!(kind, AllGather),
            Self::Direct | Self::Packets => {
                matches!(kind, AllGather | ReduceScatter | AllReduce | AllToAll)
            }
        }
    }
}

/// How a program is spread over thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    pub pattern: Pattern,
    /// Into how many slices every part is cut; each slice has thread blocks of its own.
    pub slices: u32,
    /// How many peers one thread block sends to. Fewer peers are more thread blocks that each do less;
    /// where there are several, sums of packets have blocks of their own beside them. Direct sums are
    /// always one block's whole work, whatever this says.
    pub peers_per_block: u32,
    /// Whether what arrives in scratch is unpacked, copied or summed by other blocks than those that send.
    pub apart: bool,
    /// How many consecutive ranks reach one another's memory. Between others a proxy moves packets: they
    /// are made in the sender's own scratch and posted from there. `None`: all ranks do. Only
    /// [packets](Pattern::has_packets) go over ports.
    pub gpus_per_server: Option<u32>,
}

impl Shape {
    /// Thread blocks of each rank.
    #[must_use]
    pub const fn blocks(self, kind: CollectiveKind, ranks: u32) -> u32 {
        let groups = ranks.saturating_sub(1).div_ceil(if self.peers_per_block == 0 {
            1
        } else {
            self.peers_per_block
        });
        let copies = matches!(kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
        let summing = if groups > 1 || self.apart { 1 } else { 0 };
        let receiving = if self.apart { groups } else { 0 };
        let each = match (self.pattern, copies) {
            (Pattern::Direct | Pattern::Pull, true) => groups,
            (Pattern::Direct | Pattern::Pull, false) | (Pattern::DirectTwice, _) => 1,
            (Pattern::Packets | Pattern::Staged, true) => groups + receiving,
            (Pattern::Packets | Pattern::Staged, false) => groups + summing,
            (Pattern::PacketsTwice, _) => groups + summing + receiving,
            (Pattern::Rails, _) => 1 + self.apart as u32,
        };
        self.slices * each
    }

    /// Whether servers are as the pattern needs them: ports for packets alone, and for rails servers of several
    /// GPUs, as many in each.
    #[must_use]
    pub const fn suits(self, kind: CollectiveKind, ranks: u32) -> bool {
        match (self.pattern, self.gpus_per_server) {
            (Pattern::Rails, Some(gpus)) => {
                let unpacks = !matches!(kind, CollectiveKind::ReduceScatter);
                gpus > 1 && gpus < ranks && ranks.is_multiple_of(gpus) && (unpacks || !self.apart)
            }
            (Pattern::Rails, None) => false,
            (_, Some(gpus)) => self.pattern.has_packets() && gpus > 0 && gpus < ranks,
            (_, None) => true,
        }
    }

    /// Whether there is a program for calls out of place.
    #[must_use]
    pub const fn serves_out_of_place(self) -> bool {
        !matches!(self.pattern, Pattern::Pull)
    }

    /// Whether the program is right for calls in place: no output may be written over an input that
    /// another block, here or elsewhere, may still read.
    #[must_use]
    pub const fn serves_in_place(self, kind: CollectiveKind, ranks: u32) -> bool {
        match (kind, self.pattern) {
            (CollectiveKind::AllReduce | CollectiveKind::AllToAll, Pattern::Direct) => false,
            // Each block sums what it has sent itself.
            (CollectiveKind::AllReduce, Pattern::Packets) => {
                self.peers_per_block + 1 >= ranks && !self.apart
            }
            // The output is where sums for others are made, which are then of no use here.
            (CollectiveKind::ReduceScatter, Pattern::Rails) => false,
            (CollectiveKind::AllReduce, Pattern::PacketsTwice | Pattern::Rails)
            | (CollectiveKind::AllToAll, Pattern::Packets | Pattern::Staged) => !self.apart,
            _ => true,
        }
    }
}

/// A program for `kind` over `ranks` ranks, for in-place or for out-of-place calls; one that does nothing
/// for a collective that the pattern [does](Pattern::does) not, or that the shape does not [suit](Shape::suits) or
/// serve in this form. Proving it right is the caller's.
///
/// # Errors
/// If a collective cannot have so many ranks or chunks.
pub fn program(
    kind: CollectiveKind,
    ranks: u32,
    forms: Forms,
    shape: Shape,
) -> Result<Program, CollectiveError> {
    Ok(build::Build::new(kind, ranks, forms, shape)?.run())
}

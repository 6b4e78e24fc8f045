//! [`Entry`]: one plan of a sweep.

use std::fmt;

use motet_collective::formats::mscclpp_json::{self, Channel, Gpu};
use motet_collective::program::{Forms, Hints, Program};
use motet_collective::{CollectiveKind, Verified};
use motet_synth::one_sided::{Pattern, Shape, program};
use motet_units::Bytes;

/// Most ranks, slices and threads of an entry: names come from files.
const MAX_RANKS: u32 = 64;
const MAX_SLICES: u32 = 256;
const MAX_THREADS: u32 = 1024;

/// Packets are for small calls: in larger ones they take several times as long as plain data, and are not measured.
pub(super) const LARGEST_PACKETS: u64 = 4 << 20;

/// A one-sided program in one shape, for one form and number of threads. As text it is its name:
/// `allreduce-8-packets-twice-s8-p1a-g4-in-t512` is collective, ranks, pattern, slices, peers per block,
/// `a` for unpacking apart, `-g4` for ports between servers of 4 ranks, `-in` for in place, and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub kind: CollectiveKind,
    pub ranks: u32,
    pub shape: Shape,
    pub in_place: bool,
    pub threads: u32,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, ranks, shape, in_place, threads } = self;
        let Shape { pattern, slices, peers_per_block, apart, gpus_per_server } = shape;
        let pattern = pattern.name();
        write!(f, "{kind}-{ranks}-{pattern}-s{slices}-p{peers_per_block}")?;
        f.write_str(if *apart { "a" } else { "" })?;
        if let Some(gpus) = gpus_per_server {
            write!(f, "-g{gpus}")?;
        }
        write!(f, "{}-t{threads}", if *in_place { "-in" } else { "" })
    }
}

impl Entry {
    /// The entry of a name; `None` if the name is none of an entry, or of one that is not
    /// [possible](Self::is_possible).
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let (rest, threads) = name.rsplit_once("-t")?;
        let (rest, in_place) = match rest.strip_suffix("-in") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (rest, gpus_per_server) = match rest.rsplit_once("-g") {
            Some((rest, gpus)) => (rest, Some(gpus.parse().ok()?)),
            None => (rest, None),
        };
        let (rest, peers) = rest.rsplit_once("-p")?;
        let (peers, apart) = match peers.strip_suffix('a') {
            Some(peers) => (peers, true),
            None => (peers, false),
        };
        let (rest, slices) = rest.rsplit_once("-s")?;
        let mut words = rest.splitn(3, '-');
        let kind = words.next()?.parse().ok()?;
        let ranks = words.next()?.parse().ok()?;
        let pattern = pattern(words.next()?)?;
        let (slices, peers_per_block) = (slices.parse().ok()?, peers.parse().ok()?);
        let shape = Shape { pattern, slices, peers_per_block, apart, gpus_per_server };
        let entry = Self { kind, ranks, shape, in_place, threads: threads.parse().ok()? };
        entry.is_possible().then_some(entry)
    }

    /// Whether there is such a program.
    #[must_use]
    pub const fn is_possible(&self) -> bool {
        let Shape { pattern, slices, peers_per_block, .. } = self.shape;
        self.ranks >= 2
            && self.ranks <= MAX_RANKS
            && slices >= 1
            && slices <= MAX_SLICES
            && peers_per_block >= 1
            && self.threads >= 32
            && self.threads <= MAX_THREADS
            && pattern.does(self.kind)
            && self.shape.suits(self.kind, self.ranks)
            && if self.in_place {
                self.shape.serves_in_place(self.kind, self.ranks)
            } else {
                self.shape.serves_out_of_place()
            }
    }

    /// The program, proved right; `None` if there is none.
    #[must_use]
    pub fn program(&self) -> Option<Verified<Program>> {
        let forms = if self.in_place { Forms::IN_PLACE } else { Forms::OUT_OF_PLACE };
        let made = program(self.kind, self.ranks, forms, self.shape).ok()?;
        let Shape { pattern, gpus_per_server, .. } = self.shape;
        let small = pattern.has_packets() && gpus_per_server.is_none();
        let max_size = small.then_some(Bytes::new(LARGEST_PACKETS));
        let hints = Hints { max_size, ..*made.hints() };
        Verified::new(made.to_builder().hints(hints).build(), None).ok()
    }

    /// Thread blocks of each rank.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        self.shape.blocks(self.kind, self.ranks)
    }

    fn gpu(&self, ranks_per_gpu: u32) -> Gpu {
        Gpu { ranks: ranks_per_gpu.clamp(1, self.ranks), ..Gpu::default() }
    }

    /// Whether all blocks can run at once on GPUs that are shared by `ranks_per_gpu` ranks.
    #[must_use]
    pub fn fits(&self, ranks_per_gpu: u32) -> bool {
        self.blocks() <= self.gpu(ranks_per_gpu).blocks(self.threads)
    }

    /// The plan for GPUs that are shared by `ranks_per_gpu` ranks. `None` if the shape does not fit the GPU: the
    /// exporter would then lay the program out in another shape than the name says.
    #[must_use]
    pub fn plan(&self, ranks_per_gpu: u32) -> Option<String> {
        if !self.fits(ranks_per_gpu) {
            return None;
        }
        let right = self.program()?;
        let channel = match self.shape.gpus_per_server {
            Some(gpus_per_server) => Channel::Auto { gpus_per_server },
            None => Channel::Memory,
        };
        let options = mscclpp_json::Options {
            channel,
            threads_per_block: self.threads,
            gpu: self.gpu(ranks_per_gpu),
            own_name: true,
            in_place: self.in_place,
            ..Default::default()
        };
        mscclpp_json::write(&right, &options).ok()
    }
}

/// A pattern by its name.
pub(super) fn pattern(name: &str) -> Option<Pattern> {
    Pattern::ALL.into_iter().find(|it| it.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in [
            "allreduce-8-packets-twice-s8-p1a-t512",
            "allreduce-8-packets-twice-s8-p1-in-t512",
            "allgather-2-direct-s60-p8-in-t1024",
            "allgather-4-pull-s8-p1-in-t512",
            "allgather-8-packets-s1-p8-g1-t512",
            "allreduce-8-packets-twice-s2-p8a-g4-t512",
            "alltoall-6-packets-s2-p8-g3-in-t512",
            "reducescatter-8-rails-s2-p7-g4-t512",
        ] {
            assert_eq!(Entry::of_name(name).map(|it| it.to_string()).as_deref(), Some(name));
        }
        for name in [
            "",
            "allgather_pkt-2-i1t1024",
            "allreduce-8-direct-s8-p1-in-t512",
            "broadcast-8-direct-s8-p1-t512",
            "allgather-4-pull-s8-p1-t512",
            "allreduce-99999-direct-s8-p1-t512",
            "allreduce-8-direct-s0-p1-t512",
            "allgather-8-direct-s1-p8-g4-t512",
            "allgather-8-packets-s1-p8-g8-t512",
            "allgather-8-packets-s1-p8-g0-t512",
            "allgather-8-rails-s1-p8-t512",
            "allgather-8-rails-s1-p8-g3-t512",
            "reducescatter-8-rails-s1-p8-g4-in-t512",
        ] {
            assert_eq!(Entry::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_shape_that_does_not_fit_is_not_written() {
        let entry = |name: &str| Entry::of_name(name).unwrap();
        assert!(entry("allgather-2-direct-s60-p8-t1024").plan(2).is_some());
        assert!(entry("allgather-8-direct-s60-p8-t1024").plan(8).is_none());
        assert!(entry("allgather-8-direct-s60-p8-t1024").plan(1).is_some());
    }
}

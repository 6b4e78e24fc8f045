//! [`Collective`]: what must be true before and after, over a group of ranks.
//!
//! Data is counted in chunks. A collective of `n` ranks with `k` chunks per part has the buffers
//!
//! | collective | input | output of rank r |
//! | --- | --- | --- |
//! | AllGather | k | n·k: part q is rank q's input |
//! | ReduceScatter | n·k | k: the sum of everyone's part r |
//! | AllReduce | k | k: the sum of everyone's input |
//! | Broadcast | k at the root | k: the root's input |
//! | Reduce | k | k at the root: the sum |
//! | Gather | k | n·k at the root: part q is rank q's input |
//! | Scatter | n·k at the root | k: the root's part r |
//! | AllToAll | n·k | n·k: part q is rank q's part r |
//! | AllToAllV | counts\[r\]\[·\] | counts\[·\]\[r\], in rank order |
//! | SendRecv | k at senders | k at receivers: the sender's input |

use std::fmt;
use std::str::FromStr;

use motet_net::node::UnknownName;
use motet_units::{Bytes, Rank};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most ranks a collective can have: above any real program, and low enough that readers of
/// hostile files stay within bounds.
pub const MAX_RANKS: u32 = 1 << 17;
/// The most chunks that a buffer of a collective can have, for the same reason.
pub const MAX_CHUNKS: u32 = 1 << 24;

/// The collectives Motet knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectiveKind {
    AllGather,
    ReduceScatter,
    AllReduce,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    AllToAll,
    AllToAllV,
    SendRecv,
}

impl CollectiveKind {
    pub const ALL: [Self; 10] = [
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::AllToAll,
        Self::AllToAllV,
        Self::SendRecv,
    ];

    /// The name in files, on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "allgather",
            Self::ReduceScatter => "reducescatter",
            Self::AllReduce => "allreduce",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllToAll => "alltoall",
            Self::AllToAllV => "alltoallv",
            Self::SendRecv => "sendrecv",
        }
    }

    /// Whether one rank is special: the source of a Broadcast or Scatter, the destination of a Reduce
    /// or Gather.
    #[must_use]
    pub const fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether outputs are sums over the ranks.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(self, Self::ReduceScatter | Self::AllReduce | Self::Reduce)
    }
}

impl fmt::Display for CollectiveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CollectiveKind {
    type Err = UnknownName;
    /// Case and the separators `-` and `_` do not count: "AllGather" and "all_gather" are the same.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let plain: String = text
            .chars()
            .filter(|it| !matches!(it, '-' | '_'))
            .flat_map(char::to_lowercase)
            .collect();
        Self::ALL
            .into_iter()
            .find(|it| it.name() == plain)
            .ok_or_else(|| UnknownName::new("collective", text, Self::ALL.map(Self::name)))
    }
}

impl Serialize for CollectiveKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for CollectiveKind {
    /// Every spelling that [`FromStr`] takes.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A collective over ranks 0 to n − 1, with its data cut into chunks: the table at the head of this
/// file says what each rank has before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    kind: CollectiveKind,
    ranks: u32,
    /// k of the table above; 1 for AllToAllV, whose counts say it all.
    chunks: u32,
    shape: Shape,
}

/// What a collective needs beyond its ranks and chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Plain,
    Root(Rank),
    /// AllToAllV: `counts[src * n + dst]` chunks.
    Counts(Vec<u32>),
    /// SendRecv: for each rank, whom it sends to.
    Peers(Vec<Option<Rank>>),
}

/// Why there is no such collective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    #[error("a collective needs 1 to {MAX_RANKS} ranks, not {0}")]
    Ranks(u64),
    #[error("a buffer of {0} chunks is outside 1 to {MAX_CHUNKS}")]
    Chunks(u64),
    #[error("{0} has a root: say which rank it is")]
    NeedsRoot(CollectiveKind),
    #[error("root {root} is not one of {ranks} ranks")]
    RootOutOfRange { root: Rank, ranks: u32 },
    #[error("{0} needs its counts or peers: use its own constructor")]
    NeedsShape(CollectiveKind),
    #[error("the counts of an alltoallv over {ranks} ranks are {expected} numbers, not {given}")]
    Counts { ranks: u32, expected: usize, given: usize },
    #[error("rank {0} is sent to twice in a sendrecv, or is no rank of it")]
    Peers(Rank),
}

/// What an output chunk must hold at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing is asked of it.
    Anything,
    /// Chunk `offset` of the input of `rank`.
    Input { rank: Rank, offset: u32 },
    /// The sum over all ranks, each once, of chunk `offset` of their inputs.
    Sum { offset: u32 },
}

impl Collective {
    /// A collective of a kind that needs no root, counts or peers, with `chunks` chunks per part.
    pub fn new(kind: CollectiveKind, ranks: u32, chunks: u32) -> Result<Self, CollectiveError> {
        match kind {
            it if it.has_root() => Err(CollectiveError::NeedsRoot(it)),
            CollectiveKind::AllToAllV | CollectiveKind::SendRecv => {
                Err(CollectiveError::NeedsShape(kind))
            }
            _ => Self { kind, ranks, chunks, shape: Shape::Plain }.checked(),
        }
    }

    /// Broadcast, Reduce, Gather or Scatter.
    pub fn rooted(
        kind: CollectiveKind,
        ranks: u32,
        chunks: u32,
        root: Rank,
    ) -> Result<Self, CollectiveError> {
        if !kind.has_root() {
            return Self::new(kind, ranks, chunks);
        }
        if root.0 >= ranks {
            return Err(CollectiveError::RootOutOfRange { root, ranks });
        }
        Self { kind, ranks, chunks, shape: Shape::Root(root) }.checked()
    }

    /// AllToAllV: rank s sends `counts[s * ranks + d]` chunks to rank d.
    pub fn all_to_all_v(ranks: u32, counts: Vec<u32>) -> Result<Self, CollectiveError> {
        let expected = (ranks as usize).saturating_mul(ranks as usize);
        if counts.len() != expected {
            return Err(CollectiveError::Counts { ranks, expected, given: counts.len() });
        }
        Self { kind: CollectiveKind::AllToAllV, ranks, chunks: 1, shape: Shape::Counts(counts) }
            .checked()
    }

    /// SendRecv: rank r sends `chunks` chunks to `peers[r]`, if to anyone; nobody receives twice.
    pub fn send_recv(chunks: u32, peers: Vec<Option<Rank>>) -> Result<Self, CollectiveError> {
        let ranks = u32::try_from(peers.len()).unwrap_or(u32::MAX);
        let mut receives = vec![false; peers.len()];
        for peer in peers.iter().flatten() {
            match receives.get_mut(peer.index()) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(CollectiveError::Peers(*peer)),
            }
        }
        Self { kind: CollectiveKind::SendRecv, ranks, chunks, shape: Shape::Peers(peers) }.checked()
    }

    /// The same collective cut finer: `times` chunks for each chunk it has now.
    pub fn refined(&self, times: u32) -> Result<Self, CollectiveError> {
        let finer = |it: u32| {
            let product = u64::from(it) * u64::from(times);
            u32::try_from(product).map_err(|_| CollectiveError::Chunks(product))
        };
        let mut refined = self.clone();
        match &mut refined.shape {
            Shape::Counts(counts) => {
                for count in counts {
                    *count = finer(*count)?;
                }
            }
            _ => refined.chunks = finer(self.chunks)?,
        }
        refined.checked()
    }

    fn checked(self) -> Result<Self, CollectiveError> {
        if self.ranks == 0 || self.ranks > MAX_RANKS {
            return Err(CollectiveError::Ranks(u64::from(self.ranks)));
        }
        let largest = match &self.shape {
            Shape::Counts(counts) => {
                let n = self.ranks as usize;
                let rows = counts.chunks(n).map(|row| row.iter().map(|it| u64::from(*it)).sum());
                let columns = (0..n)
                    .map(|dst| counts.iter().skip(dst).step_by(n).map(|it| u64::from(*it)).sum());
                rows.chain(columns).max().unwrap_or(0).max(1)
            }
            _ if self.parts_per_buffer() => u64::from(self.chunks) * u64::from(self.ranks),
            _ => u64::from(self.chunks),
        };
        if largest == 0 || largest > u64::from(MAX_CHUNKS) {
            return Err(CollectiveError::Chunks(largest));
        }
        Ok(self)
    }

    /// Whether the larger buffer holds one part per rank.
    const fn parts_per_buffer(&self) -> bool {
        matches!(
            self.kind,
            CollectiveKind::AllGather
                | CollectiveKind::ReduceScatter
                | CollectiveKind::Gather
                | CollectiveKind::Scatter
                | CollectiveKind::AllToAll
        )
    }

    #[must_use]
    pub const fn kind(&self) -> CollectiveKind {
        self.kind
    }

    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many chunks a part has: k in the table at the head of this file.
    #[must_use]
    pub const fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The root of a Broadcast, Reduce, Gather or Scatter.
    #[must_use]
    pub const fn root(&self) -> Option<Rank> {
        match self.shape {
            Shape::Root(root) => Some(root),
            _ => None,
        }
    }

    /// The counts of an AllToAllV, row by sender.
    #[must_use]
    pub fn counts(&self) -> Option<&[u32]> {
        match &self.shape {
            Shape::Counts(counts) => Some(counts),
            _ => None,
        }
    }

    /// Whom each rank sends to in a SendRecv.
    #[must_use]
    pub fn peers(&self) -> Option<&[Option<Rank>]> {
        match &self.shape {
            Shape::Peers(peers) => Some(peers),
            _ => None,
        }
    }

    /// How many chunks rank `rank` has in its input buffer. Buffers that a collective does not
    /// read (the input of a non-root in a Broadcast) still exist, with undefined content.
    #[must_use]
    pub fn input_chunks(&self, rank: Rank) -> u32 {
        let n = self.ranks as usize;
        match (self.kind, &self.shape) {
            (_, Shape::Counts(counts)) => counts[rank.index() * n..][..n].iter().sum(),
            (
                CollectiveKind::ReduceScatter | CollectiveKind::AllToAll | CollectiveKind::Scatter,
                _,
            ) => self.chunks * self.ranks,
            _ => self.chunks,
        }
    }

    /// How many chunks rank `rank` has in its output buffer.
    #[must_use]
    pub fn output_chunks(&self, rank: Rank) -> u32 {
        let n = self.ranks as usize;
        match (self.kind, &self.shape) {
            (_, Shape::Counts(counts)) => counts.iter().skip(rank.index()).step_by(n).sum(),
            (CollectiveKind::AllGather | CollectiveKind::AllToAll | CollectiveKind::Gather, _) => {
                self.chunks * self.ranks
            }
            _ => self.chunks,
        }
    }

    /// The precondition: whether rank `rank`'s input holds data at the start.
    #[must_use]
    pub fn input_defined(&self, rank: Rank) -> bool {
        match (self.kind, &self.shape) {
            (CollectiveKind::Broadcast | CollectiveKind::Scatter, Shape::Root(root)) => {
                *root == rank
            }
            (_, Shape::Peers(peers)) => peers[rank.index()].is_some(),
            _ => true,
        }
    }

    /// The postcondition: what chunk `offset` of rank `rank`'s output must hold.
    #[must_use]
    pub fn expected(&self, rank: Rank, offset: u32) -> Expected {
        let k = self.chunks;
        let part = |it: u32| Rank(it / k);
        match (self.kind, &self.shape) {
            (CollectiveKind::AllGather, _) => {
                Expected::Input { rank: part(offset), offset: offset % k }
            }
            (CollectiveKind::ReduceScatter, _) => Expected::Sum { offset: rank.0 * k + offset },
            (CollectiveKind::AllReduce, _) => Expected::Sum { offset },
            (CollectiveKind::Broadcast, Shape::Root(root)) => {
                Expected::Input { rank: *root, offset }
            }
            (CollectiveKind::Reduce, Shape::Root(root)) if *root == rank => {
                Expected::Sum { offset }
            }
            (CollectiveKind::Gather, Shape::Root(root)) if *root == rank => {
                Expected::Input { rank: part(offset), offset: offset % k }
            }
            (CollectiveKind::Scatter, Shape::Root(root)) => {
                Expected::Input { rank: *root, offset: rank.0 * k + offset }
            }
            (CollectiveKind::AllToAll, _) => {
                Expected::Input { rank: part(offset), offset: rank.0 * k + offset % k }
            }
            (_, Shape::Counts(counts)) => expected_v(self.ranks, counts, rank, offset),
            (_, Shape::Peers(peers)) => match peers.iter().position(|it| *it == Some(rank)) {
                Some(sender) => Expected::Input { rank: Rank::from_index(sender), offset },
                None => Expected::Anything,
            },
            _ => Expected::Anything,
        }
    }

    /// Where rank `rank`'s input lies inside its output when the call is in place (NCCL's
    /// convention), as (chunks of the input that the output covers, offset in the larger buffer).
    /// `None` if the collective has no in-place form.
    #[must_use]
    pub fn in_place(&self, rank: Rank) -> Option<InPlace> {
        match self.kind {
            CollectiveKind::AllGather => {
                Some(InPlace::InputInOutput { offset: rank.0 * self.chunks })
            }
            CollectiveKind::ReduceScatter => {
                Some(InPlace::OutputInInput { offset: rank.0 * self.chunks })
            }
            CollectiveKind::AllReduce
            | CollectiveKind::Broadcast
            | CollectiveKind::Reduce
            | CollectiveKind::AllToAll => Some(InPlace::InputInOutput { offset: 0 }),
            CollectiveKind::Gather if self.root() == Some(rank) => {
                Some(InPlace::InputInOutput { offset: rank.0 * self.chunks })
            }
            CollectiveKind::Scatter if self.root() == Some(rank) => {
                Some(InPlace::OutputInInput { offset: rank.0 * self.chunks })
            }
            CollectiveKind::Gather | CollectiveKind::Scatter => Some(InPlace::Apart),
            CollectiveKind::AllToAllV | CollectiveKind::SendRecv => None,
        }
    }

    /// How many chunks the size of nccl-tests is cut into: those of the largest buffer.
    #[must_use]
    pub fn size_chunks(&self) -> u32 {
        let all = (0..self.ranks).map(Rank);
        match self.kind {
            CollectiveKind::AllToAllV => {
                all.map(|it| self.input_chunks(it).max(self.output_chunks(it))).max().unwrap_or(1)
            }
            _ => self.input_chunks(Rank(0)).max(self.output_chunks(Rank(0))),
        }
    }

    /// The bytes of one chunk when the collective has `size` bytes in nccl-tests' sense, rounded
    /// up to whole bytes.
    #[must_use]
    pub fn chunk_bytes(&self, size: Bytes) -> Bytes {
        size.div_ceil(u64::from(self.size_chunks()))
    }

    /// nccl-tests' factor from algorithm to bus bandwidth, as (numerator, denominator).
    #[must_use]
    pub fn busbw_factor(&self) -> (u32, u32) {
        let n = self.ranks;
        match self.kind {
            CollectiveKind::AllReduce => (2 * (n - 1), n),
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::AllToAllV
            | CollectiveKind::Gather
            | CollectiveKind::Scatter => (n - 1, n),
            CollectiveKind::Broadcast | CollectiveKind::Reduce | CollectiveKind::SendRecv => (1, 1),
        }
    }
}

/// How input and output share memory in an in-place call, at one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// The input is `offset` chunks into the output.
    InputInOutput { offset: u32 },
    /// The output is `offset` chunks into the input.
    OutputInInput { offset: u32 },
    /// This rank's buffers stay apart (ranks other than the root).
    Apart,
}

fn expected_v(ranks: u32, counts: &[u32], rank: Rank, offset: u32) -> Expected {
    let n = ranks as usize;
    let mut left = offset;
    for src in 0..n {
        let count = counts[src * n + rank.index()];
        if left < count {
            let before: u32 = counts[src * n..][..rank.index()].iter().sum();
            return Expected::Input { rank: Rank::from_index(src), offset: before + left };
        }
        left -= count;
    }
    Expected::Anything
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_forgive_case() {
        for kind in CollectiveKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!("All_Gather".parse(), Ok(CollectiveKind::AllGather));
        assert_eq!("reduce-scatter".parse(), Ok(CollectiveKind::ReduceScatter));
        assert!("scan".parse::<CollectiveKind>().is_err());
    }

    #[test]
    fn all_to_all_v_takes_its_parts_in_rank_order() {
        let it = Collective::all_to_all_v(2, vec![1, 2, 3, 0]).unwrap();
        assert_eq!((it.input_chunks(Rank(0)), it.input_chunks(Rank(1))), (3, 3));
        assert_eq!((it.output_chunks(Rank(0)), it.output_chunks(Rank(1))), (4, 2));
        assert_eq!(it.expected(Rank(0), 0), Expected::Input { rank: Rank(0), offset: 0 });
        assert_eq!(it.expected(Rank(0), 3), Expected::Input { rank: Rank(1), offset: 2 });
        assert_eq!(it.expected(Rank(1), 1), Expected::Input { rank: Rank(0), offset: 2 });
    }

    #[test]
    fn chunk_bytes_follow_nccl_tests_sizes() {
        let size = Bytes::new(1024);
        let chunk = |kind| Collective::new(kind, 4, 2).unwrap().chunk_bytes(size).get();
        assert_eq!(chunk(CollectiveKind::AllGather), 128);
        assert_eq!(chunk(CollectiveKind::ReduceScatter), 128);
        assert_eq!(chunk(CollectiveKind::AllToAll), 128);
        assert_eq!(chunk(CollectiveKind::AllReduce), 512);
    }

    #[test]
    fn impossible_collectives_are_refused() {
        assert!(Collective::new(CollectiveKind::AllReduce, 0, 1).is_err());
        assert!(Collective::new(CollectiveKind::AllGather, MAX_RANKS, MAX_CHUNKS).is_err());
        assert!(Collective::new(CollectiveKind::Broadcast, 4, 1).is_err());
        assert!(Collective::rooted(CollectiveKind::Broadcast, 4, 1, Rank(4)).is_err());
        assert!(Collective::all_to_all_v(2, vec![1; 3]).is_err());
        assert!(Collective::send_recv(1, vec![Some(Rank(1)), Some(Rank(1))]).is_err());
    }
}

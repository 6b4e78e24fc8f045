//! Programs for datacenters far apart whose data crosses between one rank of each, the gateway.
//!
//! On ideal links it does not matter which ranks carry data over the WAN. On real ones it does: each pair of
//! ranks has its own connections, and routers choose one of several paths for each connection by its port
//! numbers. With many pairs, each with a fixed part of the data, some pair has bad luck with its paths and
//! all wait for it. With one pair, all data is shared out over its connections as they get on, so each path
//! is used until the end.
//!
//! Inside a datacenter data goes along a chain, so that no host sends more than it receives. Chunks that
//! ranks of one datacenter exchange among themselves each wait for the arrival of a chunk over the WAN. They
//! are in no hurry, and if they were all sent at the beginning they would keep hosts and links from data that
//! has to go far.
//!
//! [`for_sockets`](mod@crate::for_sockets) says when such a program is taken. Tests of `motet-exec`, which stands below this crate, take
//! this file too; so it uses nothing of the crate.

use std::collections::BTreeMap;

use motet_collective::program::Forms;
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_units::{Bytes, Rank};

/// For an AllGather, the bytes of a chunk, and how many chunks a rank's part has at most.
const ALLGATHER: (u64, u32) = (64 << 10, 128);
/// The same for an AllReduce, whose part is all of the data.
const ALLREDUCE: (u64, u32) = (128 << 10, 512);
/// How many chunks are exchanged nearby without waiting for an arrival over the WAN.
const HEAD_START: usize = 8;
/// Longer calls might have to keep more data than a group allows.
const LONGEST: u64 = 512 << 20;

/// A program for the ranks of several datacenters (`sites`, which together have all ranks from 0 on); `None`
/// if there are fewer than two, if the call is too long, or if it is another collective than AllGather or
/// AllReduce.
#[must_use]
pub(crate) fn program(
    kind: CollectiveKind,
    sites: &[Vec<Rank>],
    size: Bytes,
) -> Option<Verified<Program>> {
    let ranks = u32::try_from(sites.iter().map(Vec::len).sum::<usize>()).ok()?;
    if sites.len() < 2 || sites.iter().any(Vec::is_empty) || size.get() > LONGEST {
        return None;
    }
    let count = |bytes: u64, (chunk, most): (u64, u32)| {
        u32::try_from(bytes.div_ceil(chunk)).unwrap_or(most).clamp(1, most)
    };
    let make = |forms| {
        let maker = match kind {
            CollectiveKind::AllGather => {
                let chunks = count(size.get() / u64::from(ranks), ALLGATHER);
                Maker::new(kind, ranks, chunks)?.all_gather(sites)
            }
            CollectiveKind::AllReduce => {
                Maker::new(kind, ranks, count(size.get(), ALLREDUCE))?.all_reduce(sites)
            }
            _ => return None,
        };
        Verified::new(maker.builder.forms(forms).build(), None).ok()
    };
    make(Forms { in_place: true, out_of_place: true }).or_else(|| make(Forms::OUT_OF_PLACE))
}

struct Maker {
    builder: ProgramBuilder,
    chunks: u32,
}

impl Maker {
    fn new(kind: CollectiveKind, ranks: u32, chunks: u32) -> Option<Self> {
        let collective = Collective::new(kind, ranks, chunks).ok()?;
        Some(Self { builder: ProgramBuilder::new("gateways", collective), chunks })
    }

    /// Copies a chunk of a rank's input to its place in the rank's output.
    fn own(&mut self, rank: Rank, chunk: u32, slot: u32) -> TransferId {
        self.builder.add(Transfer::copy(Slot::input(rank, chunk), Slot::output(rank, slot), 1))
    }

    /// Copies a chunk of the output to the same place at another rank, once it has come to `from`.
    fn pass(&mut self, from: Rank, to: Rank, slot: u32, after: TransferId) -> TransferId {
        let transfer = Transfer::copy(Slot::output(from, slot), Slot::output(to, slot), 1);
        self.builder.add_after(transfer, &[after])
    }

    fn all_gather(mut self, sites: &[Vec<Rank>]) -> Self {
        for site in sites {
            for rank in site {
                for chunk in 0..self.chunks {
                    self.own(*rank, chunk, rank.0 * self.chunks + chunk);
                }
            }
        }
        let longest = sites.iter().map(Vec::len).max().unwrap_or(0);
        let order: Vec<(u32, usize)> =
            (0..self.chunks).flat_map(|chunk| (0..longest).map(move |it| (chunk, it))).collect();
        // Per rank: the transfer that brought it the n-th chunk from afar.
        let mut came: BTreeMap<(Rank, usize), TransferId> = BTreeMap::new();
        for (n, (chunk, index)) in order.iter().enumerate() {
            for (own, site) in sites.iter().enumerate() {
                let (Some(rank), Some(gateway)) = (site.get(*index), site.first()) else {
                    continue;
                };
                let slot = rank.0 * self.chunks + chunk;
                let input = Slot::input(*rank, *chunk);
                let near = (rank != gateway).then(|| {
                    self.builder.add(Transfer::copy(input, Slot::output(*gateway, slot), 1))
                });
                for (_, other) in sites.iter().enumerate().filter(|it| it.0 != own) {
                    let mut last: Option<(Rank, TransferId)> = None;
                    for to in other {
                        let id = match (last, near) {
                            (Some((from, id)), _) => self.pass(from, *to, slot, id),
                            (None, Some(near)) => self.pass(*gateway, *to, slot, near),
                            (None, None) => {
                                self.builder.add(Transfer::copy(input, Slot::output(*to, slot), 1))
                            }
                        };
                        came.insert((*to, n), id);
                        last = Some((*to, id));
                    }
                }
            }
        }
        for (n, (chunk, index)) in order.iter().enumerate() {
            // These waits spread the exchange nearby over four fifths of the time only, so that at the end
            // nobody waits for it.
            let awaited = n.checked_sub(HEAD_START).map(|it| it * 4 / 5);
            for site in sites {
                let Some(rank) = site.get(*index) else { continue };
                let after = awaited.and_then(|it| came.get(&(*rank, it)).copied());
                // The gateway has it already.
                for to in site.iter().skip(1).filter(|it| *it != rank) {
                    let slot = Slot::output(*to, rank.0 * self.chunks + chunk);
                    let transfer = Transfer::copy(Slot::input(*rank, *chunk), slot, 1);
                    self.builder.add_after(transfer, after.as_slice());
                }
            }
        }
        self
    }

    /// Each chunk is summed along the chain of each datacenter, then at the gateway of one of them, and goes back
    /// the same way. A window of a quarter of the chunks, and at least 8, limits how many are in flight.
    fn all_reduce(mut self, sites: &[Vec<Rank>]) -> Self {
        let window = (self.chunks / 4).max(8);
        let mut done: BTreeMap<(Rank, u32), TransferId> = BTreeMap::new();
        for chunk in 0..self.chunks {
            let root = chunk as usize % sites.len();
            let sums: Vec<(Rank, TransferId)> =
                sites.iter().filter_map(|it| self.chain(it, chunk, window, &done)).collect();
            let Some((home, mut sum)) = sums.get(root).copied() else { return self };
            for (from, id) in sums.iter().filter(|it| it.0 != home) {
                let (from, to) = (Slot::output(*from, chunk), Slot::output(home, chunk));
                let next = self.builder.add_after(Transfer::reduce(from, to, 1), &[*id]);
                // One after the other, so that sums have the same bits every time.
                self.builder.wait(next.arrived(), sum.arrived());
                sum = next;
            }
            for (index, site) in sites.iter().enumerate() {
                let Some(gateway) = site.first() else { continue };
                let mut id = sum;
                if index != root {
                    id = self.pass(home, *gateway, chunk, sum);
                }
                done.insert((*gateway, chunk), id);
                for pair in site.windows(2) {
                    id = self.pass(pair[0], pair[1], chunk, id);
                    done.insert((pair[1], chunk), id);
                }
            }
        }
        self
    }

    /// Sums a chunk along the chain of a datacenter. Returns the gateway, which is the chain's end, and the
    /// transfer that completes the sum there.
    fn chain(
        &mut self,
        site: &[Rank],
        chunk: u32,
        window: u32,
        done: &BTreeMap<(Rank, u32), TransferId>,
    ) -> Option<(Rank, TransferId)> {
        let ended = |rank: Rank| chunk.checked_sub(window).and_then(|it| done.get(&(rank, it)));
        // The chain's first rank has nothing to add, so it sends from its input.
        let mut from: Option<(Rank, Slot, Option<TransferId>)> =
            site.last().map(|it| (*it, Slot::input(*it, chunk), None));
        let mut last = None;
        for rank in site.iter().rev().skip(usize::from(site.len() > 1)) {
            let own = self.own(*rank, chunk, chunk);
            // A chunk waits for the result of the chunk one window before, so that not all start at once.
            if let Some(ended) = ended(*rank) {
                self.builder.wait(own.sent(), ended.arrived());
            }
            let mut sum = own;
            if let Some((sender, source, before)) = from.filter(|it| it.0 != *rank) {
                let target = Slot::output(*rank, chunk);
                sum =
                    self.builder.add_after(Transfer::reduce(source, target, 1), before.as_slice());
                self.builder.wait(sum.arrived(), own.arrived());
                if let Some(ended) = ended(sender).filter(|_| before.is_none()) {
                    self.builder.wait(sum.sent(), ended.arrived());
                }
            }
            from = Some((*rank, Slot::output(*rank, chunk), Some(sum)));
            last = Some((*rank, sum));
        }
        last
    }
}

//! Right programs for tests and benchmarks: the textbook algorithms, in a few lines each.
//!
//! Not the product's own classics (those are a synthesizer's business and know the network); these
//! only have to be right, small and varied.

#![allow(dead_code, reason = "shared by several test and bench binaries, none of which uses all")]
#![allow(clippy::unwrap_used, reason = "what is built here is known to be possible")]

use motet_collective::program::{Lane, LaneKind};
use motet_collective::{
    Action, Buffer, Collective, CollectiveKind, Event, Forms, Program, ProgramBuilder, Slot,
    Transfer, TransferId,
};
use motet_units::Rank;

fn collective(kind: CollectiveKind, ranks: u32, chunks: u32) -> Collective {
    Collective::new(kind, ranks, chunks).unwrap()
}

fn rooted(kind: CollectiveKind, ranks: u32, chunks: u32, root: u32) -> Collective {
    Collective::rooted(kind, ranks, chunks, Rank(root)).unwrap()
}

/// Ring AllGather, out of place: each rank copies its own part, then passes parts on.
pub(crate) fn ring_all_gather(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("ring-allgather-{ranks}"),
        collective(CollectiveKind::AllGather, ranks, chunks),
    );
    let mut last: Vec<Option<TransferId>> = vec![None; ranks as usize];
    for rank in (0..ranks).map(Rank) {
        let own = Slot::output(rank, rank.0 * chunks);
        b.add(Transfer::copy(Slot::input(rank, 0), own, chunks));
    }
    for step in 0..ranks.saturating_sub(1) {
        let before = last.clone();
        for rank in 0..ranks {
            let (to, part) = ((rank + 1) % ranks, (rank + ranks - step) % ranks);
            let source = match step {
                0 => Slot::input(Rank(rank), 0),
                _ => Slot::output(Rank(rank), part * chunks),
            };
            let transfer = Transfer::copy(source, Slot::output(Rank(to), part * chunks), chunks);
            let after: Vec<TransferId> = before[rank as usize].into_iter().collect();
            last[to as usize] = Some(b.add_after(transfer, &after));
        }
    }
    b.build()
}

/// The reduce half of a ring, in place: afterwards part r is complete at rank r. Returns each
/// rank's last arrival.
fn ring_reduce(
    b: &mut ProgramBuilder,
    buffer: Buffer,
    ranks: u32,
    chunks: u32,
) -> Vec<Option<TransferId>> {
    let mut last: Vec<Option<TransferId>> = vec![None; ranks as usize];
    for step in 0..ranks.saturating_sub(1) {
        let before = last.clone();
        for rank in 0..ranks {
            let (to, part) = ((rank + 1) % ranks, (rank + 2 * ranks - step - 1) % ranks);
            let transfer = Transfer::reduce(
                Slot::new(Rank(rank), buffer, part * chunks),
                Slot::new(Rank(to), buffer, part * chunks),
                chunks,
            );
            let after: Vec<TransferId> = before[rank as usize].into_iter().collect();
            last[to as usize] = Some(b.add_after(transfer, &after));
        }
    }
    last
}

/// Ring ReduceScatter, in place.
pub(crate) fn ring_reduce_scatter(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("ring-reducescatter-{ranks}"),
        collective(CollectiveKind::ReduceScatter, ranks, chunks),
    )
    .forms(Forms::IN_PLACE);
    ring_reduce(&mut b, Buffer::Input, ranks, chunks);
    b.build()
}

/// Ring AllReduce, in place, with `chunks` chunks for each of `ranks` parts:
/// 2·ranks·(ranks − 1) transfers.
pub(crate) fn ring_all_reduce(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("ring-allreduce-{ranks}"),
        collective(CollectiveKind::AllReduce, ranks, chunks * ranks),
    )
    .forms(Forms::IN_PLACE);
    let mut last = ring_reduce(&mut b, Buffer::Output, ranks, chunks);
    for step in 0..ranks.saturating_sub(1) {
        let before = last.clone();
        for rank in 0..ranks {
            let (to, part) = ((rank + 1) % ranks, (rank + ranks - step) % ranks);
            let transfer = Transfer::copy(
                Slot::output(Rank(rank), part * chunks),
                Slot::output(Rank(to), part * chunks),
                chunks,
            );
            let after: Vec<TransferId> = before[rank as usize].into_iter().collect();
            last[to as usize] = Some(b.add_after(transfer, &after));
        }
    }
    b.build()
}

/// Binary-tree Broadcast from rank 0, out of place.
pub(crate) fn tree_broadcast(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("tree-broadcast-{ranks}"),
        rooted(CollectiveKind::Broadcast, ranks, chunks, 0),
    );
    let own = b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), chunks));
    let mut arrived = vec![own];
    for rank in 1..ranks {
        let parent = (rank - 1) / 2;
        let transfer =
            Transfer::copy(Slot::output(Rank(parent), 0), Slot::output(Rank(rank), 0), chunks);
        arrived.push(b.add_after(transfer, &[arrived[parent as usize]]));
    }
    b.build()
}

/// Binary-tree Reduce to rank 0, in place: children first, each parent takes one child after the
/// other.
fn tree_reduce_into(b: &mut ProgramBuilder, ranks: u32, chunks: u32) -> Vec<Vec<TransferId>> {
    let mut into: Vec<Vec<TransferId>> = vec![Vec::new(); ranks as usize];
    for rank in (1..ranks).rev() {
        let parent = ((rank - 1) / 2) as usize;
        let transfer = Transfer::reduce(
            Slot::output(Rank(rank), 0),
            Slot::output(Rank::from_index(parent), 0),
            chunks,
        );
        let id = b.add_after(transfer, &into[rank as usize].clone());
        if let Some(before) = into[parent].last() {
            b.wait(id.arrived(), before.arrived());
        }
        into[parent].push(id);
    }
    into
}

pub(crate) fn tree_reduce(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("tree-reduce-{ranks}"),
        rooted(CollectiveKind::Reduce, ranks, chunks, 0),
    )
    .forms(Forms::IN_PLACE);
    tree_reduce_into(&mut b, ranks, chunks);
    b.build()
}

/// Reduce up a binary tree, broadcast down the same one, in place.
pub(crate) fn tree_all_reduce(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("tree-allreduce-{ranks}"),
        collective(CollectiveKind::AllReduce, ranks, chunks),
    )
    .forms(Forms::IN_PLACE);
    let into = tree_reduce_into(&mut b, ranks, chunks);
    let mut arrived: Vec<Vec<TransferId>> = vec![into[0].clone()];
    for rank in 1..ranks {
        let parent = (rank - 1) / 2;
        let transfer =
            Transfer::copy(Slot::output(Rank(parent), 0), Slot::output(Rank(rank), 0), chunks);
        let id = b.add_after(transfer, &arrived[parent as usize].clone());
        arrived.push(vec![id]);
    }
    b.build()
}

/// AllToAll by direct sends, out of place.
pub(crate) fn direct_all_to_all(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("direct-alltoall-{ranks}"),
        collective(CollectiveKind::AllToAll, ranks, chunks),
    );
    for rank in 0..ranks {
        for shift in 0..ranks {
            let to = (rank + shift) % ranks;
            b.add(Transfer::copy(
                Slot::input(Rank(rank), to * chunks),
                Slot::output(Rank(to), rank * chunks),
                chunks,
            ));
        }
    }
    b.build()
}

/// AllToAllV by direct sends, out of place.
pub(crate) fn direct_all_to_all_v(ranks: u32, counts: Vec<u32>) -> Program {
    let n = ranks as usize;
    let it = Collective::all_to_all_v(ranks, counts.clone()).unwrap();
    let mut b = ProgramBuilder::new(format!("direct-alltoallv-{ranks}"), it);
    for src in 0..n {
        for dst in 0..n {
            let count = counts[src * n + dst];
            if count > 0 {
                let from: u32 = counts[src * n..][..dst].iter().sum();
                let to: u32 = (0..src).map(|it| counts[it * n + dst]).sum();
                b.add(Transfer::copy(
                    Slot::input(Rank::from_index(src), from),
                    Slot::output(Rank::from_index(dst), to),
                    count,
                ));
            }
        }
    }
    b.build()
}

/// Gather to the last rank, out of place.
pub(crate) fn direct_gather(ranks: u32, chunks: u32) -> Program {
    let root = ranks - 1;
    let mut b = ProgramBuilder::new(
        format!("direct-gather-{ranks}"),
        rooted(CollectiveKind::Gather, ranks, chunks, root),
    );
    for rank in 0..ranks {
        let to = Slot::output(Rank(root), rank * chunks);
        b.add(Transfer::copy(Slot::input(Rank(rank), 0), to, chunks));
    }
    b.build()
}

/// Scatter from rank 0, out of place.
pub(crate) fn direct_scatter(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("direct-scatter-{ranks}"),
        rooted(CollectiveKind::Scatter, ranks, chunks, 0),
    );
    for rank in 0..ranks {
        let from = Slot::input(Rank(0), rank * chunks);
        b.add(Transfer::copy(from, Slot::output(Rank(rank), 0), chunks));
    }
    b.build()
}

/// Everyone sends to the next rank, by way of the receiver's scratch.
pub(crate) fn shift_send_recv(ranks: u32, chunks: u32) -> Program {
    let peers = (0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect();
    let it = Collective::send_recv(chunks, peers).unwrap();
    let mut b = ProgramBuilder::new(format!("shift-sendrecv-{ranks}"), it);
    for rank in 0..ranks {
        let to = Rank((rank + 1) % ranks);
        b.set_scratch(to, chunks);
        let there = b.add(Transfer::copy(Slot::input(Rank(rank), 0), Slot::scratch(to, 0), chunks));
        b.add_after(Transfer::copy(Slot::scratch(to, 0), Slot::output(to, 0), chunks), &[there]);
    }
    b.build()
}

/// `count` chunks from each of `from`, added up in the switch at `sum`. Returns the last arrival.
fn in_switch_sum(b: &mut ProgramBuilder, from: &[Slot], sum: Slot, count: u32) -> TransferId {
    let mut last = b.add(Transfer::copy(from[0], sum, count));
    for source in &from[1..] {
        let next = b.add(Transfer::reduce(*source, sum, count));
        b.wait(next.arrived(), last.arrived());
        last = next;
    }
    last
}

/// AllReduce in the switch, in place: two ranks ask for the sums of some chunks each, which come down
/// to them and go up again to be copied to all (`multimem.ld_reduce`, then `multimem.st`).
pub(crate) fn in_switch_all_reduce(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("in-switch-allreduce-{ranks}"),
        collective(CollectiveKind::AllReduce, ranks, chunks),
    )
    .forms(Forms::IN_PLACE);
    let half = chunks.div_ceil(2);
    for (rank, first, count) in [(0, 0, half), (1, half, chunks - half)] {
        if count == 0 {
            continue;
        }
        b.set_switch(Rank(rank), 2 * count);
        let (down, up) = (Slot::switch(Rank(rank), 0), Slot::switch(Rank(rank), count));
        let from: Vec<Slot> = (0..ranks).map(|it| Slot::output(Rank(it), first)).collect();
        let sum = in_switch_sum(&mut b, &from, down, count);
        let again = b.add_after(Transfer::copy(down, up, count), &[sum]);
        for to in (0..ranks).map(Rank) {
            b.add_after(Transfer::copy(up, Slot::output(to, first), count), &[again]);
        }
    }
    b.build()
}

/// AllReduce by a switch that spreads its sums itself (SHARP), out of place. The same slot serves the
/// first half of the chunks and then the second.
pub(crate) fn in_switch_spread(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("in-switch-spread-{ranks}"),
        collective(CollectiveKind::AllReduce, ranks, chunks),
    );
    let half = chunks.div_ceil(2);
    let slot = Slot::switch(Rank(0), 0);
    b.set_switch(Rank(0), half);
    let mut out: Vec<TransferId> = Vec::new();
    for (first, count) in [(0, half), (half, chunks - half)] {
        if count == 0 {
            continue;
        }
        let from: Vec<Slot> = (0..ranks).map(|it| Slot::input(Rank(it), first)).collect();
        let start = TransferId::from_index(b.transfers().len());
        let sum = in_switch_sum(&mut b, &from, slot, count);
        for before in out.drain(..) {
            b.wait(start.arrived(), before.sent());
        }
        for to in (0..ranks).map(Rank) {
            let spread = Transfer::copy(slot, Slot::output(to, first), count);
            out.push(b.add_after(spread, &[sum]));
        }
    }
    b.build()
}

/// AllGather by copies in the switch, out of place.
pub(crate) fn in_switch_all_gather(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("in-switch-allgather-{ranks}"),
        collective(CollectiveKind::AllGather, ranks, chunks),
    );
    for rank in 0..ranks {
        b.set_switch(Rank(rank), chunks);
        let slot = Slot::switch(Rank(rank), 0);
        let up = b.add(Transfer::copy(Slot::input(Rank(rank), 0), slot, chunks));
        for to in (0..ranks).map(Rank) {
            let part = Slot::output(to, rank * chunks);
            b.add_after(Transfer::copy(slot, part, chunks), &[up]);
        }
    }
    b.build()
}

/// ReduceScatter by sums in the switch, out of place.
pub(crate) fn in_switch_reduce_scatter(ranks: u32, chunks: u32) -> Program {
    let mut b = ProgramBuilder::new(
        format!("in-switch-reducescatter-{ranks}"),
        collective(CollectiveKind::ReduceScatter, ranks, chunks),
    );
    for rank in 0..ranks {
        b.set_switch(Rank(rank), chunks);
        let slot = Slot::switch(Rank(rank), 0);
        let part = rank * chunks;
        let from: Vec<Slot> = (0..ranks).map(|it| Slot::input(Rank(it), part)).collect();
        let sum = in_switch_sum(&mut b, &from, slot, chunks);
        b.add_after(Transfer::copy(slot, Slot::output(Rank(rank), 0), chunks), &[sum]);
    }
    b.build()
}

/// The same program with one lane per rank, which runs the rank's events in transfer order.
/// Right for programs (all of the above) whose transfers are listed in an order they can have.
pub(crate) fn with_lanes(program: &Program) -> Program {
    let mut lanes: Vec<Lane> = (0..program.collective().ranks())
        .map(|rank| Lane {
            rank: Rank(rank),
            kind: LaneKind::Block,
            channel: 0,
            events: Vec::<Event>::new(),
        })
        .collect();
    for (index, transfer) in program.transfers().iter().enumerate() {
        let id = TransferId::from_index(index);
        lanes[transfer.src.rank.index()].events.push(id.sent());
        lanes[transfer.dst.rank.index()].events.push(id.arrived());
    }
    let mut b = program.to_builder();
    b.set_lanes(lanes);
    b.build()
}

/// A few of each, all right, with at most `ranks` ranks.
pub(crate) fn all(ranks: u32) -> Vec<Program> {
    let mut programs = Vec::new();
    for n in 2..=ranks {
        for chunks in [1, 3] {
            programs.extend([
                ring_all_gather(n, chunks),
                ring_reduce_scatter(n, chunks),
                ring_all_reduce(n, chunks),
                tree_broadcast(n, chunks),
                tree_reduce(n, chunks),
                tree_all_reduce(n, chunks),
                direct_all_to_all(n, chunks),
                direct_gather(n, chunks),
                direct_scatter(n, chunks),
                shift_send_recv(n, chunks),
            ]);
        }
        let counts = (0..n * n).map(|it| it % 3).collect();
        programs.push(direct_all_to_all_v(n, counts));
    }
    let laned: Vec<Program> = programs.iter().map(with_lanes).collect();
    programs.extend(laned);
    programs
}

/// Programs that have switches copy and reduce, all right, with at most `ranks` ranks. Not among
/// [`all`]: only networks with such switches run them.
pub(crate) fn in_switch(ranks: u32) -> Vec<Program> {
    let mut programs = Vec::new();
    for n in 2..=ranks {
        for chunks in [1, 3] {
            programs.extend([
                in_switch_all_reduce(n, chunks),
                in_switch_spread(n, chunks),
                in_switch_all_gather(n, chunks),
                in_switch_reduce_scatter(n, chunks),
            ]);
        }
    }
    let laned: Vec<Program> = programs.iter().map(with_lanes).collect();
    programs.extend(laned);
    programs
}

/// Whether a program moves nothing by reduction.
pub(crate) fn only_copies(program: &Program) -> bool {
    program.transfers().iter().all(|it| it.action == Action::Copy)
}

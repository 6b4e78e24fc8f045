//! Random right programs: the textbook ones, and trees and forwarding orders drawn at random,
//! with more waits than they need, numbered in an order in which they cannot run.

use motet_collective::{
    Collective, CollectiveKind, Event, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_net::{Metric, Network, Search, Transit};
use motet_units::{Rank, Stream};
use rand::RngExt;

use crate::programs;

/// A right program for at most as many ranks as the network has.
pub(crate) fn program(network: &Network, stream: &mut Stream) -> Program {
    let ranks = stream.random_range(2..=network.ranks().len().min(9) as u32);
    let chunks = stream.random_range(1..4);
    let program = match stream.random_range(0..14) {
        0 => programs::ring_all_gather(ranks, chunks),
        1 => programs::ring_reduce_scatter(ranks, chunks),
        2 => programs::ring_all_reduce(ranks, chunks),
        3 => programs::tree_all_reduce(ranks, chunks),
        4 => programs::direct_all_to_all(ranks, chunks),
        5 => programs::direct_gather(ranks, chunks),
        6 => programs::shift_send_recv(ranks, chunks),
        7 => {
            let counts = (0..ranks * ranks).map(|_| stream.random_range(0..4)).collect();
            programs::direct_all_to_all_v(ranks, counts)
        }
        8..=9 => reduce_tree(ranks, chunks, stream),
        10..=11 => gossip(ranks, chunks, stream),
        _ => return with_paths(shuffled(gossip(ranks, chunks, stream), stream), network, stream),
    };
    let program = match stream.random_range(0..3) {
        0 => programs::with_lanes(&program),
        1 => with_more_waits(program, stream),
        _ => program,
    };
    let program = if stream.random_range(0..2) == 0 { shuffled(program, stream) } else { program };
    if stream.random_range(0..2) == 0 { with_paths(program, network, stream) } else { program }
}

/// Reduce to rank 0 up a random tree, in place.
fn reduce_tree(ranks: u32, chunks: u32, stream: &mut Stream) -> Program {
    let it = Collective::rooted(CollectiveKind::Reduce, ranks, chunks, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("random reduce", it).forms(Forms::IN_PLACE);
    let mut into: Vec<Vec<TransferId>> = vec![Vec::new(); ranks as usize];
    for rank in (1..ranks).rev() {
        let parent = stream.random_range(0..rank);
        let transfer =
            Transfer::reduce(Slot::output(Rank(rank), 0), Slot::output(Rank(parent), 0), chunks);
        let id = b.add_after(transfer, &into[rank as usize].clone());
        if let Some(before) = into[parent as usize].last() {
            b.wait(id.arrived(), before.arrived());
        }
        into[parent as usize].push(id);
    }
    b.build()
}

/// AllGather where each chunk goes from anyone who has it to anyone who has not.
fn gossip(ranks: u32, chunks: u32, stream: &mut Stream) -> Program {
    let it = Collective::new(CollectiveKind::AllGather, ranks, chunks).unwrap();
    let mut b = ProgramBuilder::new("gossip", it);
    for rank in (0..ranks).map(Rank) {
        let own = Slot::output(rank, rank.0 * chunks);
        b.add(Transfer::copy(Slot::input(rank, 0), own, chunks));
    }
    let pieces = ranks * chunks;
    // Who has each piece, and by which transfer.
    let mut has: Vec<Vec<(u32, TransferId)>> =
        (0..pieces).map(|it| vec![(it / chunks, TransferId(it / chunks))]).collect();
    let mut lacking: Vec<(u32, u32)> = (0..pieces)
        .flat_map(|piece| (0..ranks).map(move |rank| (piece, rank)))
        .filter(|(piece, rank)| piece / chunks != *rank)
        .collect();
    while !lacking.is_empty() {
        let next = stream.random_range(0..lacking.len());
        let (piece, to) = lacking.swap_remove(next);
        let holders = &mut has[piece as usize];
        let (from, by) = holders[stream.random_range(0..holders.len())];
        let transfer =
            Transfer::copy(Slot::output(Rank(from), piece), Slot::output(Rank(to), piece), 1);
        holders.push((to, b.add_after(transfer, &[by])));
    }
    b.build()
}

/// Events wait for some that come before them by number, which changes no value.
fn with_more_waits(program: Program, stream: &mut Stream) -> Program {
    let events = program.transfers().len() * 2;
    if events == 0 {
        return program;
    }
    let mut b = program.to_builder();
    for _ in 0..stream.random_range(0..8) {
        let (x, y) = (stream.random_range(0..events), stream.random_range(0..events));
        if x != y {
            b.wait(Event::from_index(x.max(y)), Event::from_index(x.min(y)));
        }
    }
    b.build()
}

/// The same program with its transfers numbered at random.
fn shuffled(program: Program, stream: &mut Stream) -> Program {
    let count = program.transfers().len();
    let mut order: Vec<usize> = (0..count).collect();
    for index in (1..count).rev() {
        order.swap(index, stream.random_range(0..=index));
    }
    let mut number = vec![0; count];
    for (new, old) in order.iter().enumerate() {
        number[*old] = new;
    }
    let renamed =
        |event: Event| Event::from_index(number[event.transfer().index()] * 2 + event.index() % 2);
    let mut b = ProgramBuilder::new(program.name(), program.collective().clone())
        .forms(program.forms())
        .hints(*program.hints());
    for rank in (0..program.collective().ranks()).map(Rank) {
        b.set_scratch(rank, program.scratch_chunks(rank));
    }
    for old in &order {
        b.add(program.transfers()[*old]);
    }
    for event in (0..count * 2).map(Event::from_index) {
        for awaited in program.deps(event) {
            b.wait(renamed(event), renamed(*awaited));
        }
    }
    for lane in program.lanes() {
        let mut lane = lane.clone();
        lane.events = lane.events.into_iter().map(renamed).collect();
        b.add_lane(lane);
    }
    b.build()
}

/// Some transfers take ways of their own, also through GPUs.
fn with_paths(program: Program, network: &Network, stream: &mut Stream) -> Program {
    let mut b = program.to_builder();
    let search = Search::new(network, Metric::Latency).through(Transit::All);
    for index in 0..program.transfers().len() {
        let transfer = program.transfers()[index];
        if transfer.is_local() || stream.random_range(0..3) == 0 {
            continue;
        }
        let [from, to] =
            [transfer.src.rank, transfer.dst.rank].map(|it| network.ranks()[it.index()]);
        let ways = search.k_shortest(from, to, 3);
        let way = ways[stream.random_range(0..ways.len())].links().to_vec();
        let path = b.add_path(way);
        b.transfer_mut(TransferId::from_index(index)).path = Some(path);
    }
    b.build()
}

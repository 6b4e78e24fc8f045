//! One-sided programs as candidates for MSCCL++: every pattern on every number of thread blocks that may
//! pay, each a plan of its own. Which is best at a size is for the cost model to say.

use std::ops::RangeInclusive;

use motet_collective::CollectiveKind;
use motet_collective::formats::mscclpp_json::Options;
use motet_synth::one_sided::{Pattern, Shape};
use motet_units::Bytes;
use rayon::prelude::*;

use super::candidates::{ANY_SIZE, CandidateProgram, Ground, MscclppLayout, Origin};
use crate::calibrate::Entry;
use crate::layouts::Family;

/// Threads of a block: fewer start no faster, and carry less.
const THREADS: [u32; 2] = [512, 1024];

/// Slices of what goes over ports: each is a post of its own, and a proxy does one after the other.
const MOST_SLICES_OVER_PORTS: u32 = 8;

/// The most ranks: a thread block has 16 channels, one for each peer.
const MOST_RANKS: u32 = 17;

/// The candidates for a collective: all patterns where all ranks reach one another's memory; packets over ports
/// where they are in servers of one size.
pub(crate) fn candidates(ground: &Ground<'_>, kind: CollectiveKind) -> Vec<CandidateProgram> {
    let ranks = u32::try_from(ground.network.ranks().len()).unwrap_or(u32::MAX);
    if !(2..=MOST_RANKS).contains(&ranks) {
        return Vec::new();
    }
    let channel = ground.plan_options().channel;
    let gpus_per_server = channel.gpus_per_server(ranks);
    if gpus_per_server.is_none() && !channel.is_memory_only(ranks) {
        return Vec::new();
    }
    let in_place = ground.mscclpp.in_place;
    let entries: Vec<(Entry, RangeInclusive<Bytes>)> = THREADS
        .into_iter()
        .flat_map(|threads| {
            let most = ground.most_plan_blocks(threads);
            let shapes = shapes(kind, ranks, most, gpus_per_server.is_some());
            let entry = move |shape| {
                let shape = Shape { gpus_per_server, ..shape };
                Entry { kind, ranks, shape, in_place, threads }
            };
            let full = filling(kind, ranks, most).map(entry).filter(fills);
            let full = full.map(|it| (it, LEAST_FILLING..=*ANY_SIZE.end()));
            let calls = move |it: Shape| {
                let calls = match (it.apart, gpus_per_server) {
                    (true, None) => Bytes::ZERO..=largest_apart(ranks)?,
                    _ => ANY_SIZE,
                };
                Some((entry(it), calls))
            };
            shapes.into_iter().filter_map(calls).chain(full)
        })
        .filter(|it| it.0.is_possible())
        .collect();
    entries.par_iter().filter_map(|(it, calls)| candidate(ground, it, calls)).collect()
}

/// The shapes of at most so many thread blocks.
fn shapes(kind: CollectiveKind, ranks: u32, most: u32, over_ports: bool) -> Vec<Shape> {
    let most_slices = if over_ports { MOST_SLICES_OVER_PORTS } else { u32::MAX };
    let copies = matches!(kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
    let mut shapes = Vec::new();
    for pattern in Pattern::ALL.into_iter().filter(|it| it.does(kind)) {
        // A direct sum is one block's whatever it is asked for, and only packets are unpacked. What goes over
        // ports is not posted sooner by several blocks.
        let spreads = copies || pattern.has_packets();
        let peers: &[u32] =
            if ranks > 2 && spreads && !over_ports { &[ranks - 1, 1] } else { &[ranks - 1] };
        let apart: &[bool] = if pattern.has_packets() { &[false, true] } else { &[false] };
        for (peers_per_block, apart) in
            peers.iter().flat_map(|it| apart.iter().map(move |a| (*it, *a)))
        {
            let gpus_per_server = None;
            let shape = |slices| Shape { pattern, slices, peers_per_block, apart, gpus_per_server };
            let all = most_slices.min(most / shape(1).blocks(kind, ranks).max(1));
            // Powers of two, as the model was fitted to them (`calibrate::sweep`).
            shapes.extend((0..32).map(|it| 1u32 << it).take_while(|it| *it <= all).map(shape));
        }
    }
    shapes
}

/// The shape of a direct plan with as many slices as the GPU holds, where one block serves all peers of a slice.
fn filling(kind: CollectiveKind, ranks: u32, most: u32) -> Option<Shape> {
    let one = Shape {
        pattern: Pattern::Direct,
        slices: 1,
        peers_per_block: ranks - 1,
        apart: false,
        gpus_per_server: None,
    };
    let slices = most / one.blocks(kind, ranks).max(1);
    (Pattern::Direct.does(kind) && slices > 0).then_some(Shape { slices, ..one })
}

/// The smallest call for which plans with as many slices as the GPU holds are considered; smaller ones were not
/// measured.
const LEAST_FILLING: Bytes = Bytes::mib(16);

/// Whether an entry with as many slices as the GPU holds is worth a look beside powers of two. Large blocks
/// that fill the GPU keep more data under way: with 15 slices instead of 8 on each of 8 ranks, or 30 instead
/// of 16 on 4, copies and sums of 16 MiB and more took about a tenth less. But slices that are no power of
/// two begin in the middle of cache lines: on 2 ranks, and where sums are sent on as well (`DirectTwice`),
/// calls took up to a quarter more. AllGather in place is faster with a block for each peer.
fn fills(entry: &Entry) -> bool {
    let slices = entry.shape.slices;
    let power = 1 << slices.checked_ilog2().unwrap_or(0);
    entry.ranks > 2
        && entry.threads == THREADS[1]
        && slices > power + power / 8
        && !(entry.kind == CollectiveKind::AllGather && entry.in_place)
}

/// The largest call for which it is worth a look that packets within a server are unpacked by other blocks than
/// those that send. In small calls of few ranks that took less time, up to a fifth on 2 ranks and 8% on 4. In
/// larger ones, and on 8 ranks in all, it took more (2 to 8% up to 256 KiB), which the model does not see: it has
/// no term for blocks that wait for packets while others write. `None`: for none.
const fn largest_apart(ranks: u32) -> Option<Bytes> {
    match ranks {
        0..=2 => Some(Bytes::kib(256)),
        3..=4 => Some(Bytes::kib(64)),
        _ => None,
    }
}

/// An entry as a plan; `None` if the executor cannot run it as it is.
fn candidate(
    ground: &Ground<'_>,
    entry: &Entry,
    calls: &RangeInclusive<Bytes>,
) -> Option<CandidateProgram> {
    let program = entry.program()?;
    let options = Options { threads_per_block: entry.threads, ..ground.plan_options() };
    let terms = &ground.mscclpp.terms;
    let plan = MscclppLayout::new(&program, ground.network, &options, terms).ok()?;
    // What does not fit is laid out anew, on other blocks than the shape says.
    if plan.blocks() != entry.blocks() {
        return None;
    }
    let about = entry.shape.pattern.about();
    let ports = entry.shape.gpus_per_server.map_or("", |_| ", over ports between servers");
    Some(CandidateProgram {
        name: entry.to_string(),
        origin: Origin::OneSided,
        about: format!("one-sided: {about}{ports}, {} thread blocks", plan.blocks()),
        program,
        family: Family { layouts: Vec::new(), stopped_by: Some("is for MSCCL++".to_owned()) },
        plans: vec![plan.for_calls_of(calls.clone())],
        plain: None,
    })
}

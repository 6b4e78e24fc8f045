//! One-sided programs as candidates for MSCCL++: every pattern on every number of thread blocks that may
//! pay, each a plan of its own. Which is best at a size is for the cost model to say.

use motet_collective::formats::mscclpp_json::Options;
use motet_collective::program::Forms;
use motet_collective::{CollectiveKind, Verified};
use motet_synth::one_sided::{Pattern, Shape, program};

use super::candidates::{CandidateProgram, Ground, MscclppLayout, Origin};
use crate::layouts::Family;

/// Threads of a block: fewer start no faster, and carry less.
const THREADS: [u32; 2] = [512, 1024];

/// The most ranks: a thread block has 16 channels, one for each peer.
const MOST_RANKS: u32 = 17;

/// The candidates for a collective; none unless all ranks reach one another's memory.
pub(super) fn candidates(ground: &Ground<'_>, kind: CollectiveKind) -> Vec<CandidateProgram> {
    let ranks = u32::try_from(ground.network.ranks().len()).unwrap_or(u32::MAX);
    if !(2..=MOST_RANKS).contains(&ranks) || !ground.mscclpp().channel.is_memory_only(ranks) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for threads in THREADS {
        for shape in shapes(kind, ranks, ground.most_plan_blocks(threads)) {
            found.extend(candidate(ground, kind, ranks, shape, threads));
        }
    }
    found
}

/// The shapes of at most so many thread blocks.
fn shapes(kind: CollectiveKind, ranks: u32, most: u32) -> Vec<Shape> {
    let copies = matches!(kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
    let mut shapes = Vec::new();
    for pattern in Pattern::ALL.into_iter().filter(|it| it.does(kind)) {
        let unpacks = pattern.has_packets();
        for (peers_per_block, apart) in
            [(ranks - 1, false), (1, false), (ranks - 1, true), (1, true)]
        {
            let split = peers_per_block == 1 && ranks > 2;
            if split && !copies && !pattern.has_packets() || apart && !unpacks {
                continue;
            }
            if peers_per_block == 1 && !split && ranks > 2 {
                continue;
            }
            let one = Shape { pattern, slices: 1, peers_per_block, apart }.blocks(kind, ranks);
            let powers = (0..).map(|it| 1u32 << it).take_while(|it| it * one <= most);
            let all = most / one;
            let slices = powers.chain((all > 0 && !all.is_power_of_two()).then_some(all));
            shapes.extend(slices.map(|slices| Shape { pattern, slices, peers_per_block, apart }));
        }
    }
    shapes.sort();
    shapes.dedup();
    shapes
}

/// One shape as a plan; `None` if the executor cannot run it as it is.
fn candidate(
    ground: &Ground<'_>,
    kind: CollectiveKind,
    ranks: u32,
    shape: Shape,
    threads: u32,
) -> Option<CandidateProgram> {
    let made = program(kind, ranks, Forms::OUT_OF_PLACE, shape).ok()?;
    let program = Verified::new(made, None).ok()?;
    let options = Options { threads_per_block: threads, ..ground.mscclpp() };
    let plan = MscclppLayout::new(&program, ground.network, &options).ok()?;
    // What does not fit is laid out anew, on other blocks than the shape says.
    if plan.blocks() != shape.blocks(kind, ranks) {
        return None;
    }
    let Shape { pattern, slices, peers_per_block, apart } = shape;
    let apart = if apart { "a" } else { "" };
    Some(CandidateProgram {
        name: format!("{kind}-{}-s{slices}-p{peers_per_block}{apart}-t{threads}", pattern.name()),
        origin: Origin::Made,
        about: format!("one-sided: {}, {} thread blocks", pattern.about(), plan.blocks()),
        program,
        family: Family { layouts: Vec::new(), stopped_by: Some("is for MSCCL++".to_owned()) },
        plans: vec![plan],
        plain: None,
    })
}

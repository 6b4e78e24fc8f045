//! The tasks whose surfaces searchers are judged on, and how a surface is recorded.
//!
//! Some are for choosing constants of searchers by, the others for judging only: what is tuned on
//! a surface proves nothing there.

use std::error::Error;
use std::fmt::Write as _;

use motet_collective::{CollectiveKind, Verified};
use motet_net::builders::{Params, find};
use motet_synth::{Effort, Goal, Task, synthesize};
use motet_tune::layouts::Family;
use motet_tune::plan::Setup;
use motet_tune::plan::make::Nccl;
use motet_tune::profile::{Recorded, Simulated, Surface};
use motet_tune::space::{KnobLimits, KnobSpace};
use motet_units::{Bytes, Seed};

pub(crate) struct Surveyed {
    pub(crate) name: &'static str,
    /// A template, its words, and the methods that make the programs.
    template: (&'static str, &'static str),
    kind: CollectiveKind,
    size: u64,
    methods: &'static [&'static str],
    /// Whether constants may be chosen by it.
    pub(crate) chosen_by: bool,
}

const fn task(
    name: &'static str,
    template: (&'static str, &'static str),
    kind: CollectiveKind,
    size: u64,
    methods: &'static [&'static str],
) -> Surveyed {
    Surveyed { name, template, kind, size, methods, chosen_by: false }
}

impl Surveyed {
    const fn chosen_by(mut self) -> Self {
        self.chosen_by = true;
        self
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const A100: (&str, &str) = ("dgx-a100", "count=2");
const V100: (&str, &str) = ("dgx-1", "count=2");
const H100: (&str, &str) = ("dgx-h100", "count=1");

use CollectiveKind::{AllGather, AllReduce, ReduceScatter};

pub(crate) static TASKS: [Surveyed; 17] = [
    task("a100x2-ar-64k", A100, AllReduce, 64 * KIB, &["ring"]).chosen_by(),
    task("a100x2-ar-4m", A100, AllReduce, 4 * MIB, &["ring"]).chosen_by(),
    task("a100x2-ar-256m", A100, AllReduce, 256 * MIB, &["hierarchical"]).chosen_by(),
    task("v100x2-ag-1m", V100, AllGather, MIB, &["ring"]).chosen_by(),
    task("h100-rs-16m", H100, ReduceScatter, 16 * MIB, &["direct"]).chosen_by(),
    task(
        "a100x2-ar-16m-joint",
        A100,
        AllReduce,
        16 * MIB,
        &["ring", "double-tree", "hierarchical", "nccl-ring"],
    )
    .chosen_by(),
    task("a100x2-ar-1k", A100, AllReduce, KIB, &["double-tree"]),
    task("a100x2-ar-1m-tree", A100, AllReduce, MIB, &["double-tree"]),
    task("a100x2-ar-64m", A100, AllReduce, 64 * MIB, &["ring"]),
    task("a100x2-ag-1g", A100, AllGather, 1024 * MIB, &["hierarchical"]),
    task("v100x2-ar-64k", V100, AllReduce, 64 * KIB, &["ring"]),
    task("v100x2-ar-4m", V100, AllReduce, 4 * MIB, &["ring"]),
    task("v100x2-ar-256m", V100, AllReduce, 256 * MIB, &["ring"]),
    task(
        "v100x2-ag-8m-joint",
        V100,
        AllGather,
        8 * MIB,
        &["ring", "pat", "recursive-doubling", "hierarchical"],
    ),
    // These were added when every choice had been made, the default method included.
    task("a100x2-rs-32m", A100, ReduceScatter, 32 * MIB, &["ring"]),
    task("h100-ar-2m-joint", H100, AllReduce, 2 * MIB, &["ring", "direct", "recursive-halving"]),
    task(
        "v100x2-ar-512k-joint",
        V100,
        AllReduce,
        512 * KIB,
        &["ring", "recursive-doubling", "pat"],
    ),
];

/// A surface and the space it is over.
pub(crate) struct Made {
    pub(crate) knobs: KnobSpace,
    pub(crate) recorded: Recorded,
    /// Methods whose programs no runtime can load, and why.
    pub(crate) left_out: Vec<String>,
}

/// An error if no runtime can load any of the task's programs.
pub(crate) fn record(task: &Surveyed) -> Result<Made, Box<dyn Error>> {
    let (template, words) = task.template;
    let template = find(template)?;
    let network = template.build(&Params::from_words(words.split_whitespace())?)?;
    let kernels = Nccl::new(&network, Setup::default()).kernels;
    let ranks = u32::try_from(network.ranks().len())?;
    let (mut programs, mut left_out) = (Vec::new(), Vec::new());
    for method in task.methods {
        let asked = Task::new(&network, Goal::new(task.kind, ranks)?, Bytes::new(task.size));
        let draft = synthesize(&asked, method.parse()?, &Effort::unlimited(Seed::new(0)))?;
        let program = Verified::new(draft.program, None).map_err(|_| "not a right program")?;
        match Family::new(&program, &network, &kernels, kernels.resident_blocks()) {
            Ok(family) => programs.push(family),
            Err(error) => left_out.push(format!("{method}: {error}")),
        }
    }
    if programs.is_empty() {
        return Err(left_out.join("; ").into());
    }
    let own: Vec<u32> = programs.iter().map(Family::channels).collect();
    let knobs = KnobSpace::new(&own, KnobLimits::default())?;
    let simulated = Simulated::new(&knobs, &programs, Bytes::new(task.size));
    let recorded = Recorded::of(&simulated, knobs.space().len());
    Ok(Made { knobs, recorded, left_out })
}

/// One line per point: its knobs, its restart group and its time, empty if it cannot run.
pub(crate) fn csv(made: &Made) -> String {
    let mut text = String::from("point,program,protocol,channels,threads,buffer,time_ps\n");
    for point in 0..made.knobs.space().len() {
        let (program, knobs) = made.knobs.read(point);
        let time = made.recorded.time(point).map_or(String::new(), |it| it.as_ps().to_string());
        let (channels, threads) = (knobs.channels.unwrap_or(0), knobs.threads.unwrap_or(0));
        let buffer = knobs.buffer.unwrap_or_default().get();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{point},{program},{},{channels},{threads},{buffer},{time}",
            knobs.protocol.name()
        );
    }
    text
}

//! [`candidates`]: the programs that a plan may choose from, for one collective on one network.
//!
//! - Textbook algorithms: ring, double tree, recursive doubling and so on.
//! - What the synthesizer makes for a small and a large size under every sketch of the network.
//!
//! A candidate is a program that a runtime can load: MSCCL, in as many instances as fit the thread
//! blocks that it may have, or MSCCL++. What neither takes is left out, by name and with the reason. NCCL's own rings
//! and trees are not among them: NCCL runs those itself ([`baseline`](super::baseline)).

use std::sync::Arc;

use motet_collective::formats::mscclpp_json;
use motet_collective::program::Hints;
use motet_collective::{CollectiveKind, Program, Verified};
use motet_nccl::Basis;
use motet_nccl::kernel::{Kernels, Laid};
use motet_net::Network;
use motet_sim::{Routed, SwitchForwarding};
use motet_synth::{Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Duration, Rank, Seed};

use super::{Pick, Runtime};
use crate::layouts::{ELEMENT, Family, Layout};
use crate::sketch;

/// How programs are made, and for which sizes; all of them where every link may be used.
const MADE_BY: [(Method, Bytes); 5] = [
    (Method::Forest, Bytes::gib(1)),
    (Method::Forest, Bytes::kib(256)),
    (Method::Packing, Bytes::gib(1)),
    (Method::Greedy, Bytes::kib(256)),
    (Method::Symmetric, Bytes::kib(256)),
];

/// How many of [`MADE_BY`] are used under every other sketch.
const UNDER_SKETCHES: usize = 2;

/// Most transfers of a program: runtimes have few steps for each thread block.
const MOST_TRANSFERS: u64 = 2048;

/// Textbook methods whose programs are worth timing as they are.
const TEXTBOOK: [&str; 8] = [
    "hierarchical",
    "ring",
    "rings",
    "double-tree",
    "pat",
    "recursive-doubling",
    "recursive-halving",
    "bruck",
];

/// A size so small that only latency counts.
const LITTLE: Bytes = Bytes::kib(1);

/// The method that sends straight from every rank to every other: what a synthesizer does whose sketch
/// allows every connection.
const FULL_MESH: &str = "direct";

/// Where a candidate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Everyone to everyone: what plans are compared with.
    FullMesh,
    /// One of our programs.
    Made,
}

/// A program for a collective, with all layouts in which a runtime could run it.
#[derive(Clone, Debug)]
pub struct CandidateProgram {
    /// Also the stem of its files.
    pub name: String,
    pub origin: Origin,
    /// How it was made.
    pub about: String,
    /// As made, before any runtime's layout.
    pub program: Verified<Program>,
    /// For MSCCL; without layouts where it takes none.
    pub family: Family,
    /// For MSCCL++.
    pub plans: Vec<MscclppLayout>,
    /// One instance for MSCCL, however many thread blocks that takes: the default that plans are
    /// compared with.
    pub plain: Option<Layout>,
}

/// A program laid out as an execution plan of MSCCL++.
#[derive(Clone, Debug)]
pub struct MscclppLayout {
    pub instances: u32,
    /// As read back from the plan.
    pub program: Verified<Program>,
    pub laid: Laid,
    options: mscclpp_json::Options,
}

/// A plan's sizes are multiples of so many bytes for each chunk.
const ALIGNMENT: u64 = 16;

impl MscclppLayout {
    fn new(
        program: &Verified<Program>,
        network: &Network,
        kernels: &Arc<Kernels>,
        options: &mscclpp_json::Options,
    ) -> Result<Self, String> {
        let first = |it: String| it.lines().next().unwrap_or_default().to_owned();
        let text = mscclpp_json::write(program, options).map_err(|it| first(it.to_string()))?;
        Self::read(&text, network, kernels, options.instances)
    }

    /// From a plan's text.
    pub fn read(
        text: &str,
        network: &Network,
        kernels: &Arc<Kernels>,
        instances: u32,
    ) -> Result<Self, String> {
        let first = |it: String| it.lines().next().unwrap_or_default().to_owned();
        let read = mscclpp_json::read(text).map_err(|it| it.to_string())?;
        let program = read.verify(None).map_err(|it| first(it.report.to_string()))?;
        let routed = Routed::new(&program, network, SwitchForwarding::CutThrough)
            .map_err(|it| it.to_string())?;
        let laid = Laid::new(&routed, Arc::clone(kernels)).map_err(|it| it.to_string())?;
        Ok(Self { instances, program, laid, options: plus_options(network) })
    }

    /// Whether the executor takes the plan for a call of this size.
    #[must_use]
    pub fn divides(&self, size: Bytes) -> bool {
        let parts = u64::from(self.program.collective().size_chunks());
        size.get().is_multiple_of(ALIGNMENT.max(ELEMENT) * parts)
    }

    /// The plan for calls of a range of sizes.
    pub fn file(&self, name: &str, least: Bytes, most: Option<Bytes>) -> Result<String, String> {
        let first = |it: String| it.lines().next().unwrap_or_default().to_owned();
        let hints = Hints { min_size: least, max_size: most, ..*self.program.hints() };
        let named = self.program.to_builder().hints(hints).named(name).build();
        let proved = Verified::new(named, None).map_err(|it| first(it.report.to_string()))?;
        mscclpp_json::write(&proved, &self.options).map_err(|it| first(it.to_string()))
    }

    pub(super) fn pick(&self, way: &CandidateProgram, time: Duration) -> Pick {
        let blocks = self.laid.blocks().1;
        Pick {
            runtime: Runtime::Mscclpp,
            way: way.name.clone(),
            algorithm: None,
            protocol: self.laid.protocol(),
            channels: blocks,
            asked: false,
            instances: self.instances,
            packed: false,
            blocks,
            time_ps: time.as_ps(),
            basis: Basis::Kernels,
        }
    }
}

/// The candidates of a collective, and what was left out and why.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    pub candidates: Vec<CandidateProgram>,
    pub left_out: Vec<(String, String)>,
}

/// What candidates are made for: a network, and the limits they must keep.
#[derive(Clone, Debug)]
pub struct Ground<'a> {
    pub network: &'a Network,
    pub kernels: Arc<Kernels>,
    /// The most thread blocks of a program on a GPU.
    pub most_blocks: u32,
    pub seed: Seed,
}

/// Every candidate for `kind` over all ranks of the network, under each of its sketches. `making` is
/// told the name of each before it is made.
pub fn candidates(
    ground: &Ground<'_>,
    kind: CollectiveKind,
    sketches: &[sketch::Candidate],
    making: &(dyn Fn(&str) + Sync),
) -> Result<Candidates, SynthError> {
    let network = ground.network;
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let goal = Goal::rooted(kind, ranks, Rank(0))?;
    let task = |size| Task::new(network, goal.clone(), size);
    // Runtimes cut chunks themselves and run the cuts one behind the other; a program that is cut
    // already would pay for every cut, however little there is to send.
    let whole = |size| Task { most_transfers: 0, ..task(size) };
    let mut made = Maker { ground, making, found: Candidates::default() };
    let named = |name: &str| name.parse::<Method>().ok().filter(|it| it.does(kind));
    // Reduce has no direct method; the least that everyone supports stands in for it.
    if let Some(method) = named(FULL_MESH).or_else(|| named("binomial")) {
        let name = format!("{kind}-{}", method.name());
        made.add(name.clone(), Origin::FullMesh, &whole(Bytes::mib(4)), method);
        // Where there is little to send, an AllReduce in one shot is better than in two.
        made.add(format!("{name}-{}", short(LITTLE)), Origin::FullMesh, &whole(LITTLE), method);
    }
    for method in TEXTBOOK.into_iter().filter_map(named) {
        made.add(format!("{kind}-{}", method.name()), Origin::Made, &whole(Bytes::mib(4)), method);
    }
    // The textbook's best, also cut by us.
    if let Some(method) = named("hierarchical") {
        let task = task(Bytes::mib(4));
        let name = format!("{kind}-{}-{}", method.name(), short(task.size));
        made.add(name, Origin::Made, &task, method);
    }
    for (number, sketch) in sketches.iter().enumerate() {
        let methods = if number == 0 { &MADE_BY[..] } else { &MADE_BY[..UNDER_SKETCHES] };
        for (method, size) in methods.iter().filter(|it| it.0.does(kind)) {
            let task = Task { allowed: sketch.sketch.allowed_for(*size), ..task(*size) };
            let name = format!("{kind}-{}-{}-{}", sketch.name, method.name(), short(*size));
            made.add(name, Origin::Made, &task, *method);
        }
    }
    Ok(made.found)
}

/// "32k", "4m", "1g".
pub(super) fn short(size: Bytes) -> String {
    let bytes = size.get();
    match bytes.trailing_zeros() / 10 {
        0 => bytes.to_string(),
        1 => format!("{}k", bytes >> 10),
        2 => format!("{}m", bytes >> 20),
        _ => format!("{}g", bytes >> 30),
    }
}

struct Maker<'a> {
    ground: &'a Ground<'a>,
    making: &'a (dyn Fn(&str) + Sync),
    found: Candidates,
}

impl Maker<'_> {
    /// Adds what a method makes, unless it cannot, no runtime takes it, or it is there already.
    fn add(&mut self, name: String, origin: Origin, task: &Task<'_>, method: Method) {
        (self.making)(&name);
        match self.make(&name, origin, task, method) {
            Ok(Some(way)) => self.found.candidates.push(way),
            Ok(None) => {}
            Err(why) => self.found.left_out.push((name, why)),
        }
    }

    fn make(
        &self,
        name: &str,
        origin: Origin,
        task: &Task<'_>,
        method: Method,
    ) -> Result<Option<CandidateProgram>, String> {
        let Ground { network, kernels, most_blocks, seed } = self.ground;
        let effort = Effort { most_transfers: MOST_TRANSFERS, ..Effort::unlimited(*seed) };
        let task = task.clone().by_numbers();
        let draft = synthesize(&task, method, &effort).map_err(|it| it.to_string())?;
        let about = draft.explanation.clone();
        let program = draft.prove(&task).map_err(|it| it.to_string())?.program;
        let same = |it: &CandidateProgram| {
            (origin == Origin::Made || it.origin == origin)
                && it.program.transfers() == program.transfers()
        };
        if self.found.candidates.iter().any(same) {
            return Ok(None);
        }
        let family = Family::new(&program, network, kernels, *most_blocks);
        let plans = plans(self.ground, &program);
        // What everything is compared with is kept even if it is too large to be picked.
        let needed = origin == Origin::FullMesh;
        match (family, plans.is_empty() && !needed) {
            (Err(why), true) => Err(why),
            (family, _) => {
                let family = family
                    .unwrap_or_else(|why| Family { layouts: Vec::new(), stopped_by: Some(why) });
                let name = name.to_owned();
                let plain = Layout::new(&program, network, kernels, (1, false)).ok();
                Ok(Some(CandidateProgram { name, origin, about, program, family, plans, plain }))
            }
        }
    }
}

/// How plans are written for a network, in one instance.
fn plus_options(network: &Network) -> mscclpp_json::Options {
    let channel = mscclpp_json::Channel::on(network);
    mscclpp_json::Options { channel, ..mscclpp_json::Options::default() }
}

/// A program as plans of MSCCL++, in every power of two of instances that fits.
fn plans(ground: &Ground<'_>, program: &Verified<Program>) -> Vec<MscclppLayout> {
    let Ground { network, kernels, most_blocks, .. } = ground;
    let most = (*most_blocks).min(kernels.resident_blocks());
    let mut plans: Vec<MscclppLayout> = Vec::new();
    let mut instances = 1;
    while plans.first().is_none_or(|it| it.laid.blocks().1.saturating_mul(instances) <= most) {
        let options = mscclpp_json::Options { instances, ..plus_options(network) };
        match MscclppLayout::new(program, network, kernels, &options) {
            Ok(plan) if plan.laid.blocks().1 <= most => plans.push(plan),
            _ => break,
        }
        instances *= 2;
    }
    plans
}

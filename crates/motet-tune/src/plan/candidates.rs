//! [`candidates`]: the programs that a plan may choose from, for one collective on one network.
//!
//! - Textbook algorithms: ring, double tree, recursive doubling and so on.
//! - What the synthesizer makes for a small and a large size under every sketch of the network.
//! - Where all GPUs reach one another's memory, or ports join servers of one size, one-sided programs for
//!   MSCCL++ in many shapes ([`one_sided`]).
//!
//! A candidate is a program that a runtime can load: MSCCL, in as many instances as fit the thread
//! blocks that it may have, or MSCCL++. What neither takes is left out, by name and with the reason. NCCL's own rings
//! and trees are not among them: NCCL runs those itself ([`baseline`](super::baseline)).

use std::ops::RangeInclusive;
use std::sync::Arc;

use motet_collective::formats::mscclpp_json;
use motet_collective::program::Hints;
use motet_collective::{CollectiveKind, Program, Verified};
use motet_nccl::Basis;
use motet_nccl::kernel::Kernels;
use motet_nccl::mscclpp::{PlanCost, PlanTerms, Sharing};
use motet_net::Network;
use motet_synth::{Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Duration, Rank, Seed};

use super::{Pick, Runtime, one_sided};
use crate::layouts::{Family, Layout};
use crate::sketch;

/// Calls of all sizes.
pub(super) const ANY_SIZE: RangeInclusive<Bytes> = Bytes::ZERO..=Bytes::new(u64::MAX);

/// Methods, each with the size that its program is made for. All are used under the first sketch, which allows every
/// link unless the user has given one.
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
const TEXTBOOK: [&str; 10] = [
    "hierarchical",
    "exchanged",
    "ring",
    "rings",
    "double-tree",
    "binomial",
    "pat",
    "recursive-doubling",
    "recursive-halving",
    "bruck",
];

/// A size so small that only latency counts.
const LITTLE: Bytes = Bytes::kib(1);

/// The method that sends directly from every rank to every other: what a synthesizer does if its sketch allows every
/// connection.
const FULL_MESH: &str = "direct";

/// Where a candidate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Sends directly from everyone to everyone: what plans are compared with.
    FullMesh,
    /// One of our programs.
    Made,
    /// A one-sided program for MSCCL++: what the model of its kernels was fitted to.
    OneSided,
}

/// A program for a collective, with all layouts in which a runtime could run it.
#[derive(Clone, Debug)]
pub struct CandidateProgram {
    /// Also the stem of its files.
    pub name: String,
    pub origin: Origin,
    /// How it was made, for people.
    pub about: String,
    /// The program as made, before it was laid out for a runtime.
    pub program: Verified<Program>,
    /// Its layouts for MSCCL; none if MSCCL cannot load it.
    pub family: Family,
    /// Its layouts for MSCCL++; none if MSCCL++ cannot load it.
    pub plans: Vec<MscclppLayout>,
    /// One instance for MSCCL, however many thread blocks that takes: the default that plans are
    /// compared with.
    pub plain: Option<Layout>,
}

/// A program laid out as an execution plan of MSCCL++.
#[derive(Clone, Debug)]
pub struct MscclppLayout {
    pub instances: u32,
    /// The program as read back from the plan.
    pub program: Verified<Program>,
    pub cost: PlanCost,
    terms: PlanTerms,
    options: mscclpp_json::Options,
    /// The calls that it is considered for, from the smallest to the largest.
    calls: RangeInclusive<Bytes>,
}

impl MscclppLayout {
    pub(crate) fn new(
        program: &Verified<Program>,
        network: &Network,
        options: &mscclpp_json::Options,
        terms: &PlanTerms,
    ) -> Result<Self, String> {
        let text =
            mscclpp_json::write(program, options).map_err(|it| first_line(&it.to_string()))?;
        Self::read(&text, network, options, terms)
    }

    /// Reads a layout from a plan's text; `options` are those it was written with, `terms` those it is priced by.
    pub fn read(
        text: &str,
        network: &Network,
        options: &mscclpp_json::Options,
        terms: &PlanTerms,
    ) -> Result<Self, String> {
        let read = mscclpp_json::read(text).map_err(|it| it.to_string())?;
        let program = read.verify(None).map_err(|it| first_line(&it.report.to_string()))?;
        let sharing = Sharing { ranks_per_gpu: options.gpu.ranks };
        let cost = PlanCost::on_network(text, &program, network, sharing)?;
        // A program that is wrong in one form is written for the other.
        if cost.outline.in_place != options.in_place {
            let form = if options.in_place { "in place" } else { "out of place" };
            return Err(format!("is not for calls {form}"));
        }
        let threads_per_block = cost.outline.threads;
        let options = mscclpp_json::Options { threads_per_block, ..options.clone() };
        let (instances, terms) = (options.instances, *terms);
        Ok(Self { instances, program, cost, terms, options, calls: ANY_SIZE })
    }

    /// The same for calls of these sizes alone.
    pub(crate) fn for_calls_of(self, calls: RangeInclusive<Bytes>) -> Self {
        Self { calls, ..self }
    }

    /// Whether the plan is for calls of this size, and the executor takes it.
    #[must_use]
    pub fn takes(&self, size: Bytes) -> bool {
        self.calls.contains(&size) && self.cost.outline.takes(size)
    }

    /// How long a call takes.
    #[must_use]
    pub fn time(&self, size: Bytes) -> Option<Duration> {
        self.cost.price(size, &self.terms)
    }

    /// Thread blocks of the rank that has most.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.cost.outline.most_blocks()
    }

    /// The plan for calls of a range of sizes.
    pub fn file(&self, name: &str, least: Bytes, most: Option<Bytes>) -> Result<String, String> {
        let hints = Hints { min_size: least, max_size: most, ..*self.program.hints() };
        let named = self.program.to_builder().hints(hints).named(name).build();
        let proved = Verified::new(named, None).map_err(|it| first_line(&it.report.to_string()))?;
        let options = mscclpp_json::Options { instances: 1, ..self.options.clone() };
        mscclpp_json::write(&proved, &options).map_err(|it| first_line(&it.to_string()))
    }

    pub(super) fn pick(&self, way: &CandidateProgram, time: Duration) -> Pick {
        let blocks = self.blocks();
        Pick {
            runtime: Runtime::Mscclpp,
            way: way.name.clone(),
            algorithm: None,
            protocol: self.program.hints().protocol,
            channels: blocks,
            asked: false,
            instances: self.instances,
            packed: false,
            blocks,
            time_ps: time.as_ps(),
            basis: Basis::Fitted,
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
    pub mscclpp: MscclppUse,
    /// The only runtime that programs are made for; `None`: all.
    pub runtime: Option<Runtime>,
    pub seed: Seed,
}

/// How the job calls plans of MSCCL++, and the terms that they are priced by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MscclppUse {
    /// Ranks that share a GPU.
    pub ranks_per_gpu: u32,
    /// Whether calls are in place: input and output are one buffer, or one is a part of the other.
    pub in_place: bool,
    pub terms: PlanTerms,
}

impl Default for MscclppUse {
    /// A GPU for each rank, calls out of place, an H200's terms.
    fn default() -> Self {
        Self { ranks_per_gpu: 1, in_place: false, terms: PlanTerms::H200 }
    }
}

impl MscclppUse {
    /// How plans are written, in one instance, for a network whose GPUs have this many multiprocessors.
    #[must_use]
    pub fn options(&self, network: &Network, multiprocessors: u32) -> mscclpp_json::Options {
        let gpu = mscclpp_json::Gpu { multiprocessors, ranks: self.ranks_per_gpu };
        let channel = mscclpp_json::Channel::on(network);
        mscclpp_json::Options {
            channel,
            gpu,
            in_place: self.in_place,
            ..mscclpp_json::Options::default()
        }
    }
}

impl Ground<'_> {
    /// How plans of MSCCL++ are written here, in one instance.
    #[must_use]
    pub fn plan_options(&self) -> mscclpp_json::Options {
        self.mscclpp.options(self.network, self.kernels.resident_blocks())
    }

    /// The most thread blocks of a plan of MSCCL++ whose blocks have so many threads.
    #[must_use]
    pub fn most_plan_blocks(&self, threads: u32) -> u32 {
        self.most_blocks.min(self.plan_options().gpu.blocks(threads))
    }
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
    if ground.runtime.is_none_or(|it| it == Runtime::Mscclpp) {
        made.found.candidates = one_sided::candidates(ground, kind);
    }
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

/// A size as it stands in names, such as `32k`, `4m` or `1g`.
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
        let Ground { network, kernels, most_blocks, seed, runtime, .. } = self.ground;
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
        let family = match runtime {
            Some(Runtime::Mscclpp) => Err("the plan is for MSCCL++ alone".to_owned()),
            _ => Family::new(&program, network, kernels, *most_blocks),
        };
        let plans = match runtime {
            Some(Runtime::Msccl) => Vec::new(),
            _ => plans(self.ground, &program),
        };
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

/// A program as plans of MSCCL++, in every power of two of instances that fits.
fn plans(ground: &Ground<'_>, program: &Verified<Program>) -> Vec<MscclppLayout> {
    let one = ground.plan_options();
    let most = ground.most_plan_blocks(one.threads_per_block);
    let mut plans: Vec<MscclppLayout> = Vec::new();
    let mut instances = 1;
    while plans.first().is_none_or(|it| it.blocks().saturating_mul(instances) <= most) {
        let options = mscclpp_json::Options { instances, ..one.clone() };
        match MscclppLayout::new(program, ground.network, &options, &ground.mscclpp.terms) {
            Ok(plan) if plan.blocks() <= most => plans.push(plan),
            _ => break,
        }
        instances *= 2;
    }
    plans
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

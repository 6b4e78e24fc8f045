//! [`ways`]: everything that a plan may choose from for one collective on one network.
//!
//! - What NCCL would build itself: its rings, its trees, its parallel aggregated trees.
//! - The textbook.
//! - What the synthesizer makes for a small and a large size under every sketch.
//!
//! A way that is not NCCL's own must be one that a runtime can load, MSCCL or MSCCL++; what neither
//! takes is left out, by name. All are compiled once for any knobs.

use motet_collective::formats::{msccl_xml, mscclpp_json};
use motet_collective::{CollectiveKind, Program, Verified};
use motet_nccl::Knobbed;
use motet_nccl::{Algorithm, KnobModel};
use motet_net::Network;
use motet_sim::{Routed, SwitchForwarding};
use motet_synth::{Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Rank, Seed};

use crate::sketch;

/// How programs are made, and for which sizes; all of them where every link may be used.
const MADE_BY: [(Method, Bytes); 5] = [
    (Method::Forest, Bytes::gib(1)),
    (Method::Forest, Bytes::kib(256)),
    (Method::Packing, Bytes::gib(1)),
    (Method::Greedy, Bytes::kib(256)),
    (Method::Symmetric, Bytes::kib(256)),
];

/// So many of them under every sketch.
const UNDER_SKETCHES: usize = 2;

/// Most transfers of a program: runtimes have few steps for each thread block.
const MOST_TRANSFERS: u64 = 2048;

/// The programs of these methods are NCCL's own.
const NCCL: [(&str, Algorithm); 3] =
    [("nccl-ring", Algorithm::Ring), ("nccl-tree", Algorithm::Tree), ("nccl-pat", Algorithm::Pat)];

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

/// So little that latency is all.
const LITTLE: Bytes = Bytes::kib(1);

/// What sends straight to everyone, as a synthesizer does whose sketch allows every connection.
const FULL_MESH: &str = "direct";

/// Where a way comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// NCCL does it itself.
    Nccl(Algorithm),
    /// Everyone to everyone: what plans are compared with.
    FullMesh,
    /// One of our programs.
    Made,
}

/// A way of doing a collective.
#[derive(Clone, Debug)]
pub struct Way {
    /// Also the stem of its files.
    pub name: String,
    pub origin: Origin,
    /// How it was made.
    pub about: String,
    pub program: Verified<Program>,
    pub knobbed: Knobbed,
}

/// The ways of a collective, and what was left out and why.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    pub ways: Vec<Way>,
    pub left_out: Vec<(String, String)>,
}

/// Every way of doing `kind` on all ranks of the network, under each of its sketches.
pub fn ways(
    network: &Network,
    kind: CollectiveKind,
    model: KnobModel,
    sketches: &[sketch::Candidate],
    seed: Seed,
) -> Result<Ways, SynthError> {
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    let goal = Goal::rooted(kind, ranks, Rank(0))?;
    let task = |size| Task::new(network, goal.clone(), size);
    // Runtimes cut chunks themselves and run the cuts one behind the other; a program that is cut
    // already would pay for every cut, however little there is to send.
    let whole = |size| Task { most_transfers: 0, ..task(size) };
    let mut made = Maker { network, model, seed, found: Ways::default() };
    let named = |name: &str| name.parse::<Method>().ok().filter(|it| it.does(kind));
    for (name, algorithm) in NCCL {
        if let Some(method) = named(name) {
            let name = format!("{kind}-{name}");
            made.add(name, Origin::Nccl(algorithm), &whole(Bytes::mib(4)), method);
        }
    }
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
fn short(size: Bytes) -> String {
    let bytes = size.get();
    match bytes.trailing_zeros() / 10 {
        0 => bytes.to_string(),
        1 => format!("{}k", bytes >> 10),
        2 => format!("{}m", bytes >> 20),
        _ => format!("{}g", bytes >> 30),
    }
}

struct Maker<'a> {
    network: &'a Network,
    model: KnobModel,
    seed: Seed,
    found: Ways,
}

impl Maker<'_> {
    /// Adds what a method makes, unless it cannot, no runtime takes it, or it is there already.
    fn add(&mut self, name: String, origin: Origin, task: &Task<'_>, method: Method) {
        match self.make(&name, origin, task, method) {
            Ok(Some(way)) => self.found.ways.push(way),
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
    ) -> Result<Option<Way>, String> {
        let effort = Effort { most_transfers: MOST_TRANSFERS, ..Effort::unlimited(self.seed) };
        let task = task.clone().by_numbers();
        let draft = synthesize(&task, method, &effort).map_err(|it| it.to_string())?;
        let about = draft.explanation.clone();
        let proved = draft.prove(&task).map_err(|it| it.to_string())?;
        let same = |it: &Way| {
            (origin == Origin::Made || it.origin == origin)
                && it.program.transfers() == proved.program.transfers()
        };
        if self.found.ways.iter().any(same) {
            return Ok(None);
        }
        if !matches!(origin, Origin::Nccl(_)) {
            loadable(&proved.program)?;
        }
        let routed = Routed::new(&proved.program, self.network, SwitchForwarding::CutThrough)
            .map_err(|it| it.to_string())?;
        let knobbed = Knobbed::new(&routed, self.model);
        Ok(Some(Way { name: name.to_owned(), origin, about, program: proved.program, knobbed }))
    }
}

/// Whether MSCCL or MSCCL++ can load a program; if neither can, why MSCCL cannot.
fn loadable(program: &Verified<Program>) -> Result<(), String> {
    let Err(report) = msccl_xml::write(program, &msccl_xml::Options::default()) else {
        return Ok(());
    };
    match mscclpp_json::write(program, &mscclpp_json::Options::default()) {
        Ok(_) => Ok(()),
        Err(_) => Err(report.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

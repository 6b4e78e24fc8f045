//! [`Book`]: the tasks of a plan's table as a policy sees them.
//!
//! The time of a setting comes from the plan's measurements (`motet plan --backend nccl`,
//! `nccl/measured.csv`) if the task was measured; then only measured settings are ever tried. Otherwise it
//! comes from the cost model on the plan's network. Hops and bytes, on which the effect of load depends, are
//! counted in both cases.

use std::collections::BTreeMap;
use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, NcclOptions, NcclTerms, NcclVersion, Protocol, TunedCollective};
use motet_net::formats::{ReadError, cluster_toml, csv_records};
use motet_runtime::{
    self as runtime, Bucket, Collective, Method, Setting, Signature, Table, TableKnobs,
};
use motet_units::Bytes;

use crate::action::{Action, ActionSpace};
use crate::env::{Brief, Place, PlaceError};
use crate::state::{Topology, TopologyClass};

/// Why a plan cannot be steered by a policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    #[error("the plan's network.toml cannot be read: {0}; make the plan anew")]
    Network(String),
    #[error(
        "the plan's network.toml is of network {found}, its table of {wanted}; make the plan anew"
    )]
    OtherNetwork { wanted: Signature, found: String },
    #[error("nccl/measured.csv, line {line}: {problem}; make the plan anew")]
    Measured { line: usize, problem: String },
    #[error("{0}")]
    Place(#[from] PlaceError),
    #[error("the table has no call that NCCL can be told about")]
    Nothing,
}

/// What a plan's folder holds, as texts.
#[derive(Clone, Copy, Debug)]
pub struct PlanTexts<'a> {
    /// `network.toml`.
    pub network: &'a str,
    /// `nccl/measured.csv`, if it was measured.
    pub measured: Option<&'a str>,
}

/// One entry of the plan's table: a collective of one size.
#[derive(Debug)]
pub(super) struct Task {
    /// The number of its entry in the table.
    pub(super) entry: u32,
    pub(super) kind: CollectiveKind,
    pub(super) bytes: Bytes,
    pub(super) brief: Arc<Brief>,
    /// Whether the plan has measured its settings.
    pub(super) measured: bool,
    /// The action of the table's first candidate.
    pub(super) in_use: usize,
    /// The action that the plan picked.
    pub(super) pick: usize,
    /// How many samples, of the rank with the fewest, there were when the policy last learned from this task.
    pub(super) samples: u64,
    /// The time of the setting in use when the policy last learned of it, in µs on the plan's scale.
    pub(super) micros: f64,
    /// For each setting, the first times that ranks measured in this job, in µs; see [`Task::reconciled`].
    pub(super) first: BTreeMap<usize, Vec<f64>>,
    /// The time of the last trial of any setting, in µs on the plan's scale.
    pub(super) last_trial: f64,
    /// For each other setting, how its trials against the setting in use ended.
    pub(super) trials: BTreeMap<usize, Trial>,
}

/// How trials of one setting have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// Trials won since the last loss.
    pub(super) wins: u32,
    /// Trials lost so far; a win in between does not reset this.
    pub(super) losses: u32,
    /// The period from which on it may be tried again.
    pub(super) after: u32,
    /// The time of the setting in use when it lost, in µs.
    pub(super) against: f64,
}

/// The tasks of a plan's table, with what is known of each.
#[derive(Debug)]
pub struct Book {
    pub(super) plan: Table,
    pub(super) tasks: Vec<Task>,
    pub(super) topology: Topology,
    pub(super) terms: NcclTerms,
}

/// Times in µs by setting.
type Times = BTreeMap<TableSetting, f64>;
/// Times by collective and size.
type Measurements = BTreeMap<(Collective, Bucket), Times>;
/// Algorithm, protocol and channels by their numbers; nothing for what is left to NCCL.
type TableSetting = (Option<usize>, Option<usize>, Option<u32>);

impl Book {
    /// The tasks of `table`, of the communicator with all GPUs of the plan's network.
    pub fn new(
        table: &Table,
        signature: Signature,
        texts: PlanTexts<'_>,
    ) -> Result<Self, BookError> {
        let none = |_: &str| Err("a plan's network names no files".to_owned());
        let network = cluster_toml::read(texts.network, &none)
            .map_err(|it| BookError::Network(it.to_string()))?
            .network;
        let found = motet_net::Signature::of(&network);
        if found.as_u128() != signature.0 {
            let found = found.to_string();
            return Err(BookError::OtherNetwork { wanted: signature, found });
        }
        let (version, measured) = match texts.measured {
            Some(text) => read_measured(text)?,
            None => (NcclVersion::default(), BTreeMap::new()),
        };
        let options = NcclOptions { version, ..NcclOptions::default() };
        let place = Place::new("plan", network, TopologyClass::Mixed, options, None)?;
        let mut tasks = Vec::new();
        for (number, entry) in (0u32..).zip(table.entries()) {
            let key = entry.key;
            let kind = key.collective.name().parse::<CollectiveKind>().ok();
            let kind = kind.filter(|it| TunedCollective::of(*it).is_some());
            let (Some(kind), true) = (kind, key.signature == signature) else { continue };
            let bytes = Bytes::new(1 << key.bucket.log2());
            let times = measured.get(&(key.collective, key.bucket));
            let brief = brief(&place, kind, bytes, times)?;
            let first = entry.candidates.first().map(|it| &it.setting);
            // A program, or knobs that no action has: left as it is.
            let Some(in_use) = first.and_then(|it| action_of(&brief.space, it)) else { continue };
            let measured = times.is_some();
            tasks.push(Task {
                entry: number,
                kind,
                bytes,
                brief,
                measured,
                in_use,
                pick: in_use,
                samples: 0,
                micros: 0.0,
                first: BTreeMap::new(),
                last_trial: 0.0,
                trials: BTreeMap::new(),
            });
        }
        if tasks.is_empty() {
            return Err(BookError::Nothing);
        }
        Ok(Self { plan: table.clone(), tasks, topology: place.topology, terms: *place.terms() })
    }

    /// How many tasks there are, and of how many the plan has measured what settings take.
    #[must_use]
    pub fn tasks(&self) -> (usize, usize) {
        (self.tasks.len(), self.tasks.iter().filter(|it| it.measured).count())
    }
}

fn brief(
    place: &Place,
    kind: CollectiveKind,
    bytes: Bytes,
    times: Option<&Times>,
) -> Result<Arc<Brief>, BookError> {
    let Some(times) = times else { return Ok(place.brief(kind, bytes)?) };
    let time = |action: &Action| {
        let algorithm = action.algorithm.map(Algorithm::index);
        let protocol = action.protocol.map(Protocol::index);
        times.get(&(algorithm, protocol, action.channels)).copied()
    };
    let mut brief = place.timed(kind, bytes, time)?;
    // NCCL's own choice may not have been measured; it is taken to be no slower than the slowest setting that
    // was.
    let slowest = times.values().copied().fold(0.0, f64::max);
    if let Some(own) = brief.nominal.first_mut().filter(|it| !it.is_finite()) {
        *own = slowest;
    }
    // Which kernel NCCL chooses by itself is only the model's guess, and measured times may contradict it. So
    // that the policy neither takes another setting for the same nor lets the two share model errors, NCCL's
    // own choice gets a kernel that no other setting has, and 0 channels.
    let all = Algorithm::ALL.iter().flat_map(|a| Protocol::ALL.iter().map(move |p| (*a, *p)));
    let free = all.into_iter().find(|it| !brief.kernels.contains(it));
    if let (Some(kernel), Some(channels), Some(free)) =
        (brief.kernels.first_mut(), brief.channels.first_mut(), free)
    {
        (*kernel, *channels) = (free, 0);
    }
    Ok(Arc::new(brief))
}

/// The action of a table's setting; `None` if it is no action of NCCL's.
pub(super) fn action_of(space: &ActionSpace, setting: &Setting) -> Option<usize> {
    let Method::Nccl { algorithm } = setting.method else { return None };
    if algorithm.is_none() && setting.knobs == TableKnobs::default() {
        return Some(0);
    }
    let TableKnobs { protocol, channels, threads, chunk, .. } = setting.knobs;
    let action = Action {
        algorithm: Some(*Algorithm::ALL.get(algorithm?.index())?),
        protocol: Some(*Protocol::ALL.get(protocol?.index())?),
        channels,
        threads,
        chunk,
        ..Action::DEFAULT
    };
    space.index(&action)
}

/// The version of NCCL that was measured, and the times of each task.
fn read_measured(text: &str) -> Result<(NcclVersion, Measurements), BookError> {
    let unreadable = |it: ReadError| BookError::Measured {
        line: it.at.map_or(1, |it| it.line),
        problem: it.problem,
    };
    let mut records = csv_records(text);
    let (_, head) = records.next().transpose().map_err(unreadable)?.unwrap_or_default();
    let column = |name: &str| {
        let problem = format!("there is no column `{name}`");
        head.iter().position(|it| it == name).ok_or(BookError::Measured { line: 1, problem })
    };
    let columns =
        ["nccl", "collective", "bytes", "algorithm", "protocol", "channels", "chunk", "us"];
    let mut places = [0; 8];
    for (place, name) in places.iter_mut().zip(columns) {
        *place = column(name)?;
    }
    let mut version = NcclVersion::default();
    let mut all = Measurements::new();
    for record in records {
        let (number, cells) = record.map_err(unreadable)?;
        let [nccl, collective, bytes, algorithm, protocol, channels, chunk, us] =
            places.map(|it| cells.get(it).unwrap_or_default());
        let wrong = |what: &str| {
            let problem = format!("`{what}` is not what stands there");
            BookError::Measured { line: number, problem }
        };
        let given = |it: &str| (!it.is_empty()).then(|| it.to_owned());
        let index = |it: &str, find: fn(&str) -> Option<usize>| {
            given(it).map(|it| find(&it).ok_or_else(|| wrong(&it))).transpose()
        };
        let algorithm =
            index(algorithm, |it| Some(it.parse::<runtime::Algorithm>().ok()?.index()))?;
        let protocol = index(protocol, |it| Some(it.parse::<runtime::Protocol>().ok()?.index()))?;
        let channels = given(channels).map(|it| it.parse().map_err(|_| wrong(&it))).transpose()?;
        let collective: Collective = collective.parse().map_err(|_| wrong(collective))?;
        let bytes: u64 = bytes.parse().map_err(|_| wrong(bytes))?;
        let us: f64 = us
            .parse()
            .ok()
            .filter(|it: &f64| it.is_finite() && *it > 0.0)
            .ok_or_else(|| wrong(us))?;
        version = if nccl.starts_with("2.28") { NcclVersion::V2_28 } else { version };
        if chunk.is_empty() {
            let place = (collective, Bucket::of(Bytes::new(bytes)));
            all.entry(place).or_default().insert((algorithm, protocol, channels), us);
        }
    }
    Ok((version, all))
}

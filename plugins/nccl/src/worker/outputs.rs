//! [`Outputs`]: all places where a finished collective is recorded: the trace, the metrics, the shared file, and the
//! recent times of the plan that decided it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use motet_runtime::{
    Bucket, Call, Choice, Communicator, Method, Segment, Source, TimeKey, TraceWriter, TracedCall,
    own_file,
};
use motet_units::{Bytes, Duration, Rank};

use super::metrics::{self, Metrics, Planned};
use crate::log::Log;
use crate::profiler::sampling::{self, Captured};
use crate::profiler::{Finished, by_index, lost};
use crate::{agent, registry, shared};

/// Metrics are written each time that traces have been written so often.
const METRICS_EVERY: u32 = 5;

pub(super) struct Outputs {
    log: Log,
    trace: Option<TraceFile>,
    metrics: Option<(PathBuf, Metrics)>,
    segment: Option<Segment<'static>>,
    /// By context and incarnation, with their number in the trace.
    communicators: BTreeMap<(u16, u32), (Communicator, u32)>,
    turns: u32,
    /// Whether it was said that captured calls have ended the sampling.
    told_of_capture: bool,
}

struct TraceFile {
    /// Made when it is first written to, so that this too is on the worker's thread.
    file: Option<File>,
    path: PathBuf,
    writer: TraceWriter,
}

impl Outputs {
    /// None if there is nothing to write to.
    pub(super) fn from_environment(rank: Option<u32>, log: Log) -> Option<Self> {
        let path = |name: &str| {
            let path = std::env::var_os(name).filter(|it| !it.is_empty())?;
            Some(own_file(Path::new(&path), rank, std::process::id()))
        };
        let trace = path("MOTET_TRACE").map(|path| TraceFile {
            file: None,
            path,
            writer: TraceWriter::default(),
        });
        let metrics = path("MOTET_METRICS").map(|it| (it, Metrics::default()));
        let segment = shared::segment().unwrap_or_else(|problem| {
            log.warn(problem);
            None
        });
        let communicators = BTreeMap::new();
        let written = trace.is_some() || metrics.is_some() || segment.is_some();
        // Recent times are kept for the agent, whatever is written.
        let any = written || agent::is_wanted();
        let (turns, told_of_capture) = (0, false);
        any.then_some(Self { log, trace, metrics, segment, communicators, turns, told_of_capture })
    }

    pub(super) fn add(&mut self, it: &Finished) {
        let Some((about, number)) = self.communicator(it) else { return };
        if let Some(trace) = &mut self.trace {
            trace.writer.call(&traced(it, number));
        }
        if let Some((_, metrics)) = &mut self.metrics {
            metrics.add(&about, it);
        }
        if it.source != Source::Unknown {
            let time = Duration::from_ps(it.duration_ns.saturating_mul(1000));
            if let Some(segment) = self.segment {
                segment.record(&key(&about, it), time);
            }
            record(&about, it, time);
        }
        if self.trace.as_ref().is_some_and(|it| it.writer.is_due()) {
            self.write_trace();
        }
    }

    fn communicator(&mut self, it: &Finished) -> Option<(Communicator, u32)> {
        let place = (it.context, it.incarnation);
        if let Some(known) = self.communicators.get(&place) {
            return Some(known.clone());
        }
        let about = by_index(it.context)?.about(it.incarnation)?;
        // Of a context that is used again, the one before is done with.
        self.communicators.retain(|place, _| place.0 != it.context);
        let number = self.trace.as_mut().map_or(0, |trace| trace.writer.communicator(&about));
        self.communicators.insert(place, (about.clone(), number));
        Some((about, number))
    }

    /// Writes what there is; metrics now and then, or when it is wished.
    pub(super) fn write(&mut self, wished: bool) {
        self.write_trace();
        self.tell_of_captures();
        self.turns += 1;
        if wished || self.turns >= METRICS_EVERY {
            self.turns = 0;
            self.write_metrics();
        }
    }

    /// Says once that calls in CUDA graphs have ended the sampling, and how it goes on.
    fn tell_of_captures(&mut self) {
        let Some(captured) = sampling::captured().filter(|_| !self.told_of_capture) else { return };
        self.told_of_capture = true;
        match captured {
            Captured::Unprofiled => self.log.info(
                "calls are captured in CUDA graphs, where a call that is profiled is so at every replay; none are \
                 profiled from now on. MOTET_PROFILE_EVERY=1 profiles all",
            ),
            Captured::Profiled => self.log.warn(
                "calls are captured in CUDA graphs, of which NCCL cannot profile some and others not; the first was \
                 profiled, so all are from now on, which makes them slower. MOTET_PROFILE_EVERY=0 profiles none",
            ),
        }
    }

    fn write_trace(&mut self) {
        let Some(trace) = &mut self.trace else { return };
        if let Err(error) = trace.write() {
            let path = trace.path.display();
            self.log
                .warn(&format!("MOTET_TRACE: {path}: {error}; no more of the trace is written"));
            self.trace = None;
        }
    }

    fn write_metrics(&mut self) {
        let Some((path, metrics)) = &self.metrics else { return };
        let text = metrics.text(lost(), &self.planned());
        if let Err(error) = replace(path, &text) {
            let path = path.display();
            self.log
                .warn(&format!("MOTET_METRICS: {path}: {error}; no metrics are written any more"));
            self.metrics = None;
        }
    }

    /// What the plans in use expect, and what was measured of it.
    fn planned(&self) -> Vec<Planned> {
        let mut all = Vec::new();
        let mut ids: Vec<_> = self.communicators.values().map(|it| (it.0.id, it.0.rank)).collect();
        ids.sort_unstable();
        ids.dedup();
        for (id, rank) in ids {
            let Some(runtime) = registry::find(id) else { continue };
            let Some(table) = runtime.table() else { continue };
            let times = runtime.report(Rank(rank)).times;
            let now = times.iter().filter(|it| it.candidate == 0);
            all.extend(
                now.filter_map(|it| metrics::planned(table.table(), it.entry, it.median.as_ps())),
            );
        }
        all.sort_by_key(|it| (it.ranks, it.collective, it.bucket));
        // Two communicators of the same plan are one series.
        all.dedup_by_key(|it| (it.ranks, it.collective, it.bucket));
        all
    }
}

impl TraceFile {
    fn write(&mut self) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = File::create(&self.path)?;
                file.write_all(&TraceWriter::head())?;
                none.insert(file)
            }
        };
        self.writer.take().map_or(Ok(()), |block| file.write_all(&block))
    }
}

/// Puts a whole file in the place of another, as its reader may come at any moment.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

fn traced(it: &Finished, communicator: u32) -> TracedCall {
    TracedCall {
        communicator,
        sequence: it.enqueued.sequence,
        collective: it.enqueued.collective,
        bytes: Bytes::new(it.enqueued.bytes),
        algorithm: it.enqueued.algorithm,
        protocol: it.enqueued.protocol,
        channels: it.enqueued.channels.into(),
        finished: it.finished.into(),
        source: it.source,
        start_ns: it.start_ns,
        duration_ns: it.duration_ns,
    }
}

fn key(about: &Communicator, it: &Finished) -> TimeKey {
    TimeKey {
        rank: Rank(about.rank),
        collective: it.enqueued.collective,
        bucket: Bucket::of(Bytes::new(it.enqueued.bytes)),
        algorithm: it.enqueued.algorithm,
        protocol: it.enqueued.protocol,
        channels: it.enqueued.channels.into(),
    }
}

/// The last operation that had begun when `position` had (modulo 2³²), given that `now` have by now; `None` if that is not known.
/// A call's time counts for the table that decided it then, because tables may have been switched since.
fn operation(position: u32, now: u64) -> Option<u64> {
    let since = (now as u32).wrapping_sub(position);
    (position != 0).then_some(())?;
    now.checked_sub(since.into())?.checked_sub(1)
}

/// Counts a time for the plan, if the call was done as the plan says: a forced one, or one that NCCL decided, was not.
fn record(about: &Communicator, it: &Finished, time: Duration) {
    let Some(runtime) = registry::find(about.id) else { return };
    let bytes = Bytes::new(it.enqueued.bytes);
    let call = Call { collective: it.enqueued.collective, bytes, ranks: about.ranks };
    let Some(last) = operation(it.enqueued.position, runtime.position()) else { return };
    let Ok(decision) = runtime.decide(last, &call) else { return };
    let Choice::Setting(setting) = decision.choice() else { return };
    let Method::Nccl { algorithm } = setting.method else { return };
    let same = algorithm.is_none_or(|wanted| it.enqueued.algorithm == Some(wanted))
        && setting.knobs.protocol.is_none_or(|wanted| it.enqueued.protocol == Some(wanted));
    if let Some(ticket) = decision.ticket().filter(|_| same) {
        runtime.record(ticket, time);
    }
}

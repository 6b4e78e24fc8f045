//! [`Tuner`]: what one communicator decides by. The functions that NCCL calls are in `exports.rs`.
//!
//! NCCL asks before each collective, on the thread that called it, with a table of what each algorithm and protocol
//! would cost. The tuner sets one entry to 0, which makes NCCL choose it, or leaves the table alone. It never touches
//! an entry below 0: NCCL has no kernel there, or the user has excluded it (`NCCL_ALGO`, `NCCL_PROTO`).

mod choose;
mod exports;
mod notice;
mod seen;

use std::ffi::c_int;
use std::sync::Arc;

use motet_runtime::{
    Algorithm, Call, Choice, Collective, Decision, Forced, Method, Protocol, Reason, Runtime,
    Segment,
};
use motet_units::Bytes;

use crate::abi::{self, LEAST_COST, Logger};
use crate::log::Log;
use crate::plan::{self, Plan, Shape};
use crate::profiler::sampling;
use crate::{registry, shared};

use choose::{PROTOCOLS, chosen, is_in_network, own, prefers_network};
use notice::{Notice, Notices};
use seen::Guarded;

/// The smallest chunk that is asked for, in bytes: NCCL rounds chunks down to whole grains (those of LL128 are the largest, 1920 bytes)
/// and divides by the result, which must not be 0.
const LEAST_CHUNK: u64 = 4096;

/// See the [module](self).
pub(crate) struct Tuner {
    log: Log,
    ranks: u32,
    runtime: Arc<Runtime>,
    seen: Guarded,
    /// For each entry of the plan's table, whether its times were measured on the machine.
    measured: Box<[bool]>,
    segment: Option<Segment<'static>>,
    notices: Notices,
}

/// What is to be done for a call.
struct Wanted {
    algorithm: Option<Algorithm>,
    protocol: Option<Protocol>,
    channels: Option<u32>,
    /// In bytes.
    chunk: Option<u64>,
    /// Whether this may replace a reduction in the network, of which our models know least.
    over_in_network: bool,
}

/// What NCCL offers for a call: costs of `Algorithm` × `Protocol`, one row after the other.
pub(crate) struct Offer<'a> {
    pub(crate) costs: &'a mut [f32],
    pub(crate) channels: &'a mut c_int,
    /// The library may choose a reduction in the network, though the costs do not show it (tuner v2).
    pub(crate) hidden_in_network: bool,
    /// Whether the costs are NCCL's own, so that the least is what it would choose (not of tuner v2).
    pub(crate) are_nccls: bool,
}

impl Tuner {
    /// Reads the plans, and says in the log what will decide. `id` is the communicator's, where NCCL tells it.
    pub(crate) fn new(shape: &Shape, id: Option<u64>, logger: Logger) -> Self {
        let log = Log::new(logger, abi::TUNING);
        let plan = find_plan(shape, &log);
        let runtime = Arc::new(Runtime::new(Reason::NoTable));
        let mut measured = Box::default();
        if let Some(plan) = plan {
            runtime.install(plan.view());
            measured = plan.measured;
        }
        let segment = shared::segment().unwrap_or_else(|problem| {
            log.warn(&format!("{problem}; nothing is forced"));
            None
        });
        if let Some(id) = id {
            registry::add(id, &runtime);
        }
        let seen = Guarded::new(&runtime);
        // A table has fewer, so more ranks than that are in no plan.
        let ranks = u32::try_from(shape.ranks).unwrap_or(u32::MAX);
        if let Some(segment) = segment {
            segment.note_shape(ranks, u32::try_from(shape.nodes).unwrap_or(u32::MAX));
        }
        Self { log, ranks, runtime, seen, measured, segment, notices: Notices::default() }
    }

    /// Decides a call. `false` if it cannot be decided: see [`Notice::Hopeless`].
    pub(crate) fn decide(&self, function: c_int, bytes: u64, offer: &mut Offer<'_>) -> bool {
        let Some(collective) = abi::collective(function) else { return true };
        let operation = self.runtime.begin();
        let forced = self.segment.and_then(|it| it.forced(collective));
        if let (Some(_), Some(segment)) = (forced, self.segment) {
            if let Some((algorithm, protocol)) = own(offer.costs).filter(|_| offer.are_nccls) {
                segment.note_own(collective, algorithm, protocol);
            }
            sampling::pause(segment.is_profiling_paused());
        }
        let applied = match forced {
            Some(forced) => apply(&Wanted::from(forced), offer),
            None => self.planned(operation, collective, bytes, |wanted| apply(wanted, offer)),
        };
        let hopeless = applied == Err(Notice::Hopeless);
        match (forced, self.segment) {
            (Some(_), Some(segment)) => segment.note(collective, applied.is_ok()),
            _ => applied.unwrap_or_else(|notice| self.notices.say(notice, &self.log)),
        }
        !hopeless
    }

    /// The chunk for the call that was just decided, if it was decided for this algorithm and protocol.
    pub(crate) fn chunk(
        &self,
        function: c_int,
        bytes: u64,
        algorithm: c_int,
        protocol: c_int,
    ) -> Option<u64> {
        let collective = abi::collective(function)?;
        let wanted = |wanted: &Wanted| {
            let is = |wanted: Option<usize>, given: c_int| {
                wanted.is_none_or(|it| usize::try_from(given) == Ok(it))
            };
            let same = is(wanted.algorithm.map(Algorithm::index), algorithm)
                && is(wanted.protocol.map(Protocol::index), protocol);
            let row = usize::try_from(algorithm).ok()?;
            let may = same && !is_in_network(row * PROTOCOLS);
            wanted.chunk.filter(|it| may && *it >= LEAST_CHUNK)
        };
        if let Some(forced) = self.segment.and_then(|it| it.forced(collective)) {
            return wanted(&Wanted::from(forced));
        }
        let last = self.runtime.position().saturating_sub(1);
        self.planned(last, collective, bytes, |it| Ok(wanted(it))).ok()?
    }

    /// Hands what the plan wants for a call to `then`. A closure and no return value, because a value that is written to
    /// memory and read back at once, in pieces of other sizes, costs more than the lookup.
    #[inline]
    fn planned<T>(
        &self,
        operation: u64,
        collective: Collective,
        bytes: u64,
        mut then: impl FnMut(&Wanted) -> Result<T, Notice>,
    ) -> Result<T, Notice> {
        let call = Call { collective, bytes: Bytes::new(bytes), ranks: self.ranks };
        loop {
            let decided = self.seen.with(|seen| {
                let decision = self.runtime.decide_with(seen, operation, &call).ok()?;
                Some(self.read(&decision, &mut then))
            });
            // Two threads on one communicator at the same time, which NCCL forbids; still, nothing breaks.
            let decided = decided.unwrap_or_else(|| {
                let decision = self.runtime.decide(operation, &call).ok()?;
                Some(self.read(&decision, &mut then))
            });
            match decided {
                Some(decided) => return decided,
                None if self.runtime.is_hopeless() => return Err(Notice::Hopeless),
                None => wait(),
            }
        }
    }

    #[inline]
    fn read<T>(
        &self,
        decision: &Decision<'_>,
        then: &mut impl FnMut(&Wanted) -> Result<T, Notice>,
    ) -> Result<T, Notice> {
        let setting = match decision.choice() {
            Choice::Setting(it) => it,
            Choice::LibraryDefault(reason) => return Err(Notice::of(reason)),
        };
        let Method::Nccl { algorithm } = setting.method else { return Err(Notice::Program) };
        let entry = decision.ticket().map(|it| it.entry as usize);
        let measured = entry.and_then(|it| self.measured.get(it)).copied();
        then(&Wanted {
            algorithm,
            protocol: setting.knobs.protocol,
            channels: setting.knobs.channels,
            chunk: setting.knobs.chunk.map(Bytes::get),
            over_in_network: measured.unwrap_or(false),
        })
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        registry::remove(&self.runtime);
    }
}

impl From<Forced> for Wanted {
    fn from(it: Forced) -> Self {
        let Forced { algorithm, protocol, channels, chunk } = it;
        Self { algorithm, protocol, channels, chunk: chunk.map(u64::from), over_in_network: true }
    }
}

/// Waits a moment: the ranks may be switching tables at this operation, and a wrong guess would make them hang. The
/// agent's thread hears within one round-trip time whether they are.
#[cold]
fn wait() {
    std::thread::sleep(std::time::Duration::from_micros(20));
}

#[inline]
fn apply(wanted: &Wanted, offer: &mut Offer<'_>) -> Result<(), Notice> {
    let mut channels = wanted.channels;
    if wanted.algorithm.is_some() || wanted.protocol.is_some() {
        let entry =
            chosen(offer.costs, wanted.algorithm, wanted.protocol).ok_or(Notice::NotOffered)?;
        let may = wanted.over_in_network || is_in_network(entry);
        if !may && (offer.hidden_in_network || prefers_network(offer.costs)) {
            return Err(Notice::InNetwork);
        }
        // Within the network NCCL takes any number of channels for granted, possible or not.
        channels = channels.filter(|_| !is_in_network(entry));
        offer.costs[entry] = LEAST_COST;
    }
    if let Some(channels) = channels.and_then(|it| c_int::try_from(it).ok()) {
        *offer.channels = channels;
    }
    Ok(())
}

/// The plan for a communicator, after logging which it is, or why there is none.
fn find_plan(shape: &Shape, log: &Log) -> Option<Plan> {
    let Some(folders) = std::env::var_os("MOTET_PLAN").filter(|it| !it.is_empty()) else {
        log.info("MOTET_PLAN is not set; NCCL decides. Set it to the folder of a plan");
        return None;
    };
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    let (plan, others, errors) = plan::find(&folders, shape);
    for error in errors {
        log.warn(&format!("{error}; NCCL decides without this plan"));
    }
    let Shape { ranks, nodes, .. } = shape;
    if let Some(plan) = &plan {
        let (folder, (entries, own)) = (plan.folder.display(), plan.entries());
        let text = format!(
            "{ranks} ranks on {nodes} nodes: plan {folder}, {entries} entries ({own} as NCCL has it), table {}",
            plan.checksum
        );
        log.info(&text);
        say_setup(plan, log);
    }
    for other in others.iter().filter(|_| plan.is_none()) {
        let text = format!(
            "{ranks} ranks on {nodes} nodes: NCCL decides; plan {} is for {} ranks on {} nodes",
            other.folder.display(),
            other.ranks,
            other.nodes
        );
        log.info(&text);
    }
    plan
}

/// Warns where a plan was made for other threads or buffers than are set: it is right without them, but slower than it says.
fn say_setup(plan: &Plan, log: &Log) {
    let threads = ("NCCL_NTHREADS", plan.setup.threads.map(u64::from));
    for (name, wanted) in [threads, ("NCCL_BUFFSIZE", plan.setup.buffer.map(Bytes::get))] {
        let Some(wanted) = wanted else { continue };
        if std::env::var(name).ok().and_then(|it| it.parse().ok()) != Some(wanted) {
            let folder = plan.folder.display();
            log.warn(&format!(
                "plan {folder} was made for {name}={wanted}; set it, or source nccl/env"
            ));
        }
    }
}

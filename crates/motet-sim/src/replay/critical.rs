//! [`CriticalPath`]: the chain of transfers and links that determined the end of a run.
//!
//! Every moment of a run follows from an earlier one plus the time that a link takes. Followed back from
//! the end, these form one chain without gaps to the launch. To finish earlier, something on this chain must
//! become faster. Where two causes were ready in the same picosecond, the chain goes through one of
//! them; it goes through the previous transfer on a link only if no other cause was as late.

use std::collections::BTreeMap;

use motet_collective::TransferId;
use motet_net::NetworkState;
use motet_units::{Duration, Instant, LinkId};

use super::code::{END, NOWHERE};
use super::error::RunError;
use super::kernel::{Crossed, Memory, Observer, execute};
use super::{Replay, finite};
use crate::link_rule::Passage;

/// Why a step of the chain started when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It started with the launch of the collective.
    Launch,
    /// This transfer waited for the step before.
    Waited,
    /// The link was occupied by the transfer of the step before.
    LinkFree,
    /// The same transfer arrived from the link before.
    Forwarded,
}

/// A transfer on a link (or within its rank) that delayed the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CriticalStep {
    pub transfer: TransferId,
    /// `None` for a transfer within its rank.
    pub link: Option<LinkId>,
    /// When the chain moves to this step.
    pub start: Instant,
    /// When the chain moves to the next step, or the program ends.
    pub end: Instant,
    pub reason: Reason,
}

/// The chain in order of time, without gaps from launch to end. Steps that take no time are left
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriticalPath {
    /// When the program ended, launch included.
    pub end: Duration,
    pub steps: Vec<CriticalStep>,
}

impl CriticalPath {
    /// How much of the chain's time each link accounts for, largest first.
    #[must_use]
    pub fn by_link(&self) -> Vec<(LinkId, Duration)> {
        let mut times = BTreeMap::new();
        for step in &self.steps {
            if let Some(link) = step.link {
                *times.entry(link).or_insert(Duration::ZERO) += step.end.since(step.start);
            }
        }
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_by_key(|(link, time)| (std::cmp::Reverse(*time), *link));
        times
    }

    /// The link that accounts for most of the chain's time.
    #[must_use]
    pub fn bottleneck(&self) -> Option<LinkId> {
        self.by_link().first().map(|it| it.0)
    }
}

impl Replay {
    /// Runs the program in one state and finds its critical path. Needs 50 to 75 bytes of memory
    /// per link of each transfer.
    pub fn critical_path(&self, state: &NetworkState) -> Result<CriticalPath, RunError> {
        let (table, [refused]) = self.table::<u64, 1>(std::slice::from_ref(state));
        if let Some(error) = refused {
            return Err(error);
        }
        let mut tracer = Tracer::new(self);
        let [end] = execute(&self.code, &table, &[], &mut Memory::new(), &mut tracer);
        let end = finite(end)?;
        Ok(CriticalPath { end, steps: tracer.chain(end.as_ps()) })
    }
}

/// No point: the launch.
const NONE: u32 = u32::MAX;

/// A moment of the run, with the moment it followed from.
#[derive(Clone, Copy, Debug)]
struct Point {
    time: u64,
    transfer: u32,
    /// [`NONE`]: within its rank.
    link: u32,
    before: u32,
    /// Whether the time since `before` is spent on this point's link rather than on that of `before`.
    own: bool,
    reason: Reason,
}

/// Keeps where each time came from.
struct Tracer<'a> {
    replay: &'a Replay,
    points: Vec<Point>,
    /// The point behind each slot's time.
    slots: Vec<u32>,
    /// The point at which each link became free.
    free: Vec<u32>,
    step: usize,
    /// The latest of what the step waits for, and its point.
    ready: (u64, u32),
    /// The points of the step's last link: start and tail.
    last: Option<(u32, u32)>,
    /// The point of the tail on the step's first link: when the transfer has been sent.
    sent: u32,
    /// The latest end so far, and its point.
    end: (u64, u32),
}

impl<'a> Tracer<'a> {
    fn new(replay: &'a Replay) -> Self {
        Self {
            replay,
            // Two for each link of a transfer, mostly, which has two words of its own in the code. Growing would copy megabytes.
            points: Vec::with_capacity(replay.code.words.len()),
            slots: vec![NONE; replay.code.slots],
            free: vec![NONE; replay.links.len()],
            step: 0,
            ready: (0, NONE),
            last: None,
            sent: NONE,
            end: (replay.launch, NONE),
        }
    }

    fn add(&mut self, time: u64, link: u32, before: u32, own: bool, reason: Reason) -> u32 {
        let transfer = self.replay.code.transfers[self.step];
        self.points.push(Point { time, transfer, link, before, own, reason });
        self.points.len() as u32 - 1
    }

    /// The steps of the chain that ends at `end`: followed back from the last point, then reversed.
    fn chain(&self, end: u64) -> Vec<CriticalStep> {
        let mut steps: Vec<CriticalStep> = Vec::new();
        let mut add = |point: &Point, start: u64, end: u64| {
            let link = self.replay.links.get(point.link as usize).copied();
            let transfer = TransferId(point.transfer);
            let (start, end) = (Instant::from_ps(start), Instant::from_ps(end));
            match steps.last_mut() {
                Some(it) if it.transfer == transfer && it.link == link => {
                    (it.start, it.reason) = (start, point.reason);
                }
                // What takes no time is not what one waits for.
                _ if start == end => {}
                _ => steps.push(CriticalStep { transfer, link, start, end, reason: point.reason }),
            }
        };
        let (mut at, mut until) = (self.end.1, end);
        while let Some(point) = self.points.get(at as usize) {
            // After its moment the point's own link still takes its latency.
            add(point, point.time, until);
            until = point.time;
            if point.own {
                let start = self.points.get(point.before as usize).map_or(until, |it| it.time);
                add(point, start, until);
                until = start;
            }
            at = point.before;
        }
        steps.reverse();
        steps
    }
}

impl Observer<u64, 1> for Tracer<'_> {
    fn begin(&mut self, step: usize) {
        self.step = step;
        self.ready = (self.replay.launch, NONE);
        self.last = None;
    }

    fn wait(&mut self, slot: u32, time: [u64; 1]) {
        let point = self.slots[slot as usize];
        // The launch needs no point; anything else as late as it does.
        if time[0] > self.ready.0 || self.ready.1 == NONE {
            self.ready = (time[0], point);
        }
    }

    fn pass(&mut self, it: &Crossed<u64, 1>) {
        let Passage { start: [start], streamed: [ended], left: [left] } = it.passage;
        let [head, free] = [it.head[0], it.free[0]];
        let (point, reason) = match self.last {
            _ if free > head => (self.free[it.link as usize], Reason::LinkFree),
            None if self.ready.1 == NONE => (NONE, Reason::Launch),
            None => (self.ready.1, Reason::Waited),
            Some((_, tail)) if it.stored => (tail, Reason::Forwarded),
            Some((begun, _)) => (begun, Reason::Forwarded),
        };
        let begun = self.add(start, it.link, point, false, reason);
        let streamed = self.add(ended, it.link, begun, true, reason);
        let tail = match self.last {
            Some((_, before)) if left > ended => {
                self.add(left, it.link, before, false, Reason::Forwarded)
            }
            _ => streamed,
        };
        // The next one need not wait for a tail that another link holds back.
        self.free[it.link as usize] = streamed;
        if self.last.is_none() {
            self.sent = tail;
        }
        self.last = Some((begun, tail));
    }

    fn stay(&mut self, until: [u64; 1]) {
        let (time, before) = self.ready;
        let reason = if before == NONE { Reason::Launch } else { Reason::Waited };
        let begun = self.add(time, NONE, before, false, reason);
        let end = self.add(until[0], NONE, begun, true, reason);
        self.last = Some((begun, end));
    }

    fn sent(&mut self, slot: u32) {
        self.slots[slot as usize] = self.sent;
    }

    fn done(&mut self, slot: u32, time: [u64; 1]) {
        // A step that is no transfer happens with the latest of what it waits for.
        let point = self.last.map_or(self.ready.1, |it| it.1);
        match slot {
            NOWHERE => {}
            END if time[0] > self.end.0 || self.end.1 == NONE => self.end = (time[0], point),
            END => {}
            _ => self.slots[slot as usize] = point,
        }
    }
}

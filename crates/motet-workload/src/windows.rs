//! Windows: the time on a rail between traffic of one parallelism and that of the next, as Opus defines it
//! in §3.1.
//!
//! Calls on a rail are taken in the order of their starts. A *phase* is a maximal run of consecutive calls of
//! one class, which is the parallelism that they serve (or, in a recording, their group if its parallelism is
//! not known). The window between two phases is the time from the last end of the first to the first start of
//! the second, where a call starts when the slowest of its ranks does. In a window optical circuits can be
//! changed without delaying anyone. If the two phases overlap, the window is zero, and the overlap is kept,
//! because changing circuits would have to delay that traffic.
//!
//! A simulated step gives its calls by [`Run::calls`](crate::simulate::Run::calls), a recording by
//! [`Recording::rail_calls`](crate::Recording::rail_calls) (`windows/recorded`). Traffic inside a scale-up domain is not on a rail and must be left out.

mod recorded;

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration, Instant};

use crate::iteration::Iteration;
use crate::layout::{Group, Layout};
use crate::simulate::{Placement, Reach, Run};

/// A call on a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The traffic class: the parallelism that it serves.
    pub class: String,
    /// The stages whose ranks take part; empty if they are not known, as in a recording.
    pub stages: Vec<u32>,
    pub kind: CollectiveKind,
    /// The bytes that one rank passes to the call, as traces record them.
    pub bytes: Bytes,
    /// When the slowest of its ranks started it.
    pub start: Instant,
    pub end: Instant,
}

/// A maximal run of consecutive calls of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    pub class: String,
    /// The stages of its first call.
    pub stages: Vec<u32>,
    /// The first start and the last end.
    pub start: Instant,
    pub end: Instant,
    /// Bytes by kind.
    pub kinds: BTreeMap<CollectiveKind, u64>,
    pub calls: u64,
}

impl Phase {
    /// The kind with the most bytes.
    #[must_use]
    pub fn kind(&self) -> CollectiveKind {
        let most = self.kinds.iter().max_by_key(|it| it.1);
        most.map_or(CollectiveKind::SendRecv, |it| *it.0)
    }

    #[must_use]
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.kinds.values().sum())
    }

    /// A name for its traffic, such as "DP allgather".
    #[must_use]
    pub fn traffic(&self) -> String {
        format!("{} {}", self.class, self.kind())
    }

    fn begun(call: &Call) -> Self {
        Self {
            class: call.class.clone(),
            stages: call.stages.clone(),
            start: call.start,
            end: call.end,
            kinds: BTreeMap::from([(call.kind, call.bytes.get())]),
            calls: 1,
        }
    }

    fn add(&mut self, call: &Call) {
        self.end = self.end.max(call.end);
        self.calls += 1;
        *self.kinds.entry(call.kind).or_default() += call.bytes.get();
    }
}

/// The time between two phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<'a> {
    pub before: &'a Phase,
    pub after: &'a Phase,
}

impl Window<'_> {
    /// How long the rail is idle; zero if the phases overlap.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.after.start.since(self.before.end)
    }

    /// For how long the two phases overlap.
    #[must_use]
    pub fn overlap(&self) -> Duration {
        self.before.end.min(self.after.end).since(self.after.start)
    }
}

/// The phases of a step on one rail, with the windows between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    pub phases: Vec<Phase>,
}

/// Windows before one kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    pub count: u64,
    pub total: Duration,
    pub longest: Duration,
    /// The most bytes in a phase that follows one of them.
    pub bytes: Bytes,
}

impl Before {
    #[must_use]
    pub const fn mean(&self) -> Duration {
        let count = if self.count == 0 { 1 } else { self.count };
        Duration::from_ps(self.total.as_ps() / count)
    }
}

impl Windows {
    /// The phases of these calls, which may be given in any order.
    #[must_use]
    pub fn of(calls: &[Call]) -> Self {
        Self::between(calls, |phase, call| phase.class == call.class)
    }

    /// As [`of`](Self::of), but a change of the collective begins a new phase too. For jobs with one parallelism.
    #[must_use]
    pub fn of_collectives(calls: &[Call]) -> Self {
        Self::between(calls, |phase, call| {
            phase.class == call.class && phase.kinds.contains_key(&call.kind)
        })
    }

    /// As [`of`](Self::of), but groups of other stages begin a new phase too. Circuits need not change between these, since they are on
    /// other ports, but the definition can be read that way.
    #[must_use]
    pub fn of_groups(calls: &[Call]) -> Self {
        Self::between(calls, |phase, call| phase.class == call.class && phase.stages == call.stages)
    }

    fn between(calls: &[Call], goes_on: impl Fn(&Phase, &Call) -> bool) -> Self {
        let mut order: Vec<&Call> = calls.iter().collect();
        order.sort_by(|a, b| (a.start, a.end, &a.class).cmp(&(b.start, b.end, &b.class)));
        let mut phases: Vec<Phase> = Vec::new();
        for call in order {
            match phases.last_mut().filter(|it| goes_on(it, call)) {
                Some(same) => same.add(call),
                None => phases.push(Phase::begun(call)),
            }
        }
        Self { phases }
    }

    /// The windows, in the order of time.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Window<'_>> {
        self.phases.windows(2).map(|it| Window { before: &it[0], after: &it[1] })
    }

    /// The lengths of all windows, shortest first, as a CDF needs them.
    #[must_use]
    pub fn sorted(&self) -> Vec<Duration> {
        let mut all: Vec<Duration> = self.all().map(|it| it.length()).collect();
        all.sort_unstable();
        all
    }

    /// How many windows are longer than `least`.
    #[must_use]
    pub fn over(&self, least: Duration) -> usize {
        self.all().filter(|it| it.length() > least).count()
    }

    /// The windows grouped by the traffic of the phase after them.
    #[must_use]
    pub fn by_traffic(&self) -> BTreeMap<String, Before> {
        let mut all: BTreeMap<String, Before> = BTreeMap::new();
        for it in self.all() {
            let before = all.entry(it.after.traffic()).or_default();
            before.count += 1;
            before.total += it.length();
            before.longest = before.longest.max(it.length());
            before.bytes = before.bytes.max(it.after.bytes());
        }
        all
    }
}

/// Which traffic is considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All traffic of a rail, as the paper plots it.
    Rail,
    /// The traffic of one stage's ranks only, which decides when the circuits of *their* ports may change.
    Stage(u32),
}

impl Run {
    /// The calls of the step that are on a rail.
    #[must_use]
    pub fn calls(
        &self,
        iteration: &Iteration,
        layout: &Layout,
        placement: Placement,
        view: View,
    ) -> Vec<Call> {
        let mut on_rail: BTreeMap<(u32, Group), bool> = BTreeMap::new();
        let mut calls = Vec::new();
        for (index, operation, what) in iteration.communications() {
            let leaves = *on_rail.entry((operation.stage, what.group)).or_insert_with(|| {
                let reaches = placement.reaches(layout, what.group, operation.stage);
                reaches.into_iter().any(Reach::on_rail)
            });
            let mut stages = stages(layout, what.group, operation.stage);
            stages.sort_unstable();
            let seen = match view {
                View::Rail => true,
                View::Stage(stage) => stages.contains(&stage),
            };
            if leaves && seen {
                let span = self.spans()[index];
                calls.push(Call {
                    class: what.parallelism.name().to_owned(),
                    stages,
                    kind: what.kind,
                    bytes: what.input(layout),
                    start: span.start,
                    end: span.end,
                });
            }
        }
        calls
    }
}

/// The stages whose ranks take part in a communication that is listed at `stage`.
#[must_use]
pub fn stages(layout: &Layout, group: Group, stage: u32) -> Vec<u32> {
    match group {
        Group::Pipeline => (0..layout.pp).collect(),
        Group::Ends => vec![0, layout.pp - 1],
        Group::Hop { to } => vec![stage, to],
        _ => vec![stage],
    }
}

/// An estimate of the windows that a rank sees in one step, not a count: 4 per micro-batch, less one.
///
/// It assumes that parameters are gathered anew for every micro-batch both forward and backward, so that
/// each gives four phases (DP and PP, twice), without context or expert parallelism on rails, without
/// bubbles that merge phases and without the optimizer's syncs. Opus' own equation is not printed in
/// the version that we have; for the 405B job with 32 micro-batches this one gives the paper's 127.
#[must_use]
pub fn estimate(micro_batches: u32) -> u64 {
    (4 * u64::from(micro_batches)).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveKind::{AllGather, ReduceScatter, SendRecv};

    fn call(class: &str, kind: CollectiveKind, bytes: u64, start: u64, end: u64) -> Call {
        let at = |ms: u64| Instant::START + Duration::from_ms(ms);
        let bytes = Bytes::new(bytes);
        let (class, stages) = (class.to_owned(), Vec::new());
        Call { class, stages, kind, bytes, start: at(start), end: at(end) }
    }

    /// One parallelism is one phase, however its collectives alternate; by collectives it is several.
    #[test]
    fn collectives_apart() {
        let calls = [
            call("DP", AllGather, 1, 0, 10),
            call("DP", AllGather, 1, 12, 20),
            call("DP", ReduceScatter, 4, 25, 40),
            call("DP", AllGather, 1, 41, 50),
        ];
        assert_eq!(Windows::of(&calls).all().len(), 0);
        let apart = Windows::of_collectives(&calls);
        assert_eq!(apart.sorted(), [Duration::from_ms(1), Duration::from_ms(5)]);
        assert_eq!(apart.by_traffic()["DP reducescatter"].count, 1);
    }

    /// Two stages that gather one after the other: one phase of one parallelism, two of groups.
    #[test]
    fn groups_apart() {
        let of = |stage: u32, start, end| Call {
            stages: vec![stage],
            ..call("DP", AllGather, 1, start, end)
        };
        let calls = [of(0, 0, 10), of(0, 11, 20), of(1, 23, 40)];
        assert_eq!(Windows::of(&calls).all().len(), 0);
        assert_eq!(Windows::of_groups(&calls).sorted(), [Duration::from_ms(3)]);
    }

    /// Worked out by hand from the definition: last end of one phase, first start of the next.
    #[test]
    fn windows_are_the_papers() {
        let calls = [
            call("PP", SendRecv, 64, 30, 31),
            call("DP", AllGather, 10, 0, 5),
            // Ends before the call that started before it.
            call("DP", AllGather, 20, 4, 20),
            call("DP", AllGather, 30, 6, 10),
            call("DP", ReduceScatter, 40, 31, 60),
            // Begins while the gradients are reduced.
            call("PP", SendRecv, 64, 50, 55),
        ];
        let windows = Windows::of(&calls);
        let lengths: Vec<_> = windows.all().map(|it| it.length()).collect();
        assert_eq!(lengths, [Duration::from_ms(10), Duration::ZERO, Duration::ZERO]);
        let traffic: Vec<String> = windows.phases.iter().map(Phase::traffic).collect();
        assert_eq!(traffic, ["DP allgather", "PP sendrecv", "DP reducescatter", "PP sendrecv"]);
        assert_eq!((windows.phases[0].bytes().get(), windows.phases[0].calls), (60, 3));
        let overlaps: Vec<_> = windows.all().map(|it| it.overlap()).collect();
        assert_eq!(overlaps, [Duration::ZERO, Duration::ZERO, Duration::from_ms(5)]);
        assert_eq!(windows.over(Duration::from_ms(1)), 1);
        let before = windows.by_traffic()["PP sendrecv"];
        assert_eq!((before.count, before.longest), (2, Duration::from_ms(10)));
        assert_eq!(before.mean(), Duration::from_ms(5));
        assert_eq!(Windows::of(&[]), Windows::default());
    }

    #[test]
    fn the_estimate_gives_the_papers_count() {
        assert_eq!((estimate(32), estimate(2), estimate(0)), (127, 7, 0));
    }
}

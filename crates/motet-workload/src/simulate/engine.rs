//! The event loop: operations start when those they wait for have ended, and time advances from one event to the next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use motet_graph::Followers;
use motet_units::Instant;

use super::fabric::{Call, Cost, Fabric};
use super::fluid::Fluid;
use super::run::{Run, Span};
use crate::gpu::Gpu;
use crate::iteration::{Iteration, Operation};
use crate::layout::Group;

/// A fabric that never lets a communication start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the simulation came to a halt with {left} operations left, the first of them {first}: the fabric \
     never let it start; this is a fault in Motet"
)]
pub struct Halted {
    left: usize,
    first: String,
}

impl Iteration {
    /// Runs the step on a fabric.
    pub fn simulate(&self, gpu: &Gpu, fabric: &mut impl Fabric) -> Result<Run, Halted> {
        let mut engine = Engine::new(self, gpu, fabric);
        for index in 0..self.operations().len() {
            if engine.waits[index] == 0 {
                engine.ready(index);
            }
        }
        engine.start_what_may();
        while let Some(now) = engine.next() {
            engine.now = now;
            engine.end_what_has();
            engine.start_what_may();
        }
        engine.finish()
    }
}

/// Communications of one stage over one group: one at a time, in the order of becoming ready.
#[derive(Default)]
struct Stream {
    waiting: VecDeque<usize>,
    busy: bool,
}

struct Engine<'a, F> {
    iteration: &'a Iteration,
    gpu: &'a Gpu,
    fabric: &'a mut F,
    now: Instant,
    /// For each operation, how many operations it still waits for; `followers` has those that wait for it.
    waits: Vec<u32>,
    followers: Followers,
    spans: Vec<Span>,
    left: usize,
    /// End times that are known already: of compute operations, and of communications whose data is through and whose latency is running.
    ends: BinaryHeap<Reverse<(Instant, usize)>>,
    fluid: Fluid,
    /// The communications whose data is flowing; the latency of each is added when its data is through.
    behind: BTreeMap<usize, Cost>,
    streams: BTreeMap<(u32, Group), Stream>,
    /// The communications at the head of their streams that wait for the fabric to let them start, in the order of asking.
    asking: Vec<usize>,
}

impl<'a, F: Fabric> Engine<'a, F> {
    fn new(iteration: &'a Iteration, gpu: &'a Gpu, fabric: &'a mut F) -> Self {
        let count = iteration.operations().len();
        let of = |index: usize| iteration.waits(index).iter().map(move |it| (index as u32, *it));
        let followers = Followers::of(count, (0..count).flat_map(of));
        Self {
            iteration,
            gpu,
            fabric,
            now: Instant::START,
            waits: followers.awaited().to_vec(),
            followers,
            spans: vec![Span::default(); count],
            left: count,
            ends: BinaryHeap::new(),
            fluid: Fluid::default(),
            behind: BTreeMap::new(),
            streams: BTreeMap::new(),
            asking: Vec::new(),
        }
    }

    fn operation(&self, index: usize) -> &'a Operation {
        &self.iteration.operations()[index]
    }

    /// The next moment at which something ends or may begin.
    fn next(&mut self) -> Option<Instant> {
        let known = self.ends.peek().map(|it| it.0.0);
        let waking = if self.asking.is_empty() { None } else { self.fabric.wakes(self.now) };
        let moments = [known, self.fluid.next_end(), waking.filter(|it| *it > self.now)];
        moments.into_iter().flatten().min()
    }

    /// Called when all operations that an operation waits for have ended.
    fn ready(&mut self, index: usize) {
        self.spans[index].ready = self.now;
        let operation = self.operation(index);
        match operation.communication() {
            None => {
                self.spans[index].start = self.now;
                let end = self.now + operation.compute_time(self.gpu);
                self.ends.push(Reverse((end, index)));
            }
            Some(what) => {
                let stream = self.streams.entry((operation.stage, what.group)).or_default();
                stream.waiting.push_back(index);
                self.ask((operation.stage, what.group));
            }
        }
    }

    /// Lets the head of a stream ask, if it is free.
    fn ask(&mut self, stream: (u32, Group)) {
        let Some(it) = self.streams.get_mut(&stream) else { return };
        if !it.busy
            && let Some(index) = it.waiting.pop_front()
        {
            it.busy = true;
            self.asking.push(index);
            if let Some(call) = call(self.iteration, index) {
                self.fabric.requested(call, self.now);
            }
        }
    }

    /// Starts all communications that the fabric allows. One that has started may make the fabric allow
    /// others, so the fabric is asked again until it allows no more.
    fn start_what_may(&mut self) {
        loop {
            let asking = std::mem::take(&mut self.asking);
            let before = asking.len();
            for index in asking {
                match call(self.iteration, index) {
                    Some(it) if self.fabric.may_start(it, self.now) => self.start(it),
                    _ => self.asking.push(index),
                }
            }
            if self.asking.len() == before {
                return;
            }
        }
    }

    fn start(&mut self, call: Call<'_>) {
        let index = call.operation;
        self.fabric.started(call, self.now);
        let cost = self.fabric.cost(call);
        self.spans[index].start = self.now;
        self.spans[index].alone = cost.alone();
        self.fluid.start(index, &cost, self.now);
        self.behind.insert(index, cost);
    }

    fn end_what_has(&mut self) {
        for index in self.fluid.ended(self.now) {
            let latency = self.behind.remove(&index).unwrap_or_default().latency;
            self.ends.push(Reverse((self.now + latency, index)));
        }
        while let Some(Reverse((at, index))) = self.ends.peek().copied()
            && at <= self.now
        {
            self.ends.pop();
            self.end(index);
        }
    }

    fn end(&mut self, index: usize) {
        self.spans[index].end = self.now;
        self.left -= 1;
        if let Some(it) = call(self.iteration, index) {
            self.fabric.ended(it, self.now);
            let stream = (it.of.stage, it.what.group);
            if let Some(freed) = self.streams.get_mut(&stream) {
                freed.busy = false;
            }
            self.ask(stream);
        }
        for place in 0..self.followers.behind(index as u32).len() {
            // By index instead of by iterator, because `ready` needs the whole engine mutably.
            let follower = self.followers.behind(index as u32)[place];
            let waits = &mut self.waits[follower as usize];
            *waits -= 1;
            if *waits == 0 {
                self.ready(follower as usize);
            }
        }
    }

    fn finish(self) -> Result<Run, Halted> {
        if self.left == 0 {
            return Ok(Run::new(self.spans));
        }
        let first = self.asking.first().copied().unwrap_or_default();
        let first = match call(self.iteration, first) {
            Some(it) => format!("{} of {} on stage {}", it.what.kind, it.what.bytes, it.of.stage),
            None => "compute".to_owned(),
        };
        Err(Halted { left: self.left, first })
    }
}

fn call(iteration: &Iteration, operation: usize) -> Option<Call<'_>> {
    let of = iteration.operations().get(operation)?;
    of.communication().map(|what| Call { operation, of, what })
}

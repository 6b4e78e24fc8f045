//! The kernel: one pass over the [`Code`] for `N` network states at once.
//!
//! Each step is a few `max` and `+` on arrays of `N` times, which the compiler turns into vector
//! instructions. It is generic in the type of a time:
//!
//! - `f64` for many states at once, because every 64-bit x86 CPU has a vector maximum for `f64` and
//!   few have one for `u64`. Integers below 2⁵³ (2½ hours in picoseconds) are exact in `f64`, a sum
//!   or maximum beyond that never comes out below 2⁵³, and no time in a run is later than its end.
//!   So a run that ends before [`EXACT`] is exact throughout; any other is repeated in `u64`.
//! - `u64`, saturating, for single runs, reports, and those repetitions.
//!
//! An [`Observer`] sees every step; the one of a plain run is empty and costs nothing.

use super::code::{Code, END, NOWHERE, Op, START, STORES};
use super::flows::FlowRoute;
use crate::link_rule::{Arrival, Passage, Time};

/// Where `f64` stops being exact.
pub(super) const EXACT: u64 = 1 << 53;

/// How the kernel holds a time.
pub(super) trait Tick: Time {
    fn from_ps(ps: u64) -> Self;
}

impl Tick for u64 {
    fn from_ps(ps: u64) -> Self {
        ps
    }
}

impl Tick for f64 {
    fn from_ps(ps: u64) -> Self {
        ps as Self
    }
}

/// The network states of a run in the kernel's form.
#[derive(Debug, Default)]
pub(super) struct Table<T, const N: usize> {
    /// β of each channel in each state.
    pub(super) beta: Vec<[T; N]>,
    /// α of each link.
    pub(super) alpha: Vec<T>,
    /// The durations of transfers within ranks.
    pub(super) delays: Vec<T>,
    pub(super) launch: T,
    /// How many channels each link has where routes are given with the run: one for each size of
    /// transfer.
    pub(super) sizes: u32,
}

/// The buffers of a run; the next run can use them again.
#[derive(Debug, Default)]
pub(super) struct Memory<T, const N: usize> {
    slots: Vec<[T; N]>,
    /// When each link is free: the transmission times of all transfers that it took so far are over.
    free: Vec<[T; N]>,
}

impl<T: Tick, const N: usize> Memory<T, N> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    fn reset(&mut self, code: &Code, table: &Table<T, N>) {
        // Slots are written before they are read, but for START.
        self.slots.resize(code.slots, [T::ZERO; N]);
        self.slots[START as usize] = [table.launch; N];
        self.free.clear();
        self.free.resize(table.alpha.len(), [table.launch; N]);
    }
}

/// The crossing of one link by a transfer, for an [`Observer`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossed<T, const N: usize> {
    pub(super) link: u32,
    /// When the head was ready for the link.
    pub(super) head: [T; N],
    /// When the link was free of earlier transfers.
    pub(super) free: [T; N],
    pub(super) passage: Passage<[T; N]>,
    /// Whether the node before the link stored and forwarded.
    pub(super) stored: bool,
}

/// Is told what happens in a run; every method does nothing unless overridden.
pub(super) trait Observer<T, const N: usize> {
    /// Step `step` begins; the calls until the next `begin` are about it.
    fn begin(&mut self, _step: usize) {}
    /// The step waits for the time in `slot`.
    fn wait(&mut self, _slot: u32, _time: [T; N]) {}
    /// The step's transfer crosses a link.
    fn pass(&mut self, _it: &Crossed<T, N>) {}
    /// The step's transfer stays within its rank and takes until this time.
    fn stay(&mut self, _until: [T; N]) {}
    /// The time at which the step's transfer has been sent is put into a slot.
    fn sent(&mut self, _slot: u32) {}
    /// The step ends at this time, which is put into a slot.
    fn done(&mut self, _slot: u32, _time: [T; N]) {}
}

/// Sees nothing.
#[derive(Debug)]
pub(super) struct Blind;
impl<T, const N: usize> Observer<T, N> for Blind {}

/// Runs the code; gives the end in each state. `routes` has the route of each flow of
/// [`Op::Flow`].
pub(super) fn execute<T: Tick, const N: usize>(
    code: &Code,
    table: &Table<T, N>,
    routes: &[&FlowRoute],
    memory: &mut Memory<T, N>,
    observer: &mut impl Observer<T, N>,
) -> [T; N] {
    memory.reset(code, table);
    let Memory { slots, free } = memory;
    // The table's parts by themselves: through the table the compiler would look up where each is again after every write.
    let Table { beta, alpha, delays, launch, sizes } = table;
    let (launch, sizes) = ([*launch; N], *sizes);
    let mut run =
        Run { beta, alpha, delays, launch, sizes, routes, slots, free, end: launch, observer };
    let mut words = code.words.as_slice();
    for (step, op) in code.ops.iter().enumerate() {
        run.observer.begin(step);
        words = match op {
            Op::Hop => run.hop(words),
            Op::HopEnd => run.hop_end(words),
            Op::Path => run.path(words),
            Op::Flow => run.flow(words),
            Op::Join => run.join(words),
            Op::Local => run.local(words),
        };
    }
    run.end
}

struct Run<'a, T, const N: usize, O> {
    beta: &'a [[T; N]],
    alpha: &'a [T],
    delays: &'a [T],
    launch: [T; N],
    sizes: u32,
    routes: &'a [&'a FlowRoute],
    slots: &'a mut [[T; N]],
    free: &'a mut [[T; N]],
    end: [T; N],
    observer: &'a mut O,
}

impl<T: Tick, const N: usize, O: Observer<T, N>> Run<'_, T, N, O> {
    #[inline(always)]
    fn hop<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let [wait, link, channel, out] = [words[0], words[1], words[2], words[3]];
        let time = self.over_one_link(wait, link, channel);
        self.slots[out as usize] = time;
        self.observer.done(out, time);
        &words[4..]
    }

    #[inline(always)]
    fn hop_end<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let [wait, link, channel] = [words[0], words[1], words[2]];
        let time = self.over_one_link(wait, link, channel);
        self.keep(END, time);
        &words[3..]
    }

    #[inline(always)]
    fn over_one_link(&mut self, wait: u32, link: u32, channel: u32) -> [T; N] {
        let ready = self.slots[wait as usize];
        self.observer.wait(wait, ready);
        let passage = self.pass(link, channel, (ready, None));
        passage.arrival(self.latency(link)).tail
    }

    #[inline(always)]
    fn latency(&self, link: u32) -> [T; N] {
        [self.alpha[link as usize]; N]
    }

    /// Crosses one link. `head` says when the head is there; `tail` when the tail is, or `None` behind a node
    /// that stores and forwards, where the head waits for the tail.
    #[inline(always)]
    fn pass(
        &mut self,
        link: u32,
        channel: u32,
        (head, tail): ([T; N], Option<[T; N]>),
    ) -> Passage<[T; N]> {
        let slot = &mut self.free[link as usize];
        let free = *slot;
        let passage = Passage::of((head, tail), free, self.beta[channel as usize]);
        *slot = passage.streamed;
        let stored = tail.is_none();
        self.observer.pass(&Crossed { link, head, free, passage, stored });
        passage
    }

    #[inline(always)]
    fn path<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let (waits, hops) = (words[0] as usize, words[1] as usize);
        let (sent, arrived) = (words[2], words[3]);
        let (waits, rest) = words[4..].split_at(waits);
        let (hops, rest) = rest.split_at(2 * hops);
        let ready = self.ready(waits);
        self.along(ready, hops.chunks_exact(2).map(|it| (it[0], it[1])), sent, arrived);
        rest
    }

    /// A transfer whose route is given with the run: crosses the links of its flow's route.
    #[inline(always)]
    fn flow<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let (waits, flow, size) = (words[0] as usize, words[1] as usize, words[2]);
        let (sent, arrived) = (words[3], words[4]);
        let (waits, rest) = words[5..].split_at(waits);
        let ready = self.ready(waits);
        let sizes = self.sizes;
        let hops = self.routes[flow].hops.iter();
        self.along(ready, hops.map(|it| (*it, (*it & !STORES) * sizes + size)), sent, arrived);
        rest
    }

    /// Crosses the link in `word`, whose [`STORES`] bit says whether the node before it stores and forwards.
    #[inline(always)]
    fn forward(&mut self, at: Arrival<[T; N]>, word: u32, channel: u32) -> Passage<[T; N]> {
        // `Arrival::forwarded`, written as a branch: the compiler turns its result into a choice between arrays, made anew in
        // every step, which can take a third more time.
        if word & STORES != 0 {
            self.pass(word & !STORES, channel, (at.tail, None))
        } else {
            self.pass(word & !STORES, channel, (at.head, Some(at.tail)))
        }
    }

    /// Crosses all links of a transfer. Each hop is a link with its [`STORES`] bit, and the channel that has
    /// its transmission time.
    #[inline(always)]
    fn along(
        &mut self,
        ready: [T; N],
        mut hops: impl Iterator<Item = (u32, u32)>,
        sent: u32,
        arrived: u32,
    ) {
        let mut at = Arrival::whole(ready);
        // The first link apart, so that the loop over the others need not know of `sent`.
        if let Some((word, channel)) = hops.next() {
            let passage = self.forward(at, word, channel);
            if sent != NOWHERE {
                self.slots[sent as usize] = passage.left;
                self.observer.sent(sent);
            }
            at = passage.arrival(self.latency(word & !STORES));
        }
        for (word, channel) in hops {
            at = self.forward(at, word, channel).arrival(self.latency(word & !STORES));
        }
        self.keep(arrived, at.tail);
    }

    #[inline(always)]
    fn join<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let (waits, out) = (words[0] as usize, words[1]);
        let (waits, rest) = words[2..].split_at(waits);
        let time = self.ready(waits);
        self.keep(out, time);
        rest
    }

    #[inline(always)]
    fn local<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let (waits, delay, out) = (words[0] as usize, words[1], words[2]);
        let (waits, rest) = words[3..].split_at(waits);
        let time = self.ready(waits).plus([self.delays[delay as usize]; N]);
        self.observer.stay(time);
        self.keep(out, time);
        rest
    }

    #[inline(always)]
    fn ready(&mut self, waits: &[u32]) -> [T; N] {
        let mut ready = self.launch;
        for wait in waits {
            let time = self.slots[*wait as usize];
            self.observer.wait(*wait, time);
            ready = ready.later(time);
        }
        ready
    }

    #[inline(always)]
    fn keep(&mut self, out: u32, time: [T; N]) {
        match out {
            NOWHERE => {}
            END => self.end = self.end.later(time),
            _ => self.slots[out as usize] = time,
        }
        self.observer.done(out, time);
    }
}

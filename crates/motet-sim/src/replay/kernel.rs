//! The kernel: one pass over the [`Code`] for `N` states at once.
//!
//! Each step is a handful of `max` and `+` on arrays of `N` times, which the compiler turns into
//! vector instructions. It is generic in how a time is held:
//!
//! - `f64` in the wide runs, because every 64-bit x86 has a vector maximum of `f64` and few have
//!   one of `u64`. Whole numbers below 2⁵³ (2½ hours) are exact in it, and a sum or a maximum
//!   beyond never comes out below 2⁵³; no time in a run is later than its end. So a run that
//!   ends before [`EXACT`] is exact throughout, and any other is done again in `u64`.
//! - `u64`, saturating, for single runs, reports, and such second runs.
//!
//! An [`Observer`] sees every step; the plain run's is empty and costs nothing.

use super::code::{Code, END, NOWHERE, Op, START, STORES};

/// Where `f64` stops being exact.
pub(super) const EXACT: u64 = 1 << 53;

/// A time in picoseconds.
pub(super) trait Tick: Copy {
    const ZERO: Self;
    fn from_ps(ps: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn later(self, other: Self) -> Self;
}

impl Tick for u64 {
    const ZERO: Self = 0;
    fn from_ps(ps: u64) -> Self {
        ps
    }
    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn later(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Tick for f64 {
    const ZERO: Self = 0.0;
    fn from_ps(ps: u64) -> Self {
        ps as Self
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    /// Not `f64::max`, which must also see to what is not a number.
    fn later(self, other: Self) -> Self {
        if self > other { self } else { other }
    }
}

/// What a run needs to know of its states.
#[derive(Debug)]
pub(super) struct Table<T, const N: usize> {
    /// β of each channel in each state.
    pub(super) beta: Vec<[T; N]>,
    /// α of each link.
    pub(super) alpha: Vec<T>,
    /// What transfers within ranks take.
    pub(super) delays: Vec<T>,
    pub(super) launch: T,
}

/// What a run works on, to be used again by the next.
#[derive(Debug)]
pub(super) struct Memory<T, const N: usize> {
    slots: Vec<[T; N]>,
    /// When each link has had the time that all it took so far need on it.
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

/// One link of a transfer, as it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage<T, const N: usize> {
    pub(super) link: u32,
    /// When the head was there.
    pub(super) head: [T; N],
    /// When the link was free.
    pub(super) free: [T; N],
    pub(super) start: [T; N],
    /// When the link alone would have let the tail go, and takes the next transfer.
    pub(super) streamed: [T; N],
    pub(super) tail: [T; N],
    pub(super) stores: bool,
}

/// Told what happens; all of it may be ignored.
pub(super) trait Observer<T, const N: usize> {
    /// Step `step` begins.
    fn begin(&mut self, _step: usize) {}
    /// It waits for what slot `slot` holds.
    fn wait(&mut self, _slot: u32, _time: [T; N]) {}
    /// It passes a link.
    fn pass(&mut self, _it: &Passage<T, N>) {}
    /// It takes time at its rank.
    fn stay(&mut self, _until: [T; N]) {}
    /// Its sending goes to a slot.
    fn sent(&mut self, _slot: u32) {}
    /// It ends at this time, which goes to a slot.
    fn done(&mut self, _slot: u32, _time: [T; N]) {}
}

/// Sees nothing.
#[derive(Debug)]
pub(super) struct Blind;
impl<T, const N: usize> Observer<T, N> for Blind {}

/// Runs the code; gives the end in each state.
pub(super) fn execute<T: Tick, const N: usize>(
    code: &Code,
    table: &Table<T, N>,
    memory: &mut Memory<T, N>,
    observer: &mut impl Observer<T, N>,
) -> [T; N] {
    memory.reset(code, table);
    let mut run = Run { table, memory, end: [table.launch; N], observer };
    let mut words = code.words.as_slice();
    for (step, op) in code.ops.iter().enumerate() {
        run.observer.begin(step);
        words = match op {
            Op::Hop => run.hop(words),
            Op::HopEnd => run.hop_end(words),
            Op::Path => run.path(words),
            Op::Join => run.join(words),
            Op::Local => run.local(words),
        };
    }
    run.end
}

struct Run<'a, T, const N: usize, O> {
    table: &'a Table<T, N>,
    memory: &'a mut Memory<T, N>,
    end: [T; N],
    observer: &'a mut O,
}

impl<T: Tick, const N: usize, O: Observer<T, N>> Run<'_, T, N, O> {
    #[inline(always)]
    fn hop<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let [wait, link, channel, out] = [words[0], words[1], words[2], words[3]];
        let time = self.over_one_link(wait, link, channel);
        self.memory.slots[out as usize] = time;
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
        let ready = self.memory.slots[wait as usize];
        self.observer.wait(wait, ready);
        let (_, tail) = self.pass(link, channel, ready, None);
        plus(tail, self.table.alpha[link as usize])
    }

    /// Over one link, from when the head is there; `came` is when the tail is, if the head does
    /// not wait for it. Gives when the transfer starts and when its tail has left.
    #[inline(always)]
    fn pass(
        &mut self,
        link: u32,
        channel: u32,
        head: [T; N],
        came: Option<[T; N]>,
    ) -> ([T; N], [T; N]) {
        let slot = &mut self.memory.free[link as usize];
        let free = *slot;
        let start = later(head, free);
        let beta = &self.table.beta[channel as usize];
        let streamed = std::array::from_fn(|it| start[it].plus(beta[it]));
        let tail = came.map_or(streamed, |it| later(streamed, it));
        *slot = streamed;
        let stores = came.is_none();
        self.observer.pass(&Passage { link, head, free, start, streamed, tail, stores });
        (start, tail)
    }

    #[inline(always)]
    fn path<'w>(&mut self, words: &'w [u32]) -> &'w [u32] {
        let (waits, hops) = (words[0] as usize, words[1] as usize);
        let (sent, arrived) = (words[2], words[3]);
        let (waits, rest) = words[4..].split_at(waits);
        let (hops, rest) = rest.split_at(2 * hops);
        // When the whole is at the next link, and when its head would be.
        let mut whole = self.ready(waits);
        let mut head = whole;
        let mut first = true;
        for hop in hops.chunks_exact(2) {
            let (link, stores) = (hop[0] & !STORES, hop[0] & STORES != 0);
            let (at, came) = if stores { (whole, None) } else { (head, Some(whole)) };
            let (start, tail) = self.pass(link, hop[1], at, came);
            if first && sent != NOWHERE {
                self.memory.slots[sent as usize] = tail;
                self.observer.sent(sent);
            }
            first = false;
            let alpha = self.table.alpha[link as usize];
            (head, whole) = (plus(start, alpha), plus(tail, alpha));
        }
        self.keep(arrived, whole);
        rest
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
        let time = plus(self.ready(waits), self.table.delays[delay as usize]);
        self.observer.stay(time);
        self.keep(out, time);
        rest
    }

    #[inline(always)]
    fn ready(&mut self, waits: &[u32]) -> [T; N] {
        let mut ready = [self.table.launch; N];
        for wait in waits {
            let time = self.memory.slots[*wait as usize];
            self.observer.wait(*wait, time);
            ready = later(ready, time);
        }
        ready
    }

    #[inline(always)]
    fn keep(&mut self, out: u32, time: [T; N]) {
        match out {
            NOWHERE => {}
            END => self.end = later(self.end, time),
            _ => self.memory.slots[out as usize] = time,
        }
        self.observer.done(out, time);
    }
}

#[inline(always)]
fn later<T: Tick, const N: usize>(a: [T; N], b: [T; N]) -> [T; N] {
    std::array::from_fn(|it| a[it].later(b[it]))
}

#[inline(always)]
fn plus<T: Tick, const N: usize>(a: [T; N], by: T) -> [T; N] {
    a.map(|it| it.plus(by))
}

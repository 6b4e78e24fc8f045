//! The model of `motet_sim::model` again, as plainly as possible: a clock, a list of what happens
//! when, and links that take the next transfer of their list when they are free and it is there.

use std::collections::{BTreeMap, BTreeSet};

use motet_collective::Event;
use motet_net::NetworkState;
use motet_sim::{Routed, SimOptions};
use motet_units::{Bytes, Rounding};

/// What an interpreted run gives, in picoseconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) end: u64,
    pub(crate) ranks: Vec<u64>,
    pub(crate) busy: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The head of a transfer is at its hop.
    Head { transfer: usize, hop: usize },
    /// A link has had the time that the bits of what it took need there.
    Free { link: usize },
    /// One of the things that an event waits for has come about.
    Ripe { event: usize },
}

struct Interpreter<'a> {
    routed: &'a Routed<'a>,
    state: &'a NetworkState,
    options: &'a SimOptions,
    size: Bytes,
    clock: u64,
    /// By time, then in the order of their making.
    agenda: BTreeMap<(u64, u64), Happening>,
    made: u64,
    /// How much each event still waits for; one more for a transfer's way to its destination.
    waiting: Vec<usize>,
    successors: Vec<Vec<usize>>,
    /// The (transfer, hop) pairs that each link is to carry, and how many it has begun.
    orders: Vec<Vec<(usize, usize)>>,
    begun: Vec<usize>,
    taken: BTreeSet<usize>,
    heads: BTreeSet<(usize, usize)>,
    /// When the tail of a transfer left the hop before.
    tails: BTreeMap<usize, u64>,
    happened: usize,
    outcome: Outcome,
}

/// Runs the program; `None` if it never ends.
pub(crate) fn interpret(
    routed: &Routed<'_>,
    size: Bytes,
    options: &SimOptions,
    state: &NetworkState,
) -> Option<Outcome> {
    let events = routed.graph().events();
    let links = routed.network().links().len();
    let ranks = routed.program().collective().ranks() as usize;
    let launch = options.launch.as_ps();
    let mut it = Interpreter {
        routed,
        state,
        options,
        size,
        clock: launch,
        agenda: BTreeMap::new(),
        made: 0,
        waiting: vec![0; events],
        successors: vec![Vec::new(); events],
        orders: vec![Vec::new(); links],
        begun: vec![0; links],
        taken: BTreeSet::new(),
        heads: BTreeSet::new(),
        tails: BTreeMap::new(),
        happened: 0,
        outcome: Outcome { end: launch, ranks: vec![launch; ranks], busy: vec![0; links] },
    };
    for event in 0..events {
        for pred in routed.graph().preds(event) {
            it.successors[*pred as usize].push(event);
            it.waiting[event] += 1;
        }
        it.waiting[event] += 1;
        if event % 2 == 0 {
            it.after(0, Happening::Ripe { event });
        }
    }
    for event in routed.sequence().iter().filter(|it| it.is_sent()) {
        let transfer = event.transfer().index();
        for (hop, link) in routed.hops(transfer).iter().enumerate() {
            it.orders[link.link.index()].push((transfer, hop));
        }
    }
    while let Some(((time, _), happening)) = it.agenda.pop_first() {
        it.clock = time;
        it.happen(happening)?;
    }
    (it.happened == events).then_some(it.outcome)
}

impl Interpreter<'_> {
    fn after(&mut self, delay: u64, happening: Happening) {
        self.made += 1;
        self.agenda.insert((self.clock + delay, self.made), happening);
    }

    fn bytes(&self, transfer: usize) -> Bytes {
        let program = self.routed.program();
        let count = u64::from(program.transfers()[transfer].count);
        program.collective().chunk_bytes(self.size).checked_mul(count).unwrap()
    }

    fn happen(&mut self, happening: Happening) -> Option<()> {
        match happening {
            Happening::Head { transfer, hop } => {
                let link = self.routed.hops(transfer)[hop].link.index();
                self.heads.insert((transfer, hop));
                self.try_link(link)
            }
            Happening::Free { link } => {
                self.taken.remove(&link);
                self.try_link(link)
            }
            Happening::Ripe { event } => {
                self.waiting[event] -= 1;
                if self.waiting[event] > 0 {
                    return Some(());
                }
                let transfer = event / 2;
                if event % 2 == 1 {
                    self.has_happened(event);
                } else if self.routed.hops(transfer).is_empty() {
                    return self.stay(transfer);
                } else {
                    self.after(0, Happening::Head { transfer, hop: 0 });
                }
                Some(())
            }
        }
    }

    /// A transfer within a rank: sent and there after its time.
    fn stay(&mut self, transfer: usize) -> Option<()> {
        let time = match self.options.local_bandwidth {
            None => 0,
            Some(rate) => rate.transfer_time(self.bytes(transfer), Rounding::Up)?.as_ps(),
        };
        self.has_happened_after(time, transfer * 2);
        self.after(time, Happening::Ripe { event: transfer * 2 + 1 });
        Some(())
    }

    fn try_link(&mut self, link: usize) -> Option<()> {
        let Some(&(transfer, hop)) = self.orders[link].get(self.begun[link]) else {
            return Some(());
        };
        if self.taken.contains(&link) || !self.heads.contains(&(transfer, hop)) {
            return Some(());
        }
        self.begun[link] += 1;
        self.taken.insert(link);
        let hops = self.routed.hops(transfer);
        let alpha = |hop: usize| self.routed.network().link(hops[hop].link).spec.latency.as_ps();
        let rate = self.state.bandwidth(hops[hop].link);
        let beta = rate.transfer_time(self.bytes(transfer), Rounding::Up)?.as_ps();
        let mut tail = self.clock + beta;
        if !hops[hop].starts_segment {
            tail = tail.max(self.tails[&transfer] + alpha(hop - 1));
        }
        let (alpha, stay) = (alpha(hop), tail - self.clock);
        self.tails.insert(transfer, tail);
        self.outcome.busy[link] += beta;
        self.after(beta, Happening::Free { link });
        if hop == 0 {
            self.has_happened_after(stay, transfer * 2);
        }
        match hops.get(hop + 1) {
            None => self.after(stay + alpha, Happening::Ripe { event: transfer * 2 + 1 }),
            Some(next) => {
                let delay = if next.starts_segment { stay + alpha } else { alpha };
                self.after(delay, Happening::Head { transfer, hop: hop + 1 });
            }
        }
        Some(())
    }

    fn has_happened(&mut self, event: usize) {
        self.has_happened_after(0, event);
    }

    fn has_happened_after(&mut self, delay: u64, event: usize) {
        self.happened += 1;
        let time = self.clock + delay;
        let event = Event::from_index(event);
        let transfer = self.routed.program().transfer(event.transfer());
        let rank = if event.is_sent() { transfer.src.rank } else { transfer.dst.rank };
        let latest = &mut self.outcome.ranks[rank.index()];
        *latest = time.max(*latest);
        self.outcome.end = self.outcome.end.max(time);
        for next in self.successors[event.index()].clone() {
            self.after(delay, Happening::Ripe { event: next });
        }
    }
}

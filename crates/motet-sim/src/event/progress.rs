//! [`Progress`]: which events of the program have happened, and which transfers may be sent as a
//! result.

use motet_collective::TransferId;
use motet_units::Instant;

use super::observer::Observer;
use super::prepared::{EventNode, Prepared};

/// The progress of a run.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    prepared: &'a Prepared<'a>,
    /// What each event still waits for, and what waits for it.
    nodes: Vec<EventNode>,
    /// Events that have happened, but whose dependents have not been updated yet.
    told: Vec<u32>,
    /// Transfers that may be sent now; the engine takes them from here.
    pub(super) ready: Vec<u32>,
    arrived: usize,
    end: u64,
}

impl<'a> Progress<'a> {
    pub(super) fn new(prepared: &'a Prepared<'a>, start: u64) -> Self {
        let nodes = prepared.nodes.clone();
        let order = prepared.routed.sequence().iter();
        let ready = order
            .filter(|it| it.is_sent() && nodes[it.index()].waits == 0)
            .map(|it| it.transfer().0)
            .collect();
        Self { prepared, nodes, told: Vec::new(), ready, arrived: 0, end: start }
    }

    /// Whether anything waits for a transfer to be sent.
    #[inline]
    pub(super) fn is_sending_awaited(&self, transfer: u32) -> bool {
        let event = transfer as usize * 2;
        self.nodes[event].first < self.nodes[event + 1].first
    }

    /// A transfer has been sent.
    #[inline]
    pub(super) fn sent<O: Observer>(&mut self, transfer: u32, now: u64, observer: &mut O) {
        if O::ACTIVE {
            observer.sent(Instant::from_ps(now), TransferId(transfer));
        }
        self.told.push(transfer * 2);
        self.tell(now, observer);
    }

    /// A transfer has reached its destination.
    #[inline]
    pub(super) fn reached<O: Observer>(&mut self, transfer: u32, now: u64, observer: &mut O) {
        let arrival = transfer * 2 + 1;
        let waits = &mut self.nodes[arrival as usize].waits;
        *waits -= 1;
        if *waits == 0 {
            self.arrive(arrival, now, observer);
            self.tell(now, observer);
        }
    }

    #[inline]
    fn arrive<O: Observer>(&mut self, event: u32, now: u64, observer: &mut O) {
        if O::ACTIVE {
            observer.arrived(Instant::from_ps(now), TransferId(event / 2));
        }
        self.arrived += 1;
        self.end = now;
        self.told.push(event);
    }

    #[inline]
    fn tell<O: Observer>(&mut self, now: u64, observer: &mut O) {
        let prepared = self.prepared;
        while let Some(event) = self.told.pop() {
            let event = event as usize;
            let (from, to) = (self.nodes[event].first, self.nodes[event + 1].first);
            for next in &prepared.waiting[from as usize..to as usize] {
                let waits = &mut self.nodes[*next as usize].waits;
                *waits -= 1;
                if *waits == 0 {
                    if next.is_multiple_of(2) {
                        self.ready.push(next / 2);
                    } else {
                        self.arrive(*next, now, observer);
                    }
                }
            }
        }
    }

    /// Whether every transfer has arrived.
    pub(super) fn is_done(&self) -> bool {
        self.arrived * 2 + 1 == self.nodes.len()
    }

    /// When the last transfer so far arrived.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }
}

//! The engine for fair sharing: every link carries all transfers that want it at once, at max–min
//! fair rates.
//!
//! All data that moves at one rate is a segment ([`Segments`]). It starts when its head is ready
//! (all heads, where streams are reduced), and its bits leave all its links at the rate that the
//! most contended link allows ([`Shares`]). With r(t) that rate, its tail leaves at the first whole
//! picosecond at which ∫r dt equals its bits; it has then been sent, and reaches the end of each
//! leg after the latencies up to there. A segment alone on the network takes Σα + max β, as in the
//! other engine. Rates are recomputed once at the end of every instant at which a flow starts or
//! ends or a link changes.

use motet_collective::TransferId;
use motet_units::{Bandwidth, Bytes, Duration, Instant, LinkId};

use super::dry::Dry;
use super::error::SimError;
use super::observer::{Crossing, Observer};
use super::outcome::LinkUse;
use super::progress::Progress;
use super::queue::{Kind, Queue};
use super::segments::{Segments, followers};
use super::setting::Setting;
use super::shares::{FRACTION, Shares};
use super::timeline::{Feed, PS_PER_S};

/// A segment in transmission.
#[derive(Clone, Copy, Debug)]
struct FairFlow {
    /// The bits left to send at `since`, in units of 1 / ([`PS_PER_S`] × 2²⁰) bit.
    left: u128,
    rate: u128,
    since: u64,
    /// When it ends unless rates change.
    end: u64,
    /// Heads still missing.
    missing: u32,
    active: bool,
}

/// Statistics of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    busy_since: u64,
    busy: u64,
    chunks: u64,
    crossings: u64,
}

pub(super) struct Fair<'a, 'o, O> {
    setting: Setting<'a>,
    segments: Segments,
    shares: Shares,
    flows: Vec<FairFlow>,
    meters: Vec<Meter>,
    progress: Progress<'a>,
    queue: Queue,
    feed: Option<Feed<'a>>,
    observer: &'o mut O,
    events: u64,
}

impl<'a, 'o, O: Observer> Fair<'a, 'o, O> {
    pub(super) fn new(
        setting: Setting<'a>,
        rates: &[u64],
        feed: Option<Feed<'a>>,
        start: u64,
        observer: &'o mut O,
    ) -> Self {
        let prepared = setting.prepared;
        let segments = Segments::new(prepared);
        let crossed =
            segments.legs.items().iter().map(|it| prepared.legs[*it as usize].link).collect();
        let flow = |missing: &u32| FairFlow {
            left: 0,
            rate: 0,
            since: 0,
            end: u64::MAX,
            missing: *missing,
            active: false,
        };
        Self {
            shares: Shares::new(rates, segments.legs.starts().to_vec(), crossed),
            flows: segments.heads.iter().map(flow).collect(),
            meters: vec![Meter::default(); rates.len()],
            progress: Progress::new(prepared, start),
            queue: Queue::new(start),
            segments,
            feed,
            observer,
            events: 0,
            setting,
        }
    }

    /// Runs to the end: when that was, how many events there were, and what links did.
    pub(super) fn run(mut self) -> Result<(u64, u64, Vec<LinkUse>), SimError> {
        self.expect_change();
        self.send_ready()?;
        while !self.progress.is_done() {
            let Some((kind, id)) = self.queue.pop() else { return Err(self.stuck()) };
            self.events += 1;
            match kind {
                Kind::Change => self.change()?,
                Kind::Left => self.left(id)?,
                Kind::Reached => self.reached(id)?,
                Kind::Head => self.start(id),
                Kind::Share => self.share(),
                // The id of this kind is a transfer here: a local copy, which belongs to no segment.
                Kind::Passed => self.progress.sent(id, self.queue.now(), self.observer),
                Kind::Started | Kind::Streamed => {}
            }
            self.send_ready()?;
        }
        let chunk = self.setting.chunk;
        let usage = |meter: &Meter| LinkUse {
            busy: Duration::from_ps(meter.busy),
            bytes: Bytes::new(meter.chunks.saturating_mul(chunk)),
            crossings: meter.crossings,
        };
        Ok((self.progress.end(), self.events, self.meters.iter().map(usage).collect()))
    }

    fn send_ready(&mut self) -> Result<(), SimError> {
        let now = self.queue.now();
        for index in 0..self.progress.ready.len() {
            let transfer = self.progress.ready[index];
            let id = self.setting.prepared.first[transfer as usize];
            let leg = &self.setting.prepared.legs[id as usize];
            if leg.link as usize == self.meters.len() {
                let end = self.setting.local_end(now, leg.count)?;
                self.queue.push(end, Kind::Passed, transfer);
                self.queue.push(end, Kind::Reached, id);
            } else {
                self.queue.push(now, Kind::Head, id);
            }
        }
        self.progress.ready.clear();
        Ok(())
    }

    /// A head is ready for a segment; the segment starts with the last of the heads that it waits for.
    fn start(&mut self, leg: u32) {
        let segment = self.segments.of[leg as usize];
        let now = self.queue.now();
        let flow = &mut self.flows[segment as usize];
        flow.missing -= 1;
        if flow.missing > 0 {
            return;
        }
        let count = self.setting.prepared.legs[leg as usize].count;
        let bits = u128::from(count) * u128::from(self.setting.chunk) * 8;
        // Below 2⁶⁷ × 2⁴⁰ × 2²⁰.
        flow.left = (bits * PS_PER_S) << FRACTION;
        (flow.since, flow.active) = (now, true);
        let work = flow.left;
        for place in 0..self.segments.legs_of(segment).len() {
            let leg = self.segments.legs_of(segment)[place];
            let link = self.setting.prepared.legs[leg as usize].link;
            let was_idle = self.shares.add(segment, link);
            let meter = &mut self.meters[link as usize];
            if was_idle {
                meter.busy_since = now;
            }
            meter.chunks = meter.chunks.saturating_add(u64::from(count));
            meter.crossings += 1;
            self.tell(leg, O::started);
        }
        if work == 0 {
            self.flows[segment as usize].end = now;
            self.queue.push(now, Kind::Left, segment);
        } else {
            self.queue.push(now, Kind::Share, 0);
        }
    }

    /// A flow has ended, unless this event was queued before the flow's rate changed, which moved its end.
    fn left(&mut self, segment: u32) -> Result<(), SimError> {
        let now = self.queue.now();
        let flow = &mut self.flows[segment as usize];
        if !flow.active || flow.end != now {
            return Ok(());
        }
        (flow.active, flow.left, flow.rate) = (false, 0, 0);
        let prepared = self.setting.prepared;
        for place in 0..self.segments.legs_of(segment).len() {
            let id = self.segments.legs_of(segment)[place];
            let leg = &prepared.legs[id as usize];
            if self.shares.remove(segment, leg.link) {
                let meter = &mut self.meters[leg.link as usize];
                meter.busy += now - meter.busy_since;
            }
            self.tell(id, O::streamed);
            self.tell(id, O::finished);
            if leg.is_shared {
                for transfer in &prepared.shared[leg.next as usize].begins {
                    self.progress.sent(transfer.0, now, self.observer);
                }
            } else if leg.hop == 0 {
                self.progress.sent(leg.transfer, now, self.observer);
            }
            self.pass_on(id)?;
        }
        if self.shares.is_dirty() {
            self.queue.push(now, Kind::Share, 0);
        }
        Ok(())
    }

    /// Goes on behind a leg whose tail has left: transfers reach their destination, or further segments start.
    fn pass_on(&mut self, id: u32) -> Result<(), SimError> {
        let prepared = self.setting.prepared;
        let leg = &prepared.legs[id as usize];
        let at = self.queue.now().saturating_add(self.segments.latency[id as usize]);
        if at == u64::MAX {
            return Err(self.setting.names().too_long(TransferId(leg.transfer), LinkId(leg.link)));
        }
        let next = followers(prepared, id);
        let ends = if leg.is_shared {
            !prepared.shared[leg.next as usize].ends.is_empty()
        } else {
            next.is_empty()
        };
        if ends {
            self.queue.push(at, Kind::Reached, id);
        }
        for next in next.iter().filter(|it| prepared.legs[**it as usize].starts_segment) {
            self.queue.push(at, Kind::Head, *next);
        }
        Ok(())
    }

    fn reached(&mut self, id: u32) -> Result<(), SimError> {
        let prepared = self.setting.prepared;
        let leg = &prepared.legs[id as usize];
        let now = self.queue.now();
        if leg.is_shared {
            for transfer in &prepared.shared[leg.next as usize].ends {
                self.progress.reached(transfer.0, now, self.observer);
            }
        } else {
            self.progress.reached(leg.transfer, now, self.observer);
        }
        Ok(())
    }

    /// Shares rates out anew and sets the new ends of the flows whose rates have changed.
    fn share(&mut self) {
        if !self.shares.is_dirty() {
            return;
        }
        let now = self.queue.now();
        let rates = self.shares.share();
        for (segment, rate) in rates {
            let flow = &mut self.flows[*segment as usize];
            if !flow.active || flow.rate == *rate {
                continue;
            }
            // At most what was left: the flow has not ended yet.
            flow.left -= flow.rate * u128::from(now - flow.since);
            (flow.since, flow.rate) = (now, *rate);
            let needed = if *rate == 0 { u128::MAX } else { flow.left.div_ceil(*rate) };
            flow.end = u64::try_from(needed).map_or(u64::MAX, |it| now.saturating_add(it));
            if flow.end < u64::MAX {
                self.queue.push(flow.end, Kind::Left, *segment);
            }
        }
        if O::ACTIVE {
            let rates = rates.to_vec();
            for (segment, rate) in rates {
                let rate = u64::try_from(rate >> FRACTION).unwrap_or(u64::MAX);
                for leg in self.segments.legs_of(segment).to_vec() {
                    self.tell(leg, |observer, at, crossing| {
                        observer.rate(at, crossing, Bandwidth::from_bits_per_s(rate));
                    });
                }
            }
        }
    }

    fn expect_change(&mut self) {
        if let Some(at) = self.feed.as_ref().map(Feed::next_at).filter(|it| *it < u64::MAX) {
            self.queue.push(at.max(self.queue.now()), Kind::Change, 0);
        }
    }

    fn change(&mut self) -> Result<(), SimError> {
        let now = self.queue.now();
        while let Some(feed) = self.feed.as_mut().filter(|it| it.next_at() <= now) {
            let Some((at, link, rate)) = feed.take()? else { break };
            self.shares.set_rate(link.0, rate);
            if O::ACTIVE {
                let bandwidth = Bandwidth::from_bits_per_s(rate);
                self.observer.changed(Instant::from_ps(at), link, bandwidth);
            }
        }
        if self.shares.is_dirty() {
            self.queue.push(now, Kind::Share, 0);
        }
        self.expect_change();
        Ok(())
    }

    /// Why nothing more happens: names the first flow that never ends, or, if there is none, the transfer that
    /// never starts and what it waits for.
    fn stuck(&self) -> SimError {
        let found = (0..self.segments.count() as u32).find(|it| self.flows[*it as usize].active);
        let Some(segment) = found else { return Dry::run(self.setting.prepared, false).stuck() };
        let transfer = TransferId(
            self.setting.prepared.legs[self.segments.legs_of(segment)[0] as usize].transfer,
        );
        let links = self.shares.crossed(segment);
        match links.iter().find(|it| !self.shares.has_capacity(**it)) {
            Some(link) => {
                let since = self.flows[segment as usize].since;
                self.setting.names().never_ends(transfer, LinkId(*link), since)
            }
            None => self.setting.names().too_long(transfer, LinkId(links[0])),
        }
    }

    fn tell(&mut self, id: u32, what: impl FnOnce(&mut O, Instant, Crossing<'_>)) {
        if O::ACTIVE {
            let at = Instant::from_ps(self.queue.now());
            self.setting.with_crossing(id, |crossing| what(self.observer, at, crossing));
        }
    }
}

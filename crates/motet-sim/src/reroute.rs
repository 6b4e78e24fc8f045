//! [`Reroutable`]: a program compiled once whose transfers take routes that are given at each run.
//!
//! The replay engine is for one set of routes and many states; this is for routes that change as
//! often as the state does, as when a WAN controller moves flows between collectives. A *flow* is
//! what a program sends from one rank to another over one path; it can be dealt out to several
//! parts, each of which takes its own way. Turns that the program gives links are for the ways it was
//! made for and are not kept. Same rules as [`crate::model`], program
//! order, one state at a time; a property test holds it equal to the event engine.

use motet_net::{Network, NetworkState, NodeKind};
use motet_units::{Bytes, Duration, LinkId, Rank, Rounding};
use rustc_hash::FxHashMap;

use crate::model::SwitchForwarding;
use crate::replay::RunError;
use crate::route::Routed;

/// The flow of a transfer that stays at its rank.
const LOCAL: u32 = u32::MAX;

/// No bandwidth: the link is down, or carries nothing.
const NEVER: u64 = u64::MAX;

/// What a program sends from one rank to another over one path, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub from: Rank,
    pub to: Rank,
    /// In all.
    pub bytes: Bytes,
}

/// A route for a flow: links, and where data is stored and forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    hops: Vec<WayHop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WayHop {
    link: LinkId,
    latency: u64,
    starts_segment: bool,
}

impl Way {
    /// The route over `links`, which must follow one another in the network.
    #[must_use]
    pub fn new(network: &Network, links: &[LinkId], switches: SwitchForwarding) -> Self {
        let hop = |link: &LinkId| {
            let it = network.link(*link);
            let stores = switches == SwitchForwarding::StoreAndForward
                || network.node(it.from).kind == NodeKind::Gpu;
            WayHop { link: *link, latency: it.spec.latency.as_ps(), starts_segment: stores }
        };
        Self { hops: links.iter().map(hop).collect() }
    }

    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkId> + '_ {
        self.hops.iter().map(|it| it.link)
    }

    /// The latency of all links together.
    #[must_use]
    pub fn latency(&self) -> Duration {
        Duration::from_ps(self.hops.iter().map(|it| it.latency).sum())
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// The event it gives a time.
    event: u32,
    /// What it waits for: a range of `waits`.
    waits: (u32, u32),
    /// For a sending: its flow, and the number of its size.
    flow: u32,
    size: u32,
}

/// A program whose routes are given at each run.
#[derive(Clone, Debug)]
pub struct Reroutable {
    steps: Vec<Step>,
    waits: Vec<u32>,
    events: usize,
    flows: Vec<Flow>,
    /// What transfers carry, each size once.
    sizes: Vec<Bytes>,
    /// The way of each flow in the program as it was routed.
    ways: Vec<Way>,
}

/// How long each size keeps each link busy, in one state.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    busy: Vec<u64>,
}

/// Memory that runs share.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    times: Vec<u64>,
    free: Vec<u64>,
    /// Links with an entry in `free`, to be cleared.
    touched: Vec<LinkId>,
}

impl Reroutable {
    /// Compiles a program for a collective of `size` bytes in nccl-tests' sense. The transfers of
    /// each flow are dealt out to `parts` parts in turn.
    #[must_use]
    pub fn compile(
        routed: &Routed<'_>,
        size: Bytes,
        switches: SwitchForwarding,
        parts: u32,
    ) -> Self {
        let program = routed.program();
        let chunk = program.collective().chunk_bytes(size);
        let mut flow_of: FxHashMap<(Rank, Rank, Option<u32>, u32), u32> = FxHashMap::default();
        let mut dealt: FxHashMap<(Rank, Rank, Option<u32>), u32> = FxHashMap::default();
        let mut size_of: FxHashMap<Bytes, u32> = FxHashMap::default();
        let mut made = Self {
            steps: Vec::with_capacity(program.transfers().len()),
            waits: Vec::new(),
            events: routed.graph().events(),
            flows: Vec::new(),
            sizes: Vec::new(),
            ways: Vec::new(),
        };
        for event in routed.sequence() {
            let index = event.transfer().index();
            let own = event.transfer().sent().index() as u32;
            let start = made.waits.len() as u32;
            let preds = routed.graph().preds(event.index());
            // A sending gives its arrival its time; only what that waits for beyond it is a step.
            made.waits.extend(preds.iter().filter(|it| event.is_sent() || **it != own));
            let waits = (start, made.waits.len() as u32);
            let number = event.index() as u32;
            if !event.is_sent() {
                if waits.0 < waits.1 {
                    made.steps.push(Step { event: number, waits, flow: LOCAL, size: 0 });
                }
                continue;
            }
            let transfer = &program.transfers()[index];
            if transfer.is_local() {
                made.steps.push(Step { event: number, waits, flow: LOCAL, size: 0 });
                continue;
            }
            let (from, to) = (transfer.src.rank, transfer.dst.rank);
            let bytes = chunk.checked_mul(u64::from(transfer.count));
            let bytes = bytes.unwrap_or(Bytes::new(u64::MAX));
            let turn = dealt.entry((from, to, transfer.path)).or_insert(0);
            let part = *turn % parts.max(1);
            *turn += 1;
            let flow = *flow_of.entry((from, to, transfer.path, part)).or_insert_with(|| {
                made.flows.push(Flow { from, to, bytes: Bytes::ZERO });
                let links: Vec<LinkId> = routed.hops(index).iter().map(|it| it.link).collect();
                made.ways.push(Way::new(routed.network(), &links, switches));
                made.flows.len() as u32 - 1
            });
            let total = &mut made.flows[flow as usize].bytes;
            *total = total.checked_add(bytes).unwrap_or(Bytes::new(u64::MAX));
            let size = *size_of.entry(bytes).or_insert_with(|| {
                made.sizes.push(bytes);
                made.sizes.len() as u32 - 1
            });
            made.steps.push(Step { event: number, waits, flow, size });
        }
        made
    }

    /// The flows, in the order in which the program first uses them.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The way of each flow as the program was routed.
    #[must_use]
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// What a state means for this program. The state must be of the program's network.
    pub fn rates(&self, state: &NetworkState, rates: &mut Rates) {
        rates.busy.clear();
        for link in (0..state.link_count()).map(LinkId::from_index) {
            let bandwidth = state.bandwidth(link);
            rates.busy.extend(self.sizes.iter().map(|size| {
                bandwidth.transfer_time(*size, Rounding::Up).map_or(NEVER, Duration::as_ps)
            }));
        }
    }

    /// When the program ends if flow f takes `ways[f]`.
    pub fn run(
        &self,
        ways: &[&Way],
        rates: &Rates,
        scratch: &mut Scratch,
    ) -> Result<Duration, RunError> {
        let Scratch { times, free, touched } = scratch;
        times.clear();
        times.resize(self.events, 0);
        free.resize(rates.busy.len() / self.sizes.len().max(1), 0);
        let mut end = 0;
        for step in &self.steps {
            let awaited = &self.waits[step.waits.0 as usize..step.waits.1 as usize];
            let ready = awaited.iter().map(|it| times[*it as usize]).max().unwrap_or(0);
            let at = step.event as usize;
            if step.flow == LOCAL {
                // A transfer within a rank takes no time; an arrival was given its own before.
                let time = times[at].max(ready);
                times[at] = time;
                times[at | 1] = times[at | 1].max(time);
                end = end.max(time);
                continue;
            }
            let (mut head, mut tail, mut sent) = (ready, 0u64, None);
            for hop in &ways[step.flow as usize].hops {
                let link = hop.link.index();
                let busy = rates.busy[link * self.sizes.len() + step.size as usize];
                if busy == NEVER {
                    for link in touched.drain(..) {
                        free[link.index()] = 0;
                    }
                    let transfer = motet_collective::TransferId(step.event / 2);
                    return Err(RunError::NoBandwidth { transfer, link: hop.link });
                }
                if hop.starts_segment {
                    head = head.max(tail);
                    tail = 0;
                }
                let start = head.max(free[link]);
                let streamed = start.saturating_add(busy);
                let left = streamed.max(tail);
                if free[link] == 0 {
                    touched.push(hop.link);
                }
                free[link] = streamed;
                sent.get_or_insert(left);
                head = start.saturating_add(hop.latency);
                tail = left.saturating_add(hop.latency);
            }
            times[at] = sent.unwrap_or(ready);
            times[at | 1] = tail;
            end = end.max(tail);
        }
        for link in touched.drain(..) {
            free[link.index()] = 0;
        }
        if end == u64::MAX { Err(RunError::TooLong) } else { Ok(Duration::from_ps(end)) }
    }
}

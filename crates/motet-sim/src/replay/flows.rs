//! [`FlowReplay`]: replay of a program whose routes are given with each run.
//!
//! [`Replay`](super::Replay) is for one set of routes and many network states. Where routes change
//! as often as the state does, as when a WAN controller moves traffic between collectives,
//! compiling anew for each change would cost more than the run. So this compiles the program once
//! with *flows* in place of paths. A flow is all that the program sends from one rank to another
//! over one path; it can be split into several parts, to each of which transfers are dealt in turn.
//! Each run then says over which links each flow goes.
//!
//! Same kernel and rules as [`Replay`](super::Replay). Two things of the program do not count here,
//! because they were made for the program's own routes: the turns it gives to links, and what
//! switches could copy or reduce on the way. A property test holds this equal to the event engine
//! on the same program with the given routes written into it.

use motet_collective::{Event, TransferId};
use motet_net::{Network, NetworkState, NodeKind};
use motet_units::{Bytes, Duration, LinkId, Rank, Rounding};
use rustc_hash::FxHashMap;

use super::code::{Code, STORES};
use super::compile;
use super::error::RunError;
use super::kernel::{Blind, Memory, Table, execute};
use crate::model::SwitchForwarding;
use crate::route::Routed;

/// No flow: the transfer stays at its rank.
const LOCAL: u32 = u32::MAX;

/// The transmission time on a link that is down or has no bandwidth.
const NEVER: u64 = u64::MAX;

/// All data that a program sends from one rank to another over one path, or one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankFlow {
    pub from: Rank,
    pub to: Rank,
    /// The bytes of all its transfers together.
    pub bytes: Bytes,
}

/// The links that a flow takes, and at which of them data is stored and forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRoute {
    /// Link numbers, with [`STORES`] where the node before the link stores and forwards.
    pub(super) hops: Vec<u32>,
    latency: Duration,
}

impl FlowRoute {
    /// The route over `links`, which must be consecutive in the network.
    #[must_use]
    pub fn new(network: &Network, links: &[LinkId], switches: SwitchForwarding) -> Self {
        let hop = |link: &LinkId| {
            let stores = switches == SwitchForwarding::StoreAndForward
                || network.node(network.link(*link).from).kind == NodeKind::Gpu;
            link.0 | if stores { STORES } else { 0 }
        };
        let latency = links.iter().map(|it| network.link(*it).spec.latency).sum();
        Self { hops: links.iter().map(hop).collect(), latency }
    }

    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkId> + '_ {
        self.hops.iter().map(|it| LinkId(it & !STORES))
    }

    /// The sum of its links' latencies.
    #[must_use]
    pub const fn latency(&self) -> Duration {
        self.latency
    }
}

/// A program compiled once, to be run over routes given with each run.
#[derive(Clone, Debug)]
pub struct FlowReplay {
    code: Code,
    /// The latency of every link of the network, in picoseconds.
    latencies: Vec<u64>,
    flows: Vec<RankFlow>,
    /// The route of each flow in the program as it was routed.
    routes: Vec<FlowRoute>,
    assigned: Assigned,
}

/// The flow and the size of each transfer.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    /// By transfer: its flow ([`LOCAL`] if it stays at its rank), and the index of its size in `sizes`.
    pub(super) transfers: Vec<(u32, u32)>,
    /// The distinct sizes of transfers.
    sizes: Vec<Bytes>,
}

impl Assigned {
    /// A number that two transfers share only if they leave over the same first link whatever routes a run
    /// gives: the flow. `None` for a transfer within a rank.
    pub(super) fn first_link(&self, transfer: TransferId) -> Option<u32> {
        Some(self.transfers[transfer.index()].0).filter(|it| *it != LOCAL)
    }
}

/// Transmission times of a program's transfers in one network state. Filled by [`FlowReplay::see`];
/// can be reused for the next state.
#[derive(Debug, Default)]
pub struct FlowTimes(Table<u64, 1>);

/// Buffers, reused between runs.
#[derive(Debug, Default)]
pub struct FlowMemory(Memory<u64, 1>);

impl FlowReplay {
    /// Compiles a program for a collective of `size` bytes in nccl-tests' sense. The transfers of
    /// each flow are distributed over `parts` parts in turn.
    #[must_use]
    pub fn compile(
        routed: &Routed<'_>,
        size: Bytes,
        switches: SwitchForwarding,
        parts: u32,
    ) -> Self {
        let mut dealer = Dealer::new(routed, size, switches, parts.max(1));
        for event in routed.sequence().iter().filter(|it| it.is_sent()) {
            dealer.deal(*event);
        }
        let Dealer { flows, routes, assigned, .. } = dealer;
        let links = routed.network().links().iter();
        Self {
            code: compile::with_flows(routed, &assigned),
            latencies: links.map(|it| it.spec.latency.as_ps()).collect(),
            flows,
            routes,
            assigned,
        }
    }

    /// The flows, in the order in which the program first uses them.
    #[must_use]
    pub fn flows(&self) -> &[RankFlow] {
        &self.flows
    }

    /// The route of each flow as the program itself was routed.
    #[must_use]
    pub fn routes(&self) -> &[FlowRoute] {
        &self.routes
    }

    /// Computes the transmission times of this program in `state`, which must be of the program's
    /// network.
    pub fn see(&self, state: &NetworkState, times: &mut FlowTimes) {
        let table = &mut times.0;
        table.alpha.clone_from(&self.latencies);
        table.sizes = self.assigned.sizes.len() as u32;
        table.beta.clear();
        for link in (0..state.link_count()).map(LinkId::from_index) {
            let bandwidth = state.bandwidth(link);
            table.beta.extend(self.assigned.sizes.iter().map(|size| {
                [bandwidth.transfer_time(*size, Rounding::Up).map_or(NEVER, Duration::as_ps)]
            }));
        }
    }

    /// When the program ends if flow f takes `routes[f]`, in the state for which this program
    /// filled `times`.
    pub fn run(
        &self,
        routes: &[&FlowRoute],
        times: &FlowTimes,
        memory: &mut FlowMemory,
    ) -> Result<Duration, RunError> {
        let [end] = execute(&self.code, &times.0, routes, &mut memory.0, &mut Blind);
        if end == NEVER { Err(self.why_never(routes, times)) } else { Ok(Duration::from_ps(end)) }
    }

    /// Why a run does not end: names the first transfer in program order whose route has a link without
    /// bandwidth.
    fn why_never(&self, routes: &[&FlowRoute], times: &FlowTimes) -> RunError {
        let sizes = self.assigned.sizes.len();
        for transfer in &self.code.transfers {
            let (flow, size) = self.assigned.transfers[*transfer as usize];
            let Some(route) = routes.get(flow as usize) else { continue };
            let time = |link: &LinkId| times.0.beta[link.index() * sizes + size as usize];
            if let Some(link) = route.links().find(|it| time(it) == [NEVER]) {
                return RunError::NoBandwidth { transfer: TransferId(*transfer), link };
            }
        }
        RunError::TooLong
    }
}

/// What the transfers of a flow have in common: their two ranks, the path that the program gives them, and,
/// for transfers into or out of a switch, their first and last link.
type Way = (Rank, Rank, Option<u32>, Option<[LinkId; 2]>);

/// Assigns transfers to flows.
struct Dealer<'a> {
    routed: &'a Routed<'a>,
    chunk: Bytes,
    switches: SwitchForwarding,
    parts: u32,
    /// By way and part.
    flow_of: FxHashMap<(Way, u32), u32>,
    /// By way: how many transfers so far.
    dealt: FxHashMap<Way, u32>,
    size_of: FxHashMap<Bytes, u32>,
    flows: Vec<RankFlow>,
    routes: Vec<FlowRoute>,
    assigned: Assigned,
}

impl<'a> Dealer<'a> {
    fn new(routed: &'a Routed<'a>, size: Bytes, switches: SwitchForwarding, parts: u32) -> Self {
        let transfers = vec![(LOCAL, 0); routed.program().transfers().len()];
        Self {
            routed,
            chunk: routed.program().collective().chunk_bytes(size),
            switches,
            parts,
            flow_of: FxHashMap::default(),
            dealt: FxHashMap::default(),
            size_of: FxHashMap::default(),
            flows: Vec::new(),
            routes: Vec::new(),
            assigned: Assigned { transfers, sizes: Vec::new() },
        }
    }

    fn deal(&mut self, event: Event) {
        let Self { routed, flows, routes, assigned, .. } = self;
        let index = event.transfer().index();
        let transfer = &routed.program().transfers()[index];
        if transfer.is_local() {
            return;
        }
        let (from, to) = (transfer.src.rank, transfer.dst.rank);
        let hops = routed.hops(index);
        let in_switch = hops.first().zip(hops.last()).filter(|_| transfer.is_in_switch());
        let way = (from, to, transfer.path, in_switch.map(|(a, b)| [a.link, b.link]));
        let dealt = self.dealt.entry(way).or_insert(0);
        let part = *dealt % self.parts;
        *dealt += 1;
        let flow = *self.flow_of.entry((way, part)).or_insert_with(|| {
            flows.push(RankFlow { from, to, bytes: Bytes::ZERO });
            let links: Vec<LinkId> = hops.iter().map(|it| it.link).collect();
            routes.push(FlowRoute::new(routed.network(), &links, self.switches));
            flows.len() as u32 - 1
        });
        // More bytes than 64 bits count take longer than time reaches, and so do that many.
        let most = Bytes::new(u64::MAX);
        let bytes = self.chunk.checked_mul(u64::from(transfer.count)).unwrap_or(most);
        let total = &mut flows[flow as usize].bytes;
        *total = total.checked_add(bytes).unwrap_or(most);
        let size = *self.size_of.entry(bytes).or_insert_with(|| {
            assigned.sizes.push(bytes);
            assigned.sizes.len() as u32 - 1
        });
        assigned.transfers[index] = (flow, size);
    }
}

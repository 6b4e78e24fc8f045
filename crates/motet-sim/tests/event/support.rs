//! What the tests share: networks, random programs, and an observer that writes everything down.

use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_net::builders::{Params, find};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::event::{Crossing, Observer};
use motet_sim::{Outcome, Prepared, Routed, SimError, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, Instant, LinkId, NodeId, Rank};
use proptest::prelude::*;

pub(crate) fn template(kind: &str, words: &[&str]) -> Network {
    find(kind).unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

pub(crate) fn verified(program: Program) -> Verified<Program> {
    Verified::new(program, None).unwrap()
}

pub(crate) fn run(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
    options: SimOptions,
) -> Result<Outcome, SimError> {
    run_forwarding(program, network, size, options, SwitchForwarding::CutThrough)
}

pub(crate) fn run_forwarding(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
    options: SimOptions,
    switches: SwitchForwarding,
) -> Result<Outcome, SimError> {
    let routed = Routed::new(program, network, switches).unwrap();
    Simulation::new(&Prepared::new(&routed), size).options(options).run()
}

pub(crate) fn time(program: Program, network: &Network, size: Bytes) -> Duration {
    run(&verified(program), network, size, SimOptions::default()).unwrap().time
}

/// A line of nodes of these kinds, with (bit/s, ps) of each link between them.
pub(crate) fn line(kinds: &[NodeKind], links: &[(u64, u64)]) -> Network {
    let mut b = NetworkBuilder::new("line");
    for (index, kind) in kinds.iter().enumerate() {
        b.add_node(Node::new(format!("n{index}"), *kind)).unwrap();
    }
    for (index, (rate, latency)) in links.iter().enumerate() {
        let (from, to) = (NodeId::from_index(index), NodeId::from_index(index + 1));
        b.add_link(from, to, link(*rate, *latency)).unwrap();
    }
    b.build().unwrap()
}

/// `count` GPUs, each over a link of its own to a leaf, which has one link to a last GPU: that is
/// the last of the links. Each is (bit/s, ps). And a Gather of one chunk each over it.
pub(crate) fn funnel(count: u32, own: (u64, u64), last: (u64, u64)) -> (Network, Program) {
    let mut b = NetworkBuilder::new("funnel");
    let leaf = b.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    let gpus: Vec<NodeId> = (0..=count)
        .map(|it| b.add_node(Node::new(format!("gpu{it}"), NodeKind::Gpu)).unwrap())
        .collect();
    for gpu in &gpus[..count as usize] {
        b.add_link(*gpu, leaf, link(own.0, own.1)).unwrap();
    }
    b.add_link(leaf, gpus[count as usize], link(last.0, last.1)).unwrap();
    let root = Rank(count);
    let gather = Collective::rooted(CollectiveKind::Gather, count + 1, 1, root).unwrap();
    let mut program = ProgramBuilder::new("gather", gather);
    for rank in 0..=count {
        let to = Slot::output(root, rank);
        program.add(Transfer::copy(Slot::input(Rank(rank), 0), to, 1));
    }
    (b.build().unwrap(), program.build())
}

pub(crate) fn link(rate: u64, latency: u64) -> LinkSpec {
    let (rate, latency) = (Bandwidth::from_bits_per_s(rate), Duration::from_ps(latency));
    LinkSpec::new(LinkClass::Other, rate, latency)
}

/// Rank `from` sends its input to rank `to`, of `ranks`, over `path` if one is given.
pub(crate) fn send(ranks: u32, from: u32, to: u32, path: Option<Vec<LinkId>>) -> Program {
    let mut peers = vec![None; ranks as usize];
    peers[from as usize] = Some(Rank(to));
    let collective = Collective::send_recv(1, peers).unwrap();
    let mut b = ProgramBuilder::new("send", collective);
    let path = path.map(|it| b.add_path(it));
    let copy = Transfer::copy(Slot::input(Rank(from), 0), Slot::output(Rank(to), 0), 1);
    b.add(Transfer { path, ..copy });
    b.build()
}

/// A Broadcast along a random tree: parent of rank r is `parents[r - 1] % r`, chunk by chunk.
pub(crate) fn random_tree(parents: &[u32], chunks: u32) -> Program {
    let ranks = parents.len() as u32 + 1;
    let collective = Collective::rooted(CollectiveKind::Broadcast, ranks, chunks, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("random-tree", collective);
    for chunk in 0..chunks {
        let own = Transfer::copy(Slot::input(Rank(0), chunk), Slot::output(Rank(0), chunk), 1);
        let mut arrived: Vec<TransferId> = vec![b.add(own)];
        for (index, parent) in parents.iter().enumerate() {
            let (rank, parent) = (index as u32 + 1, parent % (index as u32 + 1));
            let copy = Transfer::copy(
                Slot::output(Rank(parent), chunk),
                Slot::output(Rank(rank), chunk),
                1,
            );
            arrived.push(b.add_after(copy, &[arrived[parent as usize]]));
        }
    }
    b.build()
}

/// Any of the textbook programs or a random tree, for at most `ranks` ranks.
pub(crate) fn any_program(ranks: u32) -> impl Strategy<Value = Verified<Program>> {
    let tree = (prop::collection::vec(any::<u32>(), 1..ranks as usize), 1u32..4)
        .prop_map(|(parents, chunks)| random_tree(&parents, chunks));
    let textbook = prop::sample::select(crate::programs::all(ranks));
    prop_oneof![tree, textbook].prop_map(verified)
}

/// A connected network with at least `gpus` GPUs: a random tree of GPUs and switches, and more
/// random links. Rates and latencies repeat, so that ties are common; latency may be zero.
pub(crate) fn any_network(gpus: usize, capable: bool) -> impl Strategy<Value = Network> {
    let node = (0usize..64, any::<bool>());
    let spec = (1u64..5, prop_oneof![Just(0u64), 1u64..2000, Just(500)]);
    let more = (0usize..64, 0usize..64, spec.clone());
    (
        prop::collection::vec((node, spec), gpus..gpus + 6),
        prop::collection::vec(more, 0..6),
        prop::collection::vec(any::<(bool, bool)>(), gpus + 6),
    )
        .prop_map(move |(nodes, more, abilities)| {
            let mut b = NetworkBuilder::new("random");
            let count = nodes.len();
            let spec = |(rate, latency): (u64, u64)| link(rate * 1_000_000_007, latency * 1000);
            for (index, ((to, is_switch), it)) in nodes.iter().enumerate() {
                // As many GPUs as asked for, at least.
                let switch = *is_switch
                    && count - index
                        > gpus.saturating_sub(
                            b.nodes().iter().filter(|it| it.kind == NodeKind::Gpu).count(),
                        );
                let kind = if switch { NodeKind::Leaf } else { NodeKind::Gpu };
                let mut node = Node::new(format!("n{index}"), kind);
                if capable && switch {
                    (node.multicast, node.reduces) = abilities[index];
                }
                let id = b.add_node(node).unwrap();
                if index > 0 {
                    b.add_duplex(NodeId::from_index(to % index), id, spec(*it)).unwrap();
                }
            }
            for (from, to, it) in more {
                let (from, to) = (from % count, to % count);
                if from != to {
                    b.add_duplex(NodeId::from_index(from), NodeId::from_index(to), spec(it))
                        .unwrap();
                }
            }
            b.build().unwrap()
        })
}

/// What an observer was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Started { link: LinkId, transfers: Vec<TransferId>, hop: u32, bytes: Bytes },
    Rate { link: LinkId, transfers: Vec<TransferId>, hop: u32, rate: Bandwidth },
    Streamed { transfers: Vec<TransferId>, hop: u32 },
    Finished { link: LinkId, transfers: Vec<TransferId>, hop: u32, bytes: Bytes },
    Sent(TransferId),
    Arrived(TransferId),
    Changed(LinkId, Bandwidth),
}

/// Writes everything down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log(pub(crate) Vec<(Instant, Told)>);

impl Observer for Log {
    fn started(&mut self, at: Instant, it: Crossing<'_>) {
        let (link, transfers, hop, bytes) = (it.link, it.transfers.to_vec(), it.hop, it.bytes);
        self.0.push((at, Told::Started { link, transfers, hop, bytes }));
    }

    fn rate(&mut self, at: Instant, it: Crossing<'_>, rate: Bandwidth) {
        let (link, transfers, hop) = (it.link, it.transfers.to_vec(), it.hop);
        self.0.push((at, Told::Rate { link, transfers, hop, rate }));
    }

    fn streamed(&mut self, at: Instant, it: Crossing<'_>) {
        let (transfers, hop) = (it.transfers.to_vec(), it.hop);
        self.0.push((at, Told::Streamed { transfers, hop }));
    }

    fn finished(&mut self, at: Instant, it: Crossing<'_>) {
        let (link, transfers, hop, bytes) = (it.link, it.transfers.to_vec(), it.hop, it.bytes);
        self.0.push((at, Told::Finished { link, transfers, hop, bytes }));
    }

    fn sent(&mut self, at: Instant, transfer: TransferId) {
        self.0.push((at, Told::Sent(transfer)));
    }

    fn arrived(&mut self, at: Instant, transfer: TransferId) {
        self.0.push((at, Told::Arrived(transfer)));
    }

    fn changed(&mut self, at: Instant, link: LinkId, bandwidth: Bandwidth) {
        self.0.push((at, Told::Changed(link, bandwidth)));
    }
}

pub(crate) fn any_options() -> impl Strategy<Value = SimOptions> {
    use motet_sim::Discipline::{FairShare, Fifo, ProgramOrder};
    let discipline = prop::sample::select(vec![ProgramOrder, Fifo, FairShare]);
    let local = prop::option::of((1u64..4).prop_map(Bandwidth::gb_per_s));
    (discipline, local, 0u64..3000).prop_map(|(discipline, local_bandwidth, launch)| SimOptions {
        discipline,
        local_bandwidth,
        launch: Duration::from_ps(launch),
    })
}

pub(crate) fn any_switches() -> impl Strategy<Value = SwitchForwarding> {
    prop::sample::select(vec![SwitchForwarding::CutThrough, SwitchForwarding::StoreAndForward])
}

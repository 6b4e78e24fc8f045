//! Random tasks, of every kind that users have: every template and random networks, every
//! collective, subsets of ranks, odd roots and sizes, with and without switches that copy or reduce.
//! The same seed and number always give the same task.

use std::error::Error;

use motet_collective::CollectiveKind;
use motet_net::builders::{Assembly, Params, find};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_synth::{Goal, Method};
use motet_units::{Bandwidth, Bytes, Duration, NodeId, Rank, Seed};
use rand::RngExt as _;

/// Every template, as users write it: at most 24 GPUs, so that a run takes a moment.
pub(crate) const TEMPLATES: [&str; 56] = [
    "dgx-1",
    "dgx-1:count=2",
    "dgx-2",
    "dgx-a100:count=2",
    "dgx-a100:count=2,detail=full",
    "dgx-h100",
    "dgx-h100:nvls=true",
    "dgx-h100:count=2",
    "dgx-h100:count=2,nvls=true",
    "dgx-h100:count=2,fabric=rail",
    "dgx-h100:count=2,fabric=rail,nvls=true",
    "dgx-h100:count=2,fabric=direct",
    "dgx-h100:count=2,fabric=rail-optical",
    "dgx-h100:count=2,detail=nics",
    "dgx-h100:count=3",
    "dgx-h200:detail=full",
    "dgx-b200:count=2",
    "gh200:count=2",
    "mi300x",
    "mi300x:count=2",
    "gb200-nvl72:trays=3",
    "gb200-nvl72:trays=2,detail=full",
    "gb300-nvl72:trays=3",
    "mi250",
    "ndv2:count=2",
    "server-file:file=server.xml,count=3",
    "v100-x4:count=3",
    "v100-x4:count=2,detail=nics",
    "switch:gpus=2",
    "switch:gpus=7",
    "switch:gpus=9,sharp=true",
    "leaf-spine:leaves=3,spines=2,gpus-per-leaf=3",
    "leaf-spine:leaves=2,spines=1,gpus-per-leaf=4,sharp=true",
    "leaf-spine:leaves=4,spines=3,gpus-per-leaf=1,oversubscription=3",
    "fat-tree:k=2",
    "fat-tree:k=4",
    "rail:servers=2",
    "rail:servers=3,rails=3",
    "rail:servers=2,spines=0",
    "rail:servers=2,sharp=true",
    "rail-optical:servers=2",
    "dragonfly:routers=2,gpus-per-router=1,global-links=1",
    "jellyfish:switches=6,degree=3",
    "ring:gpus=5",
    "ring:gpus=8",
    "mesh:rows=3,columns=4",
    "mesh:rows=1,columns=5",
    "torus-2d:rows=3,columns=5",
    "torus-2d:rows=4,columns=4",
    "torus-3d:x=2,y=3,z=2",
    "hypercube:dimensions=3",
    "full-mesh:gpus=6",
    "hammingmesh:columns=2,rows=2",
    "bcube:n=3",
    "two-dc:gpus=3",
    "wan:file=wan.gml",
];

/// A server of two GPUs, as NCCL writes one down.
const SERVER: &str = include_str!("server.xml");

/// The graph that the `wan` template reads.
const WAN: &str = "graph [ directed 0
  node [ id 0 label \"A\" ] node [ id 1 label \"B\" ] node [ id 2 label \"C\" ] node [ id 3 label \"D\" ]
  edge [ source 0 target 1 ] edge [ source 1 target 2 ] edge [ source 2 target 3 ] edge [ source 0 target 2 ]
]";

const KINDS: [CollectiveKind; 10] = [
    CollectiveKind::AllGather,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::AllToAllV,
    CollectiveKind::Broadcast,
    CollectiveKind::Gather,
    CollectiveKind::Reduce,
    CollectiveKind::ReduceScatter,
    CollectiveKind::Scatter,
    CollectiveKind::SendRecv,
];

/// What to ask of the synthesizer.
pub(crate) struct Case {
    pub(crate) network: Network,
    pub(crate) goal: Goal,
    pub(crate) size: Bytes,
    pub(crate) method: Method,
    pub(crate) about: String,
}

type Stream = motet_units::Stream;

fn one_of<T: Copy>(stream: &mut Stream, all: &[T]) -> T {
    all[stream.random_range(0..all.len())]
}

/// The network that a template with parameters, `name:key=value,key=value`, makes.
pub(crate) fn from_template(text: &str) -> Result<Network, Box<dyn Error>> {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let words = words.split(',').filter(|it| !it.is_empty());
    let fetch =
        |file: &str| Ok(if file.ends_with(".xml") { SERVER.to_owned() } else { WAN.to_owned() });
    let mut assembly = Assembly::new(name).with_fetch(&fetch);
    assembly.add(find(name)?, &Params::from_words(words)?)?;
    Ok(assembly.finish()?)
}

/// The task of a number.
pub(crate) fn case(seed: Seed, number: u64) -> Result<Case, Box<dyn Error>> {
    let mut stream = seed.numbered(number).stream("torture");
    let template = TEMPLATES[usize::try_from(number / 2)? % TEMPLATES.len()];
    // By turns, so that every template has as many runs as any.
    let (plain, what) = match number % 2 {
        0 => (from_template(template)?, template.to_owned()),
        _ => (random_network(&mut stream)?, "a random network".to_owned()),
    };
    let network = if stream.random_bool(0.3) { capable(&mut stream, &plain)? } else { plain };
    let gpus = u32::try_from(network.ranks().len())?;
    let ranks = if stream.random_bool(0.3) { stream.random_range(1..=gpus) } else { gpus };
    let kind = KINDS[usize::try_from(stream.random_range(0..KINDS.len() as u64))?];
    let goal = goal(&mut stream, kind, ranks)?;
    let sizes = [0, 1, 7, 1000, 4097, 1 << 16, 1_000_003, 1 << 26, 1 << 30, 3 << 32];
    let size = Bytes::new(one_of(&mut stream, &sizes));
    let method = method(&mut stream, kind);
    let root = goal.root().map_or_else(String::new, |it| format!(" root {}", it.0));
    let about = format!("{kind} of {size} over {ranks} ranks{root} by {} on {what}", method.name());
    Ok(Case { network, goal, size, method, about })
}

fn goal(stream: &mut Stream, kind: CollectiveKind, ranks: u32) -> Result<Goal, Box<dyn Error>> {
    Ok(match kind {
        CollectiveKind::AllToAllV => {
            let most = one_of(stream, &[1, 3, 100]);
            let counts = (0..ranks * ranks).map(|_| stream.random_range(0..=most)).collect();
            Goal::all_to_all_v(ranks, counts)?
        }
        CollectiveKind::SendRecv => {
            // Each rank is sent to by one at most.
            let shift = stream.random_range(0..ranks);
            let peer = |it: u32| Some(Rank((it + shift) % ranks));
            let peers = (0..ranks).map(|it| peer(it).filter(|_| stream.random_bool(0.8)));
            Goal::send_recv(peers.collect())?
        }
        _ => Goal::rooted(kind, ranks, Rank(stream.random_range(0..ranks)))?,
    })
}

/// Mostly `auto`; of the others any that does the collective on some network.
fn method(stream: &mut Stream, kind: CollectiveKind) -> Method {
    let able: Vec<Method> = Method::all().filter(|it| it.does(kind)).collect();
    if stream.random_bool(0.6) { Method::Auto } else { one_of(stream, &able) }
}

/// A network with links of any speed and latency, in one direction or both, switches of any number
/// and degree, and GPUs that may be out of reach.
fn random_network(stream: &mut Stream) -> Result<Network, Box<dyn Error>> {
    let mut builder = NetworkBuilder::new("random");
    let (gpus, switches) = (stream.random_range(1..8usize), stream.random_range(0..6usize));
    let kinds = [NodeKind::Leaf, NodeKind::Spine, NodeKind::Nic, NodeKind::Cpu, NodeKind::NvSwitch];
    let mut nodes: Vec<NodeId> = Vec::new();
    for index in 0..gpus + switches {
        let kind = if index < gpus { NodeKind::Gpu } else { one_of(stream, &kinds) };
        nodes.push(builder.add_node(Node::new(format!("n{index}"), kind))?);
    }
    let tame = stream.random_bool(0.6);
    let wired = stream.random_bool(0.9);
    for at in 1..nodes.len() {
        let spec = random_link(stream, tame);
        // A tree joins all, most of the time.
        if wired {
            builder.add_duplex(nodes[stream.random_range(0..at)], nodes[at], spec)?;
        }
    }
    for _ in 0..stream.random_range(0..2 * nodes.len()) {
        let (from, to) = (one_of(stream, &nodes), one_of(stream, &nodes));
        let spec = random_link(stream, tame);
        if from != to && stream.random_bool(0.5) {
            builder.add_link(from, to, spec)?;
        } else if from != to {
            builder.add_duplex(from, to, spec)?;
        }
    }
    Ok(builder.build()?)
}

fn random_link(stream: &mut Stream, tame: bool) -> LinkSpec {
    let wild: [u64; 9] = [
        1,
        3,
        1000,
        8_000_000,
        1_000_000_007,
        1 << 33,
        400_000_000_000,
        7_200_000_000_000,
        64_000_000_000_000,
    ];
    let rates = if tame { &wild[4..7] } else { &wild[..] };
    let latencies: [u64; 6] = [0, 1, 500_000, 3_000_000, 10_000_000_000, 1_000_000_000_000];
    let latencies = if tame { &latencies[..4] } else { &latencies[..] };
    let rate = Bandwidth::from_bits_per_s(one_of(stream, rates));
    LinkSpec::new(LinkClass::Other, rate, Duration::from_ps(one_of(stream, latencies)))
}

/// The network with switches that copy or reduce here and there.
fn capable(stream: &mut Stream, network: &Network) -> Result<Network, Box<dyn Error>> {
    let mut builder = NetworkBuilder::new(network.name());
    for node in network.nodes() {
        let mut node = node.clone();
        if node.kind != NodeKind::Gpu {
            (node.multicast, node.reduces) = (stream.random_bool(0.6), stream.random_bool(0.6));
        }
        builder.add_node(node)?;
    }
    for link in network.links() {
        builder.add_link(link.from, link.to, link.spec)?;
    }
    Ok(builder.build()?)
}

//! How close to the bound programs come, on real and regular networks.

use motet_collective::{BoundError, CollectiveKind};
use motet_net::formats::cluster_toml;
use motet_net::{LinkClass, LinkSpec, Network, NetworkState, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration, NodeId, Rank, Seed};
use rand::RngExt;

use super::{builder, made, node, peers, ratio, template};
use crate::exchange::{Options, Routing, synthesize};
use crate::task::{Goal, SynthError, Task};

fn sample(name: &str) -> Network {
    let text = motet_testdata::ours(&format!("networks/{name}.toml"));
    let none = |_: &str| Err("no other files".to_owned());
    cluster_toml::read(&text, &none).unwrap().network
}

fn all_to_all(network: &Network, size: Bytes) -> Task<'_> {
    let goal = Goal::new(CollectiveKind::AllToAll, network.ranks().len() as u32).unwrap();
    Task::new(network, goal, size)
}

#[test]
fn all_to_all_reaches_the_bound_of_the_sample_networks() {
    let least = [
        ("dgx1", 0.985),
        ("dgx-a100-x1", 0.999),
        ("dgx-a100-x2", 0.985),
        ("dgx-a100-x4", 0.98),
        ("mi250-x1", 0.985),
        ("mi250-x2", 0.985),
        ("ndv2-x2", 0.98),
        ("ndv2-x4", 0.985),
        ("dgx2-x2", 0.98),
        ("mesh-4x4", 0.985),
        ("torus-4x4", 0.985),
    ];
    for (name, least) in least {
        let network = sample(name);
        let ratio = ratio(&all_to_all(&network, Bytes::gib(1)), &Options::default());
        assert!(ratio >= least, "{name}: {ratio}");
    }
}

#[test]
fn small_sizes_take_little_more_than_the_latency() {
    let network = template("dgx-a100", &["count=2"]);
    let task = all_to_all(&network, Bytes::kib(16));
    assert!(ratio(&task, &Options::default()) > 0.6);
}

#[test]
fn a_skewed_exchange_is_balanced_over_the_servers() {
    let network = template("dgx-a100", &["count=4"]);
    let mut stream = Seed::new(5).stream("counts");
    // Expert d draws tokens like 1 ÷ (d + 1).
    let counts = (0..32 * 32).map(|it| stream.random_range(200..800) / (it % 32 + 1)).collect();
    let task = Task::new(&network, Goal::all_to_all_v(32, counts).unwrap(), Bytes::mib(256));
    let servers = Options { method: Routing::Servers, ..Options::default() };
    assert!(ratio(&task, &servers) > 0.98);
    let direct = Options { method: Routing::Direct, ..Options::default() };
    assert!(ratio(&task, &direct) < 0.5, "what one rank gets is more than its own link can take");
    assert_eq!(made(&task, &Options::default()).0.method, Routing::Servers);
}

#[test]
fn rooted_and_paired_data_take_all_ways_there_are() {
    let mesh = template("mesh", &["rows=4", "columns=4"]);
    for kind in [CollectiveKind::Gather, CollectiveKind::Scatter] {
        for root in [0, 5] {
            let goal = Goal::rooted(kind, 16, Rank(root)).unwrap();
            let ratio = ratio(&Task::new(&mesh, goal, Bytes::gib(1)), &Options::default());
            assert!(ratio > 0.97, "{kind} at {root}: {ratio}");
        }
    }
    // Two ways out of the corner, four out of the middle.
    for pair in [(0, 15), (5, 10)] {
        let task = Task::new(&mesh, peers(&[pair], 16), Bytes::gib(1));
        let ratio = ratio(&task, &Options::default());
        assert!(ratio > 0.95, "{pair:?}: {ratio}");
    }
}

#[test]
fn gather_and_scatter_serve_calls_in_place() {
    let mesh = template("mesh", &["rows=2", "columns=2"]);
    for kind in [CollectiveKind::Gather, CollectiveKind::Scatter] {
        let goal = Goal::rooted(kind, 4, Rank(1)).unwrap();
        let (made, _) = made(&Task::new(&mesh, goal, Bytes::mib(1)), &Options::default());
        assert!(made.program.forms().in_place && made.program.forms().out_of_place);
    }
}

#[test]
fn what_cannot_be_reached_is_proved_by_a_cut() {
    let ring = template("ring", &["gpus=4"]);
    let mut state = NetworkState::nominal(&ring);
    let gone = ring.gpu(Rank(2)).unwrap();
    for link in ring.incoming(gone) {
        state.set_up(*link, false);
    }
    let goal = Goal::new(CollectiveKind::AllToAll, 4).unwrap();
    let task = Task::new(&ring, goal, Bytes::mib(1)).in_state(state);
    match synthesize(&task, &Options::default()) {
        Err(SynthError::Impossible(BoundError::Unreachable(it))) => assert_eq!(it.to, Rank(2)),
        other => panic!("{other:?}"),
    }
    // Nothing goes there: all is well.
    let task = Task { goal: peers(&[(0, 1), (1, 3)], 4), ..task };
    assert!(synthesize(&task, &Options::default()).is_ok());
}

#[test]
fn other_collectives_are_not_exchanges() {
    let ring = template("ring", &["gpus=4"]);
    let goal = Goal::new(CollectiveKind::AllReduce, 4).unwrap();
    let error = synthesize(&Task::new(&ring, goal, Bytes::mib(1)), &Options::default());
    assert!(matches!(error, Err(SynthError::NotForMethod { .. })));
}

/// Every rank sends to the next: what leaves a server for the next must go over all its network cards, by
/// way of the other GPUs, whose own links then have little time to spare.
#[test]
fn a_ring_of_messages_uses_all_network_cards() {
    let all =
        [("dgx-h100", "count=4", 0.95), ("dgx-a100", "count=2", 0.95), ("mi250", "count=2", 0.95)];
    for (name, words, least) in all {
        let network = template(name, &[words]);
        let ranks = network.ranks().len() as u32;
        let pairs: Vec<(u32, u32)> = (0..ranks).map(|it| (it, (it + 1) % ranks)).collect();
        let task = Task::new(&network, peers(&pairs, ranks as usize), Bytes::gib(1));
        let ratio = ratio(&task, &Options::default());
        assert!(ratio >= least, "{name}: {ratio}");
    }
}

/// Three rows of four datacenters, each with a GPU at 50 GB/s, joined by a WAN of 12.5 GB/s with links of 1
/// to 5 ms.
fn wan() -> Network {
    let mut builder = builder();
    let rate = |it: u64| Bandwidth::from_bits_per_s(it * 100_000_000);
    let near = LinkSpec::new(LinkClass::default(), rate(4000), Duration::from_us(1));
    for at in 0..12u32 {
        let gpu = builder.add_node(node(format!("gpu{at}"), NodeKind::Gpu)).unwrap();
        let border = builder.add_node(node(format!("border{at}"), NodeKind::Border)).unwrap();
        builder.add_duplex(gpu, border, near).unwrap();
        let left = at.checked_sub(1).filter(|_| at % 4 > 0);
        for other in [left, at.checked_sub(4)].into_iter().flatten() {
            let far = Duration::from_ms(1 + u64::from(other * 7 + at * 3) % 5);
            let link = LinkSpec::new(LinkClass::default(), rate(1000), far);
            builder.add_duplex(NodeId(2 * other + 1), border, link).unwrap();
        }
    }
    builder.build().unwrap()
}

/// What is near is sent first, and what is far is on its way meanwhile.
#[test]
fn far_ranks_are_under_way_while_near_ones_are_served() {
    let network = wan();
    for kind in [CollectiveKind::Gather, CollectiveKind::Scatter] {
        for root in [0, 6] {
            let goal = Goal::rooted(kind, 12, Rank(root)).unwrap();
            let task = Task::new(&network, goal, Bytes::mib(512));
            let least = task.bound().unwrap().time(task.size).as_ps() as f64;
            let (made, time) = made(&task, &Options::default());
            assert_eq!(made.method, Routing::Quickest, "{kind} at {root}");
            assert_eq!(made.makespan, time, "the schedule is what is simulated");
            let ratio = time.as_ps() as f64 / least;
            assert!(ratio <= 1.01, "{kind} at {root}: {ratio}");
        }
    }
}

/// Data from afar and from nearby meets on links: neither waits for the other.
#[test]
fn near_and_far_share_links() {
    let network = wan();
    let task = all_to_all(&network, Bytes::gib(1));
    let (made, time) = made(&task, &Options::default());
    let ratio = time.as_ps() as f64 / task.bound().unwrap().time(task.size).as_ps() as f64;
    assert!(ratio <= 1.03, "{ratio}");
    assert!(!made.program.turns().is_empty());
    // By numbers, too, it is right, and keeps them.
    let (made, _) = super::made(&task.clone().by_numbers(), &Options::default());
    assert!(made.program.turns().is_empty());
}

/// Two GPUs send each other 1 GiB over a link and over a detour, both of 12.5 GB/s. The detour takes 20 ms and can
/// therefore carry for 20 ms less. Half by either way would take 43 + 20 ms; best is what lets both be done at once:
/// (86 + 20) ÷ 2 ms.
#[test]
fn a_long_way_round_carries_less() {
    let mut builder = builder();
    let gpus = ["a", "b"].map(|it| builder.add_node(node(it.to_owned(), NodeKind::Gpu)).unwrap());
    let border = builder.add_node(node("border".to_owned(), NodeKind::Border)).unwrap();
    let link = |late| {
        LinkSpec::new(LinkClass::default(), Bandwidth::from_bits_per_s(100_000_000_000), late)
    };
    builder.add_duplex(gpus[0], gpus[1], link(Duration::from_us(1))).unwrap();
    for gpu in gpus {
        builder.add_duplex(gpu, border, link(Duration::from_ms(10))).unwrap();
    }
    let network = builder.build().unwrap();
    let task = Task::new(&network, peers(&[(0, 1), (1, 0)], 2), Bytes::gib(1));
    let (_, time) = made(&task, &Options::default());
    let alone = Bytes::gib(1).get() as f64 / 12.5e9;
    let best = (alone + 0.02) / 2.0;
    let took = time.as_ps() as f64 / 1e12;
    assert!(took >= best && took < best * 1.01, "{took} s, best {best} s");
}

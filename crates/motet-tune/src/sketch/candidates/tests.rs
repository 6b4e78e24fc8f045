//! The three stages on networks whose right answer is known, and what the experiment shows.

use std::collections::BTreeSet;

use motet_collective::CollectiveKind;
use motet_net::builders::{self, Params};
use motet_net::formats::cluster_toml;
use motet_net::{LinkClass, LinkSpec, NetworkBuilder, Node};
use motet_synth::{Effort, Goal, Method, Task, synthesize};
use motet_units::{Bandwidth, Duration, Seed};
use proptest::prelude::*;

use super::*;
use crate::clusters;
use crate::sketch::experiment::{Row, connections_experiment, table};

fn build(kind: &str, words: &[&str]) -> Network {
    let params = Params::from_words(words.iter().copied()).unwrap();
    builders::find(kind).unwrap().build(&params).unwrap()
}

fn cluster(name: &str) -> Network {
    clusters::find(name).unwrap().network().unwrap()
}

fn names(network: &Network, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|it| network.node(*it).name.clone()).collect()
}

/// Servers with NICs of these rates in Gbit/s, a GPU for each, on one switch.
fn servers_of(rates: &[&[u64]]) -> Network {
    let mut builder = NetworkBuilder::new("mixed");
    let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    for (server, rates) in rates.iter().enumerate() {
        let inside = |name: String, kind| Node::new(name, kind).in_server(format!("s{server}"));
        let mut gpus = Vec::new();
        for (index, rate) in rates.iter().enumerate() {
            let gpu = inside(format!("s{server}-gpu{index}"), NodeKind::Gpu);
            let gpu = builder.add_node(gpu).unwrap();
            let nic = inside(format!("s{server}-nic{index}"), NodeKind::Nic);
            let nic = builder.add_node(nic).unwrap();
            let rate = Bandwidth::from_bits_per_s(rate * 1_000_000_000);
            let spec = |class| LinkSpec::new(class, rate, Duration::from_ps(1_000_000));
            builder.add_duplex(gpu, nic, spec(LinkClass::Pcie)).unwrap();
            builder.add_duplex(nic, leaf, spec(LinkClass::Roce)).unwrap();
            for other in &gpus {
                builder.add_duplex(gpu, *other, spec(LinkClass::NvLink)).unwrap();
            }
            gpus.push(gpu);
        }
    }
    builder.build().unwrap()
}

fn groups_of(network: &Network) -> Vec<Vec<String>> {
    let servers = Servers::of(network);
    let ports = used_ports(&bind(network, &servers));
    group(network, &servers, &ports).iter().map(|it| names(network, &it.ports)).collect()
}

#[test]
fn gpus_are_bound_to_the_nic_behind_their_switch() {
    for (name, per_nic) in [("v100-x2", 2), ("a100-8-x2", 2), ("a100-4-x2", 1)] {
        let network = cluster(name);
        let servers = Servers::of(&network);
        for (gpu, nic) in bind(&network, &servers) {
            let (gpu, nic) = (&network.node(gpu).name, &network.node(nic).name);
            let (server, gpu) = gpu.split_once("-gpu").unwrap();
            let number: usize = gpu.parse().unwrap();
            assert_eq!(*nic, format!("{server}-nic{}", number / per_nic), "{name}");
        }
    }
}

#[test]
fn equally_near_nics_share_the_gpus() {
    // All behind one CPU: as many GPUs at each NIC, in order.
    let mut builder = NetworkBuilder::new("one host");
    let add = |builder: &mut NetworkBuilder, name: String, kind| {
        builder.add_node(Node::new(name, kind).in_server("s")).unwrap()
    };
    let cpu = add(&mut builder, "cpu".to_owned(), NodeKind::Cpu);
    let leaf = builder.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    let rate = Bandwidth::from_bits_per_s(1_000_000_000);
    let spec = LinkSpec::new(LinkClass::Pcie, rate, Duration::ZERO);
    for index in 0..8 {
        let gpu = add(&mut builder, format!("gpu{index}"), NodeKind::Gpu);
        builder.add_duplex(gpu, cpu, spec).unwrap();
    }
    for index in 0..3 {
        let nic = add(&mut builder, format!("nic{index}"), NodeKind::Nic);
        builder.add_duplex(nic, cpu, spec).unwrap();
        builder.add_duplex(nic, leaf, spec).unwrap();
    }
    let network = builder.build().unwrap();
    let bound = bind(&network, &Servers::of(&network));
    let at: Vec<String> = bound.iter().map(|it| network.node(it.1).name.clone()).collect();
    assert_eq!(at, ["nic0", "nic1", "nic2", "nic0", "nic1", "nic2", "nic0", "nic1"]);
}

#[test]
fn groups_have_like_bandwidth() {
    let network = servers_of(&[&[100, 25], &[25, 100], &[100, 25]]);
    assert_eq!(
        groups_of(&network),
        [["s0-nic0", "s1-nic1", "s2-nic0"], ["s0-nic1", "s1-nic0", "s2-nic1"]]
    );
    // A server with one NIC goes with its like; what is left pairs up.
    let network = servers_of(&[&[100, 25], &[25], &[200, 25]]);
    let groups = groups_of(&network);
    assert_eq!(groups[0], ["s0-nic0", "s2-nic0"]);
    assert_eq!(groups[1], ["s0-nic1", "s1-nic0", "s2-nic1"]);
}

#[test]
fn on_rails_groups_are_rails() {
    let network = build("dgx-a100", &["count=3", "detail=nics", "fabric=rail"]);
    let groups = groups_of(&network);
    assert_eq!(groups.len(), 8);
    for (rail, group) in groups.iter().enumerate() {
        let wanted: Vec<String> = (0..3).map(|it| format!("s{it}-nic{rail}")).collect();
        assert_eq!(*group, wanted);
    }
}

/// *TuCCL* §IV-B: "decreasing NIC connections from 8 to 2 per node in three-server configurations",
/// 75 % fewer.
#[test]
fn three_servers_go_from_eight_nic_connections_to_two() {
    let network = cluster("v100-x3");
    let candidates = sketches(&network);
    let rows: Vec<(&str, usize, usize)> = candidates
        .iter()
        .map(|it| {
            let guidance = it.guidance;
            (it.name.as_str(), guidance.gpu_connections.left, guidance.nic_connections.left)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("full", 32, 8),
            ("nvlink", 32, 8),
            ("bound", 32, 8),
            ("grouped", 16, 4),
            ("grouped-2", 4, 4),
            ("grouped-1", 2, 2),
        ]
    );
    let last = candidates.last().unwrap().guidance;
    assert_eq!((last.nic_connections.before, last.nic_connections.removed()), (8, 6));
    assert!((last.nic_connections.removed_part() - 0.75).abs() < 1e-12);
    assert_eq!(last.nic_connections.to_string(), "2 of 8, 75% fewer",);
}

#[test]
fn candidates_fit_the_network() {
    let names_of = |network: &Network| -> Vec<String> {
        sketches(network).into_iter().map(|it| it.name).collect()
    };
    assert_eq!(names_of(&build("ring", &[])), ["full"]);
    assert_eq!(names_of(&build("dgx-a100", &[])), ["full"]);
    assert_eq!(names_of(&cluster("v100-x1")), ["full", "nvlink"]);
    // Who sends and who receives is drawn already.
    assert_eq!(names_of(&build("dgx-2", &["count=2"])), ["full"]);
    // Flat: a GPU is its own NIC.
    let flat = build("dgx-a100", &["count=2"]);
    assert_eq!(
        names_of(&flat),
        ["full", "bound", "grouped", "grouped-4", "grouped-2", "grouped-1"]
    );
    let distinct = distinct(sketches(&flat));
    let distinct: Vec<&str> = distinct.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(distinct, ["grouped", "grouped-4", "grouped-2", "grouped-1"]);
}

/// What we write is what `motet synth --sketch` reads, to the byte; and a program comes of each.
#[test]
fn every_candidate_is_written_read_and_used() {
    for name in ["v100-x1", "v100-x3", "a100-8-x2"] {
        let network = cluster(name);
        let size = Bytes::mib(1);
        for candidate in sketches(&network) {
            let text = candidate.sketch.write(&network);
            let read = Sketch::read(&text, &network).unwrap_or_else(|it| panic!("{it}\n{text}"));
            assert_eq!(read, candidate.sketch, "{name} {}", candidate.name);
            assert_eq!(read.write(&network), text);
            let ranks = u32::try_from(network.ranks().len()).unwrap();
            let goal = Goal::new(CollectiveKind::AllGather, ranks).unwrap();
            let mut task = Task::new(&network, goal, size);
            task.allowed = read.allowed_for(size);
            let method: Method = "ring".parse().unwrap();
            let made = synthesize(&task, method, &Effort::unlimited(Seed::new(1)))
                .unwrap_or_else(|it| panic!("{name} {}: {it}", candidate.name));
            made.prove(&task).unwrap();
        }
    }
}

#[test]
fn any_name_becomes_part_of_a_file_name() {
    let network = build("ring", &[]);
    let name = |it: &str| Candidate::given(Sketch::full(it, &network), &network).name;
    assert_eq!(name("rails, two GPUs of a server connect"), "rails-two-GPUs-of-a-server-connect");
    assert_eq!(name("../../etc/grouped-2"), "etc-grouped-2");
    assert_eq!((name(""), name("…")), ("given".to_owned(), "given".to_owned()));
    assert!(name(&"x".repeat(1000)).len() <= 40);
}

#[test]
fn large_collectives_leave_the_host_alone() {
    let network = cluster("v100-x2");
    let nvlink = sketches(&network).into_iter().find(|it| it.name == "nvlink").unwrap().sketch;
    let forbidden = |size| nvlink.allowed_for(size).iter().filter(|it| !**it).count();
    // Two switches to their CPUs and the CPUs to each other, both ways, in two servers.
    assert_eq!((forbidden(LARGE), forbidden(Bytes::mib(10))), (0, 12));
    assert!(reaches_all(&network, &nvlink.allowed_for(Bytes::gib(1))));
}

/// Within a thousandth: chunks that do not divide the size are rounded up.
fn as_much(a: Bytes, b: Bytes) -> bool {
    a.get().abs_diff(b.get()) <= b.get() / 1000
}

/// Rows of an AllGather of 64 MiB on a cluster that use all NICs of a server, the fewest
/// connections first; after checks that hold on every cluster.
fn rows_with_all_nics(name: &str) -> (Vec<Row>, String) {
    let network = cluster(name);
    let kind = CollectiveKind::AllGather;
    let rows = connections_experiment(&network, kind, Bytes::mib(64), Seed::new(1)).unwrap();
    let text = format!("{name}\n{}", table(&rows));
    // NICs that are not used are bandwidth that is lost, whatever one believes.
    let nics = rows.iter().map(|it| it.nics).max().unwrap();
    let (all, some): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|it| it.nics == nics);
    for row in &some {
        assert!(row.shared.simulated.as_ps() > 3 * all[0].shared.simulated.as_ps() / 2, "{text}");
    }
    // With sharing modelled a program is as fast as believed, however many connections there are,
    // and as good as anything that a believer makes of them.
    let times = all.iter().map(|it| it.shared.simulated.as_ps());
    let (best, worst) = (times.clone().min().unwrap(), times.max().unwrap());
    assert!(worst - best <= best / 50, "{text}");
    for row in all.iter().chain(&some) {
        let (shared, own, even) = (row.shared, row.own.simulated, row.even.simulated);
        assert!(shared.simulated <= shared.believed, "{text}");
        assert!(shared.simulated.as_ps() <= own.min(even).as_ps() * 101 / 100, "{text}");
    }
    // TACCL's even shares add up to the NIC: nothing is sent twice, and what is lost is little, and
    // not less with more connections: a share that is idle is lent to no one.
    let even = |row: &Row| row.even.simulated.as_ps();
    for row in &all {
        assert!(as_much(row.even.crossing, all[0].even.crossing), "{text}");
        assert!(even(row) <= row.shared.simulated.as_ps() * 5 / 4, "{text}");
        assert!(even(row) >= even(&all[0]) * 99 / 100, "{text}");
    }
    (all, text)
}

/// *TuCCL* §III-B, and why it is so. Where all NICs are used, connections beyond one for each NIC
/// add no bandwidth. Who believes that each has a NIC to itself takes the network for faster than
/// NVLink and sends the same data to several GPUs of a server; who models the NIC sends it once.
#[test]
fn connections_are_worse_for_those_who_believe_in_them() {
    for name in ["v100-x2", "v100-x3", "a100-8-x2"] {
        let (rows, text) = rows_with_all_nics(name);
        let (few, many) = (&rows[0].own, &rows[rows.len() - 1].own);
        assert!(rows[rows.len() - 1].gpu_connections >= 8 * rows[0].gpu_connections, "{text}");
        assert!(many.believed.as_ps() * 2 < few.believed.as_ps(), "{text}");
        assert!(many.simulated.as_ps() > 3 * few.simulated.as_ps() / 2, "{text}");
        assert!(many.crossing.get() > 3 * few.crossing.get() / 2, "{text}");
        // As much slower as more is sent, within a fifth: that is the whole reason.
        let slower = many.simulated.as_ps() as f64 / few.simulated.as_ps() as f64;
        let more = many.crossing.get() as f64 / few.crossing.get() as f64;
        assert!((slower / more - 1.0).abs() < 0.2, "{slower} {more}\n{text}");
    }
}

/// Where every GPU has a NIC of its own, even a believer finds NVLink faster, and no harm is done.
#[test]
fn connections_do_no_harm_where_nvlink_is_faster_than_all_of_them() {
    let (rows, text) = rows_with_all_nics("a100-4-x2");
    let (few, many) = (&rows[0].own, &rows[rows.len() - 1].own);
    assert!(many.believed.as_ps() * 2 < few.believed.as_ps(), "{text}");
    assert!(many.simulated.as_ps() <= few.simulated.as_ps() * 51 / 50, "{text}");
    assert!(as_much(many.crossing, few.crossing), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the NICs, no group has two of a server, each is in one group, none is lost while
    /// another server has one left, and the same network gives the same groups.
    #[test]
    fn groups_hold_at_most_one_nic_of_a_server(
        rates in prop::collection::vec(prop::collection::vec(1u64..6, 1..5), 2..5)
    ) {
        let rates: Vec<Vec<u64>> =
            rates.iter().map(|it| it.iter().map(|it| it * 50).collect()).collect();
        let slices: Vec<&[u64]> = rates.iter().map(Vec::as_slice).collect();
        let network = servers_of(&slices);
        let groups = groups_of(&network);
        prop_assert_eq!(&groups, &groups_of(&network));
        let all: Vec<&String> = groups.iter().flatten().collect();
        prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        for group in &groups {
            let servers: BTreeSet<&str> = group.iter().map(|it| &it[..2]).collect();
            prop_assert_eq!(servers.len(), group.len());
            prop_assert!(group.len() >= 2);
        }
        let mut counts: Vec<usize> = rates.iter().map(Vec::len).collect();
        counts.sort_unstable();
        // Rounds until only one server has NICs left: as many as the second largest server has.
        prop_assert_eq!(groups.len(), counts[counts.len() - 2]);
    }

    /// Every candidate that is given lets every rank reach every other.
    #[test]
    fn candidates_never_part_the_ranks(
        rates in prop::collection::vec(prop::collection::vec(1u64..4, 1..4), 1..4)
    ) {
        let slices: Vec<&[u64]> = rates.iter().map(Vec::as_slice).collect();
        let network = servers_of(&slices);
        for candidate in sketches(&network) {
            prop_assert!(reaches_all(&network, &candidate.sketch.allowed), "{}", candidate.name);
            let text = candidate.sketch.write(&network);
            prop_assert_eq!(Sketch::read(&text, &network).unwrap(), candidate.sketch);
        }
    }
}

/// A cluster file that we write keeps its sketch: names are what sketches go by.
#[test]
fn sketches_outlive_the_file() {
    let network = cluster("v100-x2");
    let text = cluster_toml::write(&network);
    let again = cluster_toml::read(&text, &|_| Err(String::new())).unwrap().network;
    let sketch = sketches(&network).pop().unwrap().sketch;
    let read = Sketch::read(&sketch.write(&network), &again).unwrap();
    assert_eq!(read.write(&again), sketch.write(&network));
}

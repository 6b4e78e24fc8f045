//! Networks from made-up measurements of a network that is known: what went in must come out.

use super::*;
use crate::builders::testing::is_connected;
use crate::path::{Metric, Search};

const US: u64 = 1_000_000;

fn hosts(places: &[(&str, &str)]) -> Vec<Host> {
    let host = |(index, (dc, rack)): (usize, &(&str, &str))| Host {
        name: format!("h{index}"),
        address: format!("10.0.0.{index}:1"),
        rack: (*rack).to_owned(),
        dc: (*dc).to_owned(),
        gpus: 2,
    };
    places.iter().enumerate().map(host).collect()
}

/// α = 5 µs a host, λ = 10 µs a rack, 1 ms between datacenters; 10 Gbit/s, 8 between racks.
fn truth(a: &Host, b: &Host) -> Measurement {
    let (one_way, gbit) = match Class::of(a, b) {
        Class::Rack => (10 * US, 10),
        Class::Racks => (30 * US, 8),
        Class::Dcs => (1030 * US, 1),
    };
    Measurement {
        round_trip: Duration::from_ps(2 * one_way),
        there: Bandwidth::gbit_per_s(gbit),
        back: Bandwidth::gbit_per_s(gbit),
    }
}

fn all_pairs(hosts: &[Host]) -> Vec<Probed> {
    let pairs = (0..hosts.len()).flat_map(|b| (0..b).map(move |a| Pair::new(a, b)));
    pairs.map(|pair| Probed { pair, outcome: Ok(truth(&hosts[pair.a], &hosts[pair.b])) }).collect()
}

fn well(hosts: &[Host]) -> Vec<Result<(), ProbeError>> {
    vec![Ok(()); hosts.len()]
}

/// Latency from NIC to NIC, and the narrowest link on the way.
fn way(found: &Sourced, a: &str, b: &str) -> (Duration, Bandwidth) {
    let node = |name: &str| found.network.find(&format!("{name}-nic")).unwrap();
    let path = Search::new(&found.network, Metric::Latency).shortest(node(a), node(b)).unwrap();
    (path.latency(&found.network), path.bottleneck(&found.network, None))
}

#[test]
fn what_went_in_comes_out() {
    let hosts =
        hosts(&[("n", "r1"), ("n", "r1"), ("n", "r2"), ("n", "r2"), ("s", "r3"), ("s", "r3")]);
    let found = resolve("x", &hosts, &well(&hosts), &all_pairs(&hosts), Model::Racks).unwrap();
    let network = &found.network;
    assert!(is_connected(network));
    assert_eq!((network.ranks().len(), network.count(NodeKind::Leaf)), (12, 3));
    assert_eq!((network.count(NodeKind::Spine), network.count(NodeKind::Border)), (2, 2));
    assert_eq!(found.links.len(), network.links().len());
    for (a, b, us, gbit) in [("h0", "h1", 10, 10), ("h0", "h2", 30, 8), ("h1", "h4", 1030, 1)] {
        let (latency, bandwidth) = way(&found, a, b);
        assert_eq!(latency, Duration::from_us(us), "{a} {b}");
        assert_eq!(bandwidth, Bandwidth::gbit_per_s(gbit), "{a} {b}");
    }
    let worst = crate::TierMix::of(network, network.ranks()).worst();
    assert_eq!(worst, crate::Tier::new(4));
    // The cluster file reads back, comments and all.
    let again =
        crate::formats::cluster_toml::read(&found.cluster_toml(), &|_: &str| Err(String::new()));
    assert_eq!(&again.unwrap().network, network);
}

#[test]
fn pairs_that_were_not_probed_get_the_figures_of_their_class() {
    let hosts = hosts(&[("", "a"), ("", "a"), ("", "a"), ("", "b"), ("", "b")]);
    let few: Vec<Probed> = all_pairs(&hosts)
        .into_iter()
        .filter(|it| [(0, 1), (1, 2), (3, 4), (2, 3)].contains(&(it.pair.a, it.pair.b)))
        .collect();
    let racks = resolve("x", &hosts, &well(&hosts), &few, Model::Racks).unwrap();
    assert_eq!(way(&racks, "h0", "h4"), (Duration::from_us(30), Bandwidth::gbit_per_s(8)));
    let direct = resolve("x", &hosts, &well(&hosts), &few, Model::Direct).unwrap();
    let sources = |a: &str, b: &str| {
        let ends =
            (direct.network.find(&format!("{a}-nic")), direct.network.find(&format!("{b}-nic")));
        let found = direct.network.link_ids().find(|it| {
            let link = direct.network.link(*it);
            (Some(link.from), Some(link.to)) == ends
        });
        let id = found.unwrap();
        (direct.network.link(id).spec.bandwidth, direct.sources(id).bandwidth.to_string())
    };
    assert_eq!(sources("h0", "h1").1, "measured: 1.25 GB/s there, 1.25 GB/s back");
    let (bandwidth, source) = sources("h0", "h2");
    assert_eq!(bandwidth, Bandwidth::gbit_per_s(10));
    assert_eq!(source, "estimated: from the median of 3 probes within racks");
    assert_eq!(sources("h0", "h4").1, "estimated: from the median of 1 probe between racks");
    assert!(direct.notes[0].starts_with("4 of 10 pairs of 5 hosts"), "{:?}", direct.notes);
}

#[test]
fn what_failed_is_left_out_or_estimated_and_said() {
    let hosts = hosts(&[("", "a"), ("", "a"), ("", "a"), ("", "b")]);
    let mut greeted = well(&hosts);
    greeted[1] = Err(ProbeError::Silent);
    let mut probed: Vec<Probed> =
        all_pairs(&hosts).into_iter().filter(|it| it.pair.a != 1 && it.pair.b != 1).collect();
    for probe in probed.iter_mut().filter(|it| it.pair.b == 3) {
        probe.outcome = Err(ProbeError::Closed);
    }
    let found = resolve("x", &hosts, &greeted, &probed, Model::Racks).unwrap();
    assert_eq!(found.network.find("h1-nic"), None);
    assert!(is_connected(&found.network));
    let unseen: Vec<String> = found.unseen.iter().map(ToString::to_string).collect();
    assert!(unseen.contains(&"host h1: it did not answer in time".to_owned()), "{unseen:?}");
    assert!(unseen.contains(&"the way from h0 to h3: it closed the connection".to_owned()));
    let nic = found.network.find("h3-nic").unwrap();
    let up = *found.network.outgoing(nic).last().unwrap();
    assert_eq!(found.sources(up).bandwidth.provenance, Provenance::Estimated);
    let nobody = vec![Err(ProbeError::Silent); 4];
    let error = resolve("x", &hosts, &nobody, &[], Model::Racks).unwrap_err();
    assert!(error.problem.contains("did not answer"), "{error}");
}

#[test]
fn uplinks_that_hold_nobody_back_are_not_rated_by_a_pair() {
    let hosts = hosts(&[("", "a"), ("", "a"), ("", "b"), ("", "b")]);
    let mut probed = all_pairs(&hosts);
    for probe in &mut probed {
        let it = probe.outcome.as_mut().unwrap();
        it.there = Bandwidth::gbit_per_s(10);
        it.back = Bandwidth::gbit_per_s(10);
    }
    let found = resolve("x", &hosts, &well(&hosts), &probed, Model::Racks).unwrap();
    let leaf = found.network.find("leaf-a").unwrap();
    let mut links = found.network.outgoing(leaf).iter().map(|it| found.network.link(*it));
    let up = links.find(|it| found.network.node(it.to).kind == NodeKind::Spine).unwrap();
    assert_eq!(up.spec.bandwidth, Bandwidth::gbit_per_s(20));
    assert!(found.unseen.iter().any(|it| it.what.contains("racks a, b can send")));
}

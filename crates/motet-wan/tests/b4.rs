//! Three and more regions on B4 with traffic matrices as background: `examples/b4-three-regions.toml`,
//! which is all our own, and the same with the graph and the matrices that come with Teal.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use motet_net::formats::cluster_toml;
use motet_net::{LinkClass, Network, NetworkState};
use motet_units::{Duration, Seed};
use motet_wan::cut::RegionCut;
use motet_wan::formats::ScenarioFile;
use motet_wan::formats::scenario_toml::Cluster;
use motet_wan::{Mode, Scenario, Strength, run_mode, yardstick};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const EXAMPLE: &str = r#"
name = "three regions on B4"
count = 5000

[[cluster.wan]]
file = "B4.json"
capacity-unit = "20 Mbit/s"       # the 5000 of the file are then 100 Gbit/s
wan-latency = "2 ms"              # the file has none
datacenters = ["0", "5", "9"]
gpus = 4

[[collective]]
kind = "allgather"
chunk = "128 MB"

[variation]
kind = "matrices"
file = "B4_traffic_matrices_teal_36.csv"
unit = "20 Mbit/s"
every = 10
"#;

fn data(name: &str) -> Result<String, String> {
    motet_testdata::sample(&format!("wan/{name}")).ok_or_else(|| format!("{name} is not there"))
}

/// The scenario file and its network; `None`, with a word why, where there are no data.
fn read(text: &str) -> Option<(ScenarioFile, Network)> {
    motet_testdata::samples("wan")?;
    let file = ScenarioFile::read(text).unwrap_or_else(|it| panic!("{it}"));
    let Ok(Cluster::Inline(cluster)) = file.cluster() else { panic!("no cluster tables") };
    let network = cluster_toml::read(&cluster, &data).unwrap_or_else(|it| panic!("{it}")).network;
    Some((file, network))
}

fn scenario<'a>(file: &ScenarioFile, network: &'a Network, count: u32) -> Scenario<'a> {
    let matrices = data(file.variation_file().unwrap()).unwrap();
    let made = file.resolve(network, Some(&matrices), Seed::new(1));
    Scenario { count, ..made.unwrap_or_else(|it| panic!("{it}")) }
}

#[test]
fn three_regions_run_in_every_mode_and_both_hands_are_best() {
    let Some((file, network)) = read(EXAMPLE) else { return };
    let scenario = scenario(&file, &network, 400);
    let total = |mode| {
        let account = run_mode(&scenario, mode, &|_| {}).unwrap_or_else(|it| panic!("{it}"));
        assert_eq!(account.times.len(), 400);
        account.completion()
    };
    let (base, routes) = (total(Mode::Base), total(Mode::Routes));
    assert!(routes <= base);
    for strength in [Strength::Remap, Strength::Synth] {
        let (programs, both) = (total(Mode::Programs(strength)), total(Mode::Both(strength)));
        assert!(both <= routes && both <= programs, "{strength:?}: {both} {routes} {programs}");
    }
}

#[test]
fn the_cut_names_regions_and_wan_links() {
    let Some((file, network)) = read(EXAMPLE) else { return };
    let scenario = scenario(&file, &network, 400);
    let nominal = NetworkState::nominal(&network);
    let cut = RegionCut::of(&network, &nominal, &scenario.collectives[0]).unwrap();
    // Each of the three has two links into it, and two thirds of the size must go there.
    assert_eq!((cut.from.len(), cut.to.len(), cut.links.len()), (2, 1, 2));
    assert_eq!(cut.bandwidth.to_string(), "25 GB/s");
    assert!((cut.share - 2.0 / 3.0).abs() < 1e-12);
    assert!(cut.links.iter().all(|it| network.link(*it).spec.class == LinkClass::Wan));
    let measured = yardstick::measure(&scenario, 4, &[]).unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(measured.sampled.len(), 4);
    assert_eq!(measured.cuts.iter().map(|it| it.1).sum::<u32>(), 4);
    // What others send is taken away.
    assert!(measured.cuts.iter().all(|it| it.0.bandwidth < cut.bandwidth));
    assert!(measured.bound <= measured.hindsight && measured.bound > Duration::ZERO);
}

#[test]
fn five_regions_run_as_easily() {
    let text = EXAMPLE.replace("[\"0\", \"5\", \"9\"]", "[\"0\", \"4\", \"6\", \"8\", \"11\"]");
    let text = text.replace("gpus = 4", "gpus = 2");
    let Some((file, network)) = read(&text) else { return };
    let scenario = scenario(&file, &network, 60);
    assert_eq!(network.ranks().len(), 10);
    for mode in [Mode::Base, Mode::Both(Strength::Synth)] {
        let account = run_mode(&scenario, mode, &|_| {}).unwrap_or_else(|it| panic!("{it}"));
        assert_eq!(account.times.len(), 60);
    }
    let cut = RegionCut::of(&network, &NetworkState::nominal(&network), &scenario.collectives[0]);
    assert_eq!(cut.map(|it| it.from.len() + it.to.len()), Some(5));
}

/// The example needs no file but those beside it, and its WAN is the one of Teal's file.
#[test]
fn the_example_runs_from_a_fresh_clone() {
    let beside = |name: &str| {
        std::fs::read_to_string(Path::new(EXAMPLES).join(name)).map_err(|it| it.to_string())
    };
    let text = beside("b4-three-regions.toml").unwrap();
    let file = ScenarioFile::read(&text).unwrap_or_else(|it| panic!("{it}"));
    let Ok(Cluster::Named(name)) = file.cluster() else { panic!("no cluster file") };
    let network = cluster_toml::read(&beside(&name).unwrap(), &beside);
    let network = network.unwrap_or_else(|it| panic!("{it}")).network;
    let matrices = beside(file.variation_file().unwrap()).unwrap();
    let made = file.resolve(&network, Some(&matrices), Seed::new(1));
    let scenario = Scenario { count: 60, ..made.unwrap_or_else(|it| panic!("{it}")) };
    let account = run_mode(&scenario, Mode::Base, &|_| {}).unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(account.times.len(), 60);
    let Some((_, teal)) = read(EXAMPLE) else { return };
    assert_eq!(motet_net::Signature::of(&network), motet_net::Signature::of(&teal));
}

//! The published optima of thirteen real and regular networks, to every printed digit.

use motet_net::Network;
use motet_net::formats::cluster_toml;

use super::of;
use crate::collective::CollectiveKind;

/// (file, AllGather bound in GB/s as printed by the reference).
const BOUNDS: [(&str, &str); 13] = [
    ("dgx1", "171.43"),
    ("dgx-a100-x1", "342.86"),
    ("dgx-a100-x2", "346.67"),
    ("dgx-a100-x4", "266.67"),
    ("dgx-a100-x8", "228.57"),
    ("mi250-x1", "342.86"),
    ("mi250-x2", "354.13"),
    ("mi250-x4", "341.33"),
    ("ndv2-x2", "25.0"),
    ("ndv2-x4", "16.667"),
    ("dgx2-x2", "129.03"),
    ("mesh-4x4", "106.67"),
    ("torus-4x4", "213.33"),
];

fn network(name: &str) -> Network {
    let text = motet_testdata::ours(&format!("networks/{name}.toml"));
    cluster_toml::read(&text, &|_| Err("not needed".to_owned())).unwrap().network
}

#[test]
fn all_gather_agrees_with_the_published_optima() {
    for (name, expected) in BOUNDS {
        let network = network(name);
        let algbw = of(&network, CollectiveKind::AllGather).algbw().unwrap().to_f64();
        let digits = expected.split('.').nth(1).map_or(0, str::len);
        assert_eq!(format!("{algbw:.digits$}"), expected, "{name}");
    }
}

/// These networks have the same links both ways, but for the rails of two.
#[test]
fn reduce_scatter_mirrors_all_gather_on_symmetric_networks() {
    for (name, _) in BOUNDS.iter().filter(|it| !["ndv2-x2", "dgx2-x2"].contains(&it.0)) {
        let network = network(name);
        let there = of(&network, CollectiveKind::AllGather);
        let back = of(&network, CollectiveKind::ReduceScatter);
        assert_eq!(there.time_per_byte, back.time_per_byte, "{name}");
    }
}

/// Boxes joined by 25 GB/s a GPU: the limit is what a box can receive from the others.
#[test]
fn the_cut_is_told_in_words() {
    let network = network("dgx-a100-x8");
    let bound = of(&network, CollectiveKind::AllGather);
    assert_eq!(
        bound.describe(&network),
        "to server s0 from the others: 7/8 of the size (87.5%) over 8 other links of 25 GB/s, \
         200 GB/s together"
    );
}

/// One rail of 12.5 GB/s carries 8 × 8 parts of a 16th: 3.125 GB/s.
#[test]
fn all_to_all_of_two_ndv2_is_set_by_the_one_rail() {
    let network = network("ndv2-x2");
    let bound = of(&network, CollectiveKind::AllToAll);
    assert_eq!(bound.algbw().unwrap(), super::ratio(25, 8));
    assert_eq!(bound.cut().unwrap().links.len(), 1);
}

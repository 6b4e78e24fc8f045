//! How near the bound the methods come where they should be best.

use motet_collective::CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};

use super::super::testing::{network, over_bound, time};

const GIB: u64 = 1 << 30;

fn within(name: &str, spec: &str, kind: motet_collective::CollectiveKind, most: f64) {
    let ratio = over_bound(name, &network(spec), kind, GIB);
    assert!(ratio >= 1.0 - 1e-9 && ratio <= most, "{name} {kind} on {spec}: {ratio}");
}

#[test]
fn hierarchical_on_servers() {
    for spec in ["dgx-a100 count=4", "dgx-h100 count=4", "dgx-a100 count=16"] {
        within("hierarchical", spec, AllGather, 1.05);
        within("hierarchical", spec, ReduceScatter, 1.05);
    }
    within("hierarchical", "dgx-a100 count=4", Broadcast, 1.2);
    within("hierarchical", "dgx-a100 count=4", Reduce, 1.2);
    within("hierarchical", "rail servers=8", AllGather, 1.05);
}

/// A megabyte under one switch: the root sends it once, 20 µs, everyone passes his share on, and the last
/// byte goes two ways of 2.6 µs. Hardly more than that.
#[test]
fn a_broadcast_is_shared_by_all() {
    for kind in [Broadcast, Reduce] {
        let time = time("hierarchical", &network("switch gpus=8"), kind, 1_000_000);
        assert!(time.as_us_f64() < 20.0 + 2.0 * 2.6 + 0.5, "{kind}: {time}");
    }
    // Four servers: 5 µs out of the root's, twice between servers, and NVLink inside.
    let four = network("dgx-a100 count=4");
    let time = time("hierarchical", &four, Broadcast, 1_000_000);
    assert!(time.as_us_f64() < 5.0 + 2.0 * 2.6 + 1.0, "{time}");
}

/// A chunk crosses the WAN once.
#[test]
fn hierarchical_between_datacenters() {
    within("hierarchical", "two-dc gpus=8", AllGather, 1.05);
    within("hierarchical", "two-dc gpus=8", ReduceScatter, 1.05);
}

/// Small data crosses between servers once, at 2.6 µs; trees with a root cross twice.
#[test]
fn exchanged_crosses_once() {
    for spec in ["dgx-h100 count=2", "dgx-h100 count=3", "dgx-h100 count=4"] {
        let network = network(spec);
        let time = |name| time(name, &network, AllReduce, 8192).as_us_f64();
        let (once, twice) = (time("exchanged"), time("hierarchical"));
        assert!(once < 2.6 + 1.0 && twice > 2.0 * 2.6, "{spec}: {once} {twice}");
    }
    // Between two servers it sends no more than they do, and is as good for large data.
    within("exchanged", "dgx-h100 count=2", AllReduce, 1.05);
}

/// Sums that are exchanged wait for one another where they arrive, and links are told an order that counts with it: between four
/// leaves of eight GPUs, in many slices, each waits little for the others (66 times as long where it did not).
#[test]
fn exchanged_in_slices_keeps_links_busy() {
    let network = network("leaf-spine leaves=4 gpus-per-leaf=8");
    let time = |name| time(name, &network, AllReduce, 1 << 20).as_us_f64();
    let (exchanged, direct) = (time("exchanged"), time("direct"));
    assert!(exchanged < 1.5 * direct, "{exchanged} {direct}");
}

#[test]
fn dimension_wise_on_grids() {
    for spec in ["mesh rows=4 columns=4", "torus-2d rows=4 columns=4", "torus-3d x=4 y=4 z=4"] {
        within("dimension-wise", spec, AllGather, 1.05);
        within("dimension-wise", spec, ReduceScatter, 1.05);
    }
}

#[test]
fn rings_on_one_server() {
    within("rings", "dgx-a100 count=1", AllGather, 1.05);
    within("rings", "dgx-a100 count=8", AllGather, 1.15);
    within("double-tree", "switch gpus=8", AllReduce, 1.6);
}

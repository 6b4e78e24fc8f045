//! Closed forms on networks whose links are all alike.

use motet_collective::CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
use motet_net::Network;
use motet_units::Duration;

use super::super::testing::{network, time};

/// 1 GB/s and 1 µs: 1,000 bytes take 1 µs on a link.
const LINK: &str = "bandwidth=8Gbit/s latency=1us";

fn us(time: Duration) -> f64 {
    time.as_us_f64()
}

fn ring_of(ranks: u32) -> Network {
    network(&format!("ring gpus={ranks} {LINK}"))
}

/// n − 1 steps of α + β with one slice; more slices hide α behind β down to what one slice takes.
#[test]
fn ring() {
    for ranks in [2u32, 3, 5, 8] {
        let n = f64::from(ranks);
        // So small that slices, whose α is the same, gain next to nothing.
        let small = us(time("ring", &ring_of(ranks), AllGather, u64::from(ranks)));
        assert!((small - (n - 1.0) * 1.001).abs() < 1e-6, "{ranks}: {small}");
        let size = u64::from(ranks) * 1_000_000;
        let (alpha, beta) = (1.0, 1000.0);
        for kind in [AllGather, ReduceScatter] {
            let large = us(time("ring", &ring_of(ranks), kind, size));
            assert!(large <= (n - 1.0) * (alpha + beta), "{ranks}: {large}");
            assert!(large >= (n - 1.0) * beta, "{ranks}: {large}");
        }
        let both = us(time("ring", &ring_of(ranks), AllReduce, size));
        assert!(both <= 2.0 * (n - 1.0) * (alpha + beta) && both >= 2.0 * (n - 1.0) * beta);
    }
}

/// Both ways round takes half as long.
#[test]
fn ring_both_ways() {
    let one = us(time("ring", &ring_of(8), AllGather, 80_000_000));
    let both = us(time("ring-bidirectional", &ring_of(8), AllGather, 80_000_000));
    assert!((both / one - 0.5).abs() < 0.01, "{both} {one}");
    let several = us(time("rings", &ring_of(8), AllGather, 80_000_000));
    assert!((several / one - 0.5).abs() < 0.01, "{several} {one}");
}

/// At most log₂ n steps, of a part and then twice as much: n − 1 parts in all. Messages of several
/// runs overlap steps a little.
#[test]
fn recursive() {
    for (ranks, steps) in [(2u32, 1.0), (4, 2.0), (8, 3.0), (16, 4.0)] {
        // Two links of α each.
        let network = network(&format!("switch gpus={ranks} {LINK}"));
        let (n, size) = (f64::from(ranks), u64::from(ranks) * 1000);
        let at_most = |name, kind, most: f64| {
            let found = us(time(name, &network, kind, size));
            assert!(found < most + 1e-6, "{name} {kind} {ranks}: {found} {most}");
            assert!(found > 1.0 + n / 2.0, "{name} {kind} {ranks}: {found}");
        };
        let once = steps * 2.0 + n - 1.0;
        at_most("recursive-doubling", AllGather, once);
        at_most("recursive-halving", ReduceScatter, once);
        at_most("recursive-halving", AllReduce, 2.0 * once);
        at_most("bruck", AllGather, once);
        // In every step half of what a rank has.
        at_most("bruck", AllToAll, steps * (2.0 + n / 2.0));
        // Whole sums: every step is exactly α + M/b.
        let whole = us(time("recursive-doubling", &network, AllReduce, size));
        assert!((whole - steps * (2.0 + n)).abs() < 1e-6, "{ranks}: {whole}");
    }
}

/// One step: α, and n − 1 parts out of every rank.
#[test]
fn direct() {
    for ranks in [2u32, 5, 8] {
        let network = network(&format!("switch gpus={ranks} {LINK}"));
        let size = u64::from(ranks) * 1000;
        for kind in [AllGather, ReduceScatter, AllToAll] {
            let found = us(time("direct", &network, kind, size));
            let expected = 2.0 + f64::from(ranks) - 1.0;
            assert!((found - expected).abs() < 1e-6, "{ranks} {kind}: {found} {expected}");
        }
        // So small that one shot wins: everything to everyone.
        let shot = us(time("direct", &network, AllReduce, 8));
        assert!((shot - (2.0 + 0.008 * f64::from(ranks - 1))).abs() < 1e-6, "{ranks}: {shot}");
    }
}

/// On a torus the farthest rank is half of each side away; on a mesh all of it.
#[test]
fn dimension_wise() {
    let torus = network(&format!("torus-2d rows=4 columns=6 {LINK}"));
    let mesh = network(&format!("mesh rows=4 columns=6 {LINK}"));
    // One byte a rank, 0.001 µs: steps are all that counts.
    let small = us(time("dimension-wise", &torus, AllGather, 24));
    assert!((5.0..5.1).contains(&small), "{small}");
    let small = us(time("dimension-wise", &mesh, AllGather, 24));
    assert!((8.0..8.1).contains(&small), "{small}");
}

//! From a bound to a time: latency, and what latency adds to a cut.

use motet_net::{LinkClass, LinkSpec, NetworkBuilder};
use motet_units::{Bandwidth, Bytes, Duration, Rank};
use proptest::prelude::*;

use super::{gpus, of, ring, star, two_dcs};
use crate::bound::Ratio;
use crate::bound::around::cuts_around;
use crate::bound::delay::{Delays, Receivers};
use crate::bound::distance::distances;
use crate::bound::graph::BoundGraph;
use crate::bound::tests::brute_force::small_network;
use crate::collective::CollectiveKind;

fn template(name: &str, words: &str) -> motet_net::Network {
    let mut assembly = motet_net::builders::Assembly::new(name);
    let params = motet_net::builders::Params::from_words(words.split(',')).unwrap();
    assembly.add(motet_net::builders::find(name).unwrap(), &params).unwrap();
    assembly.finish().unwrap()
}

#[test]
fn latency_is_that_of_the_farthest_pair() {
    let found = of(&ring(8, 50), CollectiveKind::AllGather);
    assert_eq!(found.latency, Duration::from_us(2));
    assert_eq!(found.latency_pair, Some((Rank(0), Rank(4))));
    assert_eq!(found.time(Bytes::ZERO), Duration::from_us(2));
    let found = of(&ring(8, 50), CollectiveKind::SendRecv);
    assert_eq!(found.latency, Duration::from_ns(500));
    let found = of(&two_dcs(2, 20), CollectiveKind::Reduce);
    assert_eq!(found.latency, Duration::from_ms(10) + Duration::from_us(1));
    assert_eq!(found.latency_pair, Some((Rank(2), Rank(0))));
}

/// 3 of 4 parts over 100 GB/s, after a microsecond of which nothing arrives.
#[test]
fn latency_comes_on_top_of_a_cut() {
    let found = of(&star(4, 100, |_| {}), CollectiveKind::AllGather);
    let size = Bytes::new(4_000_000);
    assert_eq!(found.time(size), Duration::from_us(30 + 1));
    // Far away, both ways: WAN and the two hops to it.
    let found = of(&two_dcs(2, 20), CollectiveKind::AllReduce);
    assert_eq!(found.time(Bytes::new(20_000_000)), Duration::from_us(1000 + 10_000 + 1));
}

/// Four servers of eight GPUs: 24 of 32 parts enter each over eight NICs of 50 GB/s, which takes 1.875 µs
/// after the 2.6 µs between servers. For one GPU of the server what enters at the seven others comes 0.3 µs
/// later still, over NVLink: 50 (T − 2.6) + 350 (T − 2.9) = 750. The tightest cut, a GPU's own 500 GB/s,
/// would say no more than 1.94 µs and its latency.
#[test]
fn the_slowest_cut_depends_on_the_size() {
    let network = template("dgx-h100", "count=4");
    let found = of(&network, CollectiveKind::AllGather);
    let least = Duration::from_ps(4_737_500);
    assert_eq!(found.latency, Duration::from_ns(2600));
    assert_eq!(found.time(Bytes::new(1_000_000)), least);
    let turned = of(&network, CollectiveKind::ReduceScatter);
    assert_eq!(turned.time(Bytes::new(1_000_000)), least);
    // Of large sizes the tightest cut takes longest.
    let cut = crate::bound::picoseconds(found.time_per_byte, Bytes::gib(1));
    assert!(found.time(Bytes::gib(1)) < cut + found.latency);
}

/// On a ring what lies beyond r hops of a rank is (n − 1 − 2r) parts over two links, r + 1 hops away.
#[test]
fn cuts_lie_at_every_distance() {
    // 50 GB/s and 0.5 µs a hop. 8 parts of 50 kB: one takes 1 µs.
    let found = of(&ring(8, 50), CollectiveKind::AllGather);
    assert_eq!(found.time(Bytes::new(8 * 50_000)), Duration::from_ns(3500 + 500));
    // One takes 0.4 µs, less than a hop: the farthest rank counts, one part over its two links.
    assert_eq!(found.time(Bytes::new(8 * 20_000)), Duration::from_ns(200 + 2000));
}

/// Fourteen messages a byte, between ranks that send 8 × 50 GB/s one way round and as much the other.
#[test]
fn messages_take_time_to_arrive() {
    let found = of(&ring(8, 50), CollectiveKind::AllReduce);
    let size = Bytes::new(8_000_000);
    assert_eq!(found.program_time(size), Duration::from_us(140) + Duration::from_ns(500));
}

/// Lengths: on a ring of eight an AllToAll travels 16 hops a chunk and rank, over two links each.
#[test]
fn lengths_know_latency() {
    let found = of(&ring(8, 50), CollectiveKind::AllToAll);
    let plain = of(&ring(8, 50), CollectiveKind::AllToAll).time_per_byte;
    let size = Bytes::new(8_000_000);
    let plain = crate::bound::picoseconds(plain, size);
    assert_eq!(found.time(size), plain + Duration::from_ns(500));
}

/// A near, narrow link and a far, wide one: the far one helps only once it can deliver.
#[test]
fn far_links_help_late() {
    let mut builder = NetworkBuilder::new("two ways");
    let ids = gpus(&mut builder, 2);
    let link = |gb_per_s, us| {
        LinkSpec::new(LinkClass::Other, Bandwidth::gb_per_s(gb_per_s), Duration::from_us(us))
    };
    let relay = builder.add_node(motet_net::Node::new("far", motet_net::NodeKind::Leaf)).unwrap();
    builder.add_link(ids[0], ids[1], link(10, 1)).unwrap();
    builder.add_link(ids[0], relay, link(90, 50)).unwrap();
    builder.add_link(relay, ids[1], link(90, 50)).unwrap();
    let network = builder.build().unwrap();
    let root = crate::Collective::rooted(CollectiveKind::Broadcast, 2, 1, Rank(0)).unwrap();
    let found = crate::bound::bound(&network, &root).unwrap();
    // 100 kB at 10 GB/s: 10 µs + 1 µs. 10 MB: 10 (T − 1) + 90 (T − 100) = 10 000.
    assert_eq!(found.time(Bytes::new(100_000)), Duration::from_us(11));
    assert_eq!(found.time(Bytes::new(10_000_000)), Duration::from_ps(190_100_000));
}

/// The largest numbers that a file can hold: nothing overflows, and no time is made longer by it.
#[test]
fn extreme_links_do_no_harm() {
    let mut builder = NetworkBuilder::new("extreme");
    let ids = gpus(&mut builder, 4);
    let rates = [u64::MAX, u64::MAX - 1, 1, u64::MAX - 58];
    for (index, bits) in rates.into_iter().enumerate() {
        let late = Duration::from_ps(u64::MAX - index as u64);
        let spec = LinkSpec::new(LinkClass::Wan, Bandwidth::from_bits_per_s(bits), late);
        builder.add_duplex(ids[index], ids[(index + 1) % 4], spec).unwrap();
    }
    let network = builder.build().unwrap();
    for kind in CollectiveKind::ALL {
        let found = of(&network, kind);
        let plain = found.time_per_byte.to_f64() * 1e12 * u64::MAX as f64;
        let bandwidth_only = crate::bound::picoseconds(found.time_per_byte, Bytes::new(u64::MAX));
        assert!(bandwidth_only.as_ps() as f64 <= plain * 1.001, "{kind}");
        assert!(found.time(Bytes::new(u64::MAX)) >= bandwidth_only, "{kind}");
    }
}

proptest! {
    /// Cuts around one rank share one search for the latency to it: the same as a search for each cut.
    #[test]
    fn a_shared_search_gives_the_same_delays(network in small_network(), pick in 0usize..64) {
        let graph = BoundGraph::new(&network, network.ranks());
        let turned = graph.transposed();
        let at = graph.ranks[pick % graph.ranks.len()] as usize;
        let rest = distances(&turned, turned.latencies(), [(at, 0)]);
        for sending in cuts_around(&graph, &rest) {
            let senders = || graph.ranks.iter().map(|it| *it as usize);
            let of = |receivers| {
                let cut = (&sending[..], Ratio::ONE);
                Delays::of_cut((&graph, &turned), cut, senders(), receivers)
            };
            prop_assert_eq!(of(Receivers::At(&rest)), of(Receivers::Each(&[at])));
        }
    }

    #[test]
    fn time_grows_with_size_and_never_falls_below_its_parts(
        network in small_network(), sizes in prop::array::uniform2(0u64..1 << 40),
    ) {
        for kind in CollectiveKind::ALL {
            let Ok(found) = crate::bound::bound(&network, &super::collective(kind, &network)) else {
                continue;
            };
            let [small, large] = [sizes[0].min(sizes[1]), sizes[0].max(sizes[1])].map(Bytes::new);
            prop_assert!(found.time(small) <= found.time(large));
            prop_assert!(found.time(small) >= found.latency);
            let plain = found.time_per_byte.times(u128::from(large.get()) * 1_000_000_000_000);
            prop_assert!(u128::from(found.time(large).as_ps()) >= plain.unwrap().floor());
            prop_assert!(found.program_time(large) >= found.time(large));
        }
    }
}

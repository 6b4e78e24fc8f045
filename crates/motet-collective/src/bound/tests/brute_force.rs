//! Every cut of small random networks, one by one, against the exact methods.

use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Duration, NodeId};
use proptest::prelude::*;

use super::collective;
use crate::bound::{BoundError, Ratio, bound};
use crate::collective::CollectiveKind;

/// Up to eight nodes, two or more of them GPUs, with directed links of odd bandwidths, some of
/// them parallel, some duplex; often not all connected.
pub(in crate::bound) fn small_network() -> impl Strategy<Value = Network> {
    (2usize..7, 0usize..3).prop_flat_map(|(gpus, switches)| {
        let count = gpus + switches;
        let link = (0..count, 1..count, 1u64..6, 0u64..4, prop::bool::weighted(0.7));
        prop::collection::vec(link, count..=count * 3).prop_map(move |links| {
            let mut builder = NetworkBuilder::new("random");
            for index in 0..count {
                let kind = if index < gpus { NodeKind::Gpu } else { NodeKind::Leaf };
                let node =
                    Node::new(format!("n{index}"), kind).in_server(format!("s{}", index / 2));
                builder.add_node(node).unwrap();
            }
            for (from, step, gb, us, duplex) in links {
                let (from, to) = (NodeId(from as u32), NodeId(((from + step) % count) as u32));
                let (rate, late) = (Bandwidth::gb_per_s(gb), Duration::from_us(us));
                let spec = LinkSpec::new(LinkClass::Other, rate, late);
                if duplex {
                    builder.add_duplex(from, to, spec).unwrap();
                } else {
                    builder.add_link(from, to, spec).unwrap();
                }
            }
            builder.build().unwrap()
        })
    })
}

/// Seconds per byte of the slowest of all cuts by definition; `None` if one carries nothing.
fn slowest_cut(network: &Network, kind: CollectiveKind) -> Option<Ratio> {
    let ranks = network.ranks();
    let n = ranks.len() as u128;
    let mut slowest = Ratio::ZERO;
    for set in 1u32..(1 << network.nodes().len()) {
        let has = |node: NodeId| set >> node.0 & 1 == 1;
        let inside = ranks.iter().filter(|it| has(**it)).count() as u128;
        let root_inside = has(ranks[0]);
        // Bytes that must leave the set, in n-ths of the size.
        let leaving = match kind {
            CollectiveKind::AllGather if inside < n => inside,
            CollectiveKind::ReduceScatter if inside > 0 => n - inside,
            CollectiveKind::AllReduce if inside > 0 && inside < n => n,
            CollectiveKind::Broadcast if root_inside && inside < n => n,
            CollectiveKind::Reduce if inside > 0 && !root_inside => n,
            CollectiveKind::Gather if !root_inside => inside,
            CollectiveKind::Scatter if root_inside => n - inside,
            CollectiveKind::AllToAll => inside * (n - inside),
            _ => 0,
        };
        let out = network.links().iter().filter(|it| has(it.from) && !has(it.to));
        let bits: u128 = out.map(|it| u128::from(it.spec.bandwidth.bits_per_s())).sum();
        if leaving > 0 {
            slowest = slowest.max(Ratio::new(leaving * 8, bits * n)?);
        }
    }
    Some(slowest)
}

const EXACT: [CollectiveKind; 7] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::Broadcast,
    CollectiveKind::Reduce,
    CollectiveKind::Gather,
    CollectiveKind::Scatter,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_bound_is_the_slowest_of_all_cuts(network in small_network()) {
        for kind in EXACT {
            match (bound(&network, &collective(kind, &network)), slowest_cut(&network, kind)) {
                (Ok(found), Some(slowest)) => {
                    prop_assert_eq!(found.time_per_byte, slowest, "{}", kind);
                    let cut = found.cut().unwrap();
                    let bits: u64 =
                        cut.links.iter().map(|it| network.link(*it).spec.bandwidth.bits_per_s()).sum();
                    prop_assert_eq!(cut.bandwidth.bits_per_s(), bits);
                    let per_bit = Ratio::new(8, u128::from(bits)).unwrap();
                    prop_assert_eq!(per_bit.checked_mul(cut.share), Some(slowest));
                }
                (Err(BoundError::Unreachable(gap)), None) => {
                    prop_assert!(gap.cut.links.is_empty());
                    prop_assert!(gap.cut.ranks.contains(&gap.from));
                    prop_assert!(!gap.cut.ranks.contains(&gap.to));
                }
                (found, slowest) => prop_assert!(false, "{kind}: {found:?} but {slowest:?}"),
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// The lengths are at least as sharp as every cut, up to their rounding.
    #[test]
    fn all_to_all_is_no_weaker_than_any_cut(network in small_network()) {
        let Ok(found) = bound(&network, &collective(CollectiveKind::AllToAll, &network)) else {
            return Ok(());
        };
        let slowest = slowest_cut(&network, CollectiveKind::AllToAll).unwrap();
        prop_assert!(found.time_per_byte.to_f64() >= slowest.to_f64() * 0.99);
        // A fractional routing within two in a hundred shows that nothing better can be proved.
        prop_assert!(found.reached.unwrap() < 1.02, "{:?}", found.reached);
    }
}

/// Every way to put nodes into sets, each with a rank: the set of each node, or 0 for none, which
/// is for switches only.
fn every_family(network: &Network) -> Vec<Vec<usize>> {
    let mut families = vec![Vec::new()];
    let gpu = |node: usize| network.nodes()[node].kind == NodeKind::Gpu;
    // GPUs come first in these networks, so that every set has one when switches join.
    for node in 0..network.nodes().len() {
        families = families
            .into_iter()
            .flat_map(|family: Vec<usize>| {
                let sets = family.iter().copied().max().unwrap_or(0);
                let choices = if gpu(node) { 1..=sets + 1 } else { 0..=sets };
                choices.map(move |it| [family.as_slice(), &[it]].concat())
            })
            .collect();
    }
    families
}

/// Seconds per byte of an AllReduce by counting messages between the sets that say most.
fn most_messages(network: &Network) -> Ratio {
    let mut slowest = Ratio::ZERO;
    for family in every_family(network) {
        let sets = family.iter().copied().max().unwrap_or(0);
        let (mut out, mut into) = (0, 0);
        for link in network.links() {
            let (from, to) = (family[link.from.index()], family[link.to.index()]);
            let bits = u128::from(link.spec.bandwidth.bits_per_s());
            out += if from != to && from != 0 { bits } else { 0 };
            into += if from != to && to != 0 { bits } else { 0 };
        }
        if sets > 1 {
            slowest = slowest.max(Ratio::new(16 * (sets as u128 - 1), out.min(into)).unwrap());
        }
    }
    slowest
}

/// The same network with every link both ways.
fn both_ways(network: &Network) -> Network {
    let mut builder = NetworkBuilder::new("both ways");
    for node in network.nodes() {
        builder.add_node(node.clone()).unwrap();
    }
    for link in network.links() {
        builder.add_duplex(link.from, link.to, link.spec).unwrap();
    }
    builder.build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_reduce_counts_messages_between_the_best_of_all_groups(network in small_network()) {
        let network = both_ways(&network);
        let Ok(found) = bound(&network, &collective(CollectiveKind::AllReduce, &network)) else {
            return Ok(());
        };
        let work = found.work.unwrap();
        prop_assert_eq!(work.time_per_byte, most_messages(&network));
        prop_assert!(work.is_packing);
        // Two sides of a cut are two groups.
        prop_assert!(work.time_per_byte >= found.time_per_byte);
        let ranks: usize = work.members.iter().map(Vec::len).sum();
        prop_assert_eq!((work.members.len(), ranks), (work.groups, network.ranks().len()));
    }

    #[test]
    fn all_reduce_over_unequal_links_claims_no_more_than_some_groups_prove(
        network in small_network(),
    ) {
        let Ok(found) = bound(&network, &collective(CollectiveKind::AllReduce, &network)) else {
            return Ok(());
        };
        prop_assert!(found.work.unwrap().time_per_byte <= most_messages(&network));
    }
}

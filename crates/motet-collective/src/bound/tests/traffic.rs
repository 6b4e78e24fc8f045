//! Traffic between pairs: AllToAllV and SendRecv, and networks where no cut tells the truth.

use motet_net::{Network, NodeKind};
use motet_units::{Bytes, Duration, Rank};
use proptest::prelude::*;

use super::brute_force::small_network;
use super::{of, ratio, ring, star};
use crate::bound::{Bound, SetBy, bound};
use crate::collective::{Collective, CollectiveKind};

fn v(network: &Network, counts: &[u32]) -> Bound {
    let ranks = network.ranks().len() as u32;
    bound(network, &Collective::all_to_all_v(ranks, counts.to_vec()).unwrap()).unwrap()
}

#[test]
fn uneven_counts_are_set_by_the_busiest_rank() {
    // Rank 2 gets 3 + 5 of the 9 chunks that the largest buffer (its output) has.
    let found = v(&star(3, 50, |_| {}), &[0, 1, 3, 2, 0, 5, 1, 1, 1]);
    assert_eq!(found.algbw(), Some(ratio(50 * 9, 8)));
    let cut = found.cut().unwrap();
    assert_eq!((cut.share, cut.ranks.as_slice()), (ratio(8, 9), &[Rank(0), Rank(1)][..]));
    let nothing = v(&star(2, 50, |_| {}), &[4, 0, 0, 4]);
    assert_eq!(nothing.set_by, SetBy::Nothing);
}

#[test]
fn one_pair_takes_all_ways() {
    // Both ways round the ring, and the far way is longer.
    let network = ring(6, 50);
    let peers = vec![Some(Rank(2)), None, None, None, None, None];
    let found = bound(&network, &Collective::send_recv(3, peers).unwrap()).unwrap();
    assert_eq!(found.algbw(), Some(ratio(100, 1)));
    assert_eq!(found.latency, Duration::from_us(1));
    // 50 (T − 1) + 50 (T − 2) = 1000 in GB/s and µs.
    assert_eq!(found.time(Bytes::new(1_000_000)), Duration::from_ps(11_500_000));
}

/// K₂,₃ with the five nodes as ranks, a classic where cuts say 1 and routing needs more: sending
/// between the two sides' own members takes two hops each.
#[test]
fn lengths_beat_cuts_where_cuts_are_loose() {
    let pairs: Vec<_> = [2, 3, 4].into_iter().flat_map(|b| [(0, b), (1, b)]).collect();
    let network = super::joined(5, 10, &pairs);
    let mut counts = vec![0; 25];
    for (a, b) in [(0, 1), (2, 3), (3, 4), (4, 2)] {
        (counts[a * 5 + b], counts[b * 5 + a]) = (1, 1);
    }
    let found = v(&network, &counts);
    // 8 transfers of 2 hops over 12 links, where a buffer has 2 chunks: 8·2/12 of a half.
    assert_eq!(found.algbw(), Some(ratio(15, 1)));
    assert!(matches!(&found.set_by, SetBy::Lengths(lengths) if lengths.len() == 12));
    assert!(found.describe(&network).contains("12 weighted links"));
}

/// Copying and reducing in switches change nothing for traffic between pairs.
#[test]
fn capabilities_do_not_matter() {
    let plain = of(&star(4, 50, |_| {}), CollectiveKind::AllToAll);
    let able = of(&star(4, 50, |it| (it.multicast, it.reduces) = (true, true)), plain.collective);
    assert_eq!(plain, able);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Between the bound and a routing that exists there is little room, and never the wrong way.
    #[test]
    fn bounds_of_any_counts_are_nearly_reached(
        network in small_network(), counts in prop::collection::vec(0u32..5, 36),
    ) {
        let ranks = network.count(NodeKind::Gpu);
        let collective =
            Collective::all_to_all_v(ranks as u32, counts[..ranks * ranks].to_vec()).unwrap();
        let Ok(found) = bound(&network, &collective) else { return Ok(()) };
        prop_assume!(found.set_by != SetBy::Nothing);
        prop_assert!(found.reached.unwrap() < 1.02, "{:?}", found.reached);
    }
}

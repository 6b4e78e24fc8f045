//! Networks whose bounds can be worked out by hand, for every collective.

use motet_net::{Network, NetworkBuilder, Node, NodeKind};

use super::{full_mesh, gpus, grid, of, ratio, ring, spec, star, two_dcs};
use crate::bound::{BoundError, Ratio, SetBy, bound, bound_of_group};
use crate::collective::{Collective, CollectiveKind};

/// AllGather, ReduceScatter, AllReduce, Broadcast, Reduce, Gather, Scatter, AllToAll, AllToAllV,
/// SendRecv to the next rank: in GB/s.
fn check(network: &Network, expected: [Ratio; 10]) {
    for (kind, expected) in CollectiveKind::ALL.into_iter().zip(expected) {
        let found = of(network, kind);
        assert_eq!(found.algbw(), Some(expected), "{kind} on {}", network.name());
        assert!(found.latency_pair.is_some(), "{kind}");
    }
}

/// AllGather-like: n/(n − 1) times `b`. One rank's ingress limits it.
fn gather(ranks: u64, gb_per_s: u64) -> Ratio {
    ratio(ranks * gb_per_s, ranks - 1)
}

#[test]
fn rings() {
    let (ag, b2) = (gather(8, 100), ratio(100, 1));
    // Opposite halves: 4 × 4 of 8 parts a rank over two links.
    let a2a = ratio(50, 1);
    let next = of(&ring(8, 50), CollectiveKind::SendRecv).algbw().unwrap();
    check(&ring(8, 50), [ag, ag, b2, b2, b2, ag, ag, a2a, a2a, next]);
    // Everyone to the next rank: a share y goes the other way round, over 7 links, so that
    // 1 − y = 7y, and a link carries 7/8 of the size. Lengths 7 and 1 prove it; nearly those are
    // found.
    assert!(next >= ratio(400, 7) && next.to_f64() < 1.005 * 400.0 / 7.0);
}

#[test]
fn one_switch() {
    let (b, n) = (ratio(100, 1), gather(5, 100));
    check(&star(5, 100, |_| {}), [n, n, b, b, b, n, n, n, n, b]);
}

#[test]
fn every_pair_joined() {
    let (n, b) = (ratio(200, 1), ratio(150, 1));
    // 50 straight and 50 over each of the two others, all of which forward as much: a transfer
    // over two links costs two of the 3 links out of a rank, so (3 · 50 − 50) / 2 + 50.
    check(&full_mesh(4, 50), [n, n, b, b, b, n, n, n, n, ratio(100, 1)]);
}

#[test]
fn two_datacenters() {
    let (ag, wan) = (ratio(40, 1), ratio(20, 1));
    let network = two_dcs(4, 20);
    // A2A: 4 × 4 of 8 parts a rank over the WAN. Gather and scatter: 4 of 8 parts.
    let a2a = ratio(10, 1);
    check(&network, [ag, ag, wan, wan, wan, ag, ag, a2a, a2a, wan]);
    assert_eq!(
        of(&network, CollectiveKind::AllReduce).describe(&network),
        "from datacenter east to the others: the whole size over 1 wan link of 20 GB/s"
    );
}

#[test]
fn grids() {
    let algbw = |network: &Network, kind| of(network, kind).algbw().unwrap();
    let (mesh, torus) = (grid(4, 50, false), grid(4, 50, true));
    assert_eq!(algbw(&mesh, CollectiveKind::AllGather), ratio(320, 3));
    assert_eq!(algbw(&torus, CollectiveKind::AllGather), ratio(640, 3));
    assert_eq!(algbw(&mesh, CollectiveKind::AllReduce), ratio(100, 1));
    assert_eq!(algbw(&torus, CollectiveKind::AllReduce), ratio(200, 1));
    // Halves: 8 × 8 parts of a sixteenth over 4 links, over 8 in the torus.
    assert_eq!(algbw(&mesh, CollectiveKind::AllToAll), ratio(50, 1));
    assert_eq!(algbw(&torus, CollectiveKind::AllToAll), ratio(100, 1));
    assert_eq!(
        of(&mesh, CollectiveKind::AllToAll).describe(&mesh),
        "from ranks 0–7 to the others: 4.00 times the size over 4 nvlink links of 50 GB/s, \
         200 GB/s together"
    );
    // Sum of distances from a rank 60, in all 25 · 60 parts of a 25th over 100 links of 50.
    let odd = of(&grid(5, 50, true), CollectiveKind::AllToAll);
    assert_eq!(odd.algbw(), Some(ratio(250, 3)));
    assert!(odd.reached.unwrap() < 1.01);
}

/// Nothing says which GPUs stand together; the leaves do.
#[test]
fn leaves_without_a_location_are_found() {
    let mut builder = NetworkBuilder::new("leaf-spine");
    let spine = builder.add_node(Node::new("spine", NodeKind::Spine)).unwrap();
    for leaf in 0..3 {
        let leaf = builder.add_node(Node::new(format!("leaf{leaf}"), NodeKind::Leaf)).unwrap();
        builder.add_duplex(leaf, spine, spec(60)).unwrap();
        for gpu in gpus(&mut builder, 4) {
            builder.add_duplex(gpu, leaf, spec(50)).unwrap();
        }
    }
    // 4 × 8 pairs of 12 parts a rank over 60.
    let found = of(&builder.build().unwrap(), CollectiveKind::AllToAll);
    assert_eq!((found.algbw(), found.reached), (Some(ratio(45, 2)), Some(1.0)));
    assert_eq!(found.cut().unwrap().ranks.len(), 4);
}

#[test]
fn one_rank_moves_nothing() {
    let network = star(1, 100, |_| {});
    for kind in CollectiveKind::ALL {
        let found = of(&network, kind);
        assert_eq!((found.algbw(), &found.set_by), (None, &SetBy::Nothing), "{kind}");
        assert_eq!(found.describe(&network), "nothing has to move");
    }
}

#[test]
fn gpus_outside_the_group_do_not_relay() {
    // Ranks 0 and 2 of a ring of four have no path but through the others.
    let network = ring(4, 50);
    let pair = [network.ranks()[0], network.ranks()[2]];
    let all_gather = Collective::new(CollectiveKind::AllGather, 2, 1).unwrap();
    let error = bound_of_group(&network, &pair, &all_gather).unwrap_err();
    let BoundError::Unreachable(found) = &error else { panic!("{error}") };
    assert_eq!((found.from.0, found.to.0), (0, 1));
    assert_eq!((found.cut.nodes.as_slice(), found.cut.links.len()), (&pair[..1], 0));
    assert!(error.to_string().contains("no path leads from rank 0 to rank 1"));
    let near = [network.ranks()[3], network.ranks()[2]];
    let found = bound_of_group(&network, &near, &all_gather).unwrap();
    assert_eq!(found.algbw(), Some(ratio(100, 1)));
}

#[test]
fn groups_that_make_no_sense_are_refused() {
    let network = star(3, 50, |_| {});
    let all_gather = Collective::new(CollectiveKind::AllGather, 2, 1).unwrap();
    let of_group = |group: &[u32]| {
        let group: Vec<_> = group.iter().map(|it| motet_units::NodeId(*it)).collect();
        bound_of_group(&network, &group, &all_gather)
    };
    assert!(matches!(of_group(&[0]), Err(BoundError::Ranks { ranks: 2, gpus: 1 })));
    assert!(matches!(of_group(&[0, 0]), Err(BoundError::NotInGroup { .. })));
    assert!(matches!(of_group(&[0, 3]), Err(BoundError::NotInGroup { .. })));
    assert!(matches!(of_group(&[0, 99]), Err(BoundError::NotInGroup { .. })));
    let four = Collective::new(CollectiveKind::AllGather, 4, 1).unwrap();
    assert!(matches!(bound(&network, &four), Err(BoundError::Ranks { ranks: 4, gpus: 3 })));
}

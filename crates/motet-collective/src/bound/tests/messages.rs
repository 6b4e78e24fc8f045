//! The AllReduce bound by counting messages, and when it holds.

use motet_net::{Network, Node};

use super::{full_mesh, grid, of, ratio, ring, star, two_dcs};
use crate::bound::{Level, Ratio};
use crate::collective::CollectiveKind;

/// In GB/s.
fn work(network: &Network) -> Option<(Ratio, Level)> {
    let work = of(network, CollectiveKind::AllReduce).work?;
    let algbw = work.time_per_byte.inverse()?.checked_mul(ratio(1, 1_000_000_000))?;
    Some((algbw, work.level))
}

#[test]
fn closed_forms() {
    // b·n / (n − 1) for the ring, half of that under a switch: what the ring algorithm reaches.
    assert_eq!(work(&ring(8, 50)), Some((ratio(400, 7), Level::Rank)));
    assert_eq!(work(&star(8, 100, |_| {})), Some((ratio(400, 7), Level::Rank)));
    assert_eq!(work(&full_mesh(4, 50)), Some((ratio(100, 1), Level::Rank)));
    // 48 links of 50 GB/s, 2 · 15 messages a byte; the cut bound is 100.
    assert_eq!(work(&grid(4, 50, false)), Some((ratio(80, 1), Level::Rank)));
    assert_eq!(work(&two_dcs(4, 20)), Some((ratio(20, 1), Level::Datacenter)));
}

/// A star whose GPUs send at 100 and receive at 50 GB/s.
fn lopsided(alter: impl FnOnce(&mut Node)) -> Network {
    use motet_net::{NetworkBuilder, NodeKind};
    let mut builder = NetworkBuilder::new("lopsided");
    let gpus = super::gpus(&mut builder, 4);
    let mut node = Node::new("switch", NodeKind::NvSwitch);
    alter(&mut node);
    let switch = builder.add_node(node).unwrap();
    for gpu in gpus {
        builder.add_link(gpu, switch, super::spec(100)).unwrap();
        builder.add_link(switch, gpu, super::spec(50)).unwrap();
    }
    builder.build().unwrap()
}

/// 4 ranks: 6 messages a byte over 200 GB/s into the ranks or 400 GB/s out of them.
#[test]
fn only_the_count_that_capabilities_leave_true_is_used() {
    let algbw = |network: &Network| work(network).map(|it| it.0);
    assert_eq!(algbw(&lopsided(|_| {})), Some(ratio(100, 3)));
    assert_eq!(algbw(&lopsided(|it| it.multicast = true)), Some(ratio(100, 3)));
    assert_eq!(algbw(&lopsided(|it| it.reduces = true)), Some(ratio(200, 3)));
    let both = lopsided(|it| (it.multicast, it.reduces) = (true, true));
    assert_eq!(algbw(&both), None);
    // What is left is the cut bound, which a reducing, copying switch does reach.
    assert_eq!(of(&both, CollectiveKind::AllReduce).algbw(), Some(ratio(50, 1)));
}

#[test]
fn devices_inside_a_group_may_do_anything() {
    let mut builder = motet_net::NetworkBuilder::new("boxes");
    let spine = builder.add_node(Node::new("spine", motet_net::NodeKind::Spine)).unwrap();
    for server in ["a", "b", "c"] {
        let mut switch = Node::new(server, motet_net::NodeKind::NvSwitch).in_server(server);
        (switch.multicast, switch.reduces) = (true, true);
        let switch = builder.add_node(switch).unwrap();
        for gpu in super::gpus(&mut builder, 2) {
            builder.node_mut(gpu).location.server = Some(server.to_owned());
            builder.add_duplex(gpu, switch, super::spec(400)).unwrap();
        }
        builder.add_duplex(switch, spine, super::spec(10)).unwrap();
    }
    // 2 · 2 messages between three servers over 30 GB/s.
    assert_eq!(work(&builder.build().unwrap()), Some((ratio(15, 2), Level::Server)));
}

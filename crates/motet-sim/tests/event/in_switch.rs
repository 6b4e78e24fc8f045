//! Copies and sums in switches that a program asks for: closed forms, both engines alike, several
//! switches side by side, and networks that cannot.

use motet_collective::in_switch::{Serving, is_whole_group};
use motet_collective::{Slot, bound};
use motet_net::{InNetwork, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Prepared, Replay, RouteError, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration, Rank};
use proptest::prelude::*;

use crate::programs;
use crate::support::{link, template, time, verified};

/// GPUs on `planes` switches that serve programs, each GPU with a link of 8 Gbit/s and 100 ps to each.
fn boxed(gpus: u32, planes: u32, can: InNetwork) -> Network {
    let mut b = NetworkBuilder::new("box");
    let gpus: Vec<_> = (0..gpus)
        .map(|it| b.add_node(Node::new(format!("g{it}"), NodeKind::Gpu)).unwrap())
        .collect();
    for plane in 0..planes {
        let mut switch = Node::new(format!("w{plane}"), NodeKind::NvSwitch);
        switch.in_network = can;
        let switch = b.add_node(switch).unwrap();
        for gpu in &gpus {
            b.add_duplex(*gpu, switch, link(8_000_000_000, 100)).unwrap();
        }
    }
    b.build().unwrap()
}

#[test]
fn closed_forms() {
    // 1000 bytes at 1 GB/s are 1 µs. Up, down and up again, down; three ranks at once each time.
    let network = boxed(3, 1, InNetwork::NVLS);
    let one = Bytes::new(1000);
    let hop = Duration::from_ps(1_000_100);
    let four = hop + hop + hop + hop;
    assert_eq!(time(programs::in_switch_all_reduce(3, 1), &network, one), four);
    // AllGather of 1000 bytes a rank: one up, then three down each link.
    let down = Duration::from_ps(3_000_100);
    let gathered = time(programs::in_switch_all_gather(3, 1), &network, Bytes::new(3000));
    assert_eq!(gathered, hop + down);
    // ReduceScatter: three up each link, of which the last is awaited, then one down.
    let scattered = time(programs::in_switch_reduce_scatter(3, 1), &network, Bytes::new(3000));
    assert_eq!(scattered, down + hop);
    // A switch that spreads its sums needs no turn.
    let able = boxed(3, 1, InNetwork { spreads: true, ..InNetwork::NVLS });
    assert_eq!(time(programs::in_switch_spread(3, 1), &able, one), hop + hop);
}

#[test]
fn who_cannot_is_named() {
    let fails = |program, network: &Network| {
        let program = verified(program);
        let refused = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap_err();
        assert!(matches!(refused, RouteError::Unserved(_)));
        refused.to_string()
    };
    // NVLS does not spread sums, and switches before Hopper do nothing.
    let spread = fails(programs::in_switch_spread(3, 1), &boxed(3, 1, InNetwork::NVLS));
    assert!(spread.contains("can reduce spread is reached by all of ranks 0, 1, 2"), "{spread}");
    let older = fails(programs::in_switch_all_reduce(8, 1), &template("dgx-a100", &[]));
    assert!(older.contains("`in_network`"), "{older}");
    // No NVSwitch reaches the GPUs of two boxes.
    let two = template("dgx-h100", &["count=2", "fabric=direct"]);
    fails(programs::in_switch_all_gather(16, 1), &two);
}

/// Slots are shared out among switches that will do; what one transfer spans stays together.
#[test]
fn planes_take_turns() {
    let network = boxed(4, 2, InNetwork::NVLS);
    let program = programs::in_switch_all_gather(4, 3);
    let (serving, unserved) = Serving::find(&program, &network);
    assert!(unserved.is_empty());
    let node = |rank, offset| serving.node(Slot::switch(Rank(rank), offset)).unwrap();
    for rank in 0..4 {
        assert_eq!(node(rank, 0), node(rank, 2));
        assert_eq!(node(rank, 0) == node(0, 0), rank % 2 == 0);
    }
    assert_eq!(serving.node(Slot::input(Rank(0), 0)), None);
}

#[test]
fn whole_groups_are_known() {
    assert!(is_whole_group(&programs::in_switch_all_reduce(3, 3)));
    assert!(is_whole_group(&programs::in_switch_all_gather(3, 1)));
    assert!(is_whole_group(&programs::in_switch_reduce_scatter(3, 1)));
    assert!(!is_whole_group(&programs::in_switch_spread(3, 1)));
    assert!(!is_whole_group(&programs::ring_all_reduce(3, 1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Both engines agree to the picosecond, and nothing is faster than the bound of its form.
    #[test]
    fn engines_agree_and_bounds_hold(
        ranks in 2u32..6, planes in 1u32..4, which in 0usize..20, size in 1u64..5_000_000,
    ) {
        let network = boxed(ranks, planes, InNetwork { spreads: true, ..InNetwork::NVLS });
        let of_ranks = |it: &motet_collective::Program| it.collective().ranks() == ranks;
        let programs: Vec<_> = programs::in_switch(ranks).into_iter().filter(of_ranks).collect();
        let program = verified(programs[which % programs.len()].clone());
        let size = Bytes::new(size);
        let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
        let event = Simulation::new(&Prepared::new(&routed), size).run().unwrap().time;
        let replay = Replay::compile(&routed, size, &SimOptions::default()).unwrap();
        let state = motet_net::NetworkState::nominal(&network);
        prop_assert_eq!(replay.run(&state).unwrap(), event);
        let bound = bound::bound(&network, program.collective()).unwrap();
        let least = bound.least(bound.held_against(&program), size);
        prop_assert!(event >= least, "{} < {}", event, least);
    }
}

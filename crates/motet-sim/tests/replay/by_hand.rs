//! Small cases with known answers: closed forms, errors, the end of time, critical paths.

use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_net::builders::{Params, find};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, NetworkState, Node, NodeKind};
use motet_sim::replay::{CompileError, Reason, Replay, RunError};
use motet_sim::{Routed, SimOptions, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, Instant, LinkId, NodeId, Rank};

use crate::programs;

fn verified(program: Program) -> Verified<Program> {
    Verified::new(program, None).unwrap()
}

fn compile(program: &Verified<Program>, network: &Network, size: Bytes) -> Replay {
    let routed = Routed::new(program, network, SwitchForwarding::CutThrough).unwrap();
    Replay::compile(&routed, size, &SimOptions::default()).unwrap()
}

fn ring(ranks: u32) -> Network {
    let words = [format!("gpus={ranks}"), "bandwidth=50 GiB/s".into(), "latency=500 ns".into()];
    find("ring").unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

/// 2(n − 1) steps of α + β each.
#[test]
fn ring_all_reduce_is_its_closed_form() {
    for ranks in [2u32, 3, 8, 64] {
        let network = ring(ranks);
        let program = verified(programs::ring_all_reduce(ranks, 1));
        let replay = compile(&program, &network, Bytes::gib(1));
        let chunk = Bytes::gib(1).div_ceil(u64::from(ranks));
        let rate: Bandwidth = "50 GiB/s".parse().unwrap();
        let beta = rate.transfer_time(chunk, motet_units::Rounding::Up).unwrap();
        let step = beta + Duration::from_ns(500);
        let expected = step.saturating_mul(2 * (u64::from(ranks) - 1));
        let nominal = NetworkState::nominal(&network);
        assert_eq!(replay.run(&nominal), Ok(expected));
        let usage = replay.usage(&nominal).unwrap();
        let busy = beta.saturating_mul(2 * (u64::from(ranks) - 1));
        assert_eq!(usage.busy.iter().filter(|it| **it == busy).count(), ranks as usize);
        assert!(usage.ranks.iter().all(|it| *it == expected));
    }
}

/// gpu0 –1 GB/s→ leaf –2 GB/s→ gpu1, 1 µs each way.
fn two_gpus() -> Network {
    let mut b = NetworkBuilder::new("two");
    for (name, kind) in [("g0", NodeKind::Gpu), ("leaf", NodeKind::Leaf), ("g1", NodeKind::Gpu)] {
        b.add_node(Node::new(name, kind)).unwrap();
    }
    for (from, to, rate) in [(0, 1, 1), (1, 2, 2)] {
        let rate = Bandwidth::gb_per_s(rate);
        let spec = LinkSpec::new(LinkClass::Other, rate, Duration::from_us(1));
        b.add_link(NodeId(from), NodeId(to), spec).unwrap();
    }
    b.build().unwrap()
}

/// Two chunks from rank 0 to rank 1, one after the other.
fn two_chunks() -> Program {
    let it = Collective::rooted(CollectiveKind::Broadcast, 2, 2, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("two chunks", it);
    b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), 2));
    for chunk in 0..2 {
        b.add(Transfer::copy(Slot::input(Rank(0), chunk), Slot::output(Rank(1), chunk), 1));
    }
    b.build()
}

#[test]
fn the_critical_path_is_the_slow_link() {
    let network = two_gpus();
    let program = verified(two_chunks());
    let replay = compile(&program, &network, Bytes::new(2000));
    let path = replay.critical_path(&NetworkState::nominal(&network)).unwrap();
    // β = 1 µs on the first link: chunk 1 starts at 1 µs, its tail follows over both links.
    assert_eq!(path.end, Duration::from_us(4));
    let at = |us: u64| Instant::START + Duration::from_us(us);
    let steps: Vec<_> =
        path.steps.iter().map(|it| (it.transfer.0, it.link, it.start, it.end, it.reason)).collect();
    let expected = [
        (1, Some(LinkId(0)), at(0), at(1), Reason::Launch),
        (2, Some(LinkId(0)), at(1), at(3), Reason::LinkFree),
        (2, Some(LinkId(1)), at(3), at(4), Reason::Forwarded),
    ];
    assert_eq!(steps, expected);
    assert_eq!(path.bottleneck(), Some(LinkId(0)));
    let usage = replay.usage(&NetworkState::nominal(&network)).unwrap();
    // Twice as fast, the second link is taken for half as long, though its tails come as slowly.
    assert_eq!(usage.busy, [Duration::from_us(2), Duration::from_us(1)]);
    assert_eq!(usage.ranks, [Duration::from_us(2), Duration::from_us(4)]);
    assert_eq!(usage.busiest(), Some(LinkId(0)));
}

/// Ranks 0, 1 and 2 each over 1 GB/s to a leaf and from there over 2 GB/s to rank 3, 1 µs each.
fn three_into_one() -> (Network, Program) {
    let mut b = NetworkBuilder::new("three into one");
    for name in ["g0", "g1", "g2", "g3"] {
        b.add_node(Node::new(name, NodeKind::Gpu)).unwrap();
    }
    let leaf = b.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
    let spec = |gb| LinkSpec::new(LinkClass::Other, Bandwidth::gb_per_s(gb), Duration::from_us(1));
    for gpu in 0..3 {
        b.add_link(NodeId(gpu), leaf, spec(1)).unwrap();
    }
    b.add_link(leaf, NodeId(3), spec(2)).unwrap();
    let it = Collective::rooted(CollectiveKind::Gather, 4, 1, Rank(3)).unwrap();
    let mut gather = ProgramBuilder::new("gather", it);
    for rank in 0..4 {
        let to = Slot::output(Rank(3), rank);
        gather.add(Transfer::copy(Slot::input(Rank(rank), 0), to, 1));
    }
    (b.build().unwrap(), gather.build())
}

/// Of three streams two fit beside each other behind their slow links; the third has the last link
/// when that has had time for the bits of both, not when their tails have left.
#[test]
fn the_critical_path_goes_where_a_link_has_had_its_time() {
    let (network, program) = three_into_one();
    let program = verified(program);
    // 4 µs over a slow link, 2 µs over the last.
    let replay = compile(&program, &network, Bytes::new(16_000));
    let path = replay.critical_path(&NetworkState::nominal(&network)).unwrap();
    let at = |us: u64| Instant::START + Duration::from_us(us);
    let steps: Vec<_> =
        path.steps.iter().map(|it| (it.transfer.0, it.link, it.start, it.end, it.reason)).collect();
    let expected = [
        (0, Some(LinkId(0)), at(0), at(1), Reason::Launch),
        (0, Some(LinkId(3)), at(1), at(3), Reason::Forwarded),
        (1, Some(LinkId(3)), at(3), at(5), Reason::LinkFree),
        (2, Some(LinkId(3)), at(5), at(8), Reason::LinkFree),
    ];
    assert_eq!(steps, expected);
    assert_eq!(path.end, Duration::from_us(8));
    let usage = replay.usage(&NetworkState::nominal(&network)).unwrap();
    assert_eq!(usage.busy, [4, 4, 4, 6].map(Duration::from_us));
}

#[test]
fn a_dead_link_is_named_and_others_run() {
    let network = two_gpus();
    let program = verified(two_chunks());
    let replay = compile(&program, &network, Bytes::new(2000));
    let good = NetworkState::nominal(&network);
    let mut down = good.clone();
    down.set_up(LinkId(1), false);
    let mut states = vec![good.clone(); 40];
    states[17] = down;
    let error = RunError::NoBandwidth { transfer: TransferId(1), link: LinkId(1) };
    assert!(error.to_string().contains("transfer 1 would never end: link l1"));
    for (index, end) in replay.run_many(&states).into_iter().enumerate() {
        let expected = if index == 17 { Err(error.clone()) } else { Ok(Duration::from_us(4)) };
        assert_eq!(end, expected);
    }
    assert_eq!(replay.critical_path(&states[17]), Err(error.clone()));
    assert_eq!(replay.usage(&states[17]), Err(error));
    let other = NetworkState::nominal(&ring(3));
    let wrong = RunError::WrongNetwork { expected: 2, given: 6 };
    assert_eq!(replay.run(&other), Err(wrong));
}

#[test]
fn time_ends_in_an_error_and_is_exact_until_then() {
    let network = two_gpus();
    let program = verified(two_chunks());
    // 1 byte/ns: at 2⁵³ ps and beyond, and past the end of time.
    for (bytes, exact) in [(10u64.pow(13), true), (10u64.pow(16) + 2, true), (1 << 60, false)] {
        let replay = compile(&program, &network, Bytes::new(bytes));
        let nominal = NetworkState::nominal(&network);
        let chunk = bytes.div_ceil(2);
        let expected = match exact {
            true => Ok(Duration::from_ps(2 * chunk * 1000 + 2_000_000)),
            false => Err(RunError::TooLong),
        };
        assert_eq!(replay.run(&nominal), expected);
        assert_eq!(replay.run_many(&vec![nominal; 16]), vec![expected; 16]);
    }
    let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
    let options = SimOptions { local_bandwidth: Some(Bandwidth::ZERO), ..SimOptions::default() };
    let refused = Replay::compile(&routed, Bytes::new(1), &options).unwrap_err();
    assert_eq!(refused, CompileError::NoLocalBandwidth { transfer: TransferId(0) });
    let all = Bytes::new(u64::MAX);
    let refused = Replay::compile(&routed, all, &SimOptions::default()).unwrap_err();
    assert_eq!(refused, CompileError::TooManyBytes { transfer: TransferId(0) });
}

#[test]
fn nothing_to_do_ends_with_the_launch() {
    let network = ring(2);
    let it = Collective::send_recv(1, vec![None, None]).unwrap();
    let program = verified(ProgramBuilder::new("nothing", it).build());
    let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
    let options = SimOptions { launch: Duration::from_us(3), ..SimOptions::default() };
    let replay = Replay::compile(&routed, Bytes::mib(1), &options).unwrap();
    let states = vec![NetworkState::nominal(&network); 20];
    assert_eq!(replay.run_many(&states), vec![Ok(Duration::from_us(3)); 20]);
    assert!(replay.critical_path(&states[0]).unwrap().steps.is_empty());
    assert!(replay.run_many(&[]).is_empty());
}

/// Rank 0 sends to everyone itself.
fn star_broadcast(ranks: u32) -> Program {
    let it = Collective::rooted(CollectiveKind::Broadcast, ranks, 1, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("star", it);
    for rank in (0..ranks).map(Rank) {
        b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(rank, 0), 1));
    }
    b.build()
}

#[test]
fn what_switches_do_is_refused() {
    let shape = find("switch").unwrap();
    let network = shape.build(&Params::from_words(["gpus=8", "sharp=true"]).unwrap()).unwrap();
    let broadcast = verified(star_broadcast(8));
    let routed = Routed::new(&broadcast, &network, SwitchForwarding::CutThrough).unwrap();
    let refused = Replay::compile(&routed, Bytes::mib(1), &SimOptions::default()).unwrap_err();
    assert!(matches!(refused, CompileError::InNetwork { .. }));
}

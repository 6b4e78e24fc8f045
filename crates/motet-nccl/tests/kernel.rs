//! The model of kernels: closed forms by hand, and laws that hold for every program.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::sync::Arc;

use motet_collective::program::{Hints, Lane, LaneKind};
use motet_collective::{
    Collective, CollectiveKind, Event, Program, ProgramBuilder, Slot, Transfer, Verified,
};
use motet_nccl::kernel::{Kernels, Laid, PriceError, Shape};
use motet_nccl::{Algorithm, Knobs, NcclModel, NcclOptions, Protocol, own};
use motet_net::builders::{Params, find};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Routed, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, Rank};
use proptest::prelude::*;

/// GPUs of Ampere, each joined to every other by 100 GB/s and 1 µs.
fn mesh(gpus: usize, latency: Duration) -> Network {
    let mut builder = NetworkBuilder::new("mesh");
    let nodes: Vec<_> = (0..gpus)
        .map(|it| builder.add_node(Node::new(format!("g{it}"), NodeKind::Gpu)).unwrap())
        .collect();
    let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(100), latency);
    for (at, a) in nodes.iter().enumerate() {
        for b in &nodes[at + 1..] {
            builder.add_duplex(*a, *b, spec).unwrap();
        }
    }
    builder.build().unwrap()
}

fn laid(program: Program, network: &Network) -> Result<Laid, PriceError> {
    let program = Verified::new(program, None).unwrap();
    let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
    let options = NcclOptions { sm: Some(80), ..NcclOptions::default() };
    Laid::new(&routed, Arc::new(Kernels::plain(network, &options)))
}

fn lane(rank: u32, channel: u32, events: &[Event]) -> Lane {
    Lane { rank: Rank(rank), kind: LaneKind::Block, channel, events: events.to_vec() }
}

/// An AllGather of two ranks: each sends its part by a block of its own and receives by another.
fn exchange(protocol: Protocol) -> Program {
    let collective = Collective::new(CollectiveKind::AllGather, 2, 1).unwrap();
    let hints = Hints { protocol, ..Hints::default() };
    let mut builder = ProgramBuilder::new("exchange", collective).hints(hints);
    let own =
        |rank: u32| Transfer::copy(Slot::input(Rank(rank), 0), Slot::output(Rank(rank), rank), 1);
    let other = |rank: u32| {
        Transfer::copy(Slot::input(Rank(rank), 0), Slot::output(Rank(1 - rank), rank), 1)
    };
    let local = [builder.add(own(0)), builder.add(own(1))];
    let sent = [builder.add(other(0)), builder.add(other(1))];
    for rank in 0..2 {
        let at = rank as usize;
        builder.add_lane(lane(rank, 0, &[sent[at].sent()]));
        builder.add_lane(lane(rank, 0, &[sent[1 - at].arrived()]));
        builder.add_lane(lane(rank, 1, &[local[at].sent(), local[at].arrived()]));
    }
    builder.build()
}

/// Launch, one hop of a tree or ring over NVLink, and 24 MB at the 24 GB/s of a block of Ampere.
#[test]
fn one_transfer_by_hand() {
    let network = mesh(2, Duration::from_us(1));
    for (protocol, launch, hop, data) in [
        // A link of 100 GB/s is half flags under LL: still more than a block moves.
        (Protocol::Simple, 8.4, 3.4, 1000.0),
        (Protocol::Ll, 6.6, 1.0, 1000.0),
        (Protocol::Ll128, 14.0, 1.9, 1200.0),
    ] {
        let laid = laid(exchange(protocol), &network).unwrap();
        assert_eq!(laid.shape(), Shape::Ring);
        let price = laid.price(Bytes::new(48_000_000)).unwrap();
        assert_eq!(price.launch, Duration::from_ps((launch * 1e6) as u64));
        // Never less than the link's own latency.
        assert_eq!(price.latency, Duration::from_ps((hop * 1e6) as u64), "{protocol:?}");
        let apart = (price.data.as_us_f64() - data).abs();
        assert!(apart < 1.0, "{protocol:?}: {}", price.data);
        assert_eq!(price.time, price.launch + price.latency + price.data);
        assert_eq!(laid.blocks().1, 3);
    }
}

/// What comes from afar takes as long as its links do, and no more than its buffer goes there and back.
#[test]
fn a_wan_is_as_slow_as_it_is() {
    let far = laid(exchange(Protocol::Simple), &mesh(2, Duration::from_ms(5))).unwrap();
    let price = far.price(Bytes::new(48_000_000)).unwrap();
    assert_eq!(price.latency, Duration::from_ms(5));
    // 4 MiB in 10 ms: 24 MB take 57 ms.
    let expected = 24e6 / (4.0 * 1048576.0 / 10e-3) * 1e6;
    assert!((price.data.as_us_f64() / expected - 1.0).abs() < 0.05, "{}", price.data);
}

/// A second block that waits for the first costs a flag.
#[test]
fn a_wait_between_blocks_costs_a_flag() {
    let build = |waits: bool| {
        let collective = Collective::rooted(CollectiveKind::Broadcast, 3, 1, Rank(0)).unwrap();
        let mut builder = ProgramBuilder::new("relay", collective);
        let at = |rank: u32| Slot::output(Rank(rank), 0);
        let local = builder.add(Transfer::copy(Slot::input(Rank(0), 0), at(0), 1));
        let first = builder.add(Transfer::copy(Slot::input(Rank(0), 0), at(1), 1));
        let second = builder.add(Transfer::copy(at(1), at(2), 1));
        builder.add_lane(lane(0, 0, &[local.sent(), local.arrived(), first.sent()]));
        builder.add_lane(lane(2, 0, &[second.arrived()]));
        if waits {
            builder.add_lane(lane(1, 0, &[first.arrived()]));
            builder.add_lane(lane(1, 1, &[second.sent()]));
            builder.wait(second.sent(), first.arrived());
            builder.lanes_mut()[1].channel = 1;
        } else {
            builder.add_lane(lane(1, 0, &[first.arrived(), second.sent()]));
        }
        builder.build()
    };
    let network = mesh(3, Duration::ZERO);
    let price = |waits| laid(build(waits), &network).unwrap().price(Bytes::new(24_000)).unwrap();
    let (fused, apart) = (price(false), price(true));
    assert_eq!(apart.latency, fused.latency + Duration::from_ns(600));
    // And what is not passed on as it comes is passed on when it is whole.
    assert!(apart.data >= fused.data + Duration::from_ns(900), "{} {}", apart.data, fused.data);
}

#[test]
fn only_what_is_laid_out_has_a_price() {
    let collective = Collective::rooted(CollectiveKind::Broadcast, 2, 1, Rank(0)).unwrap();
    let mut builder = ProgramBuilder::new("bare", collective);
    builder.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), 1));
    builder.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(1), 0), 1));
    let wrong = laid(builder.build(), &mesh(2, Duration::ZERO)).unwrap_err();
    assert_eq!(wrong, PriceError::NotLaidOut { transfer: 0 });
}

#[test]
fn knobs_that_cannot_be_have_no_price() {
    let laid = laid(exchange(Protocol::Ll128), &mesh(2, Duration::ZERO)).unwrap();
    let knobs = Knobs { threads: Some(100), ..Knobs::new(Protocol::Ll128) };
    let error = laid.price_under(Bytes::mib(1), &knobs).unwrap_err();
    assert!(matches!(error, PriceError::Knobs(_)), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No price is below what is known without running; more data, or more latency, never take less.
    #[test]
    fn laws(
        template in prop::sample::select(vec!["dgx-a100 count=1", "dgx-a100 count=2", "dgx-1 count=1"]),
        kind in prop::sample::select(vec![
            CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::Broadcast,
            CollectiveKind::Reduce, CollectiveKind::ReduceScatter,
        ]),
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        channels in 1u32..5,
        size in 1u64..1 << 26,
        more in 1u64..1 << 24,
    ) {
        let mut words = template.split_whitespace();
        let found = find(words.next().unwrap()).unwrap();
        let network = found.build(&Params::from_words(words).unwrap()).unwrap();
        let options = NcclOptions::default();
        let model = NcclModel::new(&network, options.clone()).unwrap();
        let kernels = Arc::new(Kernels::new(&network, model.communicator(), &options));
        let program = own::program(&model.channels(), kind, Algorithm::Ring, protocol, channels);
        let program = Verified::new(program.unwrap().unwrap(), None).unwrap();
        let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
        let laid = Laid::new(&routed, kernels).unwrap();
        prop_assert_eq!(laid.shape(), Shape::Ring);
        let price = |bytes| laid.price(Bytes::new(bytes)).unwrap();
        let (less, most) = (price(size), price(size + more));
        prop_assert!(less.time <= most.time || less.terms.stretch > most.terms.stretch);
        let least = laid.least(Bytes::new(size), &Knobs::new(protocol)).unwrap();
        prop_assert!(least <= less.time, "{} {}", least, less.time);
    }
}

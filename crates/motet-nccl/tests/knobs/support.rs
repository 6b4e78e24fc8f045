//! Networks and programs small enough to work out by hand.

use motet_collective::program::{Lane, LaneKind};
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_nccl::{KnobError, KnobOutcome, Knobbed};
use motet_nccl::{KnobModel, Knobs, NcclOptions, Protocol};
use motet_net::builders::{Params, find};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Routed, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, NodeId, Rank};

pub(crate) fn template(kind: &str, words: &[&str]) -> Network {
    find(kind).unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

/// GPUs in a row, joined by NVLinks of `gbps` and `latency` both ways. Their generation is Hopper.
pub(crate) fn row(gpus: usize, gbps: u64, latency: Duration) -> Network {
    let mut b = NetworkBuilder::new("row");
    for index in 0..gpus {
        let mut node = Node::new(format!("g{index}"), NodeKind::Gpu);
        node.properties.insert("sm".to_owned(), "90".to_owned());
        b.add_node(node).unwrap();
    }
    let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(gbps), latency);
    for index in 1..gpus {
        b.add_duplex(NodeId::from_index(index - 1), NodeId::from_index(index), spec).unwrap();
    }
    b.build().unwrap()
}

/// A Broadcast from rank 0 along a row, chunk by chunk, in no lanes. The root's own copy counts
/// too, but never ends last.
pub(crate) fn chain(ranks: u32, chunks: u32) -> Program {
    let collective = Collective::rooted(CollectiveKind::Broadcast, ranks, chunks, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("chain", collective);
    for chunk in 0..chunks {
        let own = Transfer::copy(Slot::input(Rank(0), chunk), Slot::output(Rank(0), chunk), 1);
        let mut last: TransferId = b.add(own);
        for rank in 1..ranks {
            let from = Slot::output(Rank(rank - 1), chunk);
            let copy = Transfer::copy(from, Slot::output(Rank(rank), chunk), 1);
            let source = Slot::input(Rank(0), chunk);
            last = if rank == 1 {
                b.add(Transfer { src: source, ..copy })
            } else {
                b.add_after(copy, &[last])
            };
        }
    }
    b.build()
}

/// Rank 0 sends `chunks` chunks to rank 1 in one transfer, rank 1 none.
pub(crate) fn send(chunks: u32) -> Program {
    let collective = Collective::send_recv(chunks, vec![Some(Rank(1)), None]).unwrap();
    let mut b = ProgramBuilder::new("send", collective);
    b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(1), 0), chunks));
    b.build()
}

/// Rank 0 sends `chunks` chunks to rank 1, each on a channel of its own.
pub(crate) fn channelled(chunks: u32) -> Program {
    let collective = Collective::send_recv(chunks, vec![Some(Rank(1)), None]).unwrap();
    let mut b = ProgramBuilder::new("channelled", collective);
    for channel in 0..chunks {
        let (from, to) = (Slot::input(Rank(0), channel), Slot::output(Rank(1), channel));
        let id = b.add(Transfer::copy(from, to, 1));
        let lane = |rank, event| Lane { rank, kind: LaneKind::Block, channel, events: vec![event] };
        b.add_lane(lane(Rank(0), id.sent()));
        b.add_lane(lane(Rank(1), id.arrived()));
    }
    b.build()
}

pub(crate) fn knobbed(program: Program, network: &Network) -> Knobbed {
    let program = Verified::new(program, None).unwrap();
    let routed = Routed::new(&program, network, SwitchForwarding::CutThrough).unwrap();
    Knobbed::new(&routed, KnobModel::new(network, &NcclOptions::default()))
}

pub(crate) fn run(
    program: Program,
    network: &Network,
    size: Bytes,
    knobs: &Knobs,
) -> Result<KnobOutcome, KnobError> {
    let knobbed = knobbed(program, network);
    let outcome = knobbed.run(size, knobs);
    // The short form is the long one's time.
    assert_eq!(knobbed.time(size, knobs), outcome.clone().map(|it| it.outcome.time));
    outcome
}

pub(crate) fn time(program: Program, network: &Network, size: Bytes, knobs: &Knobs) -> Duration {
    run(program, network, size, knobs).unwrap().outcome.time
}

pub(crate) const fn knobs(protocol: Protocol) -> Knobs {
    Knobs::new(protocol)
}

/// Bytes at GB/s, exactly, in whole ps rounded up.
pub(crate) fn at(bytes: u64, gbps: u64) -> Duration {
    Duration::from_ps((bytes * 1000).div_ceil(gbps))
}

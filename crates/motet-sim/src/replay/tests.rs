//! What the compiler makes of a ring, on which the speed of replay rests. Whether it is right is
//! tested from outside (`tests/replay`).

use motet_collective::Verified;
use motet_net::builders::{Params, find};
use motet_units::Bytes;

use super::Replay;
use super::code::Op;
use crate::model::{SimOptions, SwitchForwarding};
use crate::programs;
use crate::route::Routed;

#[test]
fn a_ring_is_one_step_a_transfer_and_one_slot_a_rank() {
    let network = find("ring").unwrap().build(&Params::from_words(["gpus=256"]).unwrap()).unwrap();
    let program = Verified::new(programs::ring_all_reduce(256, 1), None).unwrap();
    let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
    let replay = Replay::compile(&routed, Bytes::mib(64), &SimOptions::default()).unwrap();
    assert_eq!(replay.code.slots, 257);
    assert_eq!(replay.code.ops.len(), 130_560);
    let ends = replay.code.ops.iter().filter(|it| **it == Op::HopEnd).count();
    assert_eq!(ends, 256);
    assert!(replay.code.ops.iter().all(|it| matches!(it, Op::Hop | Op::HopEnd)));
    assert_eq!((replay.links().len(), replay.channels.len()), (256, 256));
}

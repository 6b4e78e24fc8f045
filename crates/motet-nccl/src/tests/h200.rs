//! Real NCCL 2.28.9, two and four ranks on one H200, a process each with its own `NCCL_HOSTID`, over
//! sockets on one interface (2026-11-15). The model's table was written down before the log was
//! taken; every figure of the log's Tree, Ring and PAT columns and every logged choice agrees.
//! Here are the choices: algorithm, protocol and number of channels by size. The log gives the
//! bytes of one rank for AllGather and ReduceScatter; sizes here are those of all ranks.

use motet_units::Bytes;

use crate::{Algorithm, Loopback, NcclModel, NcclOptions, NcclVersion, Protocol, TunedCollective};

use Algorithm::{Ring, Tree};
use Protocol::{Ll, Simple};

fn check(ranks: u32, collective: TunedCollective, logged: &[(u64, Algorithm, Protocol, usize)]) {
    let machine = Loopback { ranks, ..Loopback::default() };
    let options = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
    let model = NcclModel::new(&machine.network().unwrap(), options).unwrap();
    for (bytes, algorithm, protocol, channels) in logged {
        let choice = model.choose(collective, Bytes::new(*bytes)).unwrap();
        assert_eq!(
            (choice.algorithm, choice.protocol, choice.used_channels),
            (*algorithm, *protocol, *channels),
            "{collective:?} of {bytes} bytes over {ranks} ranks"
        );
    }
}

#[test]
fn four_ranks() {
    check(
        4,
        TunedCollective::AllReduce,
        &[
            (4, Tree, Ll, 1),
            (1 << 10, Tree, Ll, 1),
            (1 << 12, Ring, Ll, 1),
            (1 << 14, Ring, Ll, 1),
            (1 << 16, Ring, Ll, 2),
            (1 << 18, Ring, Simple, 2),
            (1 << 26, Ring, Simple, 2),
        ],
    );
    for collective in [TunedCollective::AllGather, TunedCollective::ReduceScatter] {
        check(
            4,
            collective,
            &[
                (1 << 10, Ring, Ll, 1),
                (1 << 14, Ring, Ll, 1),
                (1 << 16, Ring, Simple, 2),
                (1 << 26, Ring, Simple, 2),
            ],
        );
    }
}

#[test]
fn two_ranks() {
    check(
        2,
        TunedCollective::AllReduce,
        &[
            (4, Ring, Ll, 1),
            (1 << 12, Ring, Ll, 1),
            (1 << 14, Ring, Ll, 2),
            (1 << 16, Ring, Simple, 2),
            (1 << 26, Ring, Simple, 2),
        ],
    );
    for collective in [TunedCollective::AllGather, TunedCollective::ReduceScatter] {
        check(
            2,
            collective,
            &[
                (1 << 12, Ring, Ll, 1),
                (1 << 14, Ring, Ll, 2),
                (1 << 16, Ring, Simple, 2),
                (1 << 26, Ring, Simple, 2),
            ],
        );
    }
}

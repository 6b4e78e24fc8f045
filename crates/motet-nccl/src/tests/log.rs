//! The TUNING log of NCCL 2.29.7 with two ranks on two hosts over sockets (RTX 5090), as published
//! in eunomia-bpf/nccl-eBPF, docs/tmp/default-suboptimal-search.md: every figure of it, and the
//! calls logged below it.
//!
//! The log does not say how many interfaces there were or how fast: two at 10 Gbit/s were chosen
//! here because they fit. One choice has to explain all figures, and does.

use motet_units::Bytes;

use crate::testing::model;
use crate::{Loopback, NcclModel, Protocol, TunedCollective};

fn logged() -> NcclModel {
    let machine = Loopback { sm: 120, interfaces: 2, ..Loopback::default() };
    model(&machine.network().unwrap())
}

/// The cells of a line: `latency/bandwidth`, without blanks.
fn cells(table: &str, block: usize, row: &str) -> Vec<String> {
    let line = table.lines().filter(|it| it.trim_start().starts_with(row)).nth(block).unwrap();
    let cells = line.split('|').skip(1).map(|it| it.replace(' ', ""));
    cells.filter(|it| !it.is_empty()).collect()
}

#[test]
fn every_figure() {
    let table = logged().table();
    let none = |count: usize| vec!["0.0/0.0"; count];
    let rows: [(&str, [&str; 9]); 5] = [
        ("Broadcast", ["", "", "", "9.3/1.2", "18.0/0.0", "22.4/2.4", "", "", ""]),
        ("Reduce ", ["", "", "", "9.3/1.2", "18.0/0.0", "22.4/2.4", "", "", ""]),
        (
            "AllGather",
            ["", "", "", "11.6/2.4", "22.5/0.0", "22.4/4.8", "5.0/0.0", "8.5/0.0", "14.0/0.0"],
        ),
        (
            "ReduceScatter",
            ["", "", "", "11.6/2.4", "22.5/0.0", "22.4/4.8", "5.0/0.0", "8.5/0.0", "14.0/0.0"],
        ),
        (
            "AllReduce",
            [
                "16.8/0.5", "31.0/0.0", "36.4/1.9", "16.6/1.2", "31.0/0.0", "36.4/2.4", "5.0/0.0",
                "8.5/0.0", "14.0/0.0",
            ],
        ),
    ];
    for (row, expected) in rows {
        let expected = expected.map(|it| if it.is_empty() { "0.0/0.0" } else { it });
        assert_eq!(cells(&table, 0, row), expected, "{row}");
    }
    assert_eq!(
        cells(&table, 0, "Max NThreads"),
        ["512", "640", "512", "512", "640", "256", "0", "0", "640"]
    );
    assert_eq!(cells(&table, 1, "AllReduce")[..3], ["5.0/0.0", "8.5/0.0", "14.0/0.0"]);
    assert_eq!(cells(&table, 1, "AllReduce")[3..], none(6));
    assert_eq!(cells(&table, 1, "AllGather"), none(9));
    assert_eq!(cells(&table, 2, "AllGather"), ["0.0/0.0", "0.0/0.0", "17.6/3.6"]);
    assert_eq!(cells(&table, 2, "ReduceScatter"), ["0.0/0.0", "0.0/0.0", "17.6/3.6"]);
}

/// The log's own line, blanks and all.
#[test]
fn the_format() {
    let expected = "    AllReduce |    16.8/   0.5 |    31.0/   0.0 |    36.4/   1.9 |    16.6/   \
                    1.2 |    31.0/   0.0 |    36.4/   2.4 |     5.0/   0.0 |     8.5/   0.0 |    \
                    14.0/   0.0 |";
    assert!(logged().table().lines().any(|it| it == expected));
    let head = concat!(
        "  Algorithm   |                            Tree                  |",
        "                            Ring                  |",
        "                   CollNetDirect                  |",
    );
    assert!(logged().table().starts_with(head));
}

/// "Broadcast: 16384 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}" and so on.
#[test]
fn the_calls() {
    let model = logged();
    for (bytes, protocol, channels) in [
        (1024, Protocol::Ll, 1),
        (8192, Protocol::Ll, 1),
        (16_384, Protocol::Ll, 2),
        (32_768, Protocol::Simple, 1),
        (65_536, Protocol::Simple, 2),
        (131_072, Protocol::Simple, 4),
        (1 << 20, Protocol::Simple, 4),
        (1 << 27, Protocol::Simple, 4),
    ] {
        let choice = model.choose(TunedCollective::Broadcast, Bytes::new(bytes)).unwrap();
        assert_eq!((choice.protocol, choice.used_channels), (protocol, channels), "{bytes}");
    }
}

//! NCCL's own rings and trees under our model of kernels, beside what NCCL's model expects: the two
//! must say the same, or a comparison of a program of ours with NCCL would be one of two models.
//!
//! `cargo test -p motet-nccl --test belief -- --nocapture` prints the table: for every collective,
//! algorithm and protocol the ratio of our time to NCCL's, by size.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and shows its table"
)]

use std::fmt::Write as _;
use std::sync::Arc;

use motet_collective::CollectiveKind::{
    self, AllGather, AllReduce, Broadcast, Reduce, ReduceScatter,
};
use motet_nccl::kernel::Kernels;
use motet_nccl::{Algorithm, Basis, NcclModel, NcclOptions, Priced, Protocol, TunedCollective};
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_net::formats::cluster_toml;
use motet_units::Bytes;

const CLUSTERS: [&str; 7] = [
    "loopback",
    "dgx-a100 count=1",
    "dgx-a100 count=2",
    "dgx-a100 count=4",
    "dgx-h100 count=1",
    "dgx-h100 count=2",
    "dgx-1 count=1",
];
const COLLECTIVES: [CollectiveKind; 5] = [AllReduce, AllGather, ReduceScatter, Broadcast, Reduce];

/// Farther apart than this must have a reason.
const APART: f64 = 0.15;
/// And in the middle of all no more than this.
const MEDIAN: f64 = 0.05;

fn network(words: &str) -> Network {
    if words == "loopback" {
        let text = include_str!("../../../examples/loopback.toml");
        return cluster_toml::read(text, &|_| Err(String::new())).unwrap().network;
    }
    let mut words = words.split_whitespace();
    find(words.next().unwrap()).unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

struct Row {
    cluster: &'static str,
    kind: CollectiveKind,
    algorithm: Algorithm,
    protocol: Protocol,
    size: u64,
    channels: usize,
    ratio: f64,
}

impl Row {
    /// Why NCCL's model and ours are apart, where they are.
    fn reason(&self) -> Option<&'static str> {
        let one_server = ["dgx-a100 count=1", "dgx-h100 count=1"].contains(&self.cluster);
        let rooted = matches!(self.kind, Broadcast | Reduce);
        if one_server && rooted && self.protocol == Protocol::Ll && self.size <= 1 << 18 {
            return Some(
                "NCCL counts one hop for a chain of seven, less than its links' own latency",
            );
        }
        if self.cluster == "loopback" && self.algorithm == Algorithm::Tree && self.channels == 1 {
            return Some(
                "one channel has one tree, whose inner nodes carry twice; NCCL counts both",
            );
        }
        if self.cluster == "dgx-1 count=1" && self.channels <= 2 && self.protocol == Protocol::Ll {
            return Some("NCCL runs it on one or two of twelve channels and counts all twelve");
        }
        None
    }
}

fn rows(cluster: &'static str, sizes: &[u32]) -> Vec<Row> {
    let network = network(cluster);
    let options = NcclOptions::default();
    let model = NcclModel::new(&network, options.clone()).unwrap();
    let kernels = Arc::new(Kernels::new(&network, model.communicator(), &options));
    let priced = Priced::new(&network, &model, kernels);
    let mut rows = Vec::new();
    for kind in COLLECTIVES {
        let tuned = TunedCollective::of(kind).unwrap();
        for algorithm in [Algorithm::Ring, Algorithm::Tree] {
            for protocol in Protocol::ALL {
                for size in sizes.iter().map(|it| 1u64 << it) {
                    let bytes = Bytes::new(size);
                    let Some(choice) = model.force(tuned, bytes, algorithm, protocol) else {
                        continue;
                    };
                    let timed = priced.time(kind, choice, bytes).unwrap();
                    assert_eq!(timed.basis, Basis::Kernels);
                    let ratio = timed.time.as_us_f64() / choice.time;
                    let channels = choice.used_channels;
                    rows.push(Row { cluster, kind, algorithm, protocol, size, channels, ratio });
                }
            }
        }
    }
    rows
}

fn print(rows: &[Row]) {
    let key = |it: &Row| (it.cluster, it.kind, it.algorithm, it.protocol);
    for group in rows.chunk_by(|a, b| key(a) == key(b)) {
        let (cluster, kind, algorithm, protocol) = key(&group[0]);
        let ratios = group.iter().fold(String::new(), |mut text, it| {
            let _ = write!(text, " {:.2}", it.ratio);
            text
        });
        println!("{cluster:17} {kind:14} {:5} {:7}{ratios}", algorithm.name(), protocol.name());
    }
}

#[test]
fn rings_and_trees_take_what_nccl_says() {
    // 1 KiB to 1 GiB.
    let sizes: Vec<u32> = (10..=30).collect();
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let jobs = CLUSTERS.map(|it| {
            scope.spawn({
                let sizes = &sizes;
                move || rows(it, sizes)
            })
        });
        jobs.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    print(&rows);
    let mut apart: Vec<f64> = rows.iter().map(|it| (it.ratio - 1.0).abs()).collect();
    apart.sort_by(f64::total_cmp);
    let median = apart[apart.len() / 2];
    println!("{} rows, {:.1}% apart in the middle", rows.len(), median * 100.0);
    for row in rows.iter().filter(|it| (it.ratio - 1.0).abs() > APART) {
        let (kind, algorithm, protocol) = (row.kind, row.algorithm.name(), row.protocol.name());
        let what =
            format!("{} {kind} {algorithm} {protocol} {}", row.cluster, Bytes::new(row.size));
        let reason = row.reason();
        println!("{what}: {:.2}, because {}", row.ratio, reason.unwrap_or("?"));
        assert!(reason.is_some(), "{what}: {:.2} without a reason", row.ratio);
    }
    assert!(median <= MEDIAN, "{median}");
}

//! The model of MSCCL++ beside what Motet's plans took in MSCCL++ 0.10 on one H200 whose ranks share its
//! memory. `cargo test -p motet-tune --test mscclpp -- --nocapture` prints both.
//!
//! The machine has no NVLink: what is held against it are launches, puts, signals, semaphores and what
//! a block carries. Processes there take turns, which the model does not know, so that more ranks take
//! longer than it says.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and shows its table"
)]

use std::sync::Arc;

use motet_collective::CollectiveKind::{self, AllGather, AllToAll, ReduceScatter};
use motet_collective::formats::mscclpp_json;
use motet_nccl::NcclOptions;
use motet_nccl::kernel::{Kernels, Laid};
use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_sim::{Routed, SwitchForwarding};
use motet_synth::{Effort, Goal, Task, synthesize};
use motet_units::{Bandwidth, Bytes, Duration, Seed};

/// Collective, ranks, and µs at 16 KiB, 1 MiB and 64 MiB: the median of 31 launches, slowest rank.
const MEASURED: [(CollectiveKind, u32, [f64; 3]); 7] = [
    (AllGather, 2, [6.3, 28.5, 1780.0]),
    (AllGather, 4, [8.8, 19.7, 926.0]),
    (AllGather, 8, [10.6, 16.4, 542.0]),
    (ReduceScatter, 4, [13.3, 41.3, 2224.0]),
    (ReduceScatter, 8, [25.5, 54.4, 2374.0]),
    (AllToAll, 4, [7.3, 12.7, 512.0]),
    (AllToAll, 8, [10.0, 12.9, 371.0]),
];

const SIZES: [Bytes; 3] = [Bytes::kib(16), Bytes::mib(1), Bytes::mib(64)];

/// Ranks that reach one another's memory at the speed of the GPU's own.
fn one_gpu(ranks: u32) -> Network {
    let mut builder = NetworkBuilder::new("one-gpu");
    let nodes: Vec<_> = (0..ranks)
        .map(|it| {
            let node = Node::new(format!("r{it}"), NodeKind::Gpu).in_server("one");
            builder.add_node(node.with_property("sm", "90")).unwrap()
        })
        .collect();
    let share = Bandwidth::gb_per_s(4300 / u64::from(ranks));
    let spec = LinkSpec::new(LinkClass::NvLink, share, Duration::ZERO);
    for (at, a) in nodes.iter().enumerate() {
        for b in &nodes[at + 1..] {
            builder.add_duplex(*a, *b, spec).unwrap();
        }
    }
    builder.build().unwrap()
}

fn laid(kind: CollectiveKind, ranks: u32) -> Laid {
    let network = one_gpu(ranks);
    let task = Task::new(&network, Goal::new(kind, ranks).unwrap(), Bytes::mib(1));
    // Each part whole, as there is nothing to pass on.
    let most_transfers = if kind == AllToAll { u64::from(ranks * ranks) } else { 0 };
    let task = Task { most_transfers, ..task };
    let effort = Effort::unlimited(Seed::new(0));
    let method = if kind == AllToAll { "exchange" } else { "direct" };
    let program = synthesize(&task, method.parse().unwrap(), &effort).unwrap();
    let program = program.prove(&task).unwrap().program;
    let text = mscclpp_json::write(&program, &mscclpp_json::Options::default()).unwrap();
    let program = mscclpp_json::read(&text).unwrap().verify(None).unwrap();
    let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
    let options = NcclOptions::default();
    Laid::new(&routed, Arc::new(Kernels::plain(&network, &options))).unwrap()
}

#[test]
fn plans_take_about_what_they_took() {
    let mut logs = Vec::new();
    for (kind, ranks, took) in MEASURED {
        let laid = laid(kind, ranks);
        let said = SIZES.map(|it| laid.price_mscclpp(it).unwrap().time.as_us_f64());
        let ratios: Vec<f64> = said.iter().zip(took).map(|(a, b)| a / b).collect();
        println!(
            "{kind:14} {ranks} ranks: took {took:?} µs, the model says {said:.1?}: {ratios:.2?}"
        );
        for ratio in &ratios {
            assert!((0.4..2.5).contains(ratio), "{kind} {ranks}: {ratio}");
        }
        logs.extend(ratios.iter().map(|it| it.ln()));
    }
    let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    println!("in the mean {mean:.2} times what was measured");
    assert!((0.75..1.33).contains(&mean), "{mean}");
}

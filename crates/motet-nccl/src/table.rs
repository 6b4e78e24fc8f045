//! The tables as NCCL's log prints them (`NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING`), so that the
//! two can be compared line by line: `latency/bandwidth` in µs and GB/s, three algorithms abreast.

use std::fmt::Write as _;

use super::kinds::{Algorithm, Protocol, TunedCollective};
use super::model::NcclModel;
use super::tuning::Tuning;

impl NcclModel {
    /// NCCL's TUNING log of this communicator.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        for block in Algorithm::ALL.chunks(3) {
            self.tuning().write_block(&mut text, block);
        }
        text
    }

    /// NCCL's GRAPH log: one line per graph of each kind of node.
    #[must_use]
    pub fn graph_lines(&self) -> Vec<String> {
        let graphs = self.distinct_graphs().iter().flat_map(|it| {
            let others = [&it.nvls, &it.collnet_chain, &it.collnet_direct];
            [Some(&it.ring), Some(&it.tree)].into_iter().chain(others.map(Option::as_ref)).flatten()
        });
        graphs.map(super::graph::Graph::summary).collect()
    }
}

impl Tuning {
    fn write_block(&self, text: &mut String, block: &[Algorithm]) {
        let mut line = |head: &str, cells: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{head}|{cells}");
        };
        let names = block.iter().map(|it| format!(" {:14}   {it:>14}   {:14} |", "", ""));
        line("  Algorithm   ", names.collect());
        // NCCL names the protocols of three algorithms even in its last block of one.
        let protocols = (0..3).flat_map(|_| Protocol::ALL).map(|it| format!(" {it:>14} |"));
        line("  Protocol    ", protocols.collect());
        let cells = || block.iter().flat_map(|a| Protocol::ALL.map(|p| (*a, p)));
        let threads = cells().map(|(a, p)| format!(" {:>14} |", self.max_threads(a, p)));
        line(" Max NThreads ", threads.collect());
        for collective in TunedCollective::ALL {
            let values = cells().map(|(a, p)| {
                let latency = self.latency(collective, a, p);
                format!("{latency:8.1}/{:6.1} |", self.bandwidth(collective, a, p))
            });
            line(&format!("{collective:>13} "), values.collect());
        }
    }
}

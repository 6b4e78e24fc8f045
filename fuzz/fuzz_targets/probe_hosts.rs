//! The file of hosts to probe and the history of utilization: read or refused, and what is read can
//! be sampled.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::probe::{SampleOptions, history, hosts, sample};

fuzz_target!(|text: &str| {
    let _ = history::read_csv(text);
    if let Ok(found) = hosts::read(text) {
        let all: Vec<usize> = (0..found.hosts.len()).collect();
        let chosen = sample(&found.hosts, &all, &found.history, &SampleOptions::default());
        assert!(chosen.pairs.len() + 1 >= found.hosts.len());
    }
});

//! Traffic matrices: any text is a list of loads per link or an error; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_units::{Bandwidth, LinkId};
use motet_wan::formats::matrices_csv;

fuzz_target!(|text: &str| {
    let Ok(network) = builders::find("two-dc").and_then(|it| it.build(&Params::new())) else {
        return;
    };
    if let Ok(loads) = matrices_csv::read(text, &network, Bandwidth::gbit_per_s(1)) {
        let known = |it: &(LinkId, Bandwidth)| it.0.index() < network.links().len();
        assert!(loads.iter().flatten().all(known));
        assert!(loads.iter().all(|it| it.is_sorted_by(|a, b| a.0 < b.0)));
    }
});

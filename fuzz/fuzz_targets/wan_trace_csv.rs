//! Recorded traces: any text is a trace of a network or an error; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_wan::formats::trace_csv;

fuzz_target!(|text: &str| {
    let Ok(network) = builders::find("two-dc").and_then(|it| it.build(&Params::new())) else {
        return;
    };
    if let Ok(trace) = trace_csv::read(text, &network) {
        assert!(trace.events().windows(2).all(|it| it[0].at <= it[1].at));
    }
});

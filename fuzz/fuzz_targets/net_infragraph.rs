//! InfraGraph infrastructures: read or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::infragraph;

fuzz_target!(|text: &str| {
    let _ = infragraph::read(text);
});

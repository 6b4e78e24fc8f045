//! TACCL topology files: read or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::taccl_json;

fuzz_target!(|text: &str| {
    let _ = taccl_json::read(text, None, None);
});

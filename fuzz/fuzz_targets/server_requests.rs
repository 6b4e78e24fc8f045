//! Requests over gRPC and HTTP: answered or refused, and another tenant notices nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::fuzz::requests::check;

fuzz_target!(|bytes: &[u8]| {
    if let Err(why) = check(bytes) {
        panic!("{why}");
    }
});

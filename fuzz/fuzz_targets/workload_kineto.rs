//! Any text is a Kineto trace or an error, and what is read can be joined or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_workload::formats::kineto::read;
use motet_workload::recording::{Clocks, Recording};

fuzz_target!(|text: &str| {
    if let Ok(log) = read(text) {
        let mut other = log.clone();
        other.rank ^= 1;
        let _ = Recording::join(vec![log.clone()], Clocks::Shared);
        let _ = Recording::join(vec![log, other], Clocks::Own);
    }
});

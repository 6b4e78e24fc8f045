//! Any text is a workload of AICB or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = motet_workload::formats::aicb::read(text);
});

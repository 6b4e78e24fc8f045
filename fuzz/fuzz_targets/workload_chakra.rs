//! Chakra traces: any bytes are a trace that reads back equal, or an error; never a panic, never a hang.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_workload::formats::chakra::{read, write};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(trace) = read(bytes) {
        assert_eq!(read(&write(&trace)).as_ref(), Ok(&trace));
    }
});

//! Frames of the executor: any bytes are read or refused, and what is read is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| motet_exec::wire::replay(bytes));

//! the output of nvidia-smi topo -m: read or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::nvidia_smi;

fuzz_target!(|text: &str| {
    let _ = nvidia_smi::read(text, None, None);
});

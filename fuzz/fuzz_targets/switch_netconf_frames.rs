//! NETCONF's frames: see `fuzz/checks/switch.rs`.
#![no_main]
#![allow(dead_code, reason = "each target uses one of the checks")]

#[path = "../checks/switch.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|input: &[u8]| checks::netconf_frames(input));

//! Frames between ranks and their manager: any bytes are read or refused, what is read is written as the same bytes, and the manager stays sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::fuzz::frames::check;

fuzz_target!(|bytes: &[u8]| {
    if let Err(why) = check(bytes) {
        panic!("{why}");
    }
});

//! Messages to the controller: any bytes are understood or refused, and whatever is understood leaves the controller sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::api::convert::check;

fuzz_target!(|bytes: &[u8]| {
    if let Some((kind, rest)) = bytes.split_first() {
        if let Err(why) = check(*kind, rest) {
            assert!(!why.starts_with("wrong:"), "{why}");
        }
    }
});

//! Messages to the controller and from it: any bytes are understood or refused, and whatever is understood leaves the controller sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::fuzz::messages::check;

fuzz_target!(|bytes: &[u8]| {
    if let Err(why) = check(bytes) {
        panic!("{why}");
    }
});

//! Messages in any order, with switches that refuse and vanish, timers and restarts: no port is in two circuits, and an honest job notices nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::fuzz::turns::check;

fuzz_target!(|bytes: &[u8]| {
    if let Err(why) = check(bytes) {
        panic!("{why}");
    }
});

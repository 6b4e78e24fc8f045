//! What other ranks send in the middle of a call: it is taken, or ends the group with an error that names the rank; it is never taken
//! for a fault in Motet.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // An error is as good as none.
    let _ = motet_exec::replay(bytes);
});

//! MSCCL++ plans: read or refused, never a panic; what is right and can be written is the same
//! when it is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_collective::formats::mscclpp_json::{self, Options};

fuzz_target!(|text: &str| {
    let Ok(imported) = mscclpp_json::read(text) else {
        return;
    };
    let Ok(verified) = imported.verify(None) else {
        return;
    };
    let options = Options::default();
    // Some plans are right and still more than can be written.
    if let Ok(written) = mscclpp_json::write(&verified, &options) {
        let lowered = mscclpp_json::lower(&verified, &options).expect("written, so lowered");
        let again = mscclpp_json::read(&written).expect("written");
        assert_eq!(again.program, *lowered);
        assert!(again.check(None).is_right());
    }
});

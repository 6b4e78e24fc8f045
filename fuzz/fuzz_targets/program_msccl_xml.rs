//! MSCCL XML files: read or refused, never a panic; what is right is written and read again
//! without a change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_collective::formats::msccl_xml::{self, Options, Runtime};

fuzz_target!(|text: &str| {
    let Ok(imported) = msccl_xml::read(text) else {
        return;
    };
    let program = imported.program.clone();
    if !imported.check(None).is_right() {
        return;
    }
    let verified = imported.verify(None).expect("checked");
    let options = Options { runtime: Runtime::Msccl, ..Options::default() };
    // Some files are right and still beyond a limit.
    if let Ok(written) = msccl_xml::write(&verified, &options) {
        let again = msccl_xml::read(&written).expect("written");
        assert_eq!(again.program, program);
        assert!(again.check(None).is_right());
    }
});

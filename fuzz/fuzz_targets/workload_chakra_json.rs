//! Any text is a trace in one of Chakra's JSON dialects or an error; what is read is written and read back equal,
//! as JSON and as bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_workload::formats::chakra::{self, json, recorded};
use motet_workload::recording::{Clocks, Recording};

fuzz_target!(|text: &str| {
    if let Ok(trace) = json::read(text) {
        let written = json::write(&trace).expect("a trace can be written");
        assert_eq!(json::read(&written).as_ref(), Ok(&trace));
        assert_eq!(chakra::read(&chakra::write(&trace)).as_ref(), Ok(&trace));
        if let Ok(log) = recorded::log(&trace, 0, 1, &recorded::Groups::new()) {
            let _ = Recording::join(vec![log], Clocks::Shared);
        }
    }
    let _ = recorded::groups(text);
});

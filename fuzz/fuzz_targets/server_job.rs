//! Jobs in JSON: any text is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::job::JobSpec;

fuzz_target!(|text: &str| {
    if let Ok(spec) = serde_json::from_str::<JobSpec>(text) {
        let _ = (spec.registration(), spec.ranks(0));
    }
});

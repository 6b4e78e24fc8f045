//! Measurements of MSCCL++ plans: any text is results, a table or an error; times are above zero, and the name
//! of a plan of a table comes back; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::calibrate::{Entry, detect, results};

fuzz_target!(|text: &str| {
    let _ = detect(text);
    if let Ok(read) = results::read_harness(text) {
        assert!(read.calls.iter().all(|it| it.micros > 0.0));
    }
    for call in results::read_table(text).map(|it| it.calls).unwrap_or_default() {
        assert!(call.micros > 0.0);
        assert_eq!(Entry::of_name(&call.plan).map(|it| it.to_string()), Some(call.plan));
    }
});

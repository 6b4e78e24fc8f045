//! Logs of nccl-tests: any text is a log with rows or an error; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::calibrate::nccl_tests;

fuzz_target!(|text: &str| {
    let Ok(log) = nccl_tests::read(text) else { return };
    assert!(!log.calls.is_empty());
    let times = log.calls.iter().flat_map(|it| [it.out_of_place, it.in_place]).flatten();
    assert!(times.into_iter().all(|it| it > 0.0));
});

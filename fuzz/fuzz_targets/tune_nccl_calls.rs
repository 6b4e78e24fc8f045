//! Tables of NCCL's calls, ours and run.py's: any text is calls or an error; what is read comes back the same when written
//! and read again; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::calibrate::nccl::{run_table, store};

fuzz_target!(|text: &str| {
    let ours = store::read(text).unwrap_or_default();
    let theirs = run_table::read(text).map(|it| it.calls).unwrap_or_default();
    for calls in [ours, theirs] {
        assert!(calls.iter().all(|it| it.micros > 0.0));
        assert_eq!(store::read(&store::write(&calls)), Ok(calls));
    }
});

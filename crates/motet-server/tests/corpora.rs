//! The corpora of the fuzz targets, replayed: nothing panics, and what should be understood is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::path::Path;

use motet_control::wire::Frame;
use motet_server::Config;
use motet_server::api::convert::check;
use motet_server::job::JobSpec;

/// Replays a corpus. Gives how many files were understood, and how many refused.
fn replay(name: &str, understood: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut counts = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let count = if understood(&bytes) { &mut counts.0 } else { &mut counts.1 };
        *count += 1;
    }
    counts
}

#[test]
fn frames_of_ranks() {
    let counts = replay("control_wire", |bytes| match Frame::read(bytes) {
        Ok(Some((frame, length))) => {
            let mut again = Vec::new();
            frame.write(&mut again);
            assert_eq!(again, &bytes[..length]);
            true
        }
        _ => false,
    });
    assert_eq!(counts, (9, 4));
}

#[test]
fn messages_to_the_controller() {
    let counts = replay("server_messages", |bytes| match check(bytes[0], &bytes[1..]) {
        Ok(()) => true,
        Err(why) => {
            assert!(!why.starts_with("wrong:"), "{why}");
            false
        }
    });
    assert_eq!(counts, (7, 4));
}

#[test]
fn configurations_and_jobs() {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let counts = replay("server_config", |bytes| {
        let config = Config::parse(&text(bytes), Path::new("folder"));
        config.is_ok_and(|it| it.check().is_ok())
    });
    assert_eq!(counts, (5, 4));
    let counts = replay("server_job", |bytes| {
        let spec = serde_json::from_str::<JobSpec>(&text(bytes));
        spec.is_ok_and(|it| it.registration().is_ok() && it.ranks(0).is_ok())
    });
    assert_eq!(counts, (2, 3));
}

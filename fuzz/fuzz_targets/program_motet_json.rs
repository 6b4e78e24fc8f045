//! Motet's own program files: read or refused, never a panic; what is read is written and read
//! again without a change, and what is right can be lowered or is refused with a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_collective::formats::msccl_xml::{self, Options};
use motet_collective::formats::program_json;
use motet_collective::{Transfer, Verified};
use motet_units::Rank;

/// A few bytes can ask for buffers that take the verifier gigabytes, within its limits.
const MOST_CHUNKS: u64 = 1 << 16;

fuzz_target!(|text: &str| {
    let Ok(program) = program_json::read(text) else {
        return;
    };
    assert_eq!(program_json::read(&program_json::write(&program)).as_ref(), Ok(&program));
    let collective = program.collective();
    let chunks: u64 = (0..collective.ranks())
        .map(Rank)
        .map(|it| {
            u64::from(collective.input_chunks(it))
                + u64::from(collective.output_chunks(it))
                + u64::from(program.scratch_chunks(it))
                + u64::from(program.switch_chunks(it))
        })
        .sum();
    if chunks > MOST_CHUNKS {
        return;
    }
    if let Ok(verified) = Verified::new(program, None) {
        let options = Options::default();
        if let Ok(written) = msccl_xml::write(&verified, &options) {
            let lowered = msccl_xml::lower(&verified, &options).expect("written");
            let read = msccl_xml::read(&written).expect("written").program;
            // The format has no paths.
            let without_path = |it: &Transfer| Transfer { path: None, ..*it };
            let expected: Vec<Transfer> = lowered.transfers().iter().map(without_path).collect();
            assert_eq!(read.transfers(), expected);
            assert_eq!(read.lanes(), lowered.lanes());
        }
    }
});

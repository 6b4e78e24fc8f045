//! Traces of the NCCL plugin: any bytes are a trace or refused, never a panic; what was read can be written and is
//! then read as the same; two of them can be joined to a recording or are refused. Checksums of blocks are put
//! right first, or hardly any input would get past them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_runtime::{Checksum, Trace, TraceWriter};
use motet_workload::formats::nccl_trace::logs;
use motet_workload::recording::{Clocks, Recording};

const HEAD: usize = 16;

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let mut at = HEAD;
    while at + HEAD <= file.len() {
        let length = u32::from_le_bytes([0, 1, 2, 3].map(|it| file[at + it])) as usize;
        let Some(end) = at.checked_add(HEAD + length).filter(|it| *it <= file.len()) else { break };
        let covered = [&file[at..at + 8], &file[at + HEAD..end]].concat();
        file[at + 8..at + HEAD].copy_from_slice(&Checksum::of(&covered).0.to_le_bytes());
        at = end;
    }
    file
}

fuzz_target!(|bytes: &[u8]| {
    for bytes in [bytes, &sealed(bytes)] {
        let Ok(trace) = Trace::read(bytes) else { continue };
        let mut other = trace.clone();
        other.communicators.iter_mut().for_each(|it| it.rank ^= 1);
        let _ = Recording::join(logs(&[trace.clone(), other]), Clocks::Own);
        let mut writer = TraceWriter::default();
        trace.communicators.iter().for_each(|it| _ = writer.communicator(it));
        trace.calls.iter().for_each(|it| writer.call(it));
        let mut file = TraceWriter::head().to_vec();
        file.extend(writer.take().unwrap_or_default());
        // One block holds it all unless the input was longer than a block may be.
        if bytes.len() < 1 << 19 {
            let again = Trace::read(&file).expect("what was written");
            assert_eq!((again.communicators, again.calls), (trace.communicators, trace.calls));
        }
    }
});

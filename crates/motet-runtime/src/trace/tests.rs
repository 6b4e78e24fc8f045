//! What is written is read, what is cut is read as far as it goes, and what is damaged is refused.

use proptest::prelude::*;

use super::*;

fn communicator(id: u64) -> Communicator {
    Communicator { id, rank: 3, ranks: 8, nodes: 2, name: format!("tp-{id}") }
}

fn any_call() -> impl Strategy<Value = TracedCall> {
    let setting = (
        prop::sample::select(Collective::ALL),
        prop::option::of(prop::sample::select(Algorithm::ALL)),
        prop::option::of(prop::sample::select(Protocol::ALL)),
        prop::sample::select(&Source::ALL[..]),
    );
    let numbers = (0u32..2, any::<u32>(), any::<u32>());
    let sizes = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (setting, numbers, sizes).prop_map(|(setting, numbers, sizes)| TracedCall {
        communicator: numbers.0,
        sequence: sizes.0,
        collective: setting.0,
        bytes: Bytes::new(sizes.1),
        algorithm: setting.1,
        protocol: setting.2,
        channels: numbers.1,
        finished: numbers.2,
        source: setting.3,
        start_ns: sizes.2,
        duration_ns: sizes.3,
    })
}

/// A file of two blocks.
fn written(calls: &[TracedCall]) -> Vec<u8> {
    let mut file = TraceWriter::head().to_vec();
    let mut writer = TraceWriter::default();
    assert_eq!(writer.take(), None);
    assert_eq!([0, 1].map(|it| writer.communicator(&communicator(it))), [0, 1]);
    let (first, second) = calls.split_at(calls.len() / 2);
    for part in [first, second] {
        part.iter().for_each(|it| writer.call(it));
        file.extend(writer.take().unwrap_or_default());
    }
    file
}

fn one() -> TracedCall {
    TracedCall {
        communicator: 1,
        sequence: 5,
        collective: Collective::AllReduce,
        bytes: Bytes::mib(1),
        algorithm: Some(Algorithm::Ring),
        protocol: Some(Protocol::Simple),
        channels: 8,
        finished: 8,
        source: Source::Gpu,
        start_ns: 1 << 60,
        duration_ns: 80_000,
    }
}

#[test]
fn a_call_like_the_one_before_takes_few_bytes() {
    let calls: Vec<_> = (0..1000)
        .map(|it| TracedCall { sequence: it, start_ns: (1 << 60) + it * 100_000, ..one() })
        .collect();
    let bytes = written(&calls).len();
    assert!(bytes < 20 * 1000, "{bytes}");
}

#[test]
fn a_file_that_is_cut_off_is_read_as_far_as_it_goes() {
    let calls = [one(); 10];
    let file = written(&calls);
    // Where blocks end.
    let first = u32::from_le_bytes([16, 17, 18, 19].map(|it| file[it])) as usize;
    let ends = [HEAD, HEAD + BLOCK_HEAD + first, file.len()];
    for length in 0..file.len() {
        let Ok(trace) = Trace::read(&file[..length]) else {
            assert!(length < HEAD, "{length}");
            continue;
        };
        let whole = ends.iter().rposition(|it| *it <= length).unwrap();
        assert_eq!(trace.calls, calls[..whole * 5], "{length}");
        assert_eq!(trace.cut_at, (ends[whole] != length).then_some(ends[whole]), "{length}");
    }
    assert_eq!(Trace::read(&file).unwrap().calls, calls);
}

#[test]
fn a_changed_bit_is_noticed() {
    let file = written(&[one(); 4]);
    let right = Trace::read(&file).unwrap();
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // A length that is now too long looks like a file that was cut off; the four spare bytes mean nothing.
        if let Ok(trace) = Trace::read(&damaged) {
            let spare = (12..HEAD).contains(&(bit / 8));
            assert!(spare || trace.cut_at.is_some(), "bit {bit}");
            assert!(right.calls.starts_with(&trace.calls));
        }
    }
    let mut newer = file;
    newer[8] = 2;
    assert_eq!(Trace::read(&newer), Err(TraceError::Version(2)));
}

#[test]
fn names_are_cut_at_a_letter() {
    let mut writer = TraceWriter::default();
    writer.communicator(&Communicator { name: "ä".repeat(200), ..communicator(1) });
    writer
        .communicator(&Communicator { name: format!("x{}", "ä".repeat(200)), ..communicator(1) });
    let file = [&TraceWriter::head()[..], &writer.take().unwrap()].concat();
    let names: Vec<_> = Trace::read(&file).unwrap().communicators;
    assert_eq!(names.iter().map(|it| it.name.len()).collect::<Vec<_>>(), [256, 255]);
}

proptest! {
    #[test]
    fn what_is_written_is_read(calls in prop::collection::vec(any_call(), 0..50)) {
        let trace = Trace::read(&written(&calls)).unwrap();
        prop_assert_eq!(trace.communicators, [0, 1].map(communicator));
        prop_assert_eq!(trace.calls, calls);
        prop_assert_eq!(trace.cut_at, None);
    }

    #[test]
    fn any_bytes_are_a_trace_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut file = TraceWriter::head().to_vec();
        let mut block = (bytes.len() as u32).to_le_bytes().to_vec();
        block.extend(3u32.to_le_bytes());
        block.extend([0; 8]);
        block.extend(&bytes);
        let sum = read::seal(&block);
        block[8..16].copy_from_slice(&sum.0.to_le_bytes());
        file.extend(block);
        let _ = Trace::read(&file);
        let _ = Trace::read(&bytes);
    }
}

//! Small files that ask for a lot of work are refused with a word on why, not worked on for minutes.

use motet_collective::formats::read_any;
use motet_collective::{
    Collective, CollectiveKind, Finding, Program, ProgramBuilder, Slot, Transfer, verify,
};
use motet_units::Rank;

fn findings(program: &Program) -> Vec<Finding> {
    verify::check(program, None).diagnostics().iter().map(|it| it.finding).collect()
}

#[test]
fn a_few_bytes_do_not_fill_the_memory() {
    let text = include_str!("../repro/one-transfer-of-16m-chunks.json");
    let (_, read) = read_any(text).unwrap();
    let report = read.check(None);
    let [only] = report.diagnostics() else { panic!("one finding, not\n{report}") };
    assert_eq!(only.finding, Finding::TooLarge);
    assert!(only.message.contains("buffers hold 134217728 chunks"), "{report}");
    assert!(only.message.contains("fewer chunks"), "{report}");
}

/// Transfers that each move many chunks count as what they move.
#[test]
fn long_transfers_count_by_their_chunks() {
    let collective = Collective::new(CollectiveKind::AllReduce, 2, 1 << 20).unwrap();
    let mut b = ProgramBuilder::new("again and again", collective);
    for _ in 0..5 {
        b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(1), 0), 1 << 20));
    }
    let report = verify::check(&b.build(), None);
    assert!(report.to_string().contains("transfers move 5242880 chunks"), "{report}");
}

/// Each reduction reads what any of the others may have written: quadratic to find out, and as
/// many findings.
fn unordered(writers: u32, reduce: bool) -> Program {
    let collective = Collective::new(CollectiveKind::AllReduce, 2, 1).unwrap();
    let mut b = ProgramBuilder::new("unordered", collective);
    for rank in 0..2 {
        b.add(Transfer::copy(Slot::input(Rank(rank), 0), Slot::output(Rank(rank), 0), 1));
    }
    for _ in 0..writers {
        let (src, dst) = (Slot::input(Rank(1), 0), Slot::output(Rank(0), 0));
        b.add(if reduce { Transfer::reduce(src, dst, 1) } else { Transfer::copy(src, dst, 1) });
    }
    b.build()
}

#[test]
fn many_unordered_writers_of_one_chunk_are_given_up_on() {
    let few = findings(&unordered(20, true));
    assert!(few.contains(&Finding::Race) && !few.contains(&Finding::TooLarge), "{few:?}");
    let many = findings(&unordered(20_000, true));
    assert!(many.contains(&Finding::Race) && many.contains(&Finding::TooLarge));
    // Writes of one value are one race, however many they are.
    let copies = findings(&unordered(20_000, false));
    assert!(copies.contains(&Finding::Race) && !copies.contains(&Finding::TooLarge));
}

/// A file may hold a megabyte where a word should be; the error says its beginning.
#[test]
fn errors_do_not_repeat_megabytes() {
    let long = "x".repeat(1 << 20);
    let motet = include_str!("../repro/one-transfer-of-16m-chunks.json");
    let msccl = include_str!("../repro/rrcs-sends-from-registers.xml");
    let plan = r#"{"name": "n", "collective": "allreduce", "protocol": "Simple", "gpus": []}"#;
    let files = [
        motet.replace("Simple", &long),
        motet.replace("allreduce", &long),
        motet.replace("\"waits\"", &format!("\"{long}\"")),
        motet.replace("\"c\"", &format!("\"{long}\"")),
        msccl.replace("Simple", &long),
        msccl.replace("\"reduce\"", &format!("\"{long}\"")),
        msccl.replace("\"rrcs\"", &format!("\"{long}\"")),
        msccl.replace("srcbuf=\"i\"", &format!("srcbuf=\"{long}\"")),
        msccl.replace("cnt=\"1\"", &format!("cnt=\"{long}\"")),
        msccl.replace("algo", &long),
        plan.replace("allreduce", &long),
        plan.replace("gpus", &long),
        plan.replace("[]", &format!("\"{long}\"")),
        format!("<{long}"),
        format!("{{\"{long}"),
    ];
    for (number, file) in files.iter().enumerate() {
        assert!(file.len() > 1 << 20, "file {number} is as it was");
        let said = match read_any(file) {
            Ok((_, read)) => read.check(None).to_string(),
            Err(error) => format!("{error} {:?}", error.remedy),
        };
        assert!(said.len() < 2000, "file {number}: {} bytes, {}", said.len(), &said[..300]);
    }
}

/// Sums of sums, every one of which expands to most of the others.
#[test]
fn wrong_sums_are_not_all_taken_apart() {
    let chunks = 4000;
    let collective = Collective::new(CollectiveKind::AllReduce, 2, chunks).unwrap();
    let mut b = ProgramBuilder::new("sums of sums", collective);
    b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), chunks));
    let mut last = b.add(Transfer::copy(Slot::input(Rank(1), 0), Slot::output(Rank(1), 0), chunks));
    for chunk in 1..chunks {
        let (from, to) = (Slot::output(Rank(1), chunk - 1), Slot::output(Rank(1), chunk));
        last = b.add_after(Transfer::reduce(from, to, 1), &[last]);
    }
    assert!(!verify::check(&b.build(), None).is_right());
}

//! The cost model of MSCCL++ beside what was measured on an H200: a part of
//! `benches/mscclpp/results/h200-2026-11-17/ours.csv`, with the plans made again from the shapes.
//! `motet calibrate` on the whole table gives the figures of docs/mscclpp-model.md.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::OnceLock;

use motet_nccl::mscclpp::{PlanTerms, Sample, fit, judge};
use motet_tune::calibrate::{self, Format, LeftOut, Machine, Samples, results, terms_file};

/// One plan in so many is taken, with all its sizes.
const ONE_IN: u64 = 16;

fn table() -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/mscclpp/results");
    std::fs::read_to_string(format!("{folder}/h200-2026-11-17/ours.csv")).unwrap()
}

/// A part that is the same on every machine.
fn samples() -> &'static Samples {
    static SAMPLES: OnceLock<Samples> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let text = table();
        assert_eq!(calibrate::detect(&text).unwrap(), Format::Table);
        let mut calls = results::read_table(&text).unwrap().calls;
        assert_eq!(calls.len(), 8159);
        calls.retain(|it| chosen(&it.plan));
        let samples = Samples::new(calls, Machine::OneGpu, &|_| None).unwrap();
        assert_eq!(samples.left_out, LeftOut::default());
        samples
    })
}

/// By a checksum of the name (FNV-1a).
fn chosen(name: &str) -> bool {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let sum = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    (sum >> 32).is_multiple_of(ONE_IN)
}

fn plain(samples: &Samples) -> Vec<Sample<'_>> {
    samples.list().into_iter().map(|it| it.1).collect()
}

#[test]
fn the_terms_of_an_h200_say_what_it_took() {
    let list = plain(samples());
    assert!((200..600).contains(&list.len()), "{}", list.len());
    let judged = judge(&list, &PlanTerms::H200);
    assert!(judged.error <= 0.06, "{judged:?}");
    assert!(judged.pairs_right >= 0.98 && judged.pairs > 200, "{judged:?}");
}

/// AllReduce on 4 ranks has the closest choices: one phase of packets or two, or straight into place.
#[test]
fn the_plan_that_is_picked_is_among_the_fastest() {
    let mut calls = results::read_table(&table()).unwrap().calls;
    calls.retain(|it| it.plan.starts_with("allreduce-4-"));
    let samples = Samples::new(calls, Machine::OneGpu, &|_| None).unwrap();
    let (cases, good) = calibrate::picks(&samples, &PlanTerms::H200);
    assert_eq!((cases, good), (18, 17));
}

#[test]
fn a_fit_comes_back_from_elsewhere() {
    let list = plain(samples());
    // Every term twice or half as large, by turns.
    let mut elsewhere = PlanTerms::H200.values();
    for (index, it) in elsewhere.iter_mut().enumerate() {
        *it *= if index % 2 == 0 { 2.0 } else { 0.5 };
    }
    let start = PlanTerms::from_values(&elsewhere);
    assert!(judge(&list, &start).error > 0.15);
    let fitted = fit(&list, &start);
    assert!(fitted.known <= 0.15 && fitted.held_back <= 0.15, "{fitted:?}");
    assert!(fitted.pairs_right >= 0.9, "{fitted:?}");
    assert_eq!(fitted, fit(&list, &start));
}

#[test]
fn a_calibration_can_be_written_down() {
    let found = calibrate::calibrate(samples(), &PlanTerms::H200).unwrap();
    assert!(found.fitted.known <= found.before.error + 0.02, "{found:?}");
    assert!(found.picks_good * 2 > found.picks, "{found:?}");
    assert_eq!(found.groups.iter().map(|it| it.samples).sum::<usize>(), found.samples);
    let mscclpp = Some(found.fitted.terms.rounded(4));
    let file = terms_file::TermsFile { mscclpp, ..Default::default() };
    assert_eq!(terms_file::read(&terms_file::write(&file)), Ok(file));
}

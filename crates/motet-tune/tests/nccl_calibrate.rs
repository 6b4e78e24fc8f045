//! The model of NCCL beside what was measured on an H200 over loopback sockets
//! (`benches/nccl/results/h200-2026-11-16/sockets-4.csv`), and its terms fitted to that. That known terms come back from made-up
//! calls is tested in motet-nccl. Run with `--nocapture` to see the errors by collective, algorithm, protocol and size.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use motet_collective::CollectiveKind;
use motet_nccl::fitted::Sample;
use motet_nccl::{Loopback, NcclModel, NcclOptions, NcclVersion};
use motet_tune::calibrate::nccl::{NcclCall, NcclSamples, Unfit, calibrate, run_table, store};
use motet_tune::calibrate::{self as any, CalibrateError, Format};

fn model(ranks: u32) -> NcclModel {
    let machine = Loopback { ranks, ..Loopback::default() };
    let options = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
    NcclModel::new(&machine.network().unwrap(), options).unwrap()
}

fn measured() -> Vec<NcclCall> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/nccl/results");
    let text = std::fs::read_to_string(format!("{folder}/h200-2026-11-16/sockets-4.csv")).unwrap();
    assert_eq!(any::detect(&text).unwrap(), Format::NcclRuns);
    run_table::read(&text).unwrap().calls
}

fn samples(calls: &[NcclCall], models: &[NcclModel]) -> NcclSamples {
    NcclSamples::new(calls, models, NcclVersion::V2_28).unwrap()
}

#[test]
fn sockets_of_an_h200() {
    let found = samples(&measured(), &[model(4)]);
    assert_eq!((found.list.len(), found.unfit.own_choice, found.assumed), (104, 24, 0));
    let it = calibrate(&found).unwrap();
    for ((name, unit, value), start) in it.fitted.terms.list().into_iter().zip(it.start.values()) {
        println!("{name:20} {value:10.3} {start:10.3} {unit}");
    }
    for it in &it.groups {
        let believed = it.believed.unwrap_or(f64::NAN) * 100.0;
        println!(
            "{:14} {:5} {:7} {:10} {:3} {believed:6.0}% {:5.0}% {:+5.0}%",
            it.kind,
            it.algorithm,
            it.protocol,
            it.class,
            it.samples,
            it.error * 100.0,
            it.bias * 100.0
        );
    }
    println!(
        "held back: {:.3}, NCCL's belief {:.3}; known {:.3}; picks {} of {}, NCCL's belief {}",
        it.fitted.held_back,
        it.believed,
        it.fitted.known,
        it.picks_good,
        it.picks,
        it.picks_believed
    );
    assert!(it.fitted.held_back <= 0.15, "{}", it.fitted.held_back);
    assert!(it.believed > 0.3, "{}", it.believed);
}

#[test]
fn files_in_any_order_give_the_same() {
    let mut calls = measured();
    let one = calibrate(&samples(&calls, &[model(4)])).unwrap();
    calls.reverse();
    let other =
        calibrate(&samples(&store::read(&store::write(&calls)).unwrap(), &[model(4)])).unwrap();
    assert_eq!(one, other);
}

/// With nothing but NCCL's own choices, what the model says it chooses stands in for them.
#[test]
fn own_choices() {
    let mut calls = measured();
    calls.retain(|it| it.algorithm.is_none());
    let found = samples(&calls, &[model(4)]);
    assert_eq!((found.assumed, found.list.len(), found.unfit), (24, 24, Unfit::default()));
    assert!(calibrate(&found).unwrap().fitted.held_back < 0.25);
}

#[test]
fn calls_of_other_communicators_are_left_out() {
    let calls = measured();
    let found = samples(&calls, &[model(2)]);
    assert_eq!((found.list.len(), found.unfit.no_network), (0, 128));
    let error = calibrate(&found).unwrap_err();
    assert!(matches!(error, CalibrateError::TooFew { found: 0, .. }), "{error}");
    let found = samples(&calls[..6], &[model(4)]);
    assert!(calibrate(&found).is_err());
    assert!(NcclSamples::new(&calls, &[], NcclVersion::V2_28).is_none());
}

/// Terms have no collective in them: those of AllReduce say what other collectives take.
#[test]
fn terms_of_one_collective_hold_for_others() {
    let (known, others): (Vec<NcclCall>, Vec<NcclCall>) =
        measured().into_iter().partition(|it| it.collective == CollectiveKind::AllReduce);
    let terms = calibrate(&samples(&known, &[model(4)])).unwrap().fitted.terms;
    let off = |it: &Sample| (terms.micros(&it.counts) / it.micros - 1.0).abs();
    let mut errors: Vec<f64> = samples(&others, &[model(4)]).samples().iter().map(off).collect();
    errors.sort_by(f64::total_cmp);
    println!("{} calls of other collectives: {:.3}", errors.len(), errors[errors.len() / 2]);
    assert!(errors.len() == 64 && errors[32] < 0.15, "{}", errors[32]);
}

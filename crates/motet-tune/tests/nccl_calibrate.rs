//! The model of NCCL beside what was measured on an H200 over loopback sockets
//! (`benches/nccl/results/h200-2026-11-16/sockets-4.csv`), and its terms fitted to that and to made-up calls whose terms are
//! known. Run with `--nocapture` to see the errors by collective, algorithm, protocol and size.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use motet_collective::CollectiveKind;
use motet_nccl::fitted::terms::TERMS;
use motet_nccl::{Algorithm, Loopback, NcclModel, NcclOptions, NcclTerms, NcclVersion, Protocol};
use motet_tune::calibrate::nccl::{NcclCall, NcclSamples, calibrate, run_table};
use motet_tune::calibrate::{self as any, CalibrateError, Format};
use motet_units::Bytes;

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

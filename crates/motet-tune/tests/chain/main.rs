//! The chain of moments that a plan is priced by says to the last digit what running its operations one by one
//! says, with any terms, sizes and latencies.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod by_steps;

use motet_collective::formats::mscclpp_json::outline;
use motet_nccl::mscclpp::PlanTerms;
use motet_nccl::mscclpp::chain::Chain;
use motet_nccl::mscclpp::rounds::Conditions;
use motet_tune::calibrate::sweep::entries;
use motet_units::Rank;

#[test]
fn moments_and_steps_agree() {
    let mut other = PlanTerms::H200.values();
    for (index, it) in other.iter_mut().enumerate() {
        *it *= if index % 3 == 0 { 3.0 } else { 0.4 };
    }
    let near = |_: Rank, _: Rank| 0.0;
    let far = |a: Rank, b: Rank| 0.3 + 0.1 * (a.index() * 3 + b.index()) as f64;
    let mut seen = 0;
    let over_ports = entries(&[2, 3, 4], Some(1)).into_iter().chain(entries(&[4], Some(2)));
    for entry in entries(&[2, 4], None).into_iter().step_by(13).chain(over_ports.step_by(7)) {
        let Some(text) = entry.plan(1) else { continue };
        let outline = outline(&text).unwrap().unwrap();
        for latency in [&near as &dyn Fn(Rank, Rank) -> f64, &far] {
            let chain = Chain::of(&outline, latency).unwrap();
            for terms in [PlanTerms::H200, PlanTerms::from_values(&other)] {
                for bytes in [16.0, 4096.0, 1e6] {
                    let (threads, cold) = (outline.threads, 0.25);
                    let under = Conditions { threads, cold, crowd: 2.0, ranks: 3.0 };
                    let steps =
                        by_steps::longest(&outline, bytes, &under, &terms, latency).unwrap();
                    let moments = chain.micros(bytes, &under, &terms);
                    assert_eq!(moments.to_bits(), steps.to_bits(), "{entry} {bytes}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 500, "{seen}");
}

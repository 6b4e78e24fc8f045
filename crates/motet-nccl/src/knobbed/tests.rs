//! What is taken at a pace against what is run to the end.

use motet_collective::Verified;
use motet_net::builders::{Params, find};
use motet_units::Bytes;

use super::Knobbed;
use crate::programs;
use crate::{KnobModel, Knobs, NcclOptions, Protocol};
use motet_sim::Routed;

/// How far the time given is from that with every iteration run; `None` if they all are.
fn error(knobbed: &Knobbed, size: Bytes, knobs: &Knobs) -> Option<f64> {
    let settled = knobbed.settle(size, knobs).unwrap();
    let iterations = settled.slicing.iterations;
    let counts = knobbed.counts(iterations);
    if counts.0 == iterations {
        return None;
    }
    let time = |counts| knobbed.run_settled(&settled, counts).unwrap().0.as_ps();
    let (given, right) = (time(counts), time((iterations, 1)));
    Some(given.abs_diff(right) as f64 / right as f64)
}

/// Textbook programs with and without lanes. On the last two networks many of their transfers
/// pass through other GPUs and meet on links, which is where pipelines repeat themselves late.
fn errors(kind: &str, words: &str) -> Vec<f64> {
    let params = Params::from_words([words]).unwrap();
    let network = find(kind).unwrap().build(&params).unwrap();
    let model = KnobModel::new(&network, &NcclOptions::default());
    let mut errors = Vec::new();
    for program in programs::all(8).into_iter().step_by(11) {
        let program = Verified::new(program, None).unwrap();
        let routed = Routed::new(&program, &network, Default::default()).unwrap();
        let knobbed = Knobbed::new(&routed, model);
        for protocol in Protocol::ALL {
            let small = Some(Bytes::new(1 << 19)).filter(|_| protocol != Protocol::Ll);
            let knobs = Knobs { buffer: small, ..Knobs::new(protocol) };
            for mib in [60, 201] {
                errors.extend(error(&knobbed, Bytes::mib(mib), &knobs));
            }
        }
    }
    errors
}

#[test]
fn a_full_pipeline_goes_on_as_it_does() {
    for (kind, words, most) in
        [("dgx-h100", "count=1", 0.0), ("dgx-1", "count=1", 0.03), ("ring", "gpus=8", 0.03)]
    {
        let errors = errors(kind, words);
        let exact = errors.iter().filter(|it| **it == 0.0).count();
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let cases = errors.len();
        let text = format!("{kind}: {exact} of {cases} exact, the worst {worst:.4} off");
        eprintln!("{text}");
        assert!(cases > 50 && worst <= most && exact * 4 > cases * 3, "{text}");
    }
}

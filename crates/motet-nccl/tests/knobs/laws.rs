//! Laws over textbook programs on a server, sizes and knobs.

use motet_collective::Verified;
use motet_nccl::{Knobs, Protocol};
use motet_sim::{Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration};
use proptest::prelude::*;

use crate::programs;
use crate::support::{knobbed, row, run, send, template, time};

fn any_knobs() -> impl Strategy<Value = Knobs> {
    let protocol = prop::sample::select(Protocol::ALL.to_vec());
    let threads = prop::option::of((5u32..=20).prop_map(|it| it * 32));
    let buffer = prop::option::of((18u32..27).prop_map(|it| Bytes::new(1 << it)));
    (protocol, 1u32..=8, threads, buffer).prop_map(|(protocol, channels, threads, buffer)| Knobs {
        // Lanes of the textbook programs have one channel.
        channels: Some(channels),
        // LL128 needs more of a buffer than the least of these.
        buffer: buffer.filter(|it| protocol != Protocol::Ll128 || *it >= Bytes::mib(1)),
        protocol,
        threads,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Nothing is faster than its links and its launch allow; more bytes never take less; runs
    /// repeat; links carry what the program sends.
    #[test]
    fn knobs_only_add(
        program in prop::sample::select(programs::all(5)),
        knobs in any_knobs(),
        size in 0u64..1 << 28,
    ) {
        let network = template("dgx-h100", &[]);
        let (size, program) = (Bytes::new(size), Verified::new(program, None).unwrap());
        let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
        let plain = Simulation::new(&Prepared::new(&routed), size)
            .options(SimOptions::default()).run().unwrap();
        let compiled = knobbed(Clone::clone(&program), &network);
        let outcome = match compiled.run(size, &knobs) {
            Ok(it) => it,
            Err(motet_nccl::KnobError::Blocks { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert_eq!(&outcome, &compiled.run(size, &knobs).unwrap());
        let busiest = outcome.outcome.links.iter().map(|it| it.busy).max().unwrap_or_default();
        prop_assert!(outcome.outcome.time >= outcome.terms.launch);
        if outcome.simulated == outcome.iterations {
            prop_assert!(outcome.outcome.time >= outcome.terms.launch + busiest);
        }
        for (under, without) in outcome.outcome.links.iter().zip(&plain.links) {
            prop_assert_eq!(under.bytes, without.bytes);
            prop_assert!(under.busy.as_ps() + outcome.iterations as u64 * 64 >= without.busy.as_ps());
        }
        let time = |size, knobs| compiled.time(size, &knobs).unwrap();
        let slower = Knobs { threads: Some(160), ..knobs };
        prop_assert!(time(size, slower) >= outcome.outcome.time);
        prop_assert!(time(Bytes::new(size.get() * 2), knobs) >= outcome.outcome.time);
    }

    /// Alone on a link a transfer is never faster with a smaller buffer, fewer threads or fewer
    /// channels.
    #[test]
    fn alone_more_is_never_slower(
        knobs in any_knobs(),
        size in 1u64..1 << 26,
        gbps in 1u64..500,
        us in 0u64..2000,
    ) {
        let network = row(2, gbps, Duration::from_us(us));
        let size = Bytes::new(size);
        let here = time(send(1), &network, size, &knobs);
        let outcome = run(send(1), &network, size, &knobs).unwrap();
        if let Some(buffer) = knobs.buffer {
            let larger = Knobs { buffer: buffer.checked_mul(2), ..knobs };
            // What is not run one by one is right to one cut.
            let cut = outcome.terms.place.get() * 2_000 * 8;
            let trip = (us * 4 + 60) * 1_000_000;
            let slack = if outcome.simulated < outcome.iterations { cut + trip } else { 0 };
            let then = time(send(1), &network, size, &larger);
            prop_assert!(then.as_ps() <= here.as_ps() + slack, "{then} after {here}");
        }
        if let Some(threads) = knobs.threads.filter(|it| *it < 640) {
            let more = Knobs { threads: Some(threads + 32), ..knobs };
            prop_assert!(time(send(1), &network, size, &more) <= here);
        }
    }
}

/// What the program's own numbers cannot show: a tree's two ways overlap between iterations.
#[test]
fn iterations_of_a_tree_overlap() {
    let network = template("dgx-h100", &[]);
    let knobs = Knobs { channels: Some(4), ..Knobs::new(Protocol::Simple) };
    let at = |mib| time(programs::tree_all_reduce(8, 1), &network, Bytes::mib(mib), &knobs);
    // 8 MiB are one place of each of four instances, 256 MiB are 32 iterations.
    let (one, many) = (at(8).as_ps(), at(256).as_ps());
    assert!(many < 16 * one, "{one} {many}");
}

//! The counts of NCCL's calls, and terms that are found again from calls made up with them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use motet_collective::CollectiveKind;
use motet_nccl::fitted::counts::Places;
use motet_nccl::fitted::{Counts, Sample, fit, weights};
use motet_nccl::kernel::Kernels;
use motet_nccl::{
    Algorithm, Basis, Loopback, NcclModel, NcclOptions, NcclTerms, NcclVersion, Priced, Protocol,
    TunedCollective,
};
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_units::Bytes;

fn loopback(ranks: u32) -> NcclModel {
    let machine = Loopback { ranks, ..Loopback::default() };
    let options = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
    NcclModel::new(&machine.network().unwrap(), options).unwrap()
}

fn boxes(count: &str) -> Network {
    let params = Params::from_words([&format!("count={count}")]).unwrap();
    find("dgx-a100").unwrap().build(&params).unwrap()
}

fn counts(
    model: &NcclModel,
    collective: TunedCollective,
    size: Bytes,
    (algorithm, protocol): (Algorithm, Protocol),
    channels: Option<usize>,
) -> Option<Counts> {
    let choice = model.made_to(collective, size, algorithm, protocol, channels);
    Counts::of(&model.channels(), &Places::new(&model.nodes()), collective, &choice, size)
}

#[test]
fn rings_and_trees_of_four_hosts() {
    let model = loopback(4);
    let of = |collective, way, channels| {
        counts(&model, collective, Bytes::kib(64), way, Some(channels)).unwrap()
    };
    let simple = (Algorithm::Ring, Protocol::Simple);
    let ring = of(TunedCollective::AllReduce, simple, 1);
    assert_eq!((ring.hops_inside, ring.hops_between, ring.messages), (0.0, 6.0, 12.0));
    assert_eq!((ring.bytes_between, ring.bytes_inside), (6.0 * 16384.0, 0.0));
    // Twice the messages of half the size.
    let two = of(TunedCollective::AllReduce, simple, 2);
    assert_eq!((two.hops_between, two.messages, two.bytes_between), (6.0, 24.0, 6.0 * 16384.0));
    let gather = of(TunedCollective::AllGather, (Algorithm::Ring, Protocol::Ll), 1);
    assert_eq!((gather.hops_between, gather.bytes_between), (3.0, 2.0 * 3.0 * 16384.0));
    // A chain of calls in a row is as fast as one rank hands a call on.
    let chain = of(TunedCollective::Broadcast, simple, 1);
    assert_eq!((chain.hops_between, chain.bytes_between), (1.0, 65536.0));
    // Of the two trees, a rank is within one and a leaf of the other: it sends everything twice.
    let tree = of(TunedCollective::AllReduce, (Algorithm::Tree, Protocol::Simple), 2);
    assert_eq!((tree.hops_between, tree.messages, tree.bytes_between), (4.0, 8.0, 2.0 * 65536.0));
    let pat = of(TunedCollective::AllGather, (Algorithm::Pat, Protocol::Simple), 1);
    assert_eq!((pat.hops_between, pat.bytes_between), (2.0, 3.0 * 16384.0));
    let nvls = (Algorithm::Nvls, Protocol::Simple);
    assert_eq!(counts(&model, TunedCollective::AllReduce, Bytes::kib(64), nvls, None), None);
}

#[test]
fn a_ring_over_two_boxes() {
    let model = NcclModel::new(&boxes("2"), NcclOptions::default()).unwrap();
    let way = (Algorithm::Ring, Protocol::Simple);
    let size = Bytes::mib(16);
    let it = counts(&model, TunedCollective::AllReduce, size, way, None).unwrap();
    assert_eq!((it.hops_inside, it.hops_between), (28.0, 2.0));
    // Every channel leaves a box once, and carries 2·15/16 of its share.
    let data = size.get() as f64 * 30.0 / 16.0;
    assert!((it.bytes_between / data - 1.0).abs() < 1e-9, "{it:?}");
    assert!(it.bytes_inside <= data * 1.001 && it.bytes_inside > data * 0.5, "{it:?}");
}

/// Calls of all kinds on several machines, with the time that terms say and a little noise.
fn made_up(truth: &NcclTerms) -> Vec<Sample> {
    let models = [2, 4, 8].map(loopback).into_iter();
    let models = models.chain([NcclModel::new(&boxes("1"), NcclOptions::default()).unwrap()]);
    let mut samples = Vec::new();
    for model in models {
        for collective in TunedCollective::ALL {
            for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::Pat] {
                let trees =
                    algorithm != Algorithm::Tree || collective == TunedCollective::AllReduce;
                let pat = algorithm != Algorithm::Pat || collective.is_half();
                for protocol in Protocol::ALL.into_iter().filter(|_| trees && pat) {
                    for channels in [None, Some(1)] {
                        for power in 10..=28 {
                            let (way, size) = ((algorithm, protocol), Bytes::new(1 << power));
                            let found = counts(&model, collective, size, way, channels);
                            let Some(counts) = found else { continue };
                            let noise = 1.0 + 0.02 * ((samples.len() * 7 % 5) as f64 - 2.0) / 2.0;
                            samples.push(Sample { counts, micros: truth.micros(&counts) * noise });
                        }
                    }
                }
            }
        }
    }
    samples
}

#[test]
fn known_terms_come_back() {
    let truth = NcclTerms {
        call: [12.0, 15.0, 21.0],
        hop_inside: [1.5, 2.0, 4.5],
        hop_between: [16.0, 19.0, 26.0],
        proxy: 0.6,
        block: [9.0, 14.0, 20.0],
        inside: 150.0,
        between: 2.7,
    };
    let samples = made_up(&truth);
    assert!(samples.len() > 1000, "{}", samples.len());
    let found = fit(&samples, &NcclTerms::believed(&loopback(4)));
    assert!(found.held_back < 0.02, "{found:?}");
    let weights = weights(&samples, &found.terms);
    let terms = found.terms.list().into_iter().zip(truth.values()).zip(weights);
    for (((name, _, value), truth), weight) in terms {
        let off = value / truth - 1.0;
        println!("{name:20} {value:9.3} {truth:9.3} {off:+.3} {weight:.3}");
        assert!(off.abs() < 0.03, "{name}: {value}");
    }
}

#[test]
fn choices_stay_and_times_are_the_terms() {
    let network = Loopback { ranks: 4, ..Loopback::default() }.network().unwrap();
    let plain = loopback(4);
    let terms = NcclTerms { between: 2.7, ..NcclTerms::believed(&plain) };
    let fitted = plain.clone().with_terms(terms);
    let kernels =
        std::sync::Arc::new(Kernels::new(&network, plain.communicator(), plain.options()));
    let by_constants = Priced::new(&network, &plain, kernels.clone());
    let by_terms = Priced::new(&network, &fitted, kernels);
    let (kind, size) = (CollectiveKind::AllReduce, Bytes::mib(64));
    let (before, after) =
        (by_constants.default(kind, size).unwrap(), by_terms.default(kind, size).unwrap());
    assert_eq!(before.choice, after.choice);
    assert_eq!((before.basis, after.basis), (Basis::Kernels, Basis::Fitted));
    // The network is more than twice as fast as NCCL believes.
    assert!(after.time.as_us_f64() < 0.55 * before.time.as_us_f64(), "{after:?}");
    assert!(by_terms.best(kind, size).unwrap().time <= after.time);
}

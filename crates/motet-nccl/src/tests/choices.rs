//! Choices: on an H200 box against the boundaries worked out from its graph dump, and the tables
//! of the standard boxes.

use motet_units::Bytes;

use crate::testing::{build, model};
use crate::{Algorithm, NcclModel, NcclOptions, Protocol, TunedCollective};

/// The smallest power of two from which each choice holds.
fn boundaries(model: &NcclModel, collective: TunedCollective) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut last = None;
    for power in 10..=32 {
        let size = Bytes::new(1 << power);
        let choice = model.choose(collective, size).unwrap();
        let name = format!("{}/{}", choice.algorithm, choice.protocol);
        if last.as_ref() != Some(&name) {
            found.push(format!("{name} from {size}"));
            last = Some(name);
        }
    }
    found
}

#[test]
fn h200() {
    let with = model(&build("dgx-h200", &[]));
    assert_eq!(
        boundaries(&with, TunedCollective::AllReduce),
        ["Ring/LL from 1 KiB", "NVLS/Simple from 2 MiB"]
    );
    let options = NcclOptions { nvls: Some(false), ..NcclOptions::default() };
    let without = NcclModel::new(&build("dgx-h200", &[]), options).unwrap();
    assert_eq!(
        boundaries(&without, TunedCollective::AllReduce),
        ["Ring/LL from 1 KiB", "Ring/LL128 from 4 MiB", "Ring/Simple from 64 MiB"]
    );
    assert_eq!(
        boundaries(&with, TunedCollective::AllGather),
        ["Ring/LL from 1 KiB", "Ring/LL128 from 8 MiB", "Ring/Simple from 32 MiB"]
    );
}

#[test]
fn channels_threads_and_chunks() {
    let model = model(&build("dgx-h200", &[]));
    let plan = |bytes, algorithm, protocol| {
        let it = model.force(TunedCollective::AllReduce, bytes, algorithm, protocol).unwrap();
        (it.channels, it.used_channels, it.threads, it.chunk, it.slice)
    };
    let kib = Bytes::kib;
    let nvls = (Algorithm::Nvls, Protocol::Simple);
    assert_eq!(plan(Bytes::gib(1), nvls.0, nvls.1), (16, 16, 640, kib(128), kib(128)));
    assert_eq!(plan(Bytes::mib(2), nvls.0, nvls.1), (16, 16, 640, kib(16), kib(16)));
    let ring = plan(Bytes::gib(1), Algorithm::Ring, Protocol::Simple);
    assert_eq!(ring, (24, 24, 544, Bytes::mib(2), Bytes::mib(1)));
    let ring = plan(kib(1), Algorithm::Ring, Protocol::Ll);
    assert_eq!(ring, (1, 1, 96, kib(32), kib(32)));
    let tree = plan(Bytes::mib(64), Algorithm::Tree, Protocol::Simple);
    assert_eq!(tree, (24, 24, 640, kib(512), kib(512)));
}

#[test]
fn forbidden_and_forced() {
    let network = build("dgx-a100", &["count=2"]);
    let free = model(&network);
    let size = Bytes::mib(1);
    assert_eq!(
        free.time(TunedCollective::AllReduce, size, Algorithm::NvlsTree, Protocol::Simple),
        None
    );
    assert_eq!(free.time(TunedCollective::AllGather, size, Algorithm::Tree, Protocol::Ll), None);
    let table = free.costs(TunedCollective::AllReduce, size, 1);
    assert_eq!(table.0[Algorithm::Pat.index()], [-1.0; 3]);
    let forced = NcclModel::new(
        &network,
        NcclOptions {
            algorithms: Some(vec![Algorithm::Tree]),
            protocols: Some(vec![Protocol::Ll]),
            ..NcclOptions::default()
        },
    )
    .unwrap();
    let choice = forced.choose(TunedCollective::AllReduce, Bytes::gib(1)).unwrap();
    assert_eq!((choice.algorithm, choice.protocol), (Algorithm::Tree, Protocol::Ll));
    assert_eq!(forced.choose(TunedCollective::AllGather, size), None);
}

#[test]
fn groups_pay_latency_per_channel() {
    let model = model(&build("dgx-a100", &["count=2"]));
    let time = |calls, algorithm| {
        let table = model.costs(TunedCollective::AllReduce, Bytes::kib(1), calls);
        table.get(algorithm, Protocol::Ll).unwrap()
    };
    assert!(time(8, Algorithm::Ring) > 7.0 * time(1, Algorithm::Ring));
    // Trees take up to eight calls for one latency.
    assert!((time(8, Algorithm::Tree) - time(1, Algorithm::Tree)).abs() < 1e-9);
    assert!(time(9, Algorithm::Tree) > 1.9 * time(1, Algorithm::Tree));
}

/// `algorithm latency/bandwidth` for LL, LL128 and Simple, of what may be chosen.
fn compact(model: &NcclModel) -> String {
    let mut text = String::new();
    for collective in [TunedCollective::AllReduce, TunedCollective::AllGather] {
        for algorithm in Algorithm::ALL {
            let cells = Protocol::ALL.map(|protocol| {
                let bandwidth = model.tuning().bandwidth(collective, algorithm, protocol);
                let latency = model.tuning().latency(collective, algorithm, protocol);
                if bandwidth > 0.0 { format!("{latency:.1}/{bandwidth:.1}") } else { "-".into() }
            });
            if cells.iter().any(|it| it != "-") {
                let name = format!("{collective} {algorithm}");
                let [ll, ll128, simple] = cells;
                text += format!("{name:18} {ll:>11} {ll128:>11} {simple:>11}\n").as_str();
            }
        }
    }
    text
}

#[test]
fn tables_of_dgx_a100() {
    insta::assert_snapshot!(compact(&model(&build("dgx-a100", &[]))), @r"
    AllReduce Tree       15.2/29.1   31.5/85.9  64.4/110.4
    AllReduce Ring       15.0/50.1  40.6/126.2  56.0/137.1
    AllGather Ring      10.8/100.2  27.3/252.3  32.2/274.3
    ");
    insta::assert_snapshot!(compact(&model(&build("dgx-a100", &["count=2"]))), @r"
    AllReduce Tree       25.2/11.2   48.5/80.0   92.4/94.4
    AllReduce Ring       68.0/12.0   78.0/85.3 204.4/102.4
    AllGather Ring       37.3/24.0  46.0/170.7 106.4/204.8
    ");
}

#[test]
fn tables_of_dgx_h100() {
    insta::assert_snapshot!(compact(&model(&build("dgx-h100", &[]))), @r"
    AllReduce Tree       15.2/43.6  31.5/128.8  64.4/165.6
    AllReduce Ring       15.0/80.6  40.6/189.3  56.0/205.7
    AllReduce NVLS               -           -  25.0/272.0
    AllGather Ring      10.8/161.1  27.3/378.5  32.2/411.4
    AllGather NVLS               -           -  25.0/208.2
    ");
    insta::assert_snapshot!(compact(&model(&build("dgx-h100", &["count=4"]))), @r"
    AllReduce Tree       35.2/10.2  65.5/116.0 120.4/144.0
    AllReduce Ring       78.8/10.5 144.4/151.5 282.8/198.2
    AllReduce NVLSTree           -           - 108.6/187.9
    AllGather Ring       42.7/21.1  79.2/303.1 145.6/396.4
    ");
}

/// `MinTrafficPerChannel` was doubled after 2.28; calls over sockets that were measured with 2.28.9 show two channels here.
#[test]
fn small_calls_have_fewer_channels_since_2_29() {
    let network = crate::Loopback { ranks: 4, ..crate::Loopback::default() }.network().unwrap();
    let channels = |version| {
        let options = NcclOptions { version, ..NcclOptions::default() };
        let model = NcclModel::new(&network, options).unwrap();
        let way = (TunedCollective::AllGather, Algorithm::Ring, Protocol::Simple);
        model.force(way.0, Bytes::kib(32), way.1, way.2).unwrap().used_channels
    };
    assert_eq!(channels(crate::NcclVersion::V2_28), 2);
    assert_eq!(channels(crate::NcclVersion::V2_30), 1);
}

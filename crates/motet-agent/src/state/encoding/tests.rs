//! Every feature changes the row, in its own place only, and no two values of a feature share a row.

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_net::TierMix;
use motet_units::{Bytes, Duration};

use super::super::*;
use super::*;

/// One feature: the beginning of the names of its values, and states that differ in it alone.
type Varied = (&'static str, Vec<State>);

fn vary<T: Copy>(
    name: &'static str,
    values: impl IntoIterator<Item = T>,
    set: impl Fn(&mut State, T),
) -> Varied {
    let state = |value: T| {
        let mut state = State::BLANK;
        state.call.last = Some(LastKnobs {
            algorithm: Algorithm::Ring,
            protocol: Protocol::Simple,
            channels: 8,
            threads: 512,
        });
        let interval = Duration::from_ms(1);
        state.call.rhythm = Some(Rhythm { last: interval, mean: interval });
        set(&mut state, value);
        state
    };
    (name, values.into_iter().map(state).collect())
}

/// Sizes from nothing to 4 TiB, neighbours about 1 % apart where they are large.
fn sizes() -> Vec<u64> {
    let mut sizes = vec![0];
    while sizes.last().is_some_and(|it| *it < 4 << 40) {
        let last = *sizes.last().unwrap();
        sizes.push(last + 1 + last / 100);
    }
    sizes
}

fn topology() -> Vec<Varied> {
    let mixes = [[0, 4, 0, 0, 0], [3, 4, 0, 0, 0], [0, 4, 1, 0, 0], [0, 4, 2, 0, 0]];
    let others = [[2, 0, 0, 0, 0], [0, 0, 0, 4, 0], [0, 0, 0, 0, 4], [0; 5]];
    let mixes = mixes.into_iter().chain(others);
    let mixes = mixes.flat_map(|pairs| [0, 7].map(|unreachable| TierMix { pairs, unreachable }));
    let flags = [false, true];
    vec![
        vary("topology.ranks", 0..=100_000, |it, v| it.topology.ranks = v),
        vary("topology.class", TopologyClass::ALL, |it, v| it.topology.class = *v),
        vary("topology.intra", Intra::ALL, |it, v| it.topology.intra = *v),
        vary("topology.inter", Inter::ALL, |it, v| it.topology.inter = *v),
        vary("topology.tier_m", mixes, |it, v| it.topology.tiers = v),
        vary("topology.in_network", flags, |it, v| it.topology.in_network = v),
        vary("topology.library", Library::ALL, |it, v| it.topology.library = *v),
        vary("topology.environment", Environment::ALL, |it, v| it.topology.environment = *v),
        vary("topology.cluster", ClusterClass::ALL, |it, v| it.topology.cluster = *v),
    ]
}

fn workload() -> Vec<Varied> {
    let rates = (0..500).map(|it| 0.2 * 1.02_f64.powi(it));
    vec![
        vary("workload.sync=", Synchrony::ALL, |it, v| it.workload.synchrony = *v),
        vary("workload.sync_period", 0..60_000, |it, v| it.workload.period = v),
        vary("workload.packing", Packing::ALL, |it, v| it.workload.packing = *v),
        vary("workload.bits", 0..=64, |it, v| it.workload.bits = v),
        vary("workload.rate", rates, |it, v| it.workload.rate = v),
        vary("workload.effective_bytes", sizes(), |it, v| it.workload.effective = Bytes::new(v)),
    ]
}

fn scheduler_and_model() -> Vec<Varied> {
    let flags = [false, true];
    let tolerances = FaultTolerance::ALL;
    vec![
        vary("scheduler.stage", 0..60_000, |it, v| it.scheduler.stage = v),
        vary("scheduler.role", Role::ALL, |it, v| it.scheduler.role = *v),
        vary("scheduler.priority", 0..u16::MAX, |it, v| it.scheduler.priority = v),
        vary("scheduler.sharing", Sharing::ALL, |it, v| it.scheduler.sharing = *v),
        vary("scheduler.template", flags, |it, v| it.scheduler.template = v),
        vary("model.spread", Spread::ALL, |it, v| it.model.spread = *v),
        vary("model.parameters", sizes(), |it, v| it.model.parameters = v),
        vary("model.fault_tolerance", tolerances, |it, v| it.model.fault_tolerance = *v),
        vary("model.three_d", flags, |it, v| it.model.three_d = v),
    ]
}

fn call_and_anomaly() -> Vec<Varied> {
    let last = |set: fn(&mut LastKnobs, u32)| {
        move |state: &mut State, value: u32| {
            if let Some(last) = &mut state.call.last {
                set(last, value);
            }
        }
    };
    let rhythm = |set: fn(&mut Rhythm, Duration)| {
        move |state: &mut State, ns: u64| {
            if let Some(rhythm) = &mut state.call.rhythm {
                set(rhythm, Duration::from_ns(ns));
            }
        }
    };
    let scores = || (0..200).map(|it| f64::from(it) / 8.0);
    vec![
        vary("call.kind", CollectiveKind::ALL, |it, v| it.call.kind = v),
        vary("call.bytes", sizes(), |it, v| it.call.bytes = Bytes::new(v)),
        vary("call.last_algorithm", 0..7, last(|it, v| it.algorithm = Algorithm::ALL[v as usize])),
        vary("call.last_protocol", 0..3, last(|it, v| it.protocol = Protocol::ALL[v as usize])),
        vary("call.last_channels", 0..=64, last(|it, v| it.channels = v)),
        vary("call.last_threads", 0..=1024, last(|it, v| it.threads = v)),
        vary("call.", [false, true], |it, v| it.call.last = it.call.last.filter(|_| v)),
        vary("call.", [false, true], |it, v| it.call.rhythm = it.call.rhythm.filter(|_| v)),
        vary("call.interval", sizes(), rhythm(|it, v| it.last = v)),
        vary("call.mean_interval", sizes(), rhythm(|it, v| it.mean = v)),
        vary("anomaly.cusum", scores(), |it, v| it.anomaly.cusum = v),
        vary("anomaly.reconstruction", scores(), |it, v| it.anomaly.reconstruction = v),
        vary("anomaly.congestion", scores(), |it, v| it.anomaly.congestion = v),
    ]
}

#[test]
fn every_value_of_every_feature_has_a_row_of_its_own() {
    let names = names();
    let all = [topology(), workload(), scheduler_and_model(), call_and_anomaly()].concat();
    let mut moved = [false; LENGTH];
    for (feature, states) in all {
        assert!(states.len() > 1, "{feature}");
        let mut rows: Vec<[u32; LENGTH]> =
            states.iter().map(|it| it.encode().map(f32::to_bits)).collect();
        for (at, name) in names.iter().enumerate() {
            if rows.iter().any(|it| it[at] != rows[0][at]) {
                assert!(name.starts_with(feature), "{feature} moves {name}");
                moved[at] = true;
            }
        }
        let count = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), count, "two values of {feature} share a row");
    }
    let still: Vec<_> = names.iter().zip(moved).filter(|it| !it.1).map(|it| it.0).collect();
    assert!(still.is_empty(), "nothing moves {still:?}");
}

#[test]
fn rows_are_bounded_whatever_comes_in() {
    let mut wild = State::BLANK;
    wild.topology.ranks = u32::MAX;
    wild.workload.rate = f64::NAN;
    wild.workload.effective = Bytes::new(u64::MAX);
    wild.scheduler.stage = u32::MAX;
    wild.model.parameters = u64::MAX;
    wild.call.bytes = Bytes::new(u64::MAX);
    wild.anomaly = Anomaly { cusum: f64::INFINITY, reconstruction: -1.0, congestion: f64::NAN };
    for state in [State::BLANK, wild] {
        assert!(state.encode().iter().all(|it| (0.0..=1.0).contains(it)));
    }
}

/// A state with every feature away from [`State::BLANK`]'s.
fn full() -> State {
    let interval = Duration::from_us(700);
    State {
        topology: Topology {
            ranks: 4096,
            class: TopologyClass::FatTree,
            intra: Intra::NvLink,
            inter: Inter::InfiniBand,
            tiers: TierMix { pairs: [0, 7, 56, 1000, 0], unreachable: 1 },
            in_network: true,
            library: Library::Taccl,
            environment: Environment::Edge,
            cluster: ClusterClass::Specialized,
        },
        workload: Workload {
            synchrony: Synchrony::Local,
            period: 8,
            packing: Packing::TopK,
            bits: 16,
            rate: 83.0,
            effective: Bytes::new(48_000),
        },
        scheduler: Scheduler {
            stage: 3,
            role: Role::InterStage,
            priority: 2,
            sharing: Sharing::Mig,
            template: true,
        },
        model: TrainedModel {
            spread: Spread::ThreeD,
            parameters: 405_000_000_000,
            fault_tolerance: FaultTolerance::Oobleck,
            three_d: true,
        },
        call: CallState {
            kind: CollectiveKind::ReduceScatter,
            bytes: Bytes::mib(96),
            last: Some(LastKnobs {
                algorithm: Algorithm::NvlsTree,
                protocol: Protocol::Simple,
                channels: 24,
                threads: 640,
            }),
            rhythm: Some(Rhythm { last: interval, mean: Duration::from_ms(3) }),
        },
        anomaly: Anomaly { cusum: 4.5, reconstruction: 1.25, congestion: 0.3 },
    }
}

/// If this fails, a scale has changed: raise [`VERSION`] and then write the new checksum here.
#[test]
fn the_scales_are_those_of_the_version() {
    let bytes: Vec<u8> = full().encode().iter().flat_map(|it| it.to_le_bytes()).collect();
    assert_eq!((VERSION, Checksum::of(&bytes).to_string().as_str()), (1, "9cf9260e034ff68d"));
}

/// If this fails, the encoding has changed: raise [`VERSION`] and then write the new checksum here.
#[test]
fn the_names_are_those_of_the_version() {
    let names = names();
    assert_eq!(names.len(), LENGTH);
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), LENGTH);
    assert_eq!((VERSION, checksum().to_string().as_str()), (1, "d47d203e586bdab9"));
}

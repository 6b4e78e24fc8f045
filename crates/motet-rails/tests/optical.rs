//! What optical rails must never do, and what they must always do.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests may fail, and say so"
)]

use std::collections::BTreeMap;

use motet_rails::optical::{
    Delay, Granularity, Switched, Switching, best_fixed, even_fixed, switched,
};
use motet_rails::{Electrical, Machine, RailsError};
use motet_units::{Bytes, Duration, Instant, Rank};
use motet_workload::{Batch, Draft, Gpu, Iteration, Job, Layout, Run, Schedule, Sharding, models};
use proptest::prelude::*;

const FSDP: Sharding = Sharding::FSDP_IN_PIPELINE_2025;

fn job(layout: Layout, micro_batches: u64) -> Job {
    let (model, gpu) = (models::named("llama3-8b").unwrap(), Gpu::named("a100").unwrap());
    let global = 2 * micro_batches * u64::from(layout.dp);
    Draft::new(model, gpu, layout, Batch { sequence: 8192, micro: 2, global }).check().unwrap()
}

fn opus() -> Job {
    job(Layout { tp: 4, dp: 2, pp: 2, sharding: FSDP, ..Layout::default() }, 4)
}

fn perlmutter() -> Machine {
    Machine::named("perlmutter").unwrap()
}

fn electrical(job: &Job, iteration: &Iteration) -> Run {
    let mut fabric = Electrical::new(job, iteration, &perlmutter()).unwrap();
    iteration.simulate(&job.draft().gpu, &mut fabric).unwrap()
}

fn ms(ms: u64) -> Delay {
    Delay::optics(Duration::from_ms(ms))
}

/// A rank's port.
type Port = (u32, u32);

/// Ports and what they are connected to. Sets may have circuits in common, and are then there at once.
type Circuits = BTreeMap<Port, Port>;

/// No port in two circuits at once, on any rank; no traffic over circuits that are not there; and nothing is taken from
/// traffic under way.
fn check_circuits(job: &Job, found: &Switched, granularity: Granularity) {
    let mut taken: Vec<(Instant, Instant, Circuits)> = Vec::new();
    for held in &found.held {
        assert!(held.taken <= held.up && held.taken <= held.until);
        let set = &found.sets[held.set];
        let circuits: Circuits = match granularity {
            // On one rail, by rank and port.
            Granularity::Group => {
                let circuits = set.expand(job.layout(), perlmutter().placement(), 1);
                let port = |it: (Rank, u32)| (it.0.0, it.1);
                let ways =
                    circuits.iter().flat_map(|[a, b]| [(port(*a), port(*b)), (port(*b), port(*a))]);
                let distinct: Circuits = ways.collect();
                assert_eq!(distinct.len(), 2 * circuits.len(), "{set:?} uses a port twice");
                assert!(!circuits.is_empty());
                distinct
            }
            // All of a rail for one parallelism.
            Granularity::Rail => {
                set.ends.iter().map(|it| ((it.0, 0), (it.0, held.set as u32))).collect()
            }
        };
        for (from, to, others) in &taken {
            let apart = held.until <= *from || *to <= held.taken;
            let agree =
                circuits.iter().all(|(port, other)| others.get(port).is_none_or(|it| it == other));
            assert!(apart || agree, "{held:?} takes ports of another");
        }
        taken.push((held.taken, held.until, circuits));
    }
    for (operation, set) in found.wants.iter().enumerate() {
        let Some(set) = set else { continue };
        let span = found.run.spans()[operation];
        let there = |it: &&motet_rails::optical::Held| {
            it.set == *set && it.up <= span.start && span.end <= it.until
        };
        assert!(found.held.iter().any(|it| there(&it)), "{operation} has no circuit: {span:?}");
    }
}

/// All layouts that are tried.
fn layouts() -> Vec<Layout> {
    let schedules = [
        Schedule::OneForwardOneBackward,
        Schedule::ZeroBubble,
        Schedule::Interleaved { chunks: 2 },
    ];
    let shardings =
        [Sharding::None, Sharding::Optimizer, FSDP, Sharding::FSDP_IN_PIPELINE, Sharding::FSDP];
    let mut all = Vec::new();
    for (dp, pp) in [(1, 2), (1, 4), (2, 2), (2, 4), (4, 2), (4, 4)] {
        for schedule in schedules {
            for sharding in shardings {
                all.push(Layout { tp: 4, dp, pp, schedule, sharding, ..Layout::default() });
            }
        }
    }
    all
}

/// The ways of switching that are tried, on demand.
const BATCHES: [u64; 2] = [1, 2];
const PORTS: [u32; 3] = [1, 2, 4];
const DELAYS: [u64; 4] = [1, 10, 100, 700];

fn on_demand(ports: u32, delay: u64, offload: bool, coarse: bool) -> Switching {
    let granularity = if coarse { Granularity::Rail } else { Granularity::Group };
    let offload = offload.then_some(Bytes::mib(1));
    Switching { ports, granularity, offload, ..Switching::new(ms(delay), false) }
}

/// A job's step on demand and provisioned. Nothing if the ports are too few for it.
fn both_ways(job: &Job, iteration: &Iteration, late: &Switching) -> Option<[Switched; 2]> {
    let early = Switching { provisioned: true, ..*late };
    match switched(job, iteration, &perlmutter(), late) {
        Ok(it) => Some([it, switched(job, iteration, &perlmutter(), &early).unwrap()]),
        Err(RailsError::Refused(_)) => {
            assert_eq!(late.ports, 1);
            None
        }
        Err(it) => panic!("{it}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn circuits_are_kept_to_and_provisioning_does_not_lose(
        layout in prop::sample::select(layouts()),
        batches in prop::sample::select(&BATCHES),
        ports in prop::sample::select(&PORTS),
        delay in prop::sample::select(&DELAYS),
        offload in prop::bool::ANY,
        coarse in prop::bool::ANY,
    ) {
        let job = job(layout.clone(), batches * u64::from(layout.pp));
        let iteration = job.iteration(0).unwrap();
        let switching = on_demand(ports, delay, offload, coarse);
        let Some([late, early]) = both_ways(&job, &iteration, &switching) else { return Ok(()) };
        check_circuits(&job, &late, switching.granularity);
        check_circuits(&job, &early, switching.granularity);
        prop_assert!(early.run.time() <= late.run.time(), "{:?} {:?}", early.run.time(), late.run.time());
        let again = switched(&job, &iteration, &perlmutter(), &switching).unwrap();
        prop_assert_eq!(again.run, late.run);
    }
}

/// Jobs in which provisioning once lost, by up to 2 %: their layout (with a pipeline that is interleaved), micro-batches per stage, and ports.
#[test]
fn provisioning_does_not_lose_where_it_did() {
    for (dp, pp, sharding, batches, ports) in [
        (2, 2, Sharding::FSDP_IN_PIPELINE, 1, 1),
        (4, 2, Sharding::FSDP_IN_PIPELINE, 2, 2),
        (2, 4, FSDP, 2, 1),
    ] {
        let schedule = Schedule::Interleaved { chunks: 2 };
        let layout = Layout { tp: 4, dp, pp, schedule, sharding, ..Layout::default() };
        let job = job(layout, batches * u64::from(pp));
        let iteration = job.iteration(0).unwrap();
        let switching = on_demand(ports, 100, true, false);
        let [late, early] =
            both_ways(&job, &iteration, &switching).unwrap().map(|it| it.run.time());
        assert!(early <= late, "{dp} {pp} {batches}: {early:?} and {late:?} on demand");
    }
}

/// A job on optical rails, and what provisioning does to its step.
struct Tried {
    what: String,
    late: u64,
    early: u64,
}

/// All ways of switching that a job is tried with, on demand.
fn ways() -> Vec<Switching> {
    let mut all = Vec::new();
    for (ports, delay) in PORTS.iter().flat_map(|it| DELAYS.map(|delay| (*it, delay))) {
        for (offload, coarse) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(on_demand(ports, delay, offload, coarse));
        }
    }
    all
}

fn try_all(layout: &Layout, batches: u64) -> Vec<Tried> {
    let job = job(layout.clone(), batches * u64::from(layout.pp));
    let iteration = job.iteration(0).unwrap();
    let tried = ways().into_iter().filter_map(|switching| {
        let [late, early] =
            both_ways(&job, &iteration, &switching)?.map(|it| it.run.time().as_ps());
        Some(Tried { what: format!("{layout:?} {batches} {switching:?}"), late, early })
    });
    tried.collect()
}

/// How often provisioning loses, and what it gains, over all jobs from which the test above draws: the figures of ARCHITECTURE.md.
/// `cargo test -p motet-rails --test optical -- --ignored --nocapture`; with `MOTET_OPTICAL_CSV` all times go to that file.
#[test]
#[ignore = "takes minutes"]
fn how_often_provisioning_loses() {
    let mut jobs = Vec::new();
    for layout in layouts() {
        jobs.extend(BATCHES.map(|it| (layout.clone(), it)));
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        while let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            && let Some((layout, batches)) = jobs.get(at)
        {
            mine.push((at, try_all(layout, *batches)));
        }
        mine
    };
    let mut all: Vec<(usize, Vec<Tried>)> = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    all.sort_by_key(|it| it.0);
    let all: Vec<Tried> = all.into_iter().flat_map(|it| it.1).collect();
    let equal = all.iter().filter(|it| it.early == it.late).count();
    let lost: Vec<&Tried> = all.iter().filter(|it| it.early > it.late).collect();
    let mut ratios: Vec<f64> = all.iter().map(|it| it.early as f64 / it.late as f64).collect();
    ratios.sort_by(f64::total_cmp);
    let (mean, median) =
        (ratios.iter().sum::<f64>() / ratios.len() as f64, ratios[ratios.len() / 2]);
    println!("{} jobs, {equal} as fast either way, {} lost", all.len(), lost.len());
    println!(
        "provisioned to on demand: mean {mean:.5}, median {median:.5}, worst {:?}",
        ratios.last()
    );
    for it in &lost {
        println!("{}: {}", it.what, it.early as f64 / it.late as f64);
    }
    if let Ok(path) = std::env::var("MOTET_OPTICAL_CSV") {
        let lines = all.iter().map(|it| format!("{};{};{}\n", it.what, it.late, it.early));
        std::fs::write(path, lines.collect::<String>()).unwrap();
    }
    assert!(lost.is_empty());
}

/// Fig. 8's curves: both begin at the packet-switched step, grow with the delay, and the provisioned one stays below.
#[test]
fn longer_delays_take_longer() {
    let job = opus();
    let iteration = job.iteration(0).unwrap();
    let base = electrical(&job, &iteration);
    for offload in [None, Some(Bytes::mib(1))] {
        let mut before = [base.time(); 2];
        for delay in [0, 1, 5, 10, 15, 25, 50, 100, 200, 500, 1000] {
            let run = |provisioned| {
                let switching = Switching { offload, ..Switching::new(ms(delay), provisioned) };
                switched(&job, &iteration, &perlmutter(), &switching).unwrap().run.time()
            };
            let now = [run(false), run(true)];
            if delay == 0 {
                assert_eq!(now, before);
            }
            assert!(now[0] >= before[0] && now[1] >= before[1] && now[1] <= now[0], "{delay} ms");
            before = now;
        }
    }
}

/// With one parallelism on the rails there is nothing to change, so that no delay can hurt, and circuits carry a ring as fast as a
/// switch does: half of the NIC each way.
#[test]
fn one_parallelism_is_never_switched() {
    for (dp, pp, exact) in [(2, 1, true), (4, 1, false), (1, 2, true)] {
        let sharding = if dp > 1 { FSDP } else { Sharding::None };
        let job = job(Layout { tp: 4, dp, pp, sharding, ..Layout::default() }, 4);
        let iteration = job.iteration(0).unwrap();
        let base = electrical(&job, &iteration).time();
        let found =
            switched(&job, &iteration, &perlmutter(), &Switching::new(ms(5000), false)).unwrap();
        assert_eq!(found.changes, 0);
        let gap = found.run.time().as_ps().abs_diff(base.as_ps());
        // Halves of chunks are rounded up to bytes.
        assert!(if exact { gap == 0 } else { gap < 1_000_000 }, "{dp} {pp}: {gap} ps");
    }
}

/// With hardly any delay, all that is left is that overlapping traffic is spaced.
#[test]
fn spacing_alone_costs_little() {
    let job = opus();
    let iteration = job.iteration(0).unwrap();
    let base = electrical(&job, &iteration).time().as_ps() as f64;
    let switching = Switching::new(Delay::optics(Duration::from_ns(1)), false);
    let found = switched(&job, &iteration, &perlmutter(), &switching).unwrap();
    let ratio = found.run.time().as_ps() as f64 / base;
    assert!((1.0..1.002).contains(&ratio), "{ratio}");
}

fn refusal<T>(found: Result<T, RailsError>) -> String {
    match found.err().unwrap() {
        RailsError::Refused(it) => it.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let machine = perlmutter();
    let one = Switching { ports: 1, ..Switching::new(ms(10), false) };
    let wide = job(Layout { tp: 8, dp: 2, ..Layout::default() }, 2);
    let iteration = wide.iteration(0).unwrap();
    let text = refusal(switched(&wide, &iteration, &machine, &one));
    assert!(text.contains("tp 8") && text.contains("choose tp 4"), "{text}");
    assert!(refusal(even_fixed(&wide, &iteration, &machine, 4)).contains("choose tp 4"));

    let four = job(Layout { tp: 4, dp: 4, pp: 2, ..Layout::default() }, 2);
    let iteration = four.iteration(0).unwrap();
    let text = refusal(switched(&four, &iteration, &machine, &one));
    assert!(text.contains("two neighbours") && text.contains("choose 2 ports"), "{text}");
    let none = Switching { ports: 0, ..one };
    assert!(refusal(switched(&four, &iteration, &machine, &none)).contains("choose 1"));
    // Two neighbours in the ring and one in the pipeline.
    let text = refusal(best_fixed(&four, &iteration, &machine, 2));
    assert!(text.contains("pipeline 1, data-parallel 2") && text.contains("choose 3"), "{text}");

    let long = job(Layout { tp: 4, dp: 2, pp: 4, ..Layout::default() }, 4);
    let iteration = long.iteration(0).unwrap();
    let coarse = Switching { granularity: Granularity::Rail, ..one };
    let text = refusal(switched(&long, &iteration, &machine, &coarse));
    assert!(text.contains("choose 2 ports"), "{text}");
    // Per group one port is enough, turned from one neighbour to the other, but for the sum over all stages.
    assert!(refusal(switched(&long, &iteration, &machine, &one)).contains("pipeline"));
    let beside = Switching { offload: Some(Bytes::mib(1)), ..one };
    assert!(switched(&long, &iteration, &machine, &beside).is_ok());
}

/// Circuits that stay: a NIC in parts is slower than a whole one, and the best way to part it no slower than the even one.
#[test]
fn standing_circuits_fragment_bandwidth() {
    let job = opus();
    let iteration = job.iteration(0).unwrap();
    let base = electrical(&job, &iteration).time();
    let even = even_fixed(&job, &iteration, &perlmutter(), 4).unwrap();
    assert_eq!(even.shares, [("data-parallel", 2), ("pipeline", 2)]);
    let best = best_fixed(&job, &iteration, &perlmutter(), 4).unwrap();
    assert!(best.time() <= even.time() && best.time() > base);
    // Parameters are much more than activations here.
    assert_eq!(best.shares, [("data-parallel", 3), ("pipeline", 1)]);
}

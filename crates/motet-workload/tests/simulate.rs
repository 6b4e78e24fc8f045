//! Steps run in time: on a network that takes none, on one that is shared, and held against the simulator
//! of collectives.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_collective::{Collective, CollectiveKind, ProgramBuilder, Slot, Transfer, Verified};
use motet_net::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};
use motet_sim::{Discipline, Observer, Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bandwidth, Bytes, Duration, Instant, Rank, Rounding};
use motet_workload::simulate::fabric::Call;
use motet_workload::simulate::fluid::{Fluid, ONE};
use motet_workload::simulate::{Cost, Fabric, Ideal, Reason, Resource, Side, Use};
use motet_workload::{
    Batch, Draft, Gpu, Job, Layout, Parallelism, Part, Reduction, Schedule, Sharding, models,
};
use proptest::prelude::*;

fn job(layout: Layout, micro_batches: u64) -> Job {
    let (model, gpu) = (models::named("llama3-8b").unwrap(), Gpu::named("a100").unwrap());
    let global = micro_batches * u64::from(layout.dp);
    Draft::new(model, gpu, layout, Batch { sequence: 4096, micro: 1, global }).check().unwrap()
}

/// Every communication takes so long, and all of a NIC of its stage.
struct Flat(Duration);

impl Fabric for Flat {
    fn cost(&mut self, call: Call<'_>) -> Cost {
        let nic = |side| Use {
            resource: Resource::Nic { stage: call.of.stage, part: 0, side },
            share: ONE,
        };
        let uses = vec![nic(Side::Out), nic(Side::In)];
        Cost { work: self.0, latency: Duration::ZERO, uses }
    }
}

fn layouts() -> impl Strategy<Value = Layout> {
    let schedule = prop_oneof![
        Just(Schedule::OneForwardOneBackward),
        Just(Schedule::ZeroBubble),
        Just(Schedule::Interleaved { chunks: 2 }),
    ];
    let sharding = prop_oneof![
        Just(Sharding::None),
        Just(Sharding::FSDP),
        Just(Sharding::FSDP_IN_PIPELINE),
        Just(Sharding::FSDP_IN_PIPELINE_2025),
    ];
    let degrees = (prop_oneof![Just(1u32), Just(4)], prop_oneof![Just(1u32), Just(4)], 2u32..4);
    (degrees, schedule, sharding).prop_map(|((tp, dp, pp), schedule, sharding)| {
        let pp = if pp == 3 { 4 } else { 2 };
        Layout { tp, dp, pp, schedule, sharding, ..Layout::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Without communication a step takes what its DAG says, and slower communication never helps.
    #[test]
    fn a_step_takes_its_longest_chain(layout in layouts(), batches in 1u64..3) {
        let job = job(layout.clone(), batches * u64::from(layout.pp));
        let (iteration, gpu) = (job.iteration(0).unwrap(), &job.draft().gpu);
        let ideal = iteration.simulate(gpu, &mut Ideal).unwrap();
        prop_assert_eq!(ideal.time(), iteration.compute_bound(gpu));
        let run = iteration.simulate(gpu, &mut Flat(Duration::from_us(300))).unwrap();
        prop_assert!(run.time() >= ideal.time());
        for (index, span) in run.spans().iter().enumerate() {
            prop_assert!(span.ready <= span.start && span.start <= span.end);
            for before in iteration.waits(index) {
                prop_assert!(run.spans()[*before as usize].end <= span.ready);
            }
        }
        // Every stage's time is accounted for.
        for stage in 0..layout.pp {
            let exposed = run.exposed(&iteration, stage);
            let idle: Duration = exposed.0.values().copied().sum();
            prop_assert_eq!(run.computed(&iteration, stage) + idle, run.time());
        }
        prop_assert_eq!(&run, &iteration.simulate(gpu, &mut Flat(Duration::from_us(300))).unwrap());
    }
}

/// The three orders of a stage's reductions and of the gradients that its last pass sends, of a stage that has a neighbour
/// on either side. What is moved is the same in all of them.
#[test]
fn gradients_are_reduced_when_the_layout_says() {
    let span = |reduction| {
        let sharding = Sharding::Parameters { free: false, each: false, reduction };
        let job = job(Layout { dp: 2, pp: 4, sharding, ..Layout::default() }, 8);
        let iteration = job.iteration(0).unwrap();
        let run = iteration.simulate(&job.draft().gpu, &mut Flat(Duration::from_ms(3))).unwrap();
        let of = |parallelism: Parallelism, kind: CollectiveKind| {
            let all = iteration.operations().iter().zip(run.spans());
            let all = all.filter(|(it, _)| {
                it.stage == 2
                    && it
                        .communication()
                        .is_some_and(|it| it.parallelism == parallelism && it.kind == kind)
            });
            all.map(|it| *it.1).collect::<Vec<_>>()
        };
        let last =
            of(Parallelism::Pp, CollectiveKind::SendRecv).into_iter().max_by_key(|it| it.start);
        let reductions = of(Parallelism::Dp, CollectiveKind::ReduceScatter);
        let first = reductions.iter().min_by_key(|it| it.start).copied();
        let end = reductions.iter().map(|it| it.end).max();
        let volumes: Vec<_> = (0..4).map(|it| iteration.volumes(job.layout(), it)).collect();
        (last.unwrap(), first.unwrap(), end.unwrap(), volumes)
    };
    let (message, first, end, volumes) = span(Reduction::InPass);
    assert!(first.start < message.start && message.start < end);
    let (message, _, end, same) = span(Reduction::BeforeSend);
    assert!(end <= message.start && volumes == same);
    let (message, first, _, same) = span(Reduction::AfterSend);
    assert!(message.end <= first.start && volumes == same);
}

#[test]
fn the_head_is_gathered_last_or_first() {
    let gathered = |head_first| {
        let sharding = Sharding::FSDP_IN_PIPELINE;
        let job = job(Layout { dp: 2, pp: 2, sharding, head_first, ..Layout::default() }, 2);
        let iteration = job.iteration(0).unwrap();
        let all = iteration.communications();
        let all = all.filter(|it| it.1.stage == 1 && it.2.kind == CollectiveKind::AllGather);
        all.filter_map(|it| it.1.part).collect::<Vec<_>>()
    };
    let layers: Vec<Part> = (16..32).map(Part::Layer).collect();
    assert_eq!(gathered(false), [&layers[..], &[Part::Head]].concat());
    assert_eq!(gathered(true), [&[Part::Head], &layers[..]].concat());
}

/// What a stage waits for, worked out by hand: one pipeline of two stages, one micro-batch, hops of 10 ms
/// and nothing else on the network.
#[test]
fn idle_time_has_its_reasons() {
    let job = job(Layout { pp: 2, ..Layout::default() }, 1);
    let (iteration, gpu) = (job.iteration(0).unwrap(), &job.draft().gpu);
    let ten = Duration::from_ms(10);
    let run = iteration.simulate(gpu, &mut Flat(ten)).unwrap();
    let first = run.exposed(&iteration, 0);
    // Forward, gradients back, and the sum over stages: all three are waited for.
    let pp = Reason::Transfer(Parallelism::Pp);
    assert_eq!(first.of(pp), ten + ten + ten);
    assert_eq!(first.communication(), ten + ten + ten);
    let rest = run.computed(&iteration, 1);
    // The other stage computes meanwhile, but for its optimizer, which runs beside ours.
    assert!(first.of(Reason::Bubble) < rest && first.of(Reason::Bubble) > Duration::ZERO);
    // The last stage waits for its input, and after its gradients are sent for the sum over stages, which
    // waits for their way and for the first stage's backward pass.
    assert_eq!(run.exposed(&iteration, 1).of(pp), ten + ten + ten);
    assert!(run.mfu(&job) < 0.4 && run.mfu(&job) > 0.1, "{}", run.mfu(&job));
    let tokens = 4096.0 / (run.time().as_ps() as f64 / 1e12);
    assert!((run.tokens_per_s(&job) - tokens).abs() < 1e-6 * tokens);
    let trace = run.to_perfetto(&iteration, "test");
    let json: serde_json::Value = serde_json::from_str(&trace).unwrap();
    let spans = json["traceEvents"].as_array().unwrap().iter();
    assert_eq!(spans.filter(|it| it["ph"] == "X").count(), iteration.operations().len());
}

/// Arrivals by transfer.
struct Arrivals(Vec<Instant>);

impl Observer for Arrivals {
    fn arrived(&mut self, at: Instant, transfer: motet_collective::TransferId) {
        self.0[transfer.index()] = at;
    }
}

/// Two messages out of one NIC, the second begun while the first is under way: the fluid model's ends are
/// those of the simulator's fair links.
#[test]
fn sharing_is_the_simulators() {
    let mut builder = NetworkBuilder::new("star");
    let switch = builder.add_node(Node::new("rail", NodeKind::Leaf)).unwrap();
    let (rate, latency) = (Bandwidth::gb_per_s(25), Duration::from_us(1));
    for name in ["a", "b", "c"] {
        let gpu = builder.add_node(Node::new(name, NodeKind::Gpu)).unwrap();
        builder
            .add_duplex(gpu, switch, LinkSpec::new(LinkClass::InfiniBand, rate, latency))
            .unwrap();
    }
    let network = builder.build().unwrap();
    // 0 → 1: 5 units; 1 → 0: 1 unit; 0 → 2: 3 units, after that one has come.
    let counts = vec![0, 5, 3, 1, 0, 0, 0, 0, 0];
    let collective = Collective::all_to_all_v(3, counts).unwrap();
    assert_eq!(collective.kind(), CollectiveKind::AllToAllV);
    let mut program = ProgramBuilder::new("two", collective);
    let copy = |from: u32, at: u32, to: u32, into: u32, count: u32| {
        Transfer::copy(Slot::input(Rank(from), at), Slot::output(Rank(to), into), count)
    };
    program.add(copy(0, 0, 1, 0, 5));
    let back = program.add(copy(1, 0, 0, 0, 1));
    program.add_after(copy(0, 5, 2, 0, 3), &[back]);
    let program = Verified::new(program.build(), Some(&network)).unwrap();
    let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
    let prepared = Prepared::new(&routed);
    let unit = Bytes::mib(1);
    let size = unit.checked_mul(8).unwrap();
    assert_eq!(program.collective().chunk_bytes(size), unit);
    let options = SimOptions { discipline: Discipline::FairShare, ..SimOptions::default() };
    let mut seen = Arrivals(vec![Instant::START; 3]);
    Simulation::new(&prepared, size).options(options).run_with(&mut seen).unwrap();

    let time =
        |units: u64| rate.transfer_time(unit.checked_mul(units).unwrap(), Rounding::Up).unwrap();
    let out = Use { resource: Resource::Nic { stage: 0, part: 0, side: Side::Out }, share: ONE };
    let cost = |units| Cost { work: time(units), latency: latency + latency, uses: vec![out] };
    let mut fluid = Fluid::default();
    fluid.start(0, &cost(5), Instant::START);
    let second = Instant::START + time(1) + latency + latency;
    assert!(fluid.ended(second).is_empty());
    fluid.start(1, &cost(3), second);
    let mut ends = Vec::new();
    while let Some(at) = fluid.next_end() {
        ends.extend(fluid.ended(at).into_iter().map(|it| (it, at + latency + latency)));
    }
    assert_eq!(seen.0[1], second);
    for (flow, ours) in ends {
        let theirs = seen.0[2 * flow];
        let gap = ours.since(theirs).max(theirs.since(ours));
        // Both round up to picoseconds, once per change of rates.
        assert!(gap <= Duration::from_ps(2), "{ours:?} {theirs:?}");
    }
}

//! Times that can be worked out by hand, to the picosecond.

use motet_collective::Verified;
use motet_nccl::{Knobs, Protocol};
use motet_sim::{Prepared, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::{Bytes, Duration, LinkId};

use crate::programs;
use crate::support::{at, chain, channelled, knobs, row, run, send, template, time};

const NEAR: Duration = Duration::from_ns(500);
const SIMPLE: Knobs = Knobs::new(Protocol::Simple);
const LL: Knobs = Knobs::new(Protocol::Ll);

/// Launch and latency over NVLink.
const SIMPLE_LAUNCH: Duration = Duration::from_ns(8400);
const SIMPLE_LATENCY: Duration = Duration::from_ns(3400);
const LL_LAUNCH: Duration = Duration::from_ns(6600);
const LL_LATENCY: Duration = Duration::from_ns(600);

#[test]
fn one_transfer_is_launch_and_latency_and_bytes() {
    // One place, and the link slower than a block: 1 GB/s.
    let network = row(2, 1, NEAR);
    let bytes = 1 << 20;
    let simple = SIMPLE_LAUNCH + at(bytes, 1) + NEAR + SIMPLE_LATENCY;
    assert_eq!(time(send(1), &network, Bytes::new(bytes), &SIMPLE), simple);
    // Half of what LL sends are flags: 32 KiB are 64 KiB on the wire.
    let ll = LL_LAUNCH + at(2 * 32_768, 1) + NEAR + LL_LATENCY;
    assert_eq!(time(send(1), &network, Bytes::kib(32), &LL), ll);
    // 120 bytes of 128.
    let ll128 = Duration::from_us(14) + at(128_000, 1) + NEAR + Duration::from_ns(1900);
    assert_eq!(time(send(1), &network, Bytes::new(120_000), &knobs(Protocol::Ll128)), ll128);
}

#[test]
fn nothing_to_send_is_launch_and_latency() {
    let network = row(2, 1, NEAR);
    let time = time(send(1), &network, Bytes::ZERO, &SIMPLE);
    assert_eq!(time, SIMPLE_LAUNCH + NEAR + SIMPLE_LATENCY);
}

#[test]
fn a_block_does_not_fill_a_fast_link() {
    let network = row(2, 450, Duration::ZERO);
    let size = Bytes::new(387_000);
    let over = SIMPLE_LAUNCH + SIMPLE_LATENCY;
    // 38.7 GB/s.
    assert_eq!(time(send(1), &network, size, &SIMPLE), over + Duration::from_us(10));
    let half = Knobs { threads: Some(256), ..SIMPLE };
    assert_eq!(time(send(1), &network, size, &half), over + Duration::from_us(20));
    let two = Knobs { channels: Some(2), ..SIMPLE };
    assert_eq!(time(send(1), &network, size, &two), over + Duration::from_us(5));
    // Twenty blocks could send 774 GB/s; the link sends 450.
    let many = Knobs { channels: Some(20), ..SIMPLE };
    assert_eq!(time(send(1), &network, size, &many), over + at(387_000, 450));
}

#[test]
fn the_channels_of_a_program_are_blocks_side_by_side() {
    let network = row(2, 450, Duration::ZERO);
    let over = SIMPLE_LAUNCH + SIMPLE_LATENCY;
    let outcome = run(channelled(4), &network, Bytes::new(387_000 * 4), &SIMPLE).unwrap();
    // Each for itself, as if the others were not there.
    assert_eq!((outcome.channels, outcome.instances, outcome.blocks), (4, 1, 4));
    assert_eq!(outcome.outcome.time, over + Duration::from_us(10));
    let doubled = Knobs { channels: Some(8), ..SIMPLE };
    let outcome = run(channelled(4), &network, Bytes::new(387_000 * 4), &doubled).unwrap();
    assert_eq!((outcome.channels, outcome.instances, outcome.blocks), (8, 2, 8));
    assert_eq!(outcome.outcome.time, over + Duration::from_us(5));
    // Twelve at 38.7 GB/s are more than the link: they share it.
    let outcome = run(channelled(12), &network, Bytes::new(450_000 * 12), &SIMPLE).unwrap();
    assert_eq!(outcome.outcome.time, over + Duration::from_us(12));
}

/// Cut into k, h hops take the latencies, the bytes once, and one cut for every hop but one.
#[test]
fn a_chain_is_a_pipeline() {
    let network = row(5, 1, NEAR);
    for (mib, buffer) in [(8, 4), (8, 2), (24, 4), (64, 1), (256, 4)] {
        let knobs = Knobs { buffer: Some(Bytes::mib(buffer)), ..SIMPLE };
        let cut = buffer << 19;
        let outcome = run(chain(5, 1), &network, Bytes::mib(mib), &knobs).unwrap();
        assert_eq!(u64::from(outcome.iterations), (mib << 20) / cut);
        let hops = NEAR.saturating_mul(4) + SIMPLE_LATENCY.saturating_mul(4);
        let expected = SIMPLE_LAUNCH + hops + at((mib << 20) + 3 * cut, 1);
        assert_eq!(outcome.outcome.time, expected, "{mib} MiB in {cut}");
        // 128 iterations are more than are run one by one.
        assert_eq!(outcome.simulated, outcome.iterations.min(64));
    }
}

/// The finer the cuts, the nearer to a fluid, as long as latency does not hold it up.
#[test]
fn finer_cuts_approach_a_fluid() {
    let network = row(5, 1, NEAR);
    let size = Bytes::mib(64);
    let hops = NEAR.saturating_mul(4) + SIMPLE_LATENCY.saturating_mul(4);
    let fluid = SIMPLE_LAUNCH + hops + at(size.get(), 1);
    let mut before = Duration::MAX;
    for kib in [16_384, 4096, 1024, 256, 128] {
        let knobs = Knobs { buffer: Some(Bytes::kib(kib)), ..SIMPLE };
        let time = time(chain(5, 1), &network, size, &knobs);
        assert!(time > fluid && time < before, "{kib} KiB: {time}");
        before = time;
    }
    assert!(before < fluid + Duration::from_us(300), "{before} {fluid}");
}

/// Over a long link the buffer's places are what is under way: two places of 32 KiB for each
/// round trip.
#[test]
fn a_long_link_waits_for_places() {
    let far = Duration::from_ms(10);
    let network = row(2, 10, far);
    let knobs = Knobs { buffer: Some(Bytes::kib(64)), ..SIMPLE };
    let place = at(32_768, 10);
    let trip = far + SIMPLE_LATENCY;
    // Ten places: pairs follow one another by the round trip.
    let outcome = run(send(1), &network, Bytes::kib(320), &knobs).unwrap();
    assert_eq!(outcome.iterations, 10);
    let pair = place + trip + trip;
    let expected = SIMPLE_LAUNCH + pair.saturating_mul(4) + place + place + trip;
    assert_eq!(outcome.outcome.time, expected);
    // A hundred: the same pace to the end.
    let outcome = run(send(1), &network, Bytes::kib(3200), &knobs).unwrap();
    assert_eq!((outcome.iterations, outcome.simulated), (100, 60));
    let expected = SIMPLE_LAUNCH + pair.saturating_mul(49) + place + place + trip;
    assert_eq!(outcome.outcome.time, expected);
    // As one transfer of ten chunks, which is longer than the buffer: the same pace.
    let outcome = run(send(10), &network, Bytes::kib(320), &knobs).unwrap();
    assert_eq!(outcome.iterations, 1);
    assert!(outcome.outcome.time > pair.saturating_mul(4), "{}", outcome.outcome.time);
    // Larger buffers mend it.
    let time = |kib| {
        let knobs = Knobs { buffer: Some(Bytes::kib(kib)), ..SIMPLE };
        time(send(1), &network, Bytes::kib(320), &knobs)
    };
    assert!(time(64) > time(128) && time(128) > time(256) && time(256) > time(512));
    assert_eq!(time(1024), SIMPLE_LAUNCH + trip + at(327_680, 10));
}

/// A ring in one iteration is the plain model's, with α and β of the protocol and the launch.
#[test]
fn a_ring_under_ll_has_twice_the_beta() {
    let network = template("ring", &["gpus=4", "class=nvlink", "bandwidth=2 GB/s"]);
    let program = programs::ring_reduce_scatter(4, 1);
    let size = Bytes::kib(64);
    let plain = {
        let program = Verified::new(program.clone(), None).unwrap();
        let routed = Routed::new(&program, &network, SwitchForwarding::CutThrough).unwrap();
        Simulation::new(&Prepared::new(&routed), size).options(SimOptions::default()).run().unwrap()
    };
    let step = at(16_384, 2);
    let alpha = network.link(LinkId(0)).spec.latency;
    assert_eq!(plain.time, (step + alpha).saturating_mul(3));
    let simple = run(program.clone(), &network, size, &SIMPLE).unwrap();
    let each = alpha + SIMPLE_LATENCY + step;
    assert_eq!(simple.outcome.time, SIMPLE_LAUNCH + each.saturating_mul(3));
    let ll = run(program, &network, size, &LL).unwrap();
    let each = alpha + LL_LATENCY + step + step;
    assert_eq!(ll.outcome.time, LL_LAUNCH + each.saturating_mul(3));
    // Links are busy with flags; bytes are payload.
    for (a, b) in simple.outcome.links.iter().zip(&ll.outcome.links) {
        assert_eq!(a.bytes, b.bytes);
        assert_eq!(a.busy + a.busy, b.busy);
    }
}

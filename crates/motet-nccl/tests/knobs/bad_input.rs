//! What cannot be, and what is said of it.

use motet_collective::program::{Lane, LaneKind};
use motet_collective::{Collective, ProgramBuilder, Slot, Transfer};
use motet_nccl::{Knobs, Protocol};
use motet_net::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration, Rank};

use crate::support::{channelled, row, run, send};

const SIMPLE: Knobs = Knobs::new(Protocol::Simple);

fn error(program: motet_collective::Program, size: Bytes, knobs: Knobs) -> String {
    run(program, &row(2, 1, Duration::ZERO), size, &knobs).unwrap_err().to_string()
}

#[test]
fn channels() {
    let channels = |count| Knobs { channels: Some(count), ..SIMPLE };
    let size = Bytes::mib(1);
    assert_eq!(error(send(1), size, channels(0)), "0 channels cannot be; use 1 to 32");
    assert_eq!(error(send(1), size, channels(33)), "33 channels cannot be; use 1 to 32");
    assert_eq!(
        error(channelled(3), size, channels(4)),
        "4 channels are not a multiple of the program's own 3; use 3, or 3 times as many instances \
         as you want"
    );
}

#[test]
fn threads_and_buffers() {
    let size = Bytes::mib(1);
    let threads = Knobs { threads: Some(96 + 1), ..SIMPLE };
    assert!(error(send(1), size, threads).starts_with("97 threads cannot run Simple"));
    let buffer = Knobs { buffer: Some(Bytes::kib(1)), ..SIMPLE };
    assert!(error(send(1), size, buffer).contains("use at least 8 KiB"));
}

#[test]
fn more_blocks_than_the_gpu_has() {
    // Seven peers and 32 channels are 224 blocks; a Hopper has 132 multiprocessors.
    let network = crate::support::template("dgx-h100", &[]);
    let program = crate::programs::direct_all_to_all(8, 1);
    let knobs = |channels| Knobs { channels: Some(channels), ..SIMPLE };
    let text = run(program.clone(), &network, Bytes::mib(1), &knobs(32)).unwrap_err().to_string();
    assert_eq!(
        text,
        "rank 0 would need 224 thread blocks at once and its GPU has room for 132; use fewer channels"
    );
    assert_eq!(run(program, &network, Bytes::mib(1), &knobs(16)).unwrap().blocks, 112);
}

#[test]
fn more_iterations_than_the_executor_counts() {
    let knobs = Knobs { buffer: Some(Bytes::kib(64)), ..Knobs::new(Protocol::Ll) };
    assert!(run(send(1), &row(2, 1, Duration::ZERO), Bytes::mib(255), &knobs).is_ok());
    assert_eq!(
        error(send(1), Bytes::gib(1), knobs),
        "chunks of 1 GiB in places of 4 KiB need 262144 iterations, and the executor counts to \
         65535; use more channels, larger buffers or a smaller size"
    );
}

#[test]
fn longer_than_time() {
    let mut slow = NetworkBuilder::new("slow");
    let a = slow.add_node(Node::new("a", NodeKind::Gpu)).unwrap();
    let b = slow.add_node(Node::new("b", NodeKind::Gpu)).unwrap();
    let spec = LinkSpec::new(LinkClass::Wan, Bandwidth::from_bits_per_s(1), Duration::ZERO);
    slow.add_duplex(a, b, spec).unwrap();
    let network = slow.build().unwrap();
    let text = run(send(1), &network, Bytes::gib(2), &SIMPLE).unwrap_err().to_string();
    assert!(text.contains("213 days"), "{text}");
    let most = run(send(1), &network, Bytes::new(u64::MAX), &SIMPLE).unwrap_err().to_string();
    assert!(most.contains("iterations"), "{most}");
}

/// Rank 1 takes what rank 0 sends only after its own last receive from there: with two places
/// the third transfer never starts.
#[test]
fn a_program_that_needs_more_places() {
    let chunks = 3;
    let collective = Collective::send_recv(chunks, vec![Some(Rank(1)), None]).unwrap();
    let mut b = ProgramBuilder::new("late", collective);
    let ids: Vec<_> = (0..chunks)
        .map(|it| b.add(Transfer::copy(Slot::input(Rank(0), it), Slot::output(Rank(1), it), 1)))
        .collect();
    b.add_lane(Lane {
        rank: Rank(0),
        kind: LaneKind::Block,
        channel: 0,
        events: ids.iter().map(|it| it.sent()).collect(),
    });
    // Each arrival waits for all sendings.
    for id in &ids {
        b.wait(id.arrived(), ids[2].sent());
    }
    let program = b.build();
    let text = error(program.clone(), Bytes::mib(3), SIMPLE);
    assert!(text.starts_with("the program halts: rank 0 fills the 2 places"), "{text}");
    let ll = Knobs { buffer: Some(Bytes::mib(64)), ..Knobs::new(Protocol::Ll) };
    assert!(run(program, &row(2, 1, Duration::ZERO), Bytes::mib(3), &ll).is_ok());
}

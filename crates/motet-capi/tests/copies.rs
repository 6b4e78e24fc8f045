//! Calls on buffers of every sort: right results, nothing touched that is not theirs, and no copy that is not needed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unsafe_code,
    reason = "tests may fail, and say so; buffers are pointers"
)]

mod ranks;

use std::ops::Range;

use motet_capi::{Call, Communicator, Handle, Input, Kind, Output};
use motet_exec::{Element, Reduction};

use crate::ranks::ranks;

const RANKS: u32 = 3;
const FREE: f32 = -77.0;
/// Elements around every buffer that nobody may touch.
const GUARD: usize = 16;

/// What rank `rank` has at `i`: small whole numbers, so that sums are exact.
fn given(rank: u32, i: usize) -> f32 {
    ((rank as usize * 7 + i * 3) % 11) as f32
}

/// What must come of it at `rank`, for parts of `count`.
fn expected(kind: Kind, count: usize, rank: u32, i: usize) -> f32 {
    let sum = |i: usize| (0..RANKS).map(|it| given(it, i)).sum::<f32>();
    let own = rank as usize * count;
    match kind {
        Kind::AllReduce(Reduction::Average) => sum(i) / RANKS as f32,
        Kind::AllReduce(_) | Kind::Reduce(..) => sum(i),
        Kind::ReduceScatter(_) => sum(own + i),
        Kind::AllGather | Kind::Gather(_) => given((i / count) as u32, i % count),
        Kind::AllToAll => given((i / count) as u32, own + i % count),
        Kind::Broadcast(root) => given(root, i),
        Kind::Scatter(root) => given(root, own + i),
        Kind::Send => given(0, i),
    }
}

/// Where an input of `gives` and an output of `gets` elements lie in one array.
fn lie(
    kind: Kind,
    count: usize,
    rank: u32,
    gives: usize,
    gets: usize,
    in_place: bool,
) -> [Range<usize>; 2] {
    let own = GUARD + rank as usize * count;
    match kind {
        _ if !in_place || gives == 0 || gets == 0 => {
            let second = 2 * GUARD + gives;
            [GUARD..GUARD + gives, second..second + gets]
        }
        Kind::AllGather | Kind::Gather(_) => [own..own + gives, GUARD..GUARD + gets],
        Kind::ReduceScatter(_) | Kind::Scatter(_) => [GUARD..GUARD + gives, own..own + gets],
        _ => [GUARD..GUARD + gives, GUARD..GUARD + gets],
    }
}

/// Starts a call; callers keep the array until it has ended.
fn start(comm: &Communicator, call: Call, all: &mut [f32], at: &[Range<usize>; 2]) -> Handle {
    let [input, output] = at;
    let start = all.as_mut_ptr();
    assert!(input.end <= all.len() && output.end <= all.len());
    // SAFETY: within the array.
    let from = unsafe { start.add(input.start) };
    // SAFETY: likewise.
    let to = unsafe { start.add(output.start) };
    // SAFETY: callers wait before they touch or drop the array.
    let input = unsafe { Input::new(from.cast(), 4 * input.len()) };
    // SAFETY: likewise.
    let output = unsafe { Output::new(to.cast(), 4 * output.len()) };
    comm.start(call, input, output).unwrap()
}

/// One call, checked; how many parts it copied.
fn parts_copied(comm: &Communicator, kind: Kind, count: usize, in_place: bool) -> u64 {
    let call = Call::new(kind, Element::F32, count).unwrap();
    let (gives, gets) = call.bytes(comm.rank(), RANKS);
    let at = lie(kind, count, comm.rank(), gives / 4, gets / 4, in_place);
    let mut all = vec![FREE; (gives + gets) / 4 + 3 * GUARD];
    for (i, it) in all[at[0].clone()].iter_mut().enumerate() {
        *it = given(comm.rank(), i);
    }
    let before = comm.copied();
    start(comm, call, &mut all, &at).wait().unwrap();
    let [input, output] = &at;
    for (i, it) in all.iter().enumerate() {
        let right = if output.contains(&i) {
            expected(kind, count, comm.rank(), i - output.start)
        } else if input.contains(&i) {
            given(comm.rank(), i - input.start)
        } else {
            FREE
        };
        assert_eq!(*it, right, "{kind:?} of {count} at {i}, in place: {in_place}");
    }
    let copied = comm.copied() - before;
    assert!(copied.is_multiple_of(4 * count as u64));
    copied / (4 * count as u64)
}

/// Parts that a rank must copy, by the programs for a network that nothing is known of, in which everybody sends to everybody: apart
/// and in place.
fn needed(kind: Kind, is_root: bool, shared: bool) -> [u64; 2] {
    let all = u64::from(RANKS);
    match (kind, shared) {
        // To the output, where all is done.
        (Kind::AllReduce(_), false) => [1, 0],
        (Kind::AllReduce(_), true) => [2, 2],
        // Of two that overlap and are written, the smaller.
        (Kind::ReduceScatter(_), false) => [0, 1],
        (Kind::AllToAll, false) => [0, all],
        // What the others read.
        (Kind::ReduceScatter(_) | Kind::AllToAll, true) => [all, all],
        (Kind::AllGather, true) => [1, 1],
        (Kind::Reduce(..) | Kind::Gather(_), _) if is_root => [1, 0],
        (Kind::Reduce(..) | Kind::Gather(_), true) => [1, 1],
        (Kind::Broadcast(_), false) if is_root => [1, 0],
        (Kind::Broadcast(_), true) if is_root => [2, 2],
        (Kind::Scatter(_), true) if is_root => [all, all],
        _ => [0, 0],
    }
}

const KINDS: [Kind; 9] = [
    Kind::AllReduce(Reduction::Sum),
    Kind::AllReduce(Reduction::Average),
    Kind::ReduceScatter(Reduction::Sum),
    Kind::Reduce(Reduction::Sum, 1),
    Kind::AllGather,
    Kind::AllToAll,
    Kind::Broadcast(2),
    Kind::Gather(1),
    Kind::Scatter(1),
];

#[test]
fn every_collective_copies_no_more_than_it_must() {
    for shared in [false, true] {
        ranks(
            RANKS,
            |it| it.shared_memory = shared,
            |comm| {
                for kind in KINDS {
                    let needed = needed(kind, kind.root() == Some(comm.rank()), shared);
                    for count in [1, 5, 1003] {
                        // In place or not is each rank's own business, and one operation serves both.
                        for round in 0..4 {
                            let in_place = (comm.rank() + round) % 2 == 1;
                            let copied = parts_copied(&comm, kind, count, in_place);
                            let what = format!("{kind:?} of {count}, {in_place}, shared {shared}");
                            assert_eq!(copied, needed[usize::from(in_place)], "{what}");
                        }
                    }
                }
            },
        );
    }
}

/// As torch calls it: the root has no output.
#[test]
fn the_root_of_a_broadcast_lends_its_input() {
    ranks(
        2,
        |it| it.shared_memory = false,
        |comm| {
            let call = Call::new(Kind::Broadcast(0), Element::F32, 1003).unwrap();
            let mut all = vec![FREE; 1003 + 2 * GUARD];
            let (whole, nothing) = (GUARD..GUARD + 1003, GUARD..GUARD);
            let at =
                if comm.rank() == 0 { [whole.clone(), nothing] } else { [nothing, whole.clone()] };
            if comm.rank() == 0 {
                all[whole.clone()].fill(5.0);
            }
            start(&comm, call, &mut all, &at).wait().unwrap();
            assert!(all[whole.clone()].iter().all(|it| *it == 5.0));
            assert_eq!(all.iter().filter(|it| **it == FREE).count(), 2 * GUARD);
            assert_eq!(comm.copied(), 0);
        },
    );
}

/// Elements that begin where none may: copied, and right.
#[test]
fn a_buffer_that_does_not_lie_right_is_copied() {
    ranks(
        2,
        |it| it.shared_memory = false,
        |comm| {
            let call = Call::new(Kind::AllReduce(Reduction::Sum), Element::I64, 99).unwrap();
            let mut bytes = vec![0_u8; 99 * 8 + 16];
            let odd = bytes.as_ptr().align_offset(8) + 3;
            let values = &mut bytes[odd..odd + 99 * 8];
            for it in values.chunks_exact_mut(8) {
                it.copy_from_slice(&3_i64.to_ne_bytes());
            }
            let (to, length) = (values.as_mut_ptr(), values.len());
            // SAFETY: the call is waited for before the buffer is touched.
            let input = unsafe { Input::new(to, length) };
            // SAFETY: likewise.
            let output = unsafe { Output::new(to, length) };
            comm.start(call, input, output).unwrap().wait().unwrap();
            assert!(values.chunks_exact(8).all(|it| it == 6_i64.to_ne_bytes()));
            assert_eq!(comm.copied(), 2 * 99 * 8);
        },
    );
}

/// Whatever ended a call, nobody writes its buffers afterwards: a rank that goes, and a communicator that is dropped.
#[test]
fn after_its_end_a_call_touches_nothing() {
    for drops in [false, true] {
        ranks(
            3,
            |it| it.shared_memory = false,
            |comm| {
                let kind = Kind::AllReduce(Reduction::Sum);
                let call = Call::new(kind, Element::F32, 1 << 20).unwrap();
                let mut all = vec![1.0; 1 << 20];
                let at = [0..1 << 20, 0..1 << 20];
                // So that the operation is there, and the next call is under way at once.
                start(&comm, call, &mut all, &at).wait().unwrap();
                start(&comm, call, &mut all, &at).wait().unwrap();
                assert_eq!((all[0], comm.copied()), (9.0, 0));
                if comm.rank() == 2 {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    return;
                }
                let pending = start(&comm, call, &mut all, &at);
                if drops {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    drop(comm);
                }
                assert!(pending.wait().is_err());
                all.fill(FREE);
                std::thread::sleep(std::time::Duration::from_millis(300));
                assert!(all.iter().all(|it| *it == FREE));
            },
        );
    }
}

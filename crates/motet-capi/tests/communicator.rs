//! Communicators as threads of one process: what a C program does not show.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unsafe_code,
    reason = "tests may fail, and say so; buffers are pointers"
)]

mod ranks;

use motet_capi::{Call, CommError, Communicator, Handle, Input, Kind, Options, Output, Status};
use motet_exec::{Element, Reduction};

use crate::ranks::ranks;

/// Starts the sum of a buffer over all ranks, in place. The caller keeps the buffer until it has waited.
fn sum(comm: &Communicator, buffer: &mut [i32]) -> Result<Handle, CommError> {
    let call = Call::new(Kind::AllReduce(Reduction::Sum), Element::I32, buffer.len())?;
    let (to, bytes) = (buffer.as_mut_ptr(), size_of_val(buffer));
    // SAFETY: callers wait before they touch or drop the buffer.
    let input = unsafe { Input::new(to.cast(), bytes) };
    // SAFETY: likewise.
    let output = unsafe { Output::new(to.cast(), bytes) };
    comm.start(call, input, output)
}

/// More sorts of calls than there is room for: old ones go, also while others are under way, and come again.
#[test]
fn operations_that_find_no_room_go() {
    let small = |it: &mut Options| it.cache_bytes = 3 * 4 * 1000;
    ranks(3, small, |comm| {
        for round in 0..2 {
            let mut buffers: Vec<Vec<i32>> =
                (0..30).map(|it| vec![it + round; 100 + it as usize % 7]).collect();
            let handles: Vec<Handle> =
                buffers.iter_mut().map(|it| sum(&comm, it).unwrap()).collect();
            for (number, handle) in handles.iter().enumerate() {
                handle.wait().unwrap();
                let expected = (number as i32 + round) * 3;
                assert!(buffers[number].iter().all(|it| *it == expected), "call {number}");
            }
        }
    });
}

/// A rank that asks for something else is told so on all ranks, and harms nothing else.
#[test]
fn a_call_that_ranks_do_not_agree_on() {
    let said = ranks(
        2,
        |_| {},
        |comm| {
            let mut other = vec![1; 10 + comm.rank() as usize];
            let error = sum(&comm, &mut other).unwrap().wait().unwrap_err();
            let mut same = vec![1; 10];
            sum(&comm, &mut same).unwrap().wait().unwrap();
            assert_eq!(same, [2; 10]);
            error
        },
    );
    for (rank, error) in said.iter().enumerate() {
        assert_eq!(error.status, Status::Failed);
        assert!(error.text.contains(&format!("rank {}", 1 - rank)), "{error}");
    }
}

/// Some of a cluster's ranks as a group, with programs for the part of the network that they have.
#[test]
fn a_group_of_some_of_a_clusters_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = folder.path().join("ring.toml");
    std::fs::write(&cluster, "[[fabric]]\nkind = \"ring\"\ngpus = 4\n").unwrap();
    let some = |it: &mut Options| {
        it.cluster = Some(cluster.to_string_lossy().into_owned());
        it.members = vec![3, 0, 1];
    };
    ranks(3, some, |comm| {
        let mut buffer = vec![comm.rank() as i32; 5000];
        sum(&comm, &mut buffer).unwrap().wait().unwrap();
        assert_eq!(buffer, [3; 5000]);
    });
    let wrong =
        Options { members: vec![0, 0, 1], cluster: None, ..Options::new("127.0.0.1:1", 0, 2) };
    assert_eq!(Communicator::join(wrong).unwrap_err().status, Status::Invalid);
}

/// Whoever leaves ends what is under way: nobody waits for ever.
#[test]
fn who_leaves_ends_what_is_under_way() {
    ranks(
        2,
        |it| it.deadline_seconds = 6,
        |comm| {
            let mut buffer = vec![1; 10];
            let first = sum(&comm, &mut buffer).unwrap();
            first.wait().unwrap();
            if comm.rank() == 0 {
                return;
            }
            // Rank 0 does not call, and goes.
            let mut never = vec![1; 10];
            assert!(sum(&comm, &mut never).unwrap().wait().is_err());
            let mut own = vec![1; 10];
            let pending = sum(&comm, &mut own).unwrap();
            drop(comm);
            assert!(pending.wait().is_err());
        },
    );
}

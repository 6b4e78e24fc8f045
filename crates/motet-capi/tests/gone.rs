//! Ranks that are gone, and ranks that are there and do not call: how long the others wait, and what they hear.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unsafe_code,
    reason = "tests may fail, and say so; buffers are pointers"
)]

mod ranks;

use std::sync::Barrier;
use std::time::Duration;

use motet_capi::{Call, CommError, Communicator, Handle, Input, Kind, Options, Output, Status};
use motet_exec::{Element, Reduction};

use crate::ranks::ranks;

/// Ranks may take ten minutes to come, which nobody may wait for here.
fn patient(options: &mut Options) {
    (options.wait_seconds, options.deadline_seconds) = (600, 600);
}

/// Does something that must not take anywhere near as long as ranks may take to come.
fn soon<T>(what: impl FnOnce() -> T) -> T {
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = std::time::Instant::now();
    let done = what();
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    done
}

/// Starts the sum of a buffer over all ranks, in place. The buffer is never freed, because some of these calls do not end.
fn sum(comm: &Communicator, elements: usize) -> Result<Handle, CommError> {
    let call = Call::new(Kind::AllReduce(Reduction::Sum), Element::I32, elements)?;
    let (to, bytes) = (vec![1_i32; elements].leak().as_mut_ptr(), elements * 4);
    // SAFETY: the buffer lives as long as the process, and nobody else touches it.
    let input = unsafe { Input::new(to.cast(), bytes) };
    // SAFETY: likewise.
    let output = unsafe { Output::new(to.cast(), bytes) };
    comm.start(call, input, output)
}

fn send(comm: &Communicator, to: u32, tag: u32, bytes: usize) -> Handle {
    let from = vec![7_u8; bytes].leak().as_ptr();
    // SAFETY: as in `sum`.
    comm.send(to, tag, unsafe { Input::new(from, bytes) }).unwrap()
}

fn receive(comm: &Communicator, from: u32, tag: u32, bytes: usize) -> Handle {
    let to = vec![0_u8; bytes].leak().as_mut_ptr();
    // SAFETY: as in `sum`.
    comm.receive(from, tag, unsafe { Output::new(to, bytes) }).unwrap()
}

/// The first message to or from a rank opens connections of its own, to a rank that will never come.
#[test]
fn the_first_message_of_a_rank_that_is_gone_is_not_waited_for() {
    ranks(3, patient, |comm| {
        sum(&comm, 10).unwrap().wait().unwrap();
        if comm.rank() == 2 {
            return;
        }
        for tag in 0..2 {
            let lost = soon(|| receive(&comm, 2, tag, 10).wait()).unwrap_err();
            assert_eq!((lost.status, lost.culprit), (Status::Lost, Some(2)), "{lost}");
            assert!(lost.text.contains("rank 2"), "{lost}");
            let lost = soon(|| send(&comm, 2, tag, 10).wait()).unwrap_err();
            assert_eq!((lost.status, lost.culprit), (Status::Lost, Some(2)), "{lost}");
        }
        // Those that are left go on, also with one another.
        let (own, other) = (comm.rank(), 1 - comm.rank());
        let sent = send(&comm, other, own, 10);
        receive(&comm, other, other, 10).wait().unwrap();
        sent.wait().unwrap();
        assert_eq!(sum(&comm, 10).unwrap().wait().unwrap_err().status, Status::Lost);
    });
}

/// The other rank is there and receives nothing: whoever leaves does so at once.
#[test]
fn a_message_that_nobody_receives_keeps_nobody() {
    let gone = Barrier::new(2);
    ranks(2, patient, |comm| {
        if comm.rank() == 0 {
            let handle = send(&comm, 1, 7, 10);
            std::thread::sleep(Duration::from_millis(300));
            soon(|| drop(comm));
            assert!(handle.wait().is_err());
        }
        gone.wait();
    });
}

/// The same once the two have met, when a message of another length must be agreed on first; and of a collective.
#[test]
fn a_call_that_nobody_else_makes_keeps_nobody() {
    let gone = Barrier::new(2);
    ranks(2, patient, |comm| {
        if comm.rank() == 1 {
            receive(&comm, 0, 7, 10).wait().unwrap();
            gone.wait();
            return;
        }
        send(&comm, 1, 7, 10).wait().unwrap();
        let pending = [send(&comm, 1, 7, 11), sum(&comm, 10).unwrap(), sum(&comm, 10).unwrap()];
        std::thread::sleep(Duration::from_millis(300));
        soon(|| drop(comm));
        assert!(pending.iter().all(|it| it.wait().is_err()));
        gone.wait();
    });
}

/// The same of a call that has been made before, and so only waits for an operation that is free.
#[test]
fn calls_that_wait_for_one_another_keep_nobody() {
    let gone = Barrier::new(2);
    ranks(2, patient, |comm| {
        let before = [sum(&comm, 10).unwrap(), sum(&comm, 10).unwrap()];
        before.iter().for_each(|it| it.wait().unwrap());
        if comm.rank() == 0 {
            let pending: Vec<Handle> = (0..6).map(|_| sum(&comm, 10).unwrap()).collect();
            std::thread::sleep(Duration::from_millis(300));
            soon(|| drop(comm));
            assert!(pending.iter().all(|it| it.wait().is_err()));
        }
        gone.wait();
    });
}

#[test]
fn going_on_does_not_wait_for_messages_either() {
    ranks(3, patient, |comm| {
        sum(&comm, 10).unwrap().wait().unwrap();
        if comm.rank() == 2 {
            return;
        }
        let pending = (comm.rank() == 0).then(|| send(&comm, 1, 7, 10));
        assert_eq!(sum(&comm, 10).unwrap().wait().unwrap_err().status, Status::Lost);
        soon(|| comm.survivors(2000)).unwrap();
        assert!(pending.is_none_or(|it| it.wait().is_err()));
        sum(&comm, 10).unwrap().wait().unwrap();
        // With the same numbers and tag as before, it arrives.
        match comm.rank() {
            0 => send(&comm, 1, 7, 10).wait().unwrap(),
            _ => receive(&comm, 0, 7, 10).wait().unwrap(),
        }
    });
}

/// Nobody is gone when a rank does not call: the call has failed, and on all ranks alike, whoever's time is up first.
#[test]
fn a_rank_that_is_there_and_does_not_call_is_not_lost() {
    for known in [false, true] {
        let late = Barrier::new(3);
        let hasty = |it: &mut Options| it.deadline_seconds = if it.rank == 0 { 3 } else { 600 };
        let said = ranks(3, hasty, |comm| {
            if known {
                sum(&comm, 10).unwrap().wait().unwrap();
            }
            let called = (comm.rank() < 2).then(|| sum(&comm, 10).unwrap().wait());
            late.wait();
            let called = called.unwrap_or_else(|| sum(&comm, 10).unwrap().wait());
            late.wait();
            called.unwrap_err()
        });
        for error in said {
            assert_eq!((error.status, error.culprit), (Status::Failed, None), "{error}");
            assert!(error.text.contains("within 3 s"), "{error}");
        }
    }
}

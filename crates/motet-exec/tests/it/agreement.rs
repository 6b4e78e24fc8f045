//! What ranks must agree on, ranks that go, and groups that go on without them.

use std::sync::Barrier;
use std::time::Duration as Wall;

use motet_collective::{Program, Verified};
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, ExecError, Group, Reduction, Store};
use motet_units::{Duration, Seed};

use crate::programs;
use crate::ranks::{clock, config, on_all, silent};

const CALL: Call =
    Call { element: Element::F32, elements: 1000, reduction: Reduction::Sum, in_place: true };

fn all_reduce(ranks: u32) -> Verified<Program> {
    Verified::new(programs::ring_all_reduce(ranks, 1), None).unwrap()
}

fn run_right(group: &mut Group, program: &Verified<Program>) -> Result<(), ExecError> {
    let mut operation = group.register(program, CALL)?;
    let data = Data::new(program.collective(), CALL, Seed::new(3));
    data.fill(group.rank(), operation.input_mut().unwrap());
    operation.run()?;
    assert_eq!(data.wrong(group.rank(), operation.output().unwrap()), (0, None));
    Ok(())
}

#[test]
fn another_program_is_refused_and_the_group_goes_on() {
    let right = all_reduce(3);
    let other = Verified::new(programs::tree_all_reduce(3, 1), None).unwrap();
    on_all(
        3,
        |it| it,
        |group| {
            let mut group = group.unwrap();
            let program = if group.rank() == 2 { &other } else { &right };
            let refused = group.register(program, CALL).map(|_| ()).unwrap_err();
            assert!(matches!(refused, ExecError::Mismatch { .. }), "{refused}");
            let call = if group.rank() == 0 { Call { elements: 999, ..CALL } } else { CALL };
            let refused = group.register(&right, call).map(|_| ()).unwrap_err();
            assert!(refused.to_string().contains("999"), "{refused}");
            // One that only one rank finds impossible.
            let call = if group.rank() == 1 { Call { in_place: false, ..CALL } } else { CALL };
            let refused = group.register(&right, call).map(|_| ()).unwrap_err();
            assert!(refused.to_string().contains("out-of-place"), "{refused}");
            run_right(&mut group, &right).unwrap();
        },
    );
}

#[test]
fn calls_in_another_order_are_noticed() {
    let program = all_reduce(2);
    let ends = on_all(
        2,
        |it| it,
        |group| {
            let mut group = group.unwrap();
            let mut first = group.register(&program, CALL).unwrap();
            let mut second = group.register(&program, CALL).unwrap();
            if group.rank() == 0 { first.run() } else { second.run() }
        },
    );
    assert!(ends.iter().all(Result::is_err), "{ends:?}");
    assert!(ends.iter().any(|it| it.as_ref().unwrap_err().to_string().contains("registration")));
}

#[test]
fn a_rank_that_does_not_call_is_waited_for_until_the_deadline() {
    let program = all_reduce(3);
    let change = |mut it: Config| {
        it.deadline = Duration::from_ms(2_000);
        it
    };
    let ends = on_all(3, change, |group| {
        let mut group = group.unwrap();
        let mut operation = group.register(&program, CALL).unwrap();
        if group.rank() == 1 {
            std::thread::sleep(Wall::from_secs(3));
        }
        operation.run()
    });
    for end in &ends {
        let error = end.as_ref().unwrap_err().to_string();
        assert!(error.contains("did not end within 2 s"), "{error}");
    }
}

#[test]
fn a_rank_that_leaves_is_missed_at_once() {
    let program = all_reduce(3);
    // A call that is still under way somewhere ends with the group, so all must have ended the first.
    let ended = Barrier::new(3);
    on_all(
        3,
        |it| it,
        |group| {
            let mut group = group.unwrap();
            let mut operation = group.register(&program, CALL).unwrap();
            operation.run().unwrap();
            ended.wait();
            if group.rank() == 2 {
                return;
            }
            let error = operation.run().unwrap_err();
            assert_eq!(error.culprit(), Some(2), "{error}");
            // And from then on everything fails, without waiting.
            assert!(operation.run().is_err());
            assert!(group.register(&program, CALL).is_err());
        },
    );
}

#[test]
fn registering_after_a_rank_has_left_fails_at_once() {
    let program = all_reduce(3);
    let left = Barrier::new(3);
    on_all(
        3,
        |it| it,
        |group| {
            let mut group = group.unwrap();
            let rank = group.rank();
            if rank == 2 {
                // Returns when all others know.
                drop(group);
                left.wait();
                return;
            }
            left.wait();
            // Long before the deadline, by which everything ends.
            let (clock, deadline) = (clock(), Duration::from_ms(30_000));
            let started = clock.now();
            let error = group.register(&program, CALL).err().unwrap();
            assert_eq!(error.culprit(), Some(2), "{error}");
            assert!(clock.now().since(started) < deadline, "{error}");
        },
    );
}

#[test]
fn survivors_go_on_with_a_program_for_fewer() {
    let store = Store::serve("127.0.0.1:0".parse().unwrap(), "", clock(), silent()).unwrap();
    // A call that is still under way somewhere ends with the group, so all must have ended the first.
    let ended = &Barrier::new(4);
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let config = config(&store, rank, 4);
            scope.spawn(move || {
                let mut group = Group::join(&config, clock(), silent()).unwrap();
                let program = all_reduce(4);
                run_right(&mut group, &program).unwrap();
                ended.wait();
                if rank == 1 {
                    return;
                }
                let mut lost = group.register(&program, CALL).and_then(|mut it| it.run());
                while lost.is_ok() {
                    lost = run_right(&mut group, &program);
                }
                let mut group = group.survivors(Duration::from_ms(3_000)).unwrap();
                assert_eq!((group.ranks(), group.rank()), (3, [0, 9, 1, 2][rank as usize]));
                run_right(&mut group, &all_reduce(3)).unwrap();
            });
        }
    });
}

#[test]
fn the_token_must_be_the_same_and_there_must_be_one_outside_loopback() {
    let note = silent();
    let open = Store::serve("0.0.0.0:0".parse().unwrap(), "", clock(), note.clone());
    assert!(matches!(open, Err(ExecError::NeedsToken { .. })));
    let store = Store::serve("127.0.0.1:0".parse().unwrap(), "secret", clock(), note).unwrap();
    let join = |token: &str| {
        let config = Config { token: token.to_owned(), ..config(&store, 0, 1) };
        Group::join(&config, clock(), silent()).map(|it| it.ranks())
    };
    assert_eq!(join("secret"), Ok(1));
    let refused = join("guess").unwrap_err();
    assert!(refused.to_string().contains("token"), "{refused}");
    let bound =
        Config { bind: Some("0.0.0.0".parse().unwrap()), ..Config::new("127.0.0.1:0", 0, 1) };
    let refused = Group::join(&bound, clock(), silent()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, ExecError::NeedsToken { .. }), "{refused}");
}

#[test]
fn who_does_not_come_is_named() {
    let error = on_all(
        1,
        |it| Config { ranks: 3, rank: 1, wait: Duration::from_ms(300), ..it },
        |group| group.map(|_| ()).unwrap_err().to_string(),
    );
    assert!(error[0].contains("only 1 of 3 ranks came"), "{error:?}");
}

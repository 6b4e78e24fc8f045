//! What a runtime answers, alone; `agreement/tests.rs` has many of them, `tests/stress.rs` threads.

use motet_units::Bytes;

use super::*;
use crate::key::Collective;
use crate::table::tests::entry;
use crate::table::{Table, TableErrorKind};

const CALL: Call = Call { collective: Collective::AllReduce, bytes: Bytes::kib(1), ranks: 8 };

fn view(candidates: u8) -> Arc<View> {
    Arc::new(View::new(Table::new(vec![entry(7, 8, 10, candidates)]).unwrap(), Signature(7)))
}

fn library(runtime: &Runtime, call: &Call) -> Option<Reason> {
    match runtime.decide(runtime.begin(), call).unwrap().choice() {
        Choice::Setting(_) => None,
        Choice::LibraryDefault(reason) => Some(reason),
    }
}

#[test]
fn falls_back_to_the_library_and_says_why() {
    let runtime = Runtime::default();
    assert_eq!(library(&runtime, &CALL), Some(Reason::NoTable));
    runtime.install(view(1));
    assert_eq!(library(&runtime, &CALL), None);
    assert_eq!(library(&runtime, &Call { ranks: 9, ..CALL }), Some(Reason::NoEntry));
    let huge = Call { bytes: Bytes::gib(1), ..CALL };
    assert_eq!(library(&runtime, &huge), Some(Reason::NoSizeNear));
    runtime.uninstall(Reason::Refused(TableErrorKind::Corrupt));
    let reason = library(&runtime, &CALL).unwrap();
    assert_eq!(
        reason.to_string(),
        "the table was refused: its contents do not have its checksum; copy the plan again, \
         or make it again; tables are not edited by hand"
    );
    assert_eq!(runtime.position(), 5);
}

#[test]
fn a_table_of_another_network_is_not_used() {
    let runtime = Runtime::default();
    let table = view(1).table().clone();
    runtime.install(Arc::new(View::new(table, Signature(8))));
    assert_eq!(library(&runtime, &CALL), Some(Reason::OtherNetwork));
}

#[test]
fn a_changed_network_asks_for_a_plan_until_there_is_one() {
    let runtime = Runtime::default();
    runtime.observe_signature(Signature(8));
    assert_eq!(runtime.wants_retuning(), None, "nothing is planned yet");
    runtime.install(view(1));
    let retuning = runtime.wants_retuning().unwrap();
    assert_eq!(
        retuning.to_string(),
        "the plan is for network 00000000000000000000000000000007, and the network is now \
         00000000000000000000000000000008; plan again"
    );
    runtime.uninstall(Reason::Left);
    assert_eq!(runtime.wants_retuning(), Some(retuning));
    runtime.install(Arc::new(View::new(view(1).table().clone(), Signature(8))));
    assert_eq!(runtime.wants_retuning(), None);
}

#[test]
fn times_are_reported_for_the_table_they_belong_to() {
    let runtime = Runtime::default();
    assert_eq!(runtime.report(Rank(3)).table, None);
    runtime.install(view(2));
    let ticket = runtime.decide(runtime.begin(), &CALL).unwrap().ticket().unwrap();
    for ps in [30, 10, 20] {
        assert!(runtime.record(ticket, Duration::from_ps(ps)));
    }
    assert!(!runtime.record(Ticket { candidate: 2, ..ticket }, Duration::ZERO));
    assert!(!runtime.record(Ticket { entry: 1, ..ticket }, Duration::ZERO));
    let report = runtime.report(Rank(3));
    let median = Duration::from_ps(20);
    assert_eq!(report.times, [Measured { entry: 0, candidate: 0, samples: 3, median }]);
    assert_eq!(report.table, Some(ticket.table));
    runtime.install(view(1));
    assert!(!runtime.record(ticket, Duration::ZERO), "of a table that is gone");
    assert_eq!(runtime.report(Rank(3)).times, []);
}

#[test]
fn a_fence_holds_what_is_beyond_it() {
    let runtime = Runtime::default();
    runtime.begin();
    assert_eq!(runtime.raise_fence(0), Err(1));
    assert!(runtime.decide(0, &CALL).is_ok());
    assert_eq!(runtime.raise_fence(1), Ok(()));
    assert!(runtime.decide(0, &CALL).is_ok());
    let operation = runtime.begin();
    assert_eq!(runtime.decide(operation, &CALL).unwrap_err(), InDoubt(1));
    runtime.switch_at_fence(1, None, Active::Table(view(1)));
    assert!(runtime.decide(operation, &CALL).unwrap().ticket().is_some());
    assert!(runtime.decide(0, &CALL).unwrap().ticket().is_none(), "before the switch");
}

#[test]
fn what_was_seen_decides_the_same() {
    let runtime = Runtime::default();
    let mut seen = Seen::new(&runtime);
    let (one, two) = (view(1), view(2));
    let mut check = |expected: Option<&Arc<View>>| {
        for _ in 0..2 {
            let operation = runtime.begin();
            let kept = runtime.decide_with(&mut seen, operation, &CALL).unwrap().ticket();
            assert_eq!(kept, runtime.decide(operation, &CALL).unwrap().ticket());
            assert_eq!(kept.map(|it| it.table), expected.map(|it| it.table().checksum()));
        }
    };
    check(None);
    for view in [&one, &two, &one, &one] {
        runtime.install(Arc::clone(view));
        check(Some(view));
    }
    runtime.uninstall(Reason::Left);
    check(None);
    // The same table, and then another from an operation on that is not yet.
    runtime.install(Arc::clone(&one));
    check(Some(&one));
    let at = runtime.position() + 2;
    runtime.raise_fence(at).unwrap();
    check(Some(&one));
    assert_eq!(runtime.decide_with(&mut Seen::new(&runtime), at, &CALL).unwrap_err(), InDoubt(at));
    runtime.switch_at_fence(at, None, Active::Table(Arc::clone(&two)));
    check(Some(&two));
}

/// A writer stopped halfway, as no test with threads can be sure to catch it.
#[test]
fn a_change_half_made_is_seen_when_it_is_whole() {
    let runtime = Runtime::default();
    let (one, two) = (view(1), view(2));
    runtime.install(Arc::clone(&one));
    let mut seen = Seen::new(&runtime);
    let mut table = || {
        let decision = runtime.decide_with(&mut seen, runtime.begin(), &CALL).unwrap();
        decision.ticket().map(|it| it.table)
    };
    let plan = Arc::new(ActiveTables { now: Active::Table(Arc::clone(&two)), next: None });
    runtime.watched.0.identity.store(plan.identity(), SeqCst);
    assert_eq!(table(), Some(one.table().checksum()));
    assert_eq!(table(), Some(one.table().checksum()));
    runtime.plan.0.store(plan);
    assert_eq!(table(), Some(two.table().checksum()));
}

#[test]
fn tables_are_freed_by_control_threads() {
    let runtime = Runtime::default();
    let mut seen = Seen::new(&runtime);
    let gone: Vec<_> = (0..8)
        .map(|_| {
            let view = view(1);
            runtime.install(Arc::clone(&view));
            let decision = runtime.decide_with(&mut seen, runtime.begin(), &CALL);
            assert!(decision.unwrap().ticket().is_some());
            Arc::downgrade(&view)
        })
        .collect();
    // In use, replaced last, seen last, or given back since the last change: no more are kept.
    let kept = gone.iter().filter(|it| it.strong_count() > 0).count();
    assert!((2..=4).contains(&kept), "{kept}");
}

//! The knobs hand beside the one that changes circuits: without it nothing changes, and what it says is what is run.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::convert::Infallible;

use motet_control::hand::{Call, Hand, HandKind, Proposal, Ran};
use motet_rails::knobs::{Algorithms, RINGS, TREES, steps, tasks};
use motet_rails::optical::{Delay, Switching};
use motet_rails::{Machine, TrainingStep};
use motet_units::{Bytes, Duration};
use motet_workload::{Batch, Draft, Gpu, Layout, models};

/// A small model on 16 servers of four GPUs.
fn step() -> TrainingStep {
    let (model, gpu) = (models::named("roberta-125m").unwrap(), Gpu::named("a100").unwrap());
    let layout = Layout { tp: 4, dp: 16, ..Layout::default() };
    let batch = Batch { sequence: 128, micro: 1, global: 16 };
    let job = Draft::new(model, gpu, layout, batch).check().unwrap();
    TrainingStep::new(job, Machine::named("perlmutter").unwrap()).unwrap()
}

/// Always the same; it keeps what it is told.
struct Always(usize, Vec<Ran>);

impl Hand<Call> for Always {
    type Action = usize;
    type Outcome = Ran;
    type Error = Infallible;

    fn kind(&self) -> HandKind {
        HandKind::Knobs
    }

    fn propose(&mut self, _call: Call) -> Result<Option<Proposal<usize>>, Infallible> {
        Ok(Some(Proposal::free(self.0)))
    }

    fn learn(&mut self, ran: &Ran) {
        self.1.push(*ran);
    }
}

fn switching() -> Switching {
    // The smallest AllReduces over the host's network, on which trees may be chosen too.
    let offload = Some(Bytes::kib(64));
    Switching { offload, ..Switching::new(Delay::optics(Duration::from_ms(5)), true) }
}

#[test]
fn a_hand_that_says_rings_changes_nothing() {
    let step = step();
    let tasks = tasks(&step).unwrap();
    assert!(tasks.len() > 2);
    let mut hand = Always(RINGS, Vec::new());
    let electrical = steps(&step, &tasks, 2, &mut hand, |by| {
        assert_eq!(*by, Algorithms::default());
        step.electrical_by(by)
    });
    let without = step.electrical().unwrap();
    assert_eq!(electrical.unwrap(), [without.clone(), without]);
    let switched =
        steps(&step, &tasks, 1, &mut hand, |by| Ok(step.switched_by(&switching(), by)?.run));
    assert_eq!(switched.unwrap(), [step.switched(&switching()).unwrap().run]);
    assert_eq!(hand.1.len(), 3 * tasks.len());
}

#[test]
fn trees_are_run_where_packet_switches_carry_a_call() {
    let step = step();
    let tasks = tasks(&step).unwrap();
    let mut hand = Always(TREES, Vec::new());
    let runs = steps(&step, &tasks, 1, &mut hand, |by| step.electrical_by(by)).unwrap();
    let without = step.electrical().unwrap();
    assert_ne!(runs[0].time(), without.time());
    // What the hand is told is what the simulation took: never less than alone.
    for (ran, task) in hand.1.iter().zip(&tasks) {
        assert_eq!(ran.setting, TREES);
        assert!(ran.time >= task.trees, "{task:?} took {}", ran.time);
    }
    // Few hops for few bytes, and rings for many.
    let least = tasks.iter().min_by_key(|it| it.bytes).unwrap();
    assert!(least.trees < least.rings, "{least:?}");
    let run = |by: &Algorithms| Ok(step.switched_by(&switching(), by)?.run);
    let optical = steps(&step, &tasks, 1, &mut hand, run).unwrap();
    assert_ne!(
        optical[0],
        step.switched(&switching()).unwrap().run,
        "the host's network has trees"
    );
}

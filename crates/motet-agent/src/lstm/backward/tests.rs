//! Gradients are compared with finite differences, through the whole network and several calls.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, NcclOptions, Protocol, Shape as Machine};
use motet_units::{Bytes, Duration, Seed};
use rand::RngExt as _;

use super::super::odds::Faced;
use super::super::{Catalogue, Input, Memory, Nominal, Odds, Seen, Shape};
use super::*;
use crate::action::{Action, ActionSpace, SpaceSpec};
use crate::gate::Expert;
use crate::state::State;

const SHAPE: Shape = Shape { encoder: 5, hidden: 4 };

/// Some calls, what is done in each, and a loss over all of them that uses every output.
struct Run {
    catalogue: Arc<Catalogue>,
    nominal: Nominal,
    carries: bool,
}

impl Run {
    fn new(carries: bool) -> Self {
        let machine = Machine { ranks: 32, nodes: 4, sm: 90, nvlink: true, nvswitch: true };
        let options = NcclOptions::default();
        let kind = CollectiveKind::AllReduce;
        let space = ActionSpace::of_shape(&machine, &options, kind, SpaceSpec::default());
        let nominal = Nominal::of((0..space.len()).map(|it| 1.0 + (it % 7) as f64 / 100.0));
        Self { catalogue: Catalogue::of(&space).into(), nominal, carries }
    }

    /// The loss, and its gradients with respect to the network's outputs.
    fn go(&self, net: &Net) -> (f64, Vec<NetStep>, Vec<Pull>) {
        let mut memory = Memory::new(SHAPE);
        let (mut loss, mut steps, mut pulls) = (0.0, Vec::new(), Vec::new());
        for at in 0..5 {
            let mut state = State::BLANK;
            state.call.bytes = Bytes::kib(1 << (2 * at));
            state.anomaly.cusum = at as f64;
            let expert = Expert::ALL[at % 3];
            if !self.carries {
                memory.forget_state();
            }
            let input = Input::new(&state, memory.last());
            let step = net.step(input, expert, &mut memory);
            let call = (CollectiveKind::AllReduce, state.call.bytes);
            let faced = Faced::new(&self.catalogue, &self.nominal, memory.ledger(), call);
            let odds = Odds::of(&step.rows, &faced);
            let action = at * 3 % self.catalogue.len();
            // −log odds of an action, less entropy, cross entropy to another, and the value's square.
            let target: Vec<f32> =
                (0..self.catalogue.len()).map(|it| if it == 2 { 1.0 } else { 0.0 }).collect();
            let log = |it: usize| f64::from(libm::logf(odds.odds()[it]));
            loss -= log(action) + 0.3 * f64::from(odds.entropy()) + 0.2 * log(2);
            loss += f64::from(step.value) * f64::from(step.value);
            let mut logits = vec![0.0; self.catalogue.len()];
            odds.pull_log(action, -1.0, &mut logits);
            odds.pull_entropy(-0.3, &mut logits);
            odds.pull_towards(&target, 0.2, &mut logits);
            let mut pull = Pull { value: 2.0 * step.value, ..Pull::default() };
            faced.pull(&logits, &mut pull.rows);
            steps.push(step);
            pulls.push(pull);
            let us = Duration::from_us;
            let done = Action::nccl(Algorithm::Ring, Protocol::Ll);
            memory.learn(Seen::new(call, (done, (3, 1)), us(200 + at as u64), us(198), us(190)));
        }
        (loss, steps, pulls)
    }
}

fn random() -> Net {
    let mut net = Net::new(SHAPE, Seed::new(3));
    let mut stream = Seed::new(4).stream("test");
    net.weights_mut().iter_mut().for_each(|it| *it += stream.random::<f32>() * 0.6 - 0.3);
    net
}

#[test]
fn gradients_are_those_of_differences() {
    for carries in [true, false] {
        let run = Run::new(carries);
        let net = random();
        let (_, steps, pulls) = run.go(&net);
        let mut gradient = vec![0.0; net.weights().len()];
        net.backward(&steps, &pulls, carries, &mut gradient);
        let mut worst = (0.0, 0);
        let mut moved = 0;
        for (at, ours) in gradient.iter().enumerate() {
            let loss = |by: f32| {
                let mut other = net.clone();
                other.weights_mut()[at] += by;
                run.go(&other).0
            };
            let step = 4e-3;
            let found = (loss(step) - loss(-step)) / (2.0 * f64::from(step));
            let apart = (found - f64::from(*ours)).abs() / (1.0 + found.abs());
            moved += usize::from(*ours != 0.0);
            if apart > worst.0 {
                worst = (apart, at);
            }
        }
        assert!(worst.0 < 5e-3, "weight {} is off by {}", worst.1, worst.0);
        // Most inputs of a state are 0, and their weights have no part in it.
        assert!(moved > 1500, "{moved}");
    }
}

/// Earlier calls matter only if the state is carried from call to call.
#[test]
fn memory_reaches_back() {
    for carries in [true, false] {
        let run = Run::new(carries);
        let net = random();
        let (_, steps, pulls) = run.go(&net);
        let mut only_last = vec![Pull::default(); pulls.len()];
        only_last[4] = pulls[4];
        let mut whole = vec![0.0; net.weights().len()];
        net.backward(&steps, &only_last, carries, &mut whole);
        let mut cut = vec![0.0; net.weights().len()];
        net.backward(&steps[4..], &only_last[4..], carries, &mut cut);
        assert_eq!(whole != cut, carries);
    }
}

//! The forward pass of the network for one call: [`Net::step`].

use super::features::ROWS;
use super::input::Input;
use super::math::{add_scaled, dot, sigmoid};
use super::memory::Memory;
use super::net::Net;
use crate::gate::Expert;

/// The outputs of the network for a call, with the intermediate values that [`backward`](super::backward) needs.
#[derive(Clone, Debug, PartialEq)]
pub struct NetStep {
    pub(super) input: Input,
    pub(super) expert: Expert,
    /// The hidden and the cell state before the call.
    pub(super) hidden_before: Vec<f32>,
    pub(super) cell_before: Vec<f32>,
    /// The activations of the input, forget, candidate and output gates, one after the other.
    pub(super) gates: Vec<f32>,
    /// tanh of the cell state after the call.
    pub(super) squashed: Vec<f32>,
    /// The input of the heads: the hidden state after the call, then the encoder's output.
    pub(super) seen: Vec<f32>,
    /// The logits of the rows that actions are composed of ([`features`](super::features)).
    pub rows: [f32; ROWS],
    /// The critic's estimate of the rewards from this call on, which training uses.
    pub value: f32,
}

impl Net {
    /// Runs the network on one call, with the head of the `expert` that the gate chose, and updates the
    /// LSTM's state in `memory`.
    #[must_use]
    pub fn step(&self, input: Input, expert: Expert, memory: &mut Memory) -> NetStep {
        let layout = self.shape.layout();
        let hidden = self.shape.hidden;
        let encoded = self.encode(&input);
        let mut gates = self.weights[layout.gate_bias()].to_vec();
        for (at, value) in encoded.iter().chain(&memory.hidden).enumerate() {
            if *value != 0.0 {
                add_scaled(&mut gates, *value, &self.weights[layout.gate(at)]);
            }
        }
        for (at, gate) in gates.iter_mut().enumerate() {
            let candidate = at / hidden == 2;
            *gate = if candidate { libm::tanhf(*gate) } else { sigmoid(*gate) };
        }
        let hidden_before = std::mem::take(&mut memory.hidden);
        let cell_before = memory.cell.clone();
        let mut squashed = Vec::with_capacity(hidden);
        let mut seen = Vec::with_capacity(self.shape.seen());
        for (at, cell) in memory.cell.iter_mut().enumerate() {
            let gate = |it: usize| gates[it * hidden + at];
            *cell = gate(1) * *cell + gate(0) * gate(2);
            squashed.push(libm::tanhf(*cell));
            seen.push(gate(3) * squashed[at]);
        }
        memory.hidden.clone_from(&seen);
        seen.extend(encoded);
        let rows = self.rows(&seen, expert);
        let value = dot(&seen, &self.weights[layout.value()]) + self.weights[layout.len() - 1];
        NetStep { input, expert, hidden_before, cell_before, gates, squashed, seen, rows, value }
    }

    fn encode(&self, input: &Input) -> Vec<f32> {
        let layout = self.shape.layout();
        let mut out = self.weights[layout.encoder_bias()].to_vec();
        for (at, value) in &input.values {
            add_scaled(&mut out, *value, &self.weights[layout.encoder(usize::from(*at))]);
        }
        out.iter_mut().for_each(|it| *it = libm::tanhf(*it));
        out
    }

    /// The sum of the shared head and, if the call has one, the expert's. So an expert only learns how its
    /// calls differ from others, for which few calls suffice.
    fn rows(&self, seen: &[f32], expert: Expert) -> [f32; ROWS] {
        let layout = self.shape.layout();
        let mut rows = [0.0; ROWS];
        for head in heads(expert) {
            add_scaled(&mut rows, 1.0, &self.weights[layout.head(head, seen.len())]);
            for (at, value) in seen.iter().enumerate() {
                add_scaled(&mut rows, *value, &self.weights[layout.head(head, at)]);
            }
        }
        rows
    }
}

/// The heads whose outputs are added up for a call.
pub(super) fn heads(expert: Expert) -> impl Iterator<Item = Expert> {
    let own = (expert != Expert::Shared).then_some(expert);
    std::iter::once(Expert::Shared).chain(own)
}

#[cfg(test)]
mod tests {
    use motet_runtime::Checksum;
    use motet_units::{Bytes, Seed};

    use super::super::Shape;
    use super::*;
    use crate::state::State;

    fn run(net: &Net, calls: u64) -> Vec<NetStep> {
        let mut memory = Memory::new(net.shape());
        let mut step = |at: u64| {
            let mut state = State::BLANK;
            state.call.bytes = Bytes::new(1 << (at * 7 % 30));
            let input = Input::new(&state, memory.last());
            net.step(input, Expert::ALL[at as usize % 3], &mut memory)
        };
        (0..calls).map(&mut step).collect()
    }

    /// A hundred calls give the same bits on every machine, because ranks on different machines must agree.
    #[test]
    fn every_machine_finds_the_same_bits() {
        let net = Net::new(Shape::default(), Seed::new(1));
        let steps = run(&net, 100);
        let numbers = steps.iter().flat_map(|it| it.rows.iter().chain(&it.seen));
        let bytes: Vec<u8> = numbers.flat_map(|it| it.to_bits().to_le_bytes()).collect();
        assert_eq!(Checksum::of(&bytes).to_string(), "12b9c0cb15cd92ac");
    }

    /// An expert's head changes its own calls and no others.
    #[test]
    fn experts_have_heads_of_their_own() {
        let mut net = Net::new(Shape::default(), Seed::new(1));
        let before = run(&net, 6);
        let bias = net.shape.layout().head(Expert::Bulk, net.shape.seen());
        net.weights_mut()[bias].fill(0.5);
        for (before, after) in before.iter().zip(run(&net, 6)) {
            assert_eq!(before.rows != after.rows, before.expert == Expert::Bulk);
            assert_eq!(before.seen, after.seen);
        }
    }
}

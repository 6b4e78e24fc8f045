//! Backpropagation through time: the gradient of a loss over a run of calls with respect to the weights.
//!
//! Written out by hand, layer by layer in the reverse of [`forward`](super::forward); the test holds it against
//! differences of the forward pass, weight by weight.

use super::features::ROWS;
use super::forward::{NetStep, heads};
use super::math::{add_scaled, dot};
use super::net::Net;

/// The gradient of the loss with respect to the outputs of a [`NetStep`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pull {
    pub rows: [f32; ROWS],
    pub value: f32,
}

impl Default for Pull {
    fn default() -> Self {
        Self { rows: [0.0; ROWS], value: 0.0 }
    }
}

impl Net {
    /// Adds the gradient of a run of steps to `gradient`, which has a place for every weight. `carries` says
    /// whether the LSTM's state was carried from one call to the next; if not (an ablation), no gradient
    /// flows back through it.
    pub fn backward(&self, steps: &[NetStep], pulls: &[Pull], carries: bool, gradient: &mut [f32]) {
        let mut hidden = vec![0.0; self.shape.hidden];
        let mut cell = vec![0.0; self.shape.hidden];
        for (step, pull) in steps.iter().zip(pulls).rev() {
            let mut seen = self.heads_back(step, pull, gradient);
            let encoded = seen.split_off(self.shape.hidden);
            add_scaled(&mut seen, 1.0, &hidden);
            let (gates, cell_before) = self.cell_back(step, &seen, &cell);
            (hidden, cell) = (self.gates_back(step, &gates, encoded, gradient), cell_before);
            if !carries {
                hidden.fill(0.0);
                cell.fill(0.0);
            }
        }
    }

    /// Backward through the heads and the value, to their input.
    fn heads_back(&self, step: &NetStep, pull: &Pull, gradient: &mut [f32]) -> Vec<f32> {
        let layout = self.shape.layout();
        let mut seen: Vec<f32> =
            self.weights[layout.value()].iter().map(|it| it * pull.value).collect();
        add_scaled(&mut gradient[layout.value()], pull.value, &step.seen);
        gradient[layout.len() - 1] += pull.value;
        for head in heads(step.expert) {
            add_scaled(&mut gradient[layout.head(head, step.seen.len())], 1.0, &pull.rows);
            for (at, value) in step.seen.iter().enumerate() {
                let range = layout.head(head, at);
                seen[at] += dot(&self.weights[range.clone()], &pull.rows);
                add_scaled(&mut gradient[range], *value, &pull.rows);
            }
        }
        seen
    }

    /// Backward through the cell, to the gates' pre-activations and the cell state before the call.
    fn cell_back(&self, step: &NetStep, hidden: &[f32], cell: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let width = self.shape.hidden;
        let mut gates = vec![0.0; 4 * width];
        let mut before = vec![0.0; width];
        for at in 0..width {
            let [input, forget, candidate, output] =
                [0, 1, 2, 3].map(|it| step.gates[it * width + at]);
            let squashed = step.squashed[at];
            let cell = cell[at] + hidden[at] * output * (1.0 - squashed * squashed);
            gates[at] = cell * candidate * input * (1.0 - input);
            gates[width + at] = cell * step.cell_before[at] * forget * (1.0 - forget);
            gates[2 * width + at] = cell * input * (1.0 - candidate * candidate);
            gates[3 * width + at] = hidden[at] * squashed * output * (1.0 - output);
            before[at] = cell * forget;
        }
        (gates, before)
    }

    /// Backward through the gates' weights and the encoder, to the hidden state before the call.
    fn gates_back(
        &self,
        step: &NetStep,
        gates: &[f32],
        mut encoded: Vec<f32>,
        gradient: &mut [f32],
    ) -> Vec<f32> {
        let layout = self.shape.layout();
        let width = self.shape.encoder;
        add_scaled(&mut gradient[layout.gate_bias()], 1.0, gates);
        let outputs = &step.seen[self.shape.hidden..];
        let mut hidden = Vec::with_capacity(self.shape.hidden);
        for (at, value) in outputs.iter().chain(&step.hidden_before).enumerate() {
            let range = layout.gate(at);
            let back = dot(&self.weights[range.clone()], gates);
            add_scaled(&mut gradient[range], *value, gates);
            match encoded.get_mut(at) {
                Some(encoded) => *encoded += back,
                None => hidden.push(back),
            }
        }
        for (back, output) in encoded.iter_mut().zip(outputs) {
            *back *= 1.0 - output * output;
        }
        add_scaled(&mut gradient[layout.encoder_bias()], 1.0, &encoded);
        for (at, value) in &step.input.values {
            let range = layout.encoder(usize::from(*at));
            add_scaled(&mut gradient[range], *value, &encoded[..width]);
        }
        hidden
    }
}

#[cfg(test)]
mod tests;

//! [`Net`]: the weights of the network in one array, and the layout of the layers in it.
//!
//! Matrices are stored by input: all weights that one input feeds stand together, so that an input of 0, as most
//! of a state's are, is skipped, and the rest is one pass over consecutive numbers.

use std::ops::Range;

use motet_units::Seed;
use rand::RngExt as _;

use super::features;
use super::input;
use crate::gate::Expert;

/// How wide the layers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub encoder: usize,
    pub hidden: usize,
}

impl Shape {
    /// The widest layers that are accepted when a file is read.
    pub const MOST: usize = 256;

    /// The width of the heads' input: the hidden state and, bypassing it, the encoder's output, so that fixed properties of a
    /// communicator need not go through memory.
    #[must_use]
    pub const fn seen(self) -> usize {
        self.hidden + self.encoder
    }

    pub(super) const fn layout(self) -> Layout {
        let Self { encoder, hidden } = self;
        let encoder_weights = input::LENGTH * encoder;
        let gates = encoder_weights + encoder;
        let gate_weights = (encoder + hidden) * 4 * hidden;
        let heads = gates + gate_weights + 4 * hidden;
        let head = (self.seen() + 1) * features::ROWS;
        let value = heads + Expert::ALL.len() * head;
        Layout { shape: self, encoder_weights, gates, gate_weights, heads, head, value }
    }
}

impl Default for Shape {
    /// Small enough that a call is decided in microseconds off the call path, and trained in minutes.
    fn default() -> Self {
        Self { encoder: 32, hidden: 32 }
    }
}

/// Where each layer's weights lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    shape: Shape,
    encoder_weights: usize,
    gates: usize,
    gate_weights: usize,
    heads: usize,
    head: usize,
    value: usize,
}

impl Layout {
    pub(super) const fn len(&self) -> usize {
        self.value + self.shape.seen() + 1
    }

    /// The weights of one input of the encoder.
    pub(super) const fn encoder(&self, input: usize) -> Range<usize> {
        let start = input * self.shape.encoder;
        start..start + self.shape.encoder
    }

    pub(super) const fn encoder_bias(&self) -> Range<usize> {
        self.encoder_weights..self.gates
    }

    /// The weights of one input of the gates; the inputs are the encoder's outputs, then the hidden state.
    pub(super) const fn gate(&self, input: usize) -> Range<usize> {
        let start = self.gates + input * 4 * self.shape.hidden;
        start..start + 4 * self.shape.hidden
    }

    /// The biases of the input, forget, candidate and output gates.
    pub(super) const fn gate_bias(&self) -> Range<usize> {
        self.gates + self.gate_weights..self.heads
    }

    /// The weights of one input of an expert's head; the input after the last is the bias.
    pub(super) fn head(&self, expert: Expert, input: usize) -> Range<usize> {
        let start = self.heads + expert.index() * self.head + input * features::ROWS;
        start..start + features::ROWS
    }

    /// The value's weights, without its bias, which is the last of all.
    pub(super) const fn value(&self) -> Range<usize> {
        self.value..self.value + self.shape.seen()
    }
}

/// The weights of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Net {
    pub(super) shape: Shape,
    pub(super) weights: Vec<f32>,
}

impl Net {
    /// A network before any training: small random weights, and heads of zeros except for
    /// [`features::AT_FIRST`]. So actions begin with the odds that follow from their nominal times and from
    /// what was measured of them.
    #[must_use]
    pub fn new(shape: Shape, seed: Seed) -> Self {
        let layout = shape.layout();
        let mut weights = vec![0.0; layout.len()];
        let mut stream = seed.stream("lstm weights");
        let mut fill = |part: &mut [f32], inputs: usize| {
            let most = libm::sqrtf(3.0 / inputs.max(1) as f32);
            part.iter_mut().for_each(|it| *it = (stream.random::<f32>() * 2.0 - 1.0) * most);
        };
        // About this many of a row's values are not zero.
        fill(&mut weights[..layout.encoder_weights], 30);
        let gates = layout.gates..layout.gates + layout.gate_weights;
        fill(&mut weights[gates], shape.seen());
        // A positive bias of the forget gate, so that the cell keeps its state at first.
        let bias = layout.gate_bias().start + shape.hidden;
        weights[bias..bias + shape.hidden].fill(1.0);
        let bias = layout.head(Expert::Shared, shape.seen());
        for (row, weight) in features::AT_FIRST {
            weights[bias.start + row] = weight;
        }
        Self { shape, weights }
    }

    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// All weights, in the file's order.
    #[must_use]
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// For an optimizer.
    pub fn weights_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }

    /// The network of these weights; `None` if they are not as many as the shape needs.
    #[must_use]
    pub fn of(shape: Shape, weights: Vec<f32>) -> Option<Self> {
        (weights.len() == shape.layout().len()).then_some(Self { shape, weights })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers fill the row without gap or overlap.
    #[test]
    fn layers_lie_side_by_side() {
        let shape = Shape { encoder: 3, hidden: 5 };
        let layout = shape.layout();
        let mut taken = vec![0u32; layout.len()];
        let mut take = |range: Range<usize>| taken[range].iter_mut().for_each(|it| *it += 1);
        (0..input::LENGTH).for_each(|it| take(layout.encoder(it)));
        take(layout.encoder_bias());
        (0..shape.seen()).for_each(|it| take(layout.gate(it)));
        take(layout.gate_bias());
        for expert in Expert::ALL {
            (0..=shape.seen()).for_each(|it| take(layout.head(*expert, it)));
        }
        take(layout.value());
        take(layout.len() - 1..layout.len());
        assert!(taken.iter().all(|it| *it == 1));
        assert_eq!(layout.gate_bias().len(), 20);
    }

    #[test]
    fn weights_come_from_the_seed() {
        let net = |seed| Net::new(Shape::default(), Seed::new(seed));
        assert_eq!(net(1), net(1));
        assert_ne!(net(1), net(2));
        assert_eq!(Net::of(Shape::default(), vec![0.0; 3]), None);
    }
}

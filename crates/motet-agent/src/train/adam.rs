//! [`Adam`]: the optimizer that moves weights along gradients (Kingma and Ba, 2015), with gradient clipping.

/// The optimizer's state: running means of gradients and of their squares, which are part of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    pub(super) mean: Vec<f32>,
    pub(super) square: Vec<f32>,
    pub(super) steps: u64,
}

const KEEP_MEAN: f32 = 0.9;
const KEEP_SQUARE: f32 = 0.999;
const TINY: f32 = 1e-8;

impl Adam {
    #[must_use]
    pub fn new(weights: usize) -> Self {
        Self { mean: vec![0.0; weights], square: vec![0.0; weights], steps: 0 }
    }

    /// Moves weights against a gradient, by about `rate` each, and returns the gradient's length. A gradient
    /// longer than `most` is shortened to that; a gradient whose length is not finite changes nothing.
    pub fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32, most: f32) -> f32 {
        let length = libm::sqrtf(gradient.iter().fold(0.0, |sum, it| sum + it * it));
        if !length.is_finite() {
            return length;
        }
        self.steps += 1;
        let scale = if length > most { most / length } else { 1.0 };
        // After a million steps both are 1.
        let steps = self.steps.min(1_000_000) as f32;
        let mean_share = 1.0 - libm::powf(KEEP_MEAN, steps);
        let square_share = 1.0 - libm::powf(KEEP_SQUARE, steps);
        let states = self.mean.iter_mut().zip(&mut self.square);
        for ((weight, gradient), (mean, square)) in weights.iter_mut().zip(gradient).zip(states) {
            let gradient = gradient * scale;
            *mean = KEEP_MEAN * *mean + (1.0 - KEEP_MEAN) * gradient;
            *square = KEEP_SQUARE * *square + (1.0 - KEEP_SQUARE) * gradient * gradient;
            let root = libm::sqrtf(*square / square_share) + TINY;
            *weight -= rate * (*mean / mean_share) / root;
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_bottom_of_a_bowl() {
        let (mut weights, goal) = (vec![5.0f32, -3.0], [1.0f32, 2.0]);
        let mut adam = Adam::new(2);
        for _ in 0..2000 {
            let gradient: Vec<f32> =
                weights.iter().zip(goal).map(|(at, goal)| 2.0 * (at - goal)).collect();
            adam.step(&mut weights, &gradient, 0.01, 1e9);
        }
        assert!(weights.iter().zip(goal).all(|(at, goal)| (at - goal).abs() < 1e-2), "{weights:?}");
    }

    #[test]
    fn long_gradients_are_shortened_and_broken_ones_left_out() {
        let go = |gradient: [f32; 2], most: f32| {
            let mut adam = Adam::new(2);
            let mut weights = vec![0.0f32; 2];
            let length = adam.step(&mut weights, &gradient, 0.1, most);
            (length, adam.mean, weights)
        };
        let (length, mean, _) = go([30.0, 40.0], 1.0);
        assert_eq!(length, 50.0);
        assert!((mean[0] - 0.06).abs() < 1e-6 && (mean[1] - 0.08).abs() < 1e-6, "{mean:?}");
        assert!((go([0.3, 0.4], 1.0).1[0] - 0.03).abs() < 1e-6);
        assert_eq!(go([f32::NAN, 1.0], 1.0).2, [0.0, 0.0]);
    }
}

//! The arithmetic of the network. Each sum has a fixed order, which the compiler keeps, so that every machine computes the same
//! bits.

/// `out += scale × column`.
pub(super) fn add_scaled(out: &mut [f32], scale: f32, column: &[f32]) {
    for (out, weight) in out.iter_mut().zip(column) {
        *out += scale * weight;
    }
}

/// The dot product Σ aᵢbᵢ, in eight partial sums that are then added in pairs: an order that vector units are fast at, and the same
/// on all machines.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0f32; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    let [a, b, c, d, e, f, g, h] = sums;
    (((a + e) + (b + f)) + ((c + g) + (d + h))) + rest
}

pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_whole() {
        for length in [0, 1, 7, 8, 9, 149] {
            let a: Vec<f32> = (0..length).map(|it| it as f32).collect();
            let b = vec![2.0; length];
            assert_eq!(dot(&a, &b), (0..length).map(|it| it as f32 * 2.0).sum::<f32>());
            let mut out = b.clone();
            add_scaled(&mut out, 3.0, &a);
            assert!(out.iter().zip(&a).all(|(out, a)| *out == 2.0 + 3.0 * a));
        }
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!((sigmoid(-200.0), sigmoid(200.0)), (0.0, 1.0));
    }
}

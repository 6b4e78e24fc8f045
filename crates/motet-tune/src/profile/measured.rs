//! [`Measured`]: a surface as a profiler would see it: every iteration a little faster or slower.
//!
//! An iteration's noise depends on the seed, the point and the iteration's number alone. So it
//! does not matter in which order points are profiled, in how many parts, or on how many cores,
//! and a search that is resumed sees what it would have seen.

use motet_units::{Duration, Seed};
use rand::RngExt;
use rayon::prelude::*;

use super::{Profile, ProfileError, Profiler, Request, Surface};

/// A profiler that takes its times from a surface, with or without noise.
#[derive(Clone, Debug)]
pub struct Measured<S> {
    surface: S,
    noise: f64,
    seed: Seed,
}

impl<S: Surface> Measured<S> {
    /// Every iteration takes as long as the surface says.
    #[must_use]
    pub const fn exactly(surface: S) -> Self {
        Self { surface, noise: 0.0, seed: Seed::new(0) }
    }

    /// Iterations spread around what the surface says by the fraction `noise` of it (standard
    /// deviation).
    #[must_use]
    pub fn with_noise(surface: S, noise: f64, seed: Seed) -> Self {
        Self { surface, noise: noise.clamp(0.0, 1.0), seed: seed.named("measurement noise") }
    }

    fn measure(&self, request: Request) -> Result<Profile, ProfileError> {
        let time = self.surface.time(request.point).map_err(ProfileError::Impossible)?;
        if self.noise == 0.0 {
            return Ok(Profile { total: time.saturating_mul(request.iterations.into()) });
        }
        let of_point = self.seed.numbered(request.point as u64);
        let first = u64::from(request.before);
        let one = |iteration| {
            let factor = 1.0 + self.noise * gaussian(of_point.numbered(iteration));
            Duration::from_ps((time.as_ps() as f64 * factor.max(0.0)).round() as u64)
        };
        let total = (first..first + u64::from(request.iterations)).map(one).sum();
        Ok(Profile { total })
    }
}

/// A draw that is nearly normal, the same to the last bit on every machine: twelve uniform draws,
/// which together have variance 1.
fn gaussian(seed: Seed) -> f64 {
    let mut stream = seed.stream("draw");
    (0..12).map(|_| stream.random::<f64>()).sum::<f64>() - 6.0
}

impl<S: Surface> Profiler for Measured<S> {
    fn profile(&mut self, request: Request) -> Result<Profile, ProfileError> {
        self.measure(request)
    }

    fn profile_batch(&mut self, requests: &[Request]) -> Vec<Result<Profile, ProfileError>> {
        let this = &*self;
        requests.par_iter().map(|it| this.measure(*it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Recorded;

    fn recorded() -> Recorded {
        Recorded::new(vec![
            Ok(Duration::from_us(100)),
            Ok(Duration::from_us(7)),
            Err("no".to_owned()),
        ])
    }

    fn request(point: usize, before: u32, iterations: u32) -> Request {
        Request { point, iterations, before }
    }

    #[test]
    fn without_noise_it_is_the_surface() {
        let total = Measured::exactly(recorded()).profile(request(1, 0, 81)).unwrap().total;
        assert_eq!(total, Duration::from_us(567));
        let error = Measured::exactly(recorded()).profile(request(2, 0, 1)).unwrap_err();
        assert_eq!(error.to_string(), "this setting cannot run: no");
    }

    #[test]
    fn parts_and_order_do_not_matter() {
        let mut profiler = Measured::with_noise(recorded(), 0.05, Seed::new(3));
        let whole = profiler.profile(request(0, 0, 9)).unwrap().total;
        let batch = [request(1, 0, 4), request(0, 3, 6), request(0, 0, 3), request(2, 0, 1)];
        let totals = profiler.profile_batch(&batch);
        assert_eq!(whole, totals[1].clone().unwrap().total + totals[2].clone().unwrap().total);
        assert!(totals[3].is_err());
        let mut other = Measured::with_noise(recorded(), 0.05, Seed::new(4));
        assert_ne!(other.profile(request(0, 0, 9)).unwrap().total, whole);
    }

    #[test]
    fn noise_is_as_large_as_asked() {
        let mut profiler = Measured::with_noise(recorded(), 0.05, Seed::new(1));
        let one = |it| profiler.profile(request(0, it, 1)).unwrap().total.as_us_f64() / 100.0 - 1.0;
        let draws: Vec<f64> = (0..20_000).map(one).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let spread = (draws.iter().map(|it| it * it).sum::<f64>() / 20_000.0).sqrt();
        assert!(mean.abs() < 0.002 && (spread - 0.05).abs() < 0.001, "{mean} {spread}");
    }
}

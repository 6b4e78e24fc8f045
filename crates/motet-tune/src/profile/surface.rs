//! [`Surface`]: the true time of every point of a space; [`Recorded`] surfaces, which were enumerated
//! once, and [`Remembered`] ones, which compute no point twice.

use std::sync::OnceLock;

use motet_units::Duration;
use rayon::prelude::*;

/// Why a point has no time, in words.
pub type Why = String;

/// How long every point takes. The same point always takes the same.
pub trait Surface: Sync {
    fn time(&self, point: usize) -> Result<Duration, Why>;
}

impl<S: Surface> Surface for &S {
    fn time(&self, point: usize) -> Result<Duration, Why> {
        (**self).time(point)
    }
}

/// A surface that was enumerated: what searchers are judged on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded(Vec<Result<Duration, Why>>);

impl Recorded {
    #[must_use]
    pub const fn new(times: Vec<Result<Duration, Why>>) -> Self {
        Self(times)
    }

    /// Works out all `points` of a surface, on all cores.
    #[must_use]
    pub fn of(surface: &dyn Surface, points: usize) -> Self {
        Self((0..points).into_par_iter().map(|it| surface.time(it)).collect())
    }

    pub fn times(&self) -> &[Result<Duration, Why>] {
        &self.0
    }

    /// The best point and its time, if any works.
    #[must_use]
    pub fn best(&self) -> Option<(usize, Duration)> {
        let working =
            self.0.iter().enumerate().filter_map(|(at, it)| Some((at, *it.as_ref().ok()?)));
        working.min_by_key(|(at, time)| (*time, *at))
    }
}

impl Surface for Recorded {
    fn time(&self, point: usize) -> Result<Duration, Why> {
        self.0.get(point).cloned().unwrap_or_else(|| Err("it was not recorded".to_owned()))
    }
}

/// A surface that caches the times that it has computed.
#[derive(Debug)]
pub struct Remembered<S> {
    surface: S,
    known: Vec<OnceLock<Result<Duration, Why>>>,
}

impl<S: Surface> Remembered<S> {
    /// Caches the first `points` points; others are computed anew each time.
    #[must_use]
    pub fn new(surface: S, points: usize) -> Self {
        Self { surface, known: std::iter::repeat_with(OnceLock::new).take(points).collect() }
    }

    /// How many points have been worked out.
    #[must_use]
    pub fn worked_out(&self) -> usize {
        self.known.iter().filter(|it| it.get().is_some()).count()
    }
}

impl<S: Surface> Surface for Remembered<S> {
    fn time(&self, point: usize) -> Result<Duration, Why> {
        match self.known.get(point) {
            Some(known) => known.get_or_init(|| self.surface.time(point)).clone(),
            None => self.surface.time(point),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counting(AtomicUsize);

    impl Surface for Counting {
        fn time(&self, point: usize) -> Result<Duration, Why> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if point == 3 { Err("odd".to_owned()) } else { Ok(Duration::from_us(9 - point as u64)) }
        }
    }

    #[test]
    fn nothing_is_worked_out_twice() {
        let surface = Remembered::new(Counting(AtomicUsize::new(0)), 5);
        for _ in 0..3 {
            assert_eq!(surface.time(1), Ok(Duration::from_us(8)));
            assert_eq!(surface.time(3), Err("odd".to_owned()));
        }
        assert_eq!(surface.surface.0.load(Ordering::Relaxed), 2);
        assert_eq!(surface.worked_out(), 2);
        assert_eq!(surface.time(7), Ok(Duration::from_us(2)));
    }

    #[test]
    fn recorded_as_it_is() {
        let recorded = Recorded::of(&Counting(AtomicUsize::new(0)), 5);
        assert_eq!(recorded.best(), Some((4, Duration::from_us(5))));
        assert_eq!(recorded.time(3), Err("odd".to_owned()));
        assert!(recorded.time(5).is_err());
        assert_eq!(Recorded::new(Vec::new()).best(), None);
    }
}

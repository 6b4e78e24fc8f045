//! [`Simulated`]: how long programs take under the knobs of every point, by the simulator.

use motet_units::{Bytes, Duration};

use super::surface::{Surface, Why};
use crate::layouts::Family;
use crate::space::KnobSpace;

/// The surface of a task: some programs, compiled, at one size.
#[derive(Clone, Copy, Debug)]
pub struct Simulated<'a> {
    knobs: &'a KnobSpace,
    programs: &'a [Family],
    size: Bytes,
}

impl<'a> Simulated<'a> {
    /// `programs` in the order that the space has them.
    #[must_use]
    pub const fn new(knobs: &'a KnobSpace, programs: &'a [Family], size: Bytes) -> Self {
        Self { knobs, programs, size }
    }
}

impl Surface for Simulated<'_> {
    fn time(&self, point: usize) -> Result<Duration, Why> {
        let (program, knobs) = self.knobs.read(point);
        let program = self.programs.get(program).ok_or("there is no such program")?;
        program.time(self.size, &knobs)
    }
}

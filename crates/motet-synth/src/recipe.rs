//! [`Recipe`]: a method that needs no more than the task and its fabric, by name. The classics are
//! such, and methods of other crates can be.

use motet_collective::CollectiveKind;

use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};

/// A method as a function, with what `motet synth --list` says about it.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// As on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The collectives that it can do, on some network.
    pub collectives: &'static [CollectiveKind],
    /// Whether it is worth its time on thousands of ranks.
    pub scales: bool,
    /// Whether `auto` tries it. NCCL's own patterns are left to those who ask for them by name: on none of
    /// the networks that we measured were they the fastest.
    pub auto: bool,
    /// Makes a program for the task on its fabric.
    pub make: fn(&Task<'_>, &Fabric) -> Result<Lowered, SynthError>,
}

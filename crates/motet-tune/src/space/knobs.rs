//! [`KnobSpace`]: the knobs of a collective call as a space: protocol × channels × threads ×
//! buffer size, and before them, where there are several, the program that is run.
//!
//! Which settings are possible is NCCL's matter and not a rule of thumb: a protocol has its
//! fewest and most threads, a buffer must hold what all threads write at a time, and channels are
//! whole instances of a program. The rule that *TuCCL* adds (threads ≥ 32 × channels, said to
//! prevent a deadlock) has no reason in NCCL, where every channel has a thread block of its own;
//! [`KnobLimits::threads_per_channel`] switches it on.
//!
//! Buffer size and threads are set by environment when a communicator is made, so they restart
//! it; protocol and channels are chosen per call, as programs are.

use motet_nccl::options::Buffers;
use motet_nccl::{Knobs, Protocol};
use motet_units::Bytes;

use super::{Dimension, Space, SpaceError};

/// The most channels that MSCCL's executor has.
const MOST_CHANNELS: u32 = 32;

/// Which values knobs may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobProfile {
    /// 1 to 16 channels, 32 to 640 threads, buffers of 256 B to 8 MiB: everything that *TuCCL*
    /// uses anywhere.
    Default,
    /// What the text of *TuCCL* says: 1 to 8 channels, else as the default.
    Paper,
}

impl KnobProfile {
    const fn channels(self) -> &'static [u32] {
        match self {
            Self::Default => &[1, 2, 4, 8, 16],
            Self::Paper => &[1, 2, 4, 8],
        }
    }
}

/// What a knob space is made of.
#[derive(Clone, Copy, Debug)]
pub struct KnobLimits {
    pub profile: KnobProfile,
    /// Whether to keep only points with threads ≥ 32 × channels.
    pub threads_per_channel: bool,
}

impl Default for KnobLimits {
    fn default() -> Self {
        Self { profile: KnobProfile::Default, threads_per_channel: false }
    }
}

/// The space of knobs over one or several programs.
#[derive(Clone, Debug)]
pub struct KnobSpace {
    space: Space,
    /// Whether the first dimension is the program.
    several: bool,
    channels: Vec<u32>,
    threads: Vec<u32>,
    buffers: Vec<Bytes>,
}

impl KnobSpace {
    /// `programs` are the channels that each program has itself; their multiples are added to
    /// the profile's channels where it has none of them, so that every program can run.
    pub fn new(programs: &[u32], limits: KnobLimits) -> Result<Self, SpaceError> {
        let mut channels = limits.profile.channels().to_vec();
        for own in programs.iter().filter(|it| **it > 0) {
            if !channels.iter().any(|it| it.is_multiple_of(*own)) {
                channels.extend(
                    (1..=2).map(|it| own.saturating_mul(it)).filter(|it| *it <= MOST_CHANNELS),
                );
            }
        }
        channels.sort_unstable();
        channels.dedup();
        let threads: Vec<u32> = (1..=Knobs::MOST_THREADS / 32).map(|it| it * 32).collect();
        let buffers: Vec<Bytes> = (8..=23).map(|it| Bytes::new(1 << it)).collect();
        let mut dimensions = vec![
            Dimension::categorical("protocol", Protocol::COUNT),
            Dimension::logarithmic("channels", channels.iter().map(|it| u64::from(*it))),
            Dimension::logarithmic("threads", threads.iter().map(|it| u64::from(*it)))
                .with_restarts(),
            Dimension::logarithmic("buffer", buffers.iter().map(|it| it.get())).with_restarts(),
        ];
        let several = programs.len() > 1;
        if several {
            dimensions.insert(0, Dimension::categorical("program", programs.len()));
        }
        let table = Table { channels: &channels, threads: &threads, buffers: &buffers };
        let space = Space::new(dimensions, |point| {
            let (program, knobs) = table.read(several, point);
            let own = programs.get(program).copied().unwrap_or(1);
            let (of_call, block) = (knobs.channels.unwrap_or(own), knobs.threads.unwrap_or(0));
            own > 0
                && of_call.is_multiple_of(own)
                && block <= most_threads(knobs.protocol)
                && (!limits.threads_per_channel || block >= 32 * of_call)
                && knobs.fifo(&Buffers::default()).is_ok()
        })?;
        Ok(Self { space, several, channels, threads, buffers })
    }

    #[must_use]
    pub const fn space(&self) -> &Space {
        &self.space
    }

    /// The program and the knobs of a point.
    #[must_use]
    pub fn read(&self, number: usize) -> (usize, Knobs) {
        let Self { channels, threads, buffers, .. } = self;
        Table { channels, threads, buffers }.read(self.several, self.space.point(number))
    }
}

/// The most threads that NCCL itself gives a block. The kernel model accepts up to 640 under any protocol, but they
/// gain nothing there.
const fn most_threads(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Ll | Protocol::Simple => 512,
        Protocol::Ll128 => 640,
    }
}

/// The knob values that value indices stand for.
struct Table<'a> {
    channels: &'a [u32],
    threads: &'a [u32],
    buffers: &'a [Bytes],
}

impl Table<'_> {
    fn read(&self, several: bool, point: &[u16]) -> (usize, Knobs) {
        let at = |index: usize| usize::from(point[index + usize::from(several)]);
        let knobs = Knobs {
            protocol: Protocol::ALL[at(0)],
            channels: Some(self.channels[at(1)]),
            threads: Some(self.threads[at(2)]),
            buffer: Some(self.buffers[at(3)]),
        };
        (if several { usize::from(point[0]) } else { 0 }, knobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(programs: &[u32], limits: KnobLimits) -> KnobSpace {
        KnobSpace::new(programs, limits).unwrap()
    }

    #[test]
    fn every_point_is_possible() {
        let knobs = made(&[1, 4, 12], KnobLimits::default());
        let mut programs = [0; 3];
        for number in 0..knobs.space().len() {
            let (program, it) = knobs.read(number);
            it.fifo(&Buffers::default()).unwrap();
            assert!(it.channels.unwrap().is_multiple_of([1, 4, 12][program]));
            assert!(it.threads.unwrap() <= most_threads(it.protocol));
            programs[program] += 1;
        }
        // 12 and 24 channels are there for the sake of the last program; the first takes them too.
        assert!(programs[0] > programs[1] && programs[1] > programs[2] && programs[2] > 0);
    }

    /// The figures of the checklist: 4800 points in all, 3840 in the paper's text.
    #[test]
    fn sizes() {
        let codes = |profile| {
            let knobs = made(&[1], KnobLimits { profile, ..KnobLimits::default() });
            let values = knobs.space().dimensions().iter().map(Dimension::values);
            (values.product::<usize>(), knobs.space().len())
        };
        assert_eq!(codes(KnobProfile::Default), (4800, 2015));
        assert_eq!(codes(KnobProfile::Paper), (3840, 1612));
    }

    #[test]
    fn the_rule_of_the_paper() {
        let limits = KnobLimits { threads_per_channel: true, ..KnobLimits::default() };
        let knobs = made(&[1], limits);
        assert!(knobs.space().len() < 2015);
        for number in 0..knobs.space().len() {
            let (_, it) = knobs.read(number);
            assert!(it.threads.unwrap() >= 32 * it.channels.unwrap());
        }
    }

    #[test]
    fn threads_and_buffers_restart() {
        let knobs = made(&[1, 1], KnobLimits::default());
        let restarts: Vec<_> = knobs.space().dimensions().iter().map(|it| it.restarts).collect();
        assert_eq!(restarts, [false, false, false, true, true]);
    }
}

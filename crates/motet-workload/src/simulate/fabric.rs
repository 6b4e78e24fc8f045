//! [`Fabric`]: the interface of a network to the simulation of a job, and [`Cost`], the time and resources of a communication.
//!
//! Ranks of a stage do the same at the same time, so a *resource* stands for the same piece of hardware
//! of every rank of a stage: "the NICs of stage 3, outgoing".

use motet_units::{Duration, Instant};

use crate::iteration::{Communication, Operation};

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Out,
    In,
}

/// A piece of hardware that a communication occupies, on each rank of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// The links into the scale-up domain.
    ScaleUp { stage: u32, side: Side },
    /// The NIC: all of it if `part` is 0, otherwise the ports that are reserved under that number.
    Nic { stage: u32, part: u32, side: Side },
    /// The host's own NIC, on a packet network beside the rails.
    Host { stage: u32, side: Side },
}

/// A resource and the part of it that a communication takes while it runs alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub resource: Resource,
    /// The part, in units of 2⁻³²; [`fluid::ONE`](super::fluid::ONE) is all of it.
    pub share: u64,
}

/// The time and resources of a communication that has the network to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The transmission time of the data, which grows when resources are shared.
    pub work: Duration,
    /// The latency, which does not.
    pub latency: Duration,
    pub uses: Vec<Use>,
}

impl Cost {
    /// How long it takes alone.
    #[must_use]
    pub fn alone(&self) -> Duration {
        self.work + self.latency
    }

    /// The cost of two communications one after the other, as one. Each resource is counted for its share of the total time.
    #[must_use]
    pub fn then(mut self, next: &Self) -> Self {
        let work = self.work + next.work;
        let whole = u128::from(work.as_ps()).max(1);
        let part = |share: u64, of: Duration| {
            let share = u128::from(share) * u128::from(of.as_ps()) / whole;
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        for it in &mut self.uses {
            it.share = part(it.share, self.work);
        }
        for more in &next.uses {
            let share = part(more.share, next.work);
            match self.uses.iter_mut().find(|it| it.resource == more.resource) {
                Some(same) => same.share += share,
                None => self.uses.push(Use { share, ..*more }),
            }
        }
        self.work = work;
        self.latency += next.latency;
        self
    }
}

/// A communication of an iteration, by its number there.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub operation: usize,
    pub of: &'a Operation,
    pub what: &'a Communication,
}

/// A network as the simulation of an iteration sees it. Times that it is told never go back.
pub trait Fabric {
    /// The communication's cost alone. Asked when the communication starts.
    fn cost(&mut self, call: Call<'_>) -> Cost;

    /// All ranks want to start it; it waits until [`may_start`](Self::may_start) says so.
    fn requested(&mut self, _call: Call<'_>, _now: Instant) {}

    /// Whether a requested communication may start now. Asked again whenever an operation has ended or
    /// another communication has started, and at [`wakes`](Self::wakes).
    fn may_start(&mut self, _call: Call<'_>, _now: Instant) -> bool {
        true
    }

    fn started(&mut self, _call: Call<'_>, _now: Instant) {}

    fn ended(&mut self, _call: Call<'_>, _now: Instant) {}

    /// The next moment at which the fabric may let a waiting communication start even if no operation ends
    /// before.
    fn wakes(&mut self, _now: Instant) -> Option<Instant> {
        None
    }
}

/// An ideal network on which communication takes no time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ideal;

impl Fabric for Ideal {
    fn cost(&mut self, _call: Call<'_>) -> Cost {
        Cost::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fluid::ONE;
    use super::*;

    #[test]
    fn one_after_the_other_takes_both_times_and_shares_by_time() {
        let nic = Resource::Nic { stage: 0, part: 0, side: Side::Out };
        let nvlink = Resource::ScaleUp { stage: 0, side: Side::Out };
        let cost = |resource, ms| Cost {
            work: Duration::from_ms(ms),
            latency: Duration::from_us(1),
            uses: vec![Use { resource, share: ONE }],
        };
        let both = cost(nic, 3).then(&cost(nvlink, 1));
        assert_eq!(both.alone(), Duration::from_ms(4) + Duration::from_us(2));
        let shares: Vec<_> = both.uses.iter().map(|it| (it.resource, it.share)).collect();
        assert_eq!(shares, [(nic, ONE / 4 * 3), (nvlink, ONE / 4)]);
    }
}

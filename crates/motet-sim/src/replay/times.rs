//! Network states in the kernel's form: the transmission time β of every link and size, in every
//! state.

use motet_net::NetworkState;
use motet_units::{Bandwidth, Rounding};

use super::error::RunError;
use super::kernel::{Table, Tick};
use super::{Channel, Replay};

impl Replay {
    /// The times of up to `N` states, one lane per state, and an error for each state in which the program
    /// cannot run. The lanes of such states are filled only in part and those beyond the last state not at all;
    /// their results mean nothing.
    pub(super) fn table<T: Tick, const N: usize>(
        &self,
        states: &[NetworkState],
    ) -> (Table<T, N>, [Option<RunError>; N]) {
        let mut refused = [const { None }; N];
        let mut beta = vec![[T::ZERO; N]; self.channels.len()];
        for ((lane, state), refused) in states.iter().enumerate().zip(&mut refused) {
            *refused = self.fill(state, |channel, ps| beta[channel][lane] = T::from_ps(ps)).err();
        }
        let ticks = |list: &[u64]| list.iter().map(|it| T::from_ps(*it)).collect();
        let table = Table {
            beta,
            alpha: ticks(&self.latencies),
            delays: ticks(&self.delays),
            launch: T::from_ps(self.launch),
            sizes: 0,
        };
        (table, refused)
    }

    /// Gives β of each channel in picoseconds. Channels are numbered in program order, so that
    /// the first without bandwidth is that of the first transfer that cannot end.
    fn fill(&self, state: &NetworkState, mut set: impl FnMut(usize, u64)) -> Result<(), RunError> {
        let (expected, given) = (self.network_links, state.link_count());
        if expected != given {
            return Err(RunError::WrongNetwork { expected, given });
        }
        // Neighbouring links are often alike, and a division costs as much as ten steps.
        let mut last: Option<(Bandwidth, Channel, u64)> = None;
        for (index, channel) in self.channels.iter().enumerate() {
            let rate = state.bandwidth(channel.link);
            let ps = match last {
                Some((known, of, ps)) if known == rate && of.bytes == channel.bytes => ps,
                _ => {
                    let time = rate.transfer_time(channel.bytes, Rounding::Up);
                    let Channel { first: transfer, link, .. } = *channel;
                    time.ok_or(RunError::NoBandwidth { transfer, link })?.as_ps()
                }
            };
            last = Some((rate, *channel, ps));
            set(index, ps);
        }
        Ok(())
    }
}

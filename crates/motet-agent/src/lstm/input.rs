//! [`Input`]: the network's input for a call: the [state's row](crate::state::encoding), and the result of the previous call.
//!
//! | values | of the call before |
//! | --- | --- |
//! | 1 | there was one |
//! | 1 | the logarithm of its time over the nominal time of its action, ÷ 3 |
//! | 1 | the logarithm of its time over the least nominal time of any of its actions, ÷ 3 |
//! | 1 | it was of the same collective |
//! | 1 | doublings from its size to this one's, ÷ 16, from −1 to 1 |
//! | 3, 8, 4, 7 | its path, algorithm, protocol, and channels as powers of two |

use super::features::{ALGORITHMS, LEVELS, MOST_RATIO, PROTOCOLS, level};
use super::memory::Seen;
use crate::action::Head;
use crate::state::{State, encoding};

const PATHS: usize = Head::Path.size();
const AFTER: usize = 5;

/// How many values an input has.
pub const LENGTH: usize = encoding::LENGTH + AFTER + PATHS + ALGORITHMS + PROTOCOLS + LEVELS;

/// The values that are not 0, each with its place in the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub(super) values: Vec<(u16, f32)>,
}

impl Input {
    #[must_use]
    pub fn new(state: &State, last: Option<&Seen>) -> Self {
        let mut row = [0.0f32; LENGTH];
        row[..encoding::LENGTH].copy_from_slice(&state.encode());
        if let Some(last) = last {
            after(state, last, &mut row[encoding::LENGTH..]);
        }
        // A row has fewer than 2¹⁶ values.
        let values = row.iter().enumerate().filter(|it| *it.1 != 0.0);
        Self { values: values.map(|(at, value)| (at as u16, *value)).collect() }
    }
}

fn after(state: &State, last: &Seen, row: &mut [f32]) {
    let doublings = |it: motet_units::Bytes| libm::log2(it.get().max(1) as f64);
    let apart = (doublings(state.call.bytes) - doublings(last.bytes)) / 16.0;
    row[0] = 1.0;
    row[1] = last.surprise / MOST_RATIO;
    row[2] = last.lost / MOST_RATIO;
    row[3] = if state.call.kind == last.kind { 1.0 } else { 0.0 };
    row[4] = apart.clamp(-1.0, 1.0) as f32;
    let at = last.action.coordinates().unwrap_or_default();
    let mut base = AFTER;
    for (head, size) in
        [(Head::Path, PATHS), (Head::Algorithm, ALGORITHMS), (Head::Protocol, PROTOCOLS)]
    {
        row[base + usize::from(at[head.index()])] = 1.0;
        base += size;
    }
    let (low, share) = level(last.action.channels);
    row[base + low] = 1.0 - share;
    if let Some(next) = row.get_mut(base + low + 1) {
        *next = share;
    }
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_nccl::{Algorithm, Protocol};
    use motet_units::{Bytes, Duration};

    use super::*;
    use crate::action::Action;

    #[test]
    fn the_last_call_follows_the_state() {
        let mut state = State::BLANK;
        state.call.bytes = Bytes::kib(64);
        let alone = Input::new(&state, None);
        assert!(alone.values.iter().all(|it| usize::from(it.0) < encoding::LENGTH));
        let action = Action { channels: Some(6), ..Action::nccl(Algorithm::Pat, Protocol::Simple) };
        let us = Duration::from_us;
        let call = (CollectiveKind::AllReduce, Bytes::kib(1));
        let last = Seen::new(call, (action, (0, 0)), us(20), us(10), us(10));
        let both = Input::new(&state, Some(&last));
        assert_eq!(both.values[..alone.values.len()], alone.values);
        let rest: Vec<usize> =
            both.values[alone.values.len()..].iter().map(|it| usize::from(it.0)).collect();
        let base = encoding::LENGTH;
        let heads = base + AFTER;
        let channels = heads + PATHS + ALGORITHMS + PROTOCOLS;
        let expected = [
            base,
            base + 1,
            base + 2,
            base + 3,
            base + 4,
            heads,
            heads + PATHS + 1 + Algorithm::Pat.index(),
            heads + PATHS + ALGORITHMS + 1 + Protocol::Simple.index(),
            channels + 3,
            channels + 4,
        ];
        assert_eq!(rest, expected);
        assert_eq!(both.values[alone.values.len() + 4].1, 6.0 / 16.0);
    }
}

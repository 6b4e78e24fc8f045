//! The latency of a program: its longest chain of steps, as if transfers had no size.
//!
//! - A thread block begins a step at the earliest [`Terms::step`] after it began the step before.
//! - A step that receives begins at the earliest one hop after the step that sends.
//! - A step that waits for another thread block of its GPU begins at the earliest [`Terms::flag`] after
//!   that block's step; if the block is of another GPU, one hop of what that step sends after it.
//!
//! A hop is what NCCL counts for the hardware between the two GPUs, or the latency of the links
//! between them if that is more: NCCL's figures include the latency of an ordinary link, but not of a
//! WAN.

use super::layout::{Laid, LaneRoute};
use super::terms::Terms;

/// The latency of a program in picoseconds. Where NCCL counts one hop whatever the chain ([`Terms::once`]), that
/// is the longest hop, but never less than the link latencies along the longest chain.
pub(super) fn longest(laid: &Laid, terms: &Terms) -> u64 {
    if !terms.once {
        return chain(laid, terms.step.as_ps(), terms.flag.as_ps(), |it| hop(terms, it));
    }
    let one = laid.routes.iter().filter(|it| it.end > it.first).map(|it| hop(terms, it)).max();
    one.unwrap_or(0).max(chain(laid, 0, 0, |it| it.latency))
}

/// The latency of a route: what NCCL counts for its hardware, or that of its links if that is more.
fn hop(terms: &Terms, route: &LaneRoute) -> u64 {
    let counted = route.segments.iter().zip(&terms.hop);
    let counted = counted.fold(0u64, |sum, (times, hop)| {
        sum.saturating_add(hop.as_ps().saturating_mul(u64::from(*times)))
    });
    counted.max(route.latency)
}

/// When the last step is over, given the latency of a step, of a flag and of each route.
fn chain(laid: &Laid, step: u64, flag: u64, hop: impl Fn(&LaneRoute) -> u64) -> u64 {
    let mut start = vec![0u64; laid.ops.len()];
    let mut waits: Vec<u32> =
        laid.ops.iter().map(|it| (it.ins.len() + it.waits.len()) as u32).collect();
    for (first, end) in &laid.lanes {
        for op in first + 1..*end {
            waits[op as usize] += 1;
        }
    }
    let mut ready: Vec<u32> =
        (0..laid.ops.len() as u32).filter(|it| waits[*it as usize] == 0).collect();
    let mut end = 0;
    while let Some(index) = ready.pop() {
        let (at, op) = (start[index as usize], &laid.ops[index as usize]);
        let alone = op.whole.iter().map(|it| hop(&laid.routes[*it as usize])).max().unwrap_or(0);
        let over = at.saturating_add(alone);
        end = end.max(over);
        let mut tell = |other: u32, from: u64| {
            let slot = &mut start[other as usize];
            *slot = (*slot).max(from);
            waits[other as usize] -= 1;
            if waits[other as usize] == 0 {
                ready.push(other);
            }
        };
        if index + 1 < laid.lanes[op.lane as usize].1 {
            tell(index + 1, at.saturating_add(step));
        }
        for transfer in &op.outs {
            let route = &laid.routes[*transfer as usize];
            tell(route.receiver, at.saturating_add(hop(route)));
        }
        for other in laid.followers.row(index as usize) {
            tell(*other, over.saturating_add(flag));
        }
    }
    end
}

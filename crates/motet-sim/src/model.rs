//! The rules of the simulation, which both engines keep to the picosecond.
//!
//! **Data.** A collective of `size` bytes (nccl-tests' meaning) has chunks of
//! ⌈size ÷ chunks of the largest buffer⌉ bytes; a transfer of `count` chunks carries L = count ×
//! that. A size that the chunks do not divide is so rounded up, and the report says so.
//!
//! **One transfer alone.** It goes over links e₁ … e_h with latency α and bandwidth b, β = L/b
//! rounded up to whole picoseconds. With hᵢ the time its head is ready for link i, sᵢ the time it
//! starts there and fᵢ the time its tail has left:
//!
//! - h₁ = when the transfer is ready (see *order* below),
//! - sᵢ = hᵢ, or later if the link is taken (see *links* below),
//! - fᵢ = sᵢ + βᵢ, but within a cut-through segment not before fᵢ₋₁ + αᵢ₋₁ (the tail cannot
//!   leave before it has come),
//! - behind a cut-through node hᵢ₊₁ = sᵢ + αᵢ; behind a store-and-forward node hᵢ₊₁ = fᵢ + αᵢ, and
//!   a new segment begins.
//!
//! It has been *sent* at f₁ (its source may be overwritten) and reaches its destination at
//! f_h + α_h. Alone, that is Σα + max β over a segment and the sum over segments: the closed forms
//! of Xiong et al. §III. A transfer within one rank takes no time unless
//! [`SimOptions::local_bandwidth`] says otherwise.
//!
//! **Links.** A link is taken by one transfer at a time, from sᵢ to sᵢ + βᵢ: for as long as the
//! bits need on it alone. It then takes the next one by its [`Discipline`], although the tail of
//! this one, fed more slowly than the link could go, may be still to come (fᵢ > sᵢ + βᵢ): packets
//! of several streams interleave, "with sufficient buffering to absorb rate mismatches" (Xiong et
//! al. §III). So two streams from links of 100 Gbit/s both fit on one of 200 Gbit/s behind them.
//!
//! Starts on a link are at least β apart, and no bit leaves before its time in such a β; so by any
//! time t a link has carried no more than (t − its first start) · b. Counted from a later moment,
//! tails of earlier transfers may come on top of that, but never more than the link left unused
//! before. Its busy time is the sum of the βᵢ, never more than the time that has passed.
//!
//! Under fair sharing a link carries all at once, at max–min fair rates; a cut-through segment is
//! then one flow with one rate, and has been sent when it has drained.
//!
//! **Capable switches.** Where a node can multicast or reduce, transfers that carry the same data,
//! or that are summed on the way, cross their common links once; `group.rs` has the exact rule.
//!
//! **In-switch operations.** A transfer into a switch slot takes the links from the GPU up to the switch
//! that serves the slot; a transfer out of it takes the links from there down. From one slot to another, data
//! comes down to the GPU of the transfer's rank and goes up again. A switch slot stores and forwards: a transfer
//! out of it waits until all it depends on has arrived completely. Real switches forward data as it arrives;
//! a program that cuts its data finely models that, up to the transmission time of one slice per step.
//! Registers and adders take no time, and there is no limit on their number.
//!
//! **Order.** A transfer is ready when every event that its sending waits for has happened: the
//! program's waits and the event before it in its lane. It has *arrived* when it has reached its
//! destination and every event that its arrival waits for has happened. Finite connection buffers
//! (`Protocol::fifo_depth`) are not part of this model; `motet-nccl` adds them.
//!
//! **Program order.** Of the events that can happen next, always the one with the least number comes
//! next; [`Routed::sequence`](crate::Routed::sequence) is that order,
//! and the order of sendings in it is the order in which a [`Discipline::ProgramOrder`] link
//! carries transfers, unless the program gives that link turns of its own
//! ([`Program::turns`](motet_collective::Program::turns)). It depends on the program alone, never on the network's state, which is what
//! lets the replay engine keep it over many states.
//!
//! **State.** Available bandwidth may change, and links fail and return, at any time. What is left
//! of a transfer goes on at the new rate; a link that is down has rate zero. sᵢ + βᵢ is then the
//! first whole picosecond by which the link alone would have sent all bits since sᵢ; what becomes
//! of the link after that does not hold up the tail. A transfer that would never end is an error
//! that names it.

use motet_units::{Bandwidth, Duration};

/// The order in which a link carries waiting transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// Program order, or the turns that the program gives the link; a link waits for the next one
    /// even if a later one is ready.
    #[default]
    ProgramOrder,
    /// First come, first served, by the arrival of heads; ties in program order.
    Fifo,
    /// All at once, at max–min fair rates (a fluid model; event engine only).
    FairShare,
}

/// How switches and other nodes that are not GPUs forward data; fixed by
/// [`Routed::new`](crate::Routed::new).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SwitchForwarding {
    /// Cut-through: data is forwarded as it arrives.
    #[default]
    CutThrough,
    /// Store and forward: data is forwarded when it is complete, as GPUs do (and as ASTRA-sim's
    /// switches do).
    StoreAndForward,
}

/// Options of a simulation, apart from program, network and state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimOptions {
    pub discipline: Discipline,
    /// Bandwidth of copies and reductions within a rank; `None`: they take no time.
    pub local_bandwidth: Option<Bandwidth>,
    /// The time to launch the collective, before anything starts.
    pub launch: Duration,
}

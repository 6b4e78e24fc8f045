//! One bound in words: what programs can reach first, then what switches that reduce would change.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_collective::bound::{Bound, InSwitchBound, Ratio, SetBy, Work};
use motet_net::{Network, NodeKind};
use motet_units::Bytes;

use crate::printer::{Printer, exact};

/// What sets the bound of programs, in words.
pub(super) fn describe(work: &Work) -> String {
    let messages = 2 * (work.groups - 1);
    let (groups, level) = (work.groups, work.level);
    let bandwidth = work.bandwidth.as_gb_per_s_f64();
    let packing = match work.is_packing {
        true => "; spanning trees can be packed so well",
        false => "",
    };
    format!(
        "each byte must cross {messages} times between {groups} {level}s, which send {bandwidth:.2} GB/s together{packing}"
    )
}

/// The bound as lines of text.
pub(super) fn text(bound: &Bound, network: &Network, size: Option<Bytes>) -> String {
    let heading = format!("{} over {} ranks", bound.collective, bound.ranks);
    let mut out = format!("{}\n", Printer::strong(&heading));
    let mut line = |word: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {word:9}  {text}");
    };
    line(
        "bandwidth",
        match bound.program_algbw() {
            Some(algbw) => format!("at most {:.2} GB/s", algbw.to_f64()),
            None => "without limit: nothing has to move".to_owned(),
        },
    );
    if let Some((from, to)) = bound.latency_pair {
        line("latency", format!("at least {} (rank {from} to {to})", bound.latency));
    }
    if let Some(size) = size {
        let time = exact(bound.program_time(size));
        line("time", format!("at least {time} on ideal links for {size}"));
    }
    let cut = if matches!(bound.set_by, SetBy::Cut(_)) { "cut" } else { "set by" };
    match bound.sharper_work() {
        Some(work) => line("set by", describe(work)),
        None => line(cut, bound.describe(network)),
    }
    if let Some(in_switch) = &bound.in_switch {
        line("in-switch", whole_group(in_switch, network));
    }
    if bound.collective == CollectiveKind::AllReduce {
        line("switches", switches(bound, network));
    }
    out
}

/// What programs reach that have switches copy and reduce over all ranks.
fn whole_group(in_switch: &InSwitchBound, network: &Network) -> String {
    let limit = in_switch.algbw().map_or(0.0, Ratio::to_f64);
    let able = network.nodes().iter().filter(|it| it.in_network.is_any());
    let names: Vec<&str> = able.map(|it| it.name.as_str()).take(2).collect();
    let by = match (names.as_slice(), in_switch.switches) {
        ([one], _) => format!("`{one}`"),
        (_, switches) => format!("{switches} switches"),
    };
    format!(
        "at most {limit:.2} GB/s by programs that have {by} copy and reduce over all ranks (NVLS)"
    )
}

/// What reduction and copying in switches (NVLS, SHARP) change in an AllReduce.
fn switches(bound: &Bound, network: &Network) -> String {
    let able = network.nodes().iter().filter(|it| it.kind != NodeKind::Gpu);
    let able = able.filter(|it| it.reduces || it.multicast).count();
    let limit = bound.algbw().map_or(0.0, Ratio::to_f64);
    match (bound.sharper_work(), able) {
        (Some(_), 0) if bound.in_switch.is_some() => format!(
            "at most {limit:.2} GB/s if they also spread their sums by themselves (SHARP): {}",
            bound.describe(network)
        ),
        (Some(_), 0) => format!(
            "at most {limit:.2} GB/s if they reduced and copied (NVLS, SHARP): {}",
            bound.describe(network)
        ),
        (Some(_), _) => format!(
            "{able} of this network reduce or copy, which is counted; at most {limit:.2} GB/s if all did \
             both: {}",
            bound.describe(network)
        ),
        (None, 0) => "the same if they reduced and copied (NVLS, SHARP)".to_owned(),
        (None, _) => format!("{able} of this network reduce or copy, which is counted"),
    }
}

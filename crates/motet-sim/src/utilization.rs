//! [`Utilization`]: how much of the time links are busy, over the whole run and over parts of it,
//! and a plain-text picture of it.
//!
//! For the whole run an [`Outcome`] is enough; use over time needs an observer. A link is busy
//! while it is occupied, which is the transmission time of each transfer; so it is never busy for
//! more than the run takes. Under fair sharing it is busy while any flow crosses it, however
//! slowly.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_net::{LinkClass, Network};
use motet_units::{Instant, LinkId};

use crate::event::{Crossing, LinkUse, Observer, Outcome};

/// What one link has done so far.
#[derive(Clone, Debug, Default)]
struct Busy {
    /// How many crossings occupy the link now, and since when it has been busy without a break.
    crossings: u32,
    since: u64,
    /// When the link was busy, in ps. Intervals that touch are merged.
    intervals: Vec<(u64, u64)>,
}

/// When each link was busy.
#[derive(Clone, Debug)]
pub struct Utilization {
    links: Vec<Busy>,
}

impl Utilization {
    #[must_use]
    pub fn new(network: &Network) -> Self {
        Self { links: vec![Busy::default(); network.links().len()] }
    }

    /// Divides the run, which began at `start`, into `parts` equal parts and gives the share of
    /// each during which a link was busy, 0 to 1.
    #[must_use]
    pub fn over_time(
        &self,
        link: LinkId,
        start: Instant,
        outcome: &Outcome,
        parts: usize,
    ) -> Vec<f64> {
        let (time, parts) = (u128::from(outcome.time.as_ps()), parts as u128);
        // In units of 1/parts of a picosecond every border is whole.
        let mut busy = vec![0u128; parts as usize];
        for (from, to) in &self.links[link.index()].intervals {
            let scaled = |at: u64| u128::from(at.saturating_sub(start.as_ps())) * parts;
            let (mut from, to) = (scaled(*from), scaled(*to).min(time * parts));
            while from < to {
                let part = from / time;
                let until = ((part + 1) * time).min(to);
                busy[part as usize] += until - from;
                from = until;
            }
        }
        busy.iter().map(|it| *it as f64 / time.max(1) as f64).collect()
    }
}

impl Observer for Utilization {
    fn started(&mut self, at: Instant, crossing: Crossing<'_>) {
        let link = &mut self.links[crossing.link.index()];
        if link.crossings == 0 {
            link.since = at.as_ps();
        }
        link.crossings += 1;
    }

    fn streamed(&mut self, at: Instant, crossing: Crossing<'_>) {
        let link = &mut self.links[crossing.link.index()];
        link.crossings -= 1;
        if link.crossings > 0 || at.as_ps() == link.since {
            return;
        }
        match link.intervals.last_mut() {
            Some(last) if last.1 == link.since => last.1 = at.as_ps(),
            _ => link.intervals.push((link.since, at.as_ps())),
        }
    }
}

/// Statistics of all links of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassUse {
    pub class: LinkClass,
    /// How many links of this class the network has.
    pub links: usize,
    /// How many of them carried anything.
    pub used: usize,
    /// Mean utilization over all links of the class, 0 to 1.
    pub mean: f64,
    /// Utilization of its busiest link, 0 to 1.
    pub most: f64,
}

/// Statistics per class of link, in the order of [`LinkClass`].
#[must_use]
pub fn by_class(network: &Network, outcome: &Outcome) -> Vec<ClassUse> {
    let mut classes: BTreeMap<LinkClass, ClassUse> = BTreeMap::new();
    for id in network.link_ids() {
        let class = network.link(id).spec.class;
        let none = ClassUse { class, links: 0, used: 0, mean: 0.0, most: 0.0 };
        let it = classes.entry(class).or_insert(none);
        let utilization = outcome.utilization(id);
        it.links += 1;
        it.used += usize::from(outcome.links[id.index()].crossings > 0);
        // The sum until all are counted.
        it.mean += utilization;
        it.most = it.most.max(utilization);
    }
    let mean = |it: ClassUse| ClassUse { mean: it.mean / it.links as f64, ..it };
    classes.into_values().map(mean).collect()
}

/// The links that carried anything, the busiest first.
#[must_use]
pub fn busiest(outcome: &Outcome) -> Vec<LinkId> {
    let ids = (0..outcome.links.len()).map(LinkId::from_index);
    let of = |id: &LinkId| -> LinkUse { outcome.links[id.index()] };
    let mut links: Vec<LinkId> = ids.filter(|it| of(it).crossings > 0).collect();
    links.sort_by_key(|it| Reverse((of(it).busy, of(it).bytes)));
    links
}

/// The utilization as plain text: each class, and the `top` busiest links with bars. With
/// `over_time` the bars show when a link was busy instead of how much.
#[must_use]
pub fn picture(
    network: &Network,
    outcome: &Outcome,
    top: usize,
    over_time: Option<&dyn Fn(LinkId) -> Vec<f64>>,
) -> String {
    let mut out = String::new();
    for it in by_class(network, outcome) {
        let (mean, most) = (it.mean * 100.0, it.most * 100.0);
        let class = it.class.name();
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "  {class:10} {} of {} links used, busy {mean:.1}% of the time on average, {most:.1}% at most",
            it.used, it.links
        );
    }
    let links = busiest(outcome);
    let shown = &links[..top.min(links.len())];
    let ends = |id: LinkId| {
        let link = network.link(id);
        format!("{} → {}", network.node(link.from).name, network.node(link.to).name)
    };
    let width = shown.iter().map(|it| ends(*it).chars().count()).max().unwrap_or(0);
    for id in shown {
        let utilization = outcome.utilization(*id);
        let percent = utilization * 100.0;
        let strip = match over_time {
            Some(parts) => strip(&parts(*id)),
            None => bar(utilization),
        };
        let line = format!("  {:width$}  {percent:5.1}%  {strip}", ends(*id));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if shown.len() < links.len() {
        let _ = writeln!(out, "  and {} more", links.len() - shown.len());
    }
    out
}

/// Block characters filled by 0 to 8 eighths, from the left and from below.
const FROM_LEFT: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const FROM_BELOW: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BAR: usize = 30;

/// A bar whose length shows `share`, 0 to 1.
#[must_use]
pub fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let text: String =
        (0..BAR).map(|it| FROM_LEFT[eighths.saturating_sub(it * 8).min(8)]).collect();
    text.trim_end().to_owned()
}

/// One character per share, 0 to 1, whose height shows it. A share above zero is always visible.
#[must_use]
pub fn strip(shares: &[f64]) -> String {
    let block = |share: &f64| {
        let eighths = (share.clamp(0.0, 1.0) * 8.0).round() as usize;
        FROM_BELOW[if *share > 0.0 { eighths.max(1) } else { 0 }]
    };
    format!("|{}|", shares.iter().map(block).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_strips() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1.0), "█".repeat(30));
        assert_eq!(bar(0.5), "█".repeat(15));
        assert_eq!(bar(1.0 / 240.0), "▏");
        assert_eq!(strip(&[0.0, 0.001, 0.5, 1.0]), "| ▁▄█|");
    }
}

//! [`Loads`]: the traffic on each line, per direction; inside each item; and per class of links.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Bytes, LinkId};

use super::Traffic;
use super::picture::Picture;
use crate::{LinkClass, Network};

/// What some links did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) links: usize,
    /// Those that carried anything.
    pub(super) used: usize,
    pub(super) bandwidth: Bandwidth,
    /// Of all of them. Saturates.
    pub(super) bytes: Bytes,
    sum: f64,
    /// The utilization of the busiest, 0 to 1.
    pub(super) most: f64,
}

impl Load {
    fn add(&mut self, bandwidth: Bandwidth, traffic: Traffic) {
        // What is no number is no utilization either.
        let utilization =
            if traffic.utilization > 0.0 { traffic.utilization.min(1.0) } else { 0.0 };
        self.links += 1;
        self.used += usize::from(utilization > 0.0 || traffic.bytes > Bytes::ZERO);
        self.bandwidth = self.bandwidth.saturating_add(bandwidth);
        self.bytes = Bytes::new(self.bytes.get().saturating_add(traffic.bytes.get()));
        self.sum += utilization;
        self.most = self.most.max(utilization);
    }

    /// Over all links.
    pub(super) fn mean(&self) -> f64 {
        self.sum / self.links.max(1) as f64
    }

    /// In words, without saying which links they are.
    pub(super) fn words(&self) -> String {
        let (most, mean) = (self.most * 100.0, self.mean() * 100.0);
        if self.used == 0 {
            return if self.links == 1 {
                "idle".to_owned()
            } else {
                format!("none of {} links used", self.links)
            };
        }
        if self.links == 1 {
            return format!("busy {most:.1}% of the time, {}", self.bytes);
        }
        format!(
            "{} of {} links used, busy {mean:.1}% of the time on average, {most:.1}% at most, {}",
            self.used, self.links, self.bytes
        )
    }
}

/// What everything in a picture did.
#[derive(Debug)]
pub(super) struct Loads {
    /// What ran.
    pub(super) caption: String,
    /// Of each line, the way its stroke says and back.
    pub(super) lines: Vec<[Load; 2]>,
    /// Of the links inside each item.
    pub(super) items: Vec<Load>,
    pub(super) classes: BTreeMap<LinkClass, Load>,
}

impl Loads {
    pub(super) fn of(
        network: &Network,
        picture: &Picture,
        caption: &str,
        traffic: impl Fn(LinkId) -> Traffic,
    ) -> Self {
        let line_of: BTreeMap<(usize, usize, LinkClass), usize> = picture
            .lines
            .iter()
            .enumerate()
            .map(|(index, it)| ((it.from, it.to, it.class), index))
            .collect();
        let mut loads = Self {
            caption: caption.to_owned(),
            lines: vec![Default::default(); picture.lines.len()],
            items: vec![Load::default(); picture.items.len()],
            classes: BTreeMap::new(),
        };
        for id in network.link_ids() {
            let (link, traffic) = (network.link(id), traffic(id));
            let (class, bandwidth) = (link.spec.class, link.spec.bandwidth);
            let of = |it: motet_units::NodeId| picture.of_node[it.index()];
            let (from, to) = (of(link.from), of(link.to));
            loads.classes.entry(class).or_default().add(bandwidth, traffic);
            if from == to {
                loads.items[from].add(bandwidth, traffic);
            } else if let Some(line) = line_of.get(&(from, to, class)) {
                loads.lines[*line][0].add(bandwidth, traffic);
            } else if let Some(line) = line_of.get(&(to, from, class)) {
                loads.lines[*line][1].add(bandwidth, traffic);
            }
        }
        loads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_add_up() {
        let mut load = Load::default();
        let mut add = |utilization: f64, bytes: u64| {
            let bytes = Bytes::new(bytes);
            load.add(Bandwidth::gb_per_s(1), Traffic { utilization, bytes });
        };
        add(0.5, 7);
        add(0.0, 0);
        add(f64::NAN, u64::MAX);
        add(2.0, 0);
        assert_eq!((load.links, load.used), (4, 3));
        assert_eq!((load.mean(), load.most), (0.375, 1.0));
        assert_eq!(load.bytes, Bytes::new(u64::MAX));
        assert_eq!(load.bandwidth, Bandwidth::gb_per_s(4));
    }
}

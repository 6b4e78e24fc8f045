//! What `motet wan` prints, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_net::LinkClass;
use motet_units::LinkId;
use motet_wan::Account;
use motet_wan::cut::RegionCut;
use motet_wan::knobs::Setting;
use serde::Serialize;

use super::tables::ends;
use super::{Outcome, Ran};
use crate::printer::Printer;

/// Most WAN links and cuts that the text lists; the JSON has all.
const MOST_LINKS: usize = 12;
const MOST_CUTS: usize = 3;

#[derive(Serialize)]
pub(super) struct WanJson {
    scenario: String,
    seed: u64,
    collectives: u32,
    modes: Vec<ModeJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    yardstick: Option<YardstickJson>,
    /// What sets the bound of the first collective, anywhere in the network.
    cut: Option<String>,
    /// What sets it between the regions.
    region_cut: Option<CutJson>,
    wan_links: Vec<WanLinkJson>,
}

#[derive(Serialize)]
struct ModeJson {
    mode: &'static str,
    /// Collectives, and what moving cost them.
    completion_s: f64,
    /// How much less than base, in percent.
    gain_percent: f64,
    mean_us: f64,
    median_us: f64,
    p99_us: f64,
    stalls_s: f64,
    pauses_s: f64,
    gaps_s: f64,
    total_s: f64,
    route_moves: u64,
    flows_moved: u64,
    program_moves: u64,
    /// Moves back to what the move before had left.
    flaps: u64,
    route_flaps: u64,
    program_flaps: u64,
    moves_per_hour: f64,
    /// How often a collective ran by another setting than the one before; where a knobs hand moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    knob_moves: Option<u64>,
    /// Of each of the scenario's collectives: the share that ran by each setting, those that were used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    settings: Vec<BTreeMap<String, f64>>,
    bottlenecks: Vec<BottleneckJson>,
}

#[derive(Serialize)]
struct BottleneckJson {
    from: String,
    to: String,
    /// Of the collectives in which this link was busy longest.
    share: f64,
}

#[derive(Serialize)]
struct YardstickJson {
    sampled: u32,
    bound_mean_us: f64,
    hindsight_mean_us: f64,
    /// The same under its name before 0.2.
    oracle_mean_us: f64,
    /// What the modes took on the same collectives.
    modes_mean_us: BTreeMap<&'static str, f64>,
    /// The tightest cuts between regions, in the states sampled.
    region_cuts: Vec<CutJson>,
}

#[derive(Serialize)]
struct CutJson {
    from: Vec<String>,
    to: Vec<String>,
    links: Vec<[String; 2]>,
    /// All links together, as they nominally are.
    capacity_gbps: f64,
    /// And in the states sampled, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_available_gbps: Option<f64>,
    /// Of how many of the states sampled it is the tightest.
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<u32>,
    /// Bytes that must cross per byte of size.
    share: f64,
    description: String,
}

#[derive(Serialize)]
struct WanLinkJson {
    from: String,
    to: String,
    capacity_gbps: f64,
    mean_available_gbps: Option<f64>,
    /// The share of collectives in which this link was busy longest, by mode.
    bottleneck_share: BTreeMap<&'static str, f64>,
}

/// In how many of the collectives a link was busy longest.
fn share(account: &Account, link: LinkId) -> f64 {
    f64::from(account.bottleneck[link.index()]) / account.times.len().max(1) as f64
}

/// "tree, 4 channels".
fn name(setting: &Setting) -> String {
    match setting.algorithm {
        None => "as it is".to_owned(),
        Some(it) if setting.channels == 1 => format!("{it}, 1 channel"),
        Some(it) => format!("{it}, {} channels", setting.channels),
    }
}

impl Ran<'_> {
    fn wan_links(&self) -> Vec<LinkId> {
        let network = self.scenario.network;
        let wan = |it: &LinkId| network.link(*it).spec.class == LinkClass::Wan;
        network.link_ids().filter(wan).collect()
    }

    fn capacity(&self, cut: &RegionCut) -> f64 {
        let network = self.scenario.network;
        cut.links.iter().map(|it| network.link(*it).spec.bandwidth.as_gb_per_s_f64()).sum()
    }

    /// "from dc0 to dc1: 1/2 of the size over a -> b (12.5 GB/s) and …, 50 GB/s together".
    fn describe(&self, cut: &RegionCut) -> String {
        let network = self.scenario.network;
        let link = |it: &LinkId| {
            let (from, to) = ends(network, *it);
            format!("{from} -> {to} ({})", network.link(*it).spec.bandwidth)
        };
        let links: Vec<String> = cut.links.iter().map(link).collect();
        let mut text = format!(
            "from {} to {}: {:.1}% of the size over {}",
            cut.from.join(", "),
            cut.to.join(", "),
            cut.share * 100.0,
            links.join(", ")
        );
        if links.len() > 1 {
            let _ = write!(text, ", {:.1} GB/s together", self.capacity(cut));
        }
        text
    }

    fn cut_json(&self, cut: &RegionCut, states: Option<u32>) -> CutJson {
        let link = |it: &LinkId| {
            let (from, to) = ends(self.scenario.network, *it);
            [from, to]
        };
        CutJson {
            from: cut.from.clone(),
            to: cut.to.clone(),
            links: cut.links.iter().map(link).collect(),
            capacity_gbps: self.capacity(cut),
            mean_available_gbps: states.map(|_| cut.bandwidth.as_gb_per_s_f64()),
            states,
            share: cut.share,
            description: self.describe(cut),
        }
    }

    fn mode_json(&self, (mode, account): &Outcome) -> ModeJson {
        let seconds = |it: motet_units::Duration| it.as_us_f64() / 1e6;
        ModeJson {
            mode: mode.name(),
            completion_s: seconds(account.completion()),
            gain_percent: self.gain(account),
            mean_us: Self::mean(account),
            median_us: account.quantile(0.5).as_us_f64(),
            p99_us: account.quantile(0.99).as_us_f64(),
            stalls_s: seconds(account.stalls),
            pauses_s: seconds(account.pauses),
            gaps_s: seconds(account.gaps),
            total_s: seconds(account.total()),
            route_moves: account.route_moves,
            flows_moved: account.flows_moved,
            program_moves: account.program_moves,
            flaps: account.flaps(),
            route_flaps: account.route_flaps,
            program_flaps: account.program_flaps,
            moves_per_hour: account.moves_per_hour(),
            knob_moves: mode.moves_knobs().then_some(account.knob_moves),
            settings: self.settings(account),
            bottlenecks: self.bottlenecks(account),
        }
    }

    pub(super) fn json(&self) -> WanJson {
        let link = |it: LinkId| {
            let (from, to) = ends(self.scenario.network, it);
            WanLinkJson {
                from,
                to,
                capacity_gbps: self.scenario.network.link(it).spec.bandwidth.as_gb_per_s_f64(),
                mean_available_gbps: self.base().map(|of| of.mean_available(it).as_gb_per_s_f64()),
                bottleneck_share: self
                    .accounts
                    .iter()
                    .map(|of| (of.0.name(), share(&of.1, it)))
                    .collect(),
            }
        };
        let yardstick = self.yardstick.as_ref().map(|it| YardstickJson {
            sampled: it.sampled.len() as u32,
            bound_mean_us: it.bound.as_us_f64(),
            hindsight_mean_us: it.hindsight.as_us_f64(),
            oracle_mean_us: it.hindsight.as_us_f64(),
            modes_mean_us: self
                .accounts
                .iter()
                .map(|of| (of.0.name(), of.1.mean_of(&it.sampled).as_us_f64()))
                .collect(),
            region_cuts: it.cuts.iter().map(|(cut, n)| self.cut_json(cut, Some(*n))).collect(),
        });
        WanJson {
            scenario: self.scenario.name.clone(),
            seed: self.scenario.seed.get(),
            collectives: self.scenario.count,
            modes: self.accounts.iter().map(|it| self.mode_json(it)).collect(),
            yardstick,
            cut: self.bound.as_ref().map(|it| it.describe(self.scenario.network)),
            region_cut: self.cut.as_ref().map(|it| self.cut_json(it, None)),
            wan_links: self.wan_links().into_iter().map(link).collect(),
        }
    }

    /// How often each setting was used, by name, for each of the scenario's collectives.
    fn settings(&self, account: &Account) -> Vec<BTreeMap<String, f64>> {
        let of = |(counts, settings): (&Vec<u64>, &Vec<Setting>)| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            let used = counts.iter().zip(settings).filter(|it| *it.0 > 0);
            used.map(|(count, setting)| (name(setting), *count as f64 / all)).collect()
        };
        account.settings.iter().zip(&self.settings).map(of).collect()
    }

    fn bottlenecks(&self, account: &Account) -> Vec<BottleneckJson> {
        let list = account.bottlenecks().into_iter().take(5);
        list.map(|(link, _)| {
            let (from, to) = ends(self.scenario.network, link);
            BottleneckJson { from, to, share: share(account, link) }
        })
        .collect()
    }

    pub(super) fn text(&self) -> String {
        let (scenario, mut out, width) = (self.scenario, String::new(), self.width());
        let heading = format!("{}: {} collectives", scenario.name, scenario.count);
        // Writing to a string cannot fail.
        let (heading, seed) = (Printer::strong(&heading), scenario.seed.get());
        let _ = writeln!(out, "{heading} (seed {seed}), times on ideal links");
        self.modes_text(&mut out);
        self.yardstick_text(&mut out);
        let _ =
            writeln!(out, "{}", Printer::strong("bottlenecks: how often a link was busy longest"));
        for (mode, account) in self.accounts {
            let list = self.bottlenecks(account).into_iter().take(3);
            let list: Vec<String> = list
                .map(|it| format!("{} -> {} {:.0}%", it.from, it.to, it.share * 100.0))
                .collect();
            let _ = writeln!(out, "  {:width$} {}", mode.name(), list.join(", "));
        }
        self.knobs_text(&mut out);
        self.links_text(&mut out);
        self.cuts_text(&mut out);
        out
    }

    /// Of the names of modes.
    fn width(&self) -> usize {
        self.accounts.iter().map(|it| it.0.name().len()).fold(18, usize::max)
    }

    /// By what the knobs hand had collectives run.
    fn knobs_text(&self, out: &mut String) {
        let width = self.width();
        if self.accounts.iter().all(|it| it.1.settings.is_empty()) {
            return;
        }
        let _ = writeln!(out, "{}", Printer::strong("settings that the knobs hand chose"));
        for (mode, account) in self.accounts {
            for (number, used) in self.settings(account).iter().enumerate() {
                let asked = &self.scenario.collectives[number];
                let list: Vec<String> = used
                    .iter()
                    .map(|(name, part)| format!("{name} {:.0}%", part * 100.0))
                    .collect();
                let call = format!("{} of {}", asked.goal.kind(), asked.size);
                let _ = writeln!(out, "  {:width$} {call}: {}", mode.name(), list.join("; "));
            }
        }
    }

    fn modes_text(&self, out: &mut String) {
        let width = self.width();
        let _ = writeln!(
            out,
            "  {:width$} {:>12} {:>7} {:>12} {:>12} {:>9} {:>9} {:>6} {:>9}",
            "mode",
            "total s",
            "gain %",
            "mean µs",
            "p99 µs",
            "routes",
            "programs",
            "flaps",
            "moves/h"
        );
        for (mode, account) in self.accounts {
            let _ = writeln!(
                out,
                "  {:width$} {:>12.3} {:>7.1} {:>12.1} {:>12.1} {:>9} {:>9} {:>6} {:>9.0}",
                mode.name(),
                account.completion().as_us_f64() / 1e6,
                self.gain(account),
                Self::mean(account),
                account.quantile(0.99).as_us_f64(),
                account.route_moves,
                account.program_moves,
                account.flaps(),
                account.moves_per_hour(),
            );
            if !account.stalls.is_zero() {
                let stalls = account.stalls.as_us_f64() / 1e6;
                let _ =
                    writeln!(out, "  {:width$} waited {stalls:.3} s for the network to heal", "");
            }
        }
    }

    fn yardstick_text(&self, out: &mut String) {
        let (Some(it), width) = (&self.yardstick, self.width()) else { return };
        let (hindsight, bound) = (it.hindsight.as_us_f64(), it.bound.as_us_f64());
        let least = self.accounts.iter().min_by_key(|it| it.1.completion());
        let same = least.map_or_else(String::new, |(mode, account)| {
            let took = account.mean_of(&it.sampled).as_us_f64();
            format!("; {} took {took:.1} on the same", mode.name())
        });
        let _ = writeln!(
            out,
            "  {:width$} {:>12} {:>7} {hindsight:>12.1}  the fastest found for each state ({} sampled{same})\n  \
             {:width$} {:>12} {:>7} {bound:>12.1}  no program can take less",
            "hindsight",
            "",
            "",
            it.sampled.len(),
            "bound",
            "",
            ""
        );
    }

    /// The links of the WAN that were ever the bottleneck.
    fn links_text(&self, out: &mut String) {
        let most =
            |link: &LinkId| self.accounts.iter().map(|it| share(&it.1, *link)).fold(0.0, f64::max);
        let mut links = self.wan_links();
        let all = links.len();
        links.retain(|it| most(it) > 0.0);
        if links.is_empty() {
            return;
        }
        let ever = links.len();
        links.sort_by(|a, b| most(b).total_cmp(&most(a)));
        links.truncate(MOST_LINKS);
        let names: Vec<String> = links
            .iter()
            .map(|it| {
                let (from, to) = ends(self.scenario.network, *it);
                format!("{from} -> {to}")
            })
            .collect();
        let wide = names.iter().map(|it| it.chars().count()).max().unwrap_or(0).max(18);
        let _ = write!(out, "  {:wide$} {:>10} {:>10}", "WAN link", "capacity", "available");
        for (mode, _) in self.accounts {
            let _ = write!(out, " {:>16}", mode.name());
        }
        out.push('\n');
        for (link, name) in links.iter().zip(&names) {
            let capacity = self.scenario.network.link(*link).spec.bandwidth.to_string();
            let mean = self.base().map(|it| it.mean_available(*link).as_gb_per_s_f64());
            let mean = mean.map_or_else(String::new, |it| format!("{it:.2} GB/s"));
            let _ = write!(out, "  {name:wide$} {capacity:>10} {mean:>10}");
            for (mode, account) in self.accounts {
                let percent = format!("{:.1}%", share(account, *link) * 100.0);
                let column = mode.name().len().max(16);
                let _ = write!(out, " {percent:>column$}");
            }
            out.push('\n');
        }
        if ever > links.len() {
            let _ =
                writeln!(out, "  and {} more; {} of {all} never", ever - links.len(), all - ever);
        }
    }

    /// The cut between regions that bounds the collective.
    fn cuts_text(&self, out: &mut String) {
        let _ = writeln!(out, "{}", Printer::strong("the regions' cut"));
        match &self.cut {
            Some(cut) => {
                let _ = writeln!(out, "  {:18} {}", "nominal", self.describe(cut));
            }
            None => {
                let _ = writeln!(out, "  {:18} none: no WAN link bounds the collective", "nominal");
            }
        }
        if let Some(bound) = &self.bound {
            let text = bound.describe(self.scenario.network);
            let _ = writeln!(out, "  {:18} {text}", "of all cuts");
        }
        let Some(yardstick) = &self.yardstick else { return };
        let all = yardstick.sampled.len();
        for (cut, states) in yardstick.cuts.iter().take(MOST_CUTS) {
            let _ = writeln!(
                out,
                "  {:18} {}; {:.1} GB/s available",
                format!("{states} of {all} states"),
                self.describe(cut),
                cut.bandwidth.as_gb_per_s_f64()
            );
        }
        if yardstick.cuts.len() > MOST_CUTS {
            let _ = writeln!(out, "  and {} more", yardstick.cuts.len() - MOST_CUTS);
        }
    }
}

//! One bound as JSON; docs/json.md has the fields.

use motet_collective::bound::{Bound, Cut, HeldAgainst, Ratio, Work};
use motet_net::Network;
use motet_units::{Bytes, Rank};
use serde::Serialize;

use super::text::describe;

#[derive(Serialize)]
pub(super) struct BoundJson {
    collective: &'static str,
    ranks: u32,
    /// The most for programs whose switches do only what the network says they can; in gigabytes (10⁹) per
    /// second, null if nothing has to move. It is what the text leads with.
    program_algbw_gbps: Option<f64>,
    /// The same as an exact fraction.
    program_algbw_gbps_exact: Option<String>,
    /// The least time of such a program; with `--size` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    program_time_us: Option<f64>,
    /// The most whatever switches can do.
    algbw_gbps: Option<f64>,
    /// The same as an exact fraction.
    algbw_gbps_exact: Option<String>,
    latency_us: f64,
    latency_pair: Option<[u32; 2]>,
    /// With `--size` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<f64>,
    /// What sets that: messages between groups (AllReduce).
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<WorkJson>,
    /// What programs reach that have switches copy and reduce over all ranks, where some do.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_switch: Option<InSwitchJson>,
    cut: Option<CutJson>,
    set_by: String,
}

#[derive(Serialize)]
struct InSwitchJson {
    algbw_gbps: f64,
    algbw_gbps_exact: String,
    /// How many switches serve all ranks.
    switches: usize,
    /// With `--size` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<f64>,
}

#[derive(Serialize)]
struct CutJson {
    ranks: Vec<u32>,
    nodes: Vec<String>,
    links: Vec<[String; 2]>,
    bandwidth_gbps: f64,
    /// Bytes that must cross per byte of size.
    share: f64,
    description: String,
}

#[derive(Serialize)]
struct WorkJson {
    algbw_gbps: f64,
    algbw_gbps_exact: String,
    /// What the groups are: rank, server, rack, pod, datacenter, or group if they have no name.
    level: String,
    groups: usize,
    members: Vec<Vec<u32>>,
    bandwidth_gbps: f64,
    /// Whether it is the largest packing of spanning trees, which a program can reach.
    is_packing: bool,
    description: String,
}

pub(super) fn json(bound: &Bound, network: &Network, size: Option<Bytes>) -> BoundJson {
    let (algbw, program_algbw) = (bound.algbw(), bound.program_algbw());
    BoundJson {
        collective: bound.collective.name(),
        ranks: bound.ranks,
        program_algbw_gbps: program_algbw.map(Ratio::to_f64),
        program_algbw_gbps_exact: program_algbw.map(|it| it.to_string()),
        program_time_us: size.map(|it| bound.program_time(it).as_us_f64()),
        algbw_gbps: algbw.map(Ratio::to_f64),
        algbw_gbps_exact: algbw.map(|it| it.to_string()),
        latency_us: bound.latency.as_us_f64(),
        latency_pair: bound.latency_pair.map(|(a, b)| [a.0, b.0]),
        size_bytes: size.map(Bytes::get),
        time_us: size.map(|it| bound.time(it).as_us_f64()),
        work: bound.work.as_ref().and_then(work_json),
        in_switch: in_switch_json(bound, size),
        cut: bound.cut().map(|it| cut_json(it, network)),
        set_by: bound.describe(network),
    }
}

fn in_switch_json(bound: &Bound, size: Option<Bytes>) -> Option<InSwitchJson> {
    let found = bound.in_switch.as_ref()?;
    let algbw = found.algbw()?;
    Some(InSwitchJson {
        algbw_gbps: algbw.to_f64(),
        algbw_gbps_exact: algbw.to_string(),
        switches: found.switches,
        time_us: size.map(|it| bound.least(HeldAgainst::WholeGroup, it).as_us_f64()),
    })
}

fn work_json(work: &Work) -> Option<WorkJson> {
    let algbw = work.algbw()?;
    let numbers = |it: &Vec<Rank>| it.iter().map(|it| it.0).collect();
    Some(WorkJson {
        algbw_gbps: algbw.to_f64(),
        algbw_gbps_exact: algbw.to_string(),
        level: work.level.to_string(),
        groups: work.groups,
        members: work.members.iter().map(numbers).collect(),
        bandwidth_gbps: work.bandwidth.as_gb_per_s_f64(),
        is_packing: work.is_packing,
        description: describe(work),
    })
}

fn cut_json(cut: &Cut, network: &Network) -> CutJson {
    let name = |id| network.node(id).name.clone();
    let ends = |id: &motet_units::LinkId| {
        let link = network.link(*id);
        [name(link.from), name(link.to)]
    };
    CutJson {
        ranks: cut.ranks.iter().map(|it| it.0).collect(),
        nodes: cut.nodes.iter().copied().map(name).collect(),
        links: cut.links.iter().map(ends).collect(),
        bandwidth_gbps: cut.bandwidth.as_gb_per_s_f64(),
        share: cut.share.to_f64(),
        description: cut.describe(network),
    }
}

//! `motet bound`: the least time any program could take, and the cut that sets it.

use std::fmt::Write as _;

use motet_collective::bound::{self, Bound, BoundError, Cut, Ratio, SetBy, Work};
use motet_collective::{Collective, CollectiveError, CollectiveKind};
use motet_net::Network;
use motet_units::{Bytes, Duration, Rank};
use serde::Serialize;

use crate::args::BoundArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

#[derive(Serialize)]
struct BoundJson {
    collective: &'static str,
    ranks: u32,
    /// Gigabytes (10⁹) per second; null if nothing has to move.
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
    /// What a program can do at best whose switches neither reduce nor copy (AllReduce).
    #[serde(skip_serializing_if = "Option::is_none")]
    program_algbw_gbps: Option<f64>,
    /// What sets that: messages between groups (AllReduce).
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<WorkJson>,
    cut: Option<CutJson>,
    set_by: String,
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

pub(crate) fn run(args: &BoundArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let network = files::network(&args.cluster, &args.read.options(), printer)?.network;
    let change = args.what_if.of(&network, printer)?;
    let network = change.network(&network).map_err(|it| Failure::unreadable(it.to_string()))?;
    let collective = collective(args, &network)?;
    let progress = Progress::start(printer, "looking for the tightest cut");
    let bound = bound::bound(&network, &collective);
    drop(progress);
    let bound = bound.map_err(|it| infinite(&it, &network).in_file(&args.cluster))?;
    within_the_clock(&bound, args.size).map_err(|it| it.in_file(&args.cluster))?;
    if printer.is_json() {
        printer.json(&json(&bound, &network, args.size))?;
    } else {
        printer.out(&text(&bound, &network, args.size))?;
    }
    Ok(Status::Done)
}

/// The collective over all GPUs of the network.
fn collective(args: &BoundArgs, network: &Network) -> Result<Collective, Failure> {
    let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    if ranks == 0 {
        return Err(Failure::wrong("has no GPUs, and so no ranks")
            .in_file(&args.cluster)
            .with_remedy(
                "a WAN file alone has only routers; attach datacenters to it in a cluster file",
            ));
    }
    let made = match args.collective {
        CollectiveKind::SendRecv => {
            let peers = (0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect();
            Collective::send_recv(1, peers)
        }
        CollectiveKind::AllToAllV => {
            return Err(Failure::unreadable("alltoallv needs a count for each pair of ranks")
                .with_remedy("the bound of alltoall is that of equal counts"));
        }
        kind if kind.has_root() => Collective::rooted(kind, ranks, 1, Rank(args.root)),
        kind => Collective::new(kind, ranks, 1),
    };
    made.map_err(|error| match error {
        CollectiveError::RootOutOfRange { .. } => Failure::unreadable(error.to_string())
            .with_remedy(format!("give `--root` a rank from 0 to {}", ranks - 1)),
        _ => Failure::unreadable(error.to_string()),
    })
}

/// Times end at 2⁶⁴ ps: of a bound that reaches it no more is known than that it is at least so long.
fn within_the_clock(bound: &Bound, size: Option<Bytes>) -> Result<(), Failure> {
    match size {
        Some(size) if bound.time(size) == Duration::MAX => {
            let problem = format!("{size} take at least 2⁶⁴ ps (213 days)");
            Err(Failure::wrong(format!("{problem}: the network is too slow for Motet's clock"))
                .with_remedy("use a smaller size or faster links"))
        }
        _ => Ok(()),
    }
}

fn infinite(error: &BoundError, network: &Network) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match error {
        BoundError::Unreachable(it) => {
            failure.with_remedy(format!("the cut that proves it: {}", it.cut.describe(network)))
        }
        _ => failure,
    }
}

fn json(bound: &Bound, network: &Network, size: Option<Bytes>) -> BoundJson {
    let algbw = bound.algbw();
    let work = bound.work.as_ref().filter(|it| it.time_per_byte > bound.time_per_byte);
    BoundJson {
        collective: bound.collective.name(),
        ranks: bound.ranks,
        algbw_gbps: algbw.map(Ratio::to_f64),
        algbw_gbps_exact: algbw.map(|it| it.to_string()),
        latency_us: bound.latency.as_us_f64(),
        latency_pair: bound.latency_pair.map(|(a, b)| [a.0, b.0]),
        size_bytes: size.map(Bytes::get),
        time_us: size.map(|it| bound.time(it).as_us_f64()),
        program_algbw_gbps: work
            .and_then(|it| it.time_per_byte.inverse())
            .map(|bytes_per_s| bytes_per_s.to_f64() / 1e9),
        work: bound.work.as_ref().and_then(work_json),
        cut: bound.cut().map(|it| cut_json(it, network)),
        set_by: bound.describe(network),
    }
}

/// Size over time, in GB/s.
fn algbw(work: &Work) -> Option<Ratio> {
    Ratio::new(1, 1_000_000_000)?.checked_mul(work.time_per_byte.inverse()?)
}

fn work_json(work: &Work) -> Option<WorkJson> {
    let algbw = algbw(work)?;
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

/// What sets the bound of programs, in words.
fn describe(work: &Work) -> String {
    let messages = 2 * (work.groups - 1);
    let (groups, level) = (work.groups, work.level);
    let bandwidth = work.bandwidth.as_gb_per_s_f64();
    let packing = match work.is_packing {
        true => "; spanning trees can be packed so well",
        false => "",
    };
    format!(
        "{messages} messages a byte between {groups} {level}s that send {bandwidth:.2} GB/s together{packing}"
    )
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

fn text(bound: &Bound, network: &Network, size: Option<Bytes>) -> String {
    let mut out = String::new();
    let heading = format!("{} over {} ranks", bound.collective, bound.ranks);
    let _ = writeln!(out, "{}", Printer::strong(&heading));
    let _ = match bound.algbw() {
        Some(algbw) => writeln!(out, "  bandwidth  at most {:.2} GB/s", algbw.to_f64()),
        None => writeln!(out, "  bandwidth  without limit: nothing has to move"),
    };
    if let Some((from, to)) = bound.latency_pair {
        let _ = writeln!(out, "  latency    at least {} (rank {from} to {to})", bound.latency);
    }
    if let Some(size) = size {
        let time = bound.time(size).as_us_f64();
        let _ = writeln!(out, "  time       at least {time:.3} µs on ideal links for {size}");
    }
    let word = if matches!(bound.set_by, SetBy::Cut(_)) { "cut" } else { "set by" };
    let _ = writeln!(out, "  {word:9}  {}", bound.describe(network));
    if let Some(work) = &bound.work
        && let Some(algbw) = algbw(work)
    {
        let _ = writeln!(
            out,
            "  programs   at most {:.2} GB/s if switches neither reduce nor copy: {}",
            algbw.to_f64(),
            describe(work)
        );
    }
    out
}

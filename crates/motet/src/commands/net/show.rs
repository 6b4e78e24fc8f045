//! `motet net show`: what a network is made of.

use std::fmt::Write as _;

use motet_net::formats::nccl_xml::{GraphDump, Hop};
use motet_net::summary::ClassSummary;
use motet_net::{LinkClass, NodeKind, Summary};
use serde::Serialize;

use crate::args::net::ShowArgs;
use crate::failure::{Failure, Status};
use crate::files::{self, Cluster};
use crate::printer::Printer;

/// The summary with what only the reader knows, and the counts people ask for first.
#[derive(Serialize)]
struct Shown<'a> {
    file: &'a str,
    format: &'static str,
    gpus: usize,
    nics: usize,
    /// Physical NVLinks (or xGMI links), each once whichever way it was listed.
    nvlinks: u64,
    /// Pairs of devices joined by them.
    nvlink_connections: usize,
    notes: &'a [String],
    #[serde(flatten)]
    summary: &'a Summary,
}

pub(crate) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let read = files::network(&args.cluster, &args.read.options(), printer)?;
    let summary = Summary::of(&read.network);
    if printer.is_json() {
        let gpu_links =
            || [LinkClass::NvLink, LinkClass::Xgmi].into_iter().filter_map(|it| summary.class(it));
        printer.json(&Shown {
            file: &args.cluster,
            format: read.format,
            gpus: summary.count(NodeKind::Gpu),
            nics: summary.count(NodeKind::Nic),
            nvlinks: gpu_links().map(|it| it.lanes).sum(),
            nvlink_connections: gpu_links().map(|it| it.connections + it.one_way).sum(),
            notes: &read.notes,
            summary: &summary,
        })?;
    } else {
        printer.out(&text(&read, &summary, printer.is_verbose()))?;
    }
    Ok(Status::Done)
}

pub(crate) fn text(read: &Cluster, summary: &Summary, verbose: bool) -> String {
    let mut out = String::new();
    let kinds: Vec<String> = summary
        .kinds
        .iter()
        .map(|it| format!("{} {}", it.count, plural(it.kind, it.count)))
        .collect();
    let name = if summary.name.is_empty() { "network" } else { &summary.name };
    let _ = writeln!(out, "{} ({})", Printer::strong(name), read.description);
    let _ = writeln!(out, "  nodes      {}: {}", summary.nodes, kinds.join(", "));
    let _ = writeln!(out, "  links      {} directed", summary.links);
    for class in &summary.classes {
        let _ = writeln!(out, "  {:9}  {}", class.class, class_text(class));
    }
    let places: Vec<String> =
        [("server", summary.servers), ("rack", summary.racks), ("datacenter", summary.dcs)]
            .into_iter()
            .filter(|it| it.1 > 0)
            .map(|(word, count)| format!("{count} {}", plural(word, count)))
            .collect();
    if !places.is_empty() {
        let _ = writeln!(out, "  places     {}", places.join(", "));
    }
    if summary.ranks > 1 {
        let _ = writeln!(out, "  ranks      {}", ranks_text(summary));
    }
    if summary.components > 1 {
        let _ = writeln!(out, "  parts      {} that no link joins", summary.components);
    }
    let _ = writeln!(out, "  signature  {}", summary.signature);
    if let Some(dump) = &read.graphs {
        graphs_text(&mut out, dump);
    }
    if verbose {
        links_text(&mut out, read);
    }
    out
}

fn class_text(class: &ClassSummary) -> String {
    let mut words =
        vec![format!("{} {}", class.connections, plural("connection", class.connections))];
    if class.one_way > 0 {
        words.push(format!("{} one way", class.one_way));
    }
    if class.lanes != (class.connections + class.one_way) as u64 {
        words.push(format!("{} lanes", class.lanes));
    }
    if let Some(spread) = &class.gpu_bandwidth {
        words.push(if spread.min == spread.max {
            format!("{} a GPU", spread.max)
        } else {
            format!("{} to {} a GPU", spread.min, spread.max)
        });
    }
    words.join(", ")
}

fn ranks_text(summary: &Summary) -> String {
    let tiers = &summary.tiers;
    let mut text = summary.ranks.to_string();
    if let Some(worst) = tiers.worst {
        let mix: Vec<String> = tiers
            .pairs
            .iter()
            .enumerate()
            .filter(|(_, pairs)| **pairs > 0)
            .map(|(tier, pairs)| {
                format!("{pairs} {} at tier {tier}", plural("pair", *pairs as usize))
            })
            .collect();
        let _ = write!(text, ", worst tier {worst} ({})", mix.join(", "));
    }
    if !summary.ranks_connected {
        text.push_str("; not every rank reaches every other");
    }
    text
}

/// What NCCL's search chose, one line a channel.
fn graphs_text(out: &mut String, dump: &GraphDump) {
    for graph in &dump.graphs {
        let _ = writeln!(
            out,
            "  {:9}  {} {}, {} inside ({}), {} between ({})",
            graph.name(),
            graph.channels.len(),
            plural("channel", graph.channels.len()),
            graph.speed_intra,
            graph.type_intra,
            graph.speed_inter,
            graph.type_inter,
        );
        for channel in &graph.channels {
            let hops: Vec<String> = channel
                .iter()
                .map(|it| match it {
                    Hop::Gpu(dev) => format!("gpu {dev}"),
                    Hop::Net(dev) => format!("net {dev}"),
                })
                .collect();
            let _ = writeln!(out, "             {}", hops.join(" - "));
        }
    }
}

/// Every link, for `-v`.
fn links_text(out: &mut String, read: &Cluster) {
    let network = &read.network;
    for id in network.link_ids() {
        let link = network.link(id);
        let spec = link.spec;
        let _ = writeln!(
            out,
            "  {} -> {}  {} {}, {}, tier {}",
            network.node(link.from).name,
            network.node(link.to).name,
            spec.class,
            spec.bandwidth,
            spec.latency,
            network.tier(id)
        );
    }
}

fn plural(word: &str, count: usize) -> String {
    match (word, count) {
        (_, 1) => word.to_owned(),
        _ if word.ends_with("switch") => format!("{word}es"),
        ("leaf", _) => "leaves".to_owned(),
        ("ocs", _) => "optical switches".to_owned(),
        _ => format!("{word}s"),
    }
}

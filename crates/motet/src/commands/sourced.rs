//! What `motet net discover` and `motet probe run` have in common: a network whose figures have
//! sources, as text, as JSON and as a cluster file.

use std::fmt::Write as _;

use motet_net::provenance::{Source, Sourced, Unseen};
use motet_net::{NodeKind, Summary};
use serde::Serialize;

use crate::failure::Failure;
use crate::files::{self, Cluster};
use crate::printer::Printer;

/// Prints what was found, and writes it where asked. `more` goes into the JSON beside the rest.
pub(super) fn show(
    found: &Sourced,
    from: &'static str,
    output: Option<&str>,
    more: serde_json::Map<String, serde_json::Value>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    if output == Some("-") {
        return printer.out(&found.cluster_toml());
    }
    if let Some(output) = output {
        files::write(output, &found.cluster_toml(), printer)?;
    }
    if printer.is_json() {
        return printer.json(&Json::of(found, more));
    }
    printer.out(&text(found, from, printer.is_verbose()))
}

fn text(found: &Sourced, from: &'static str, verbose: bool) -> String {
    let summary = Summary::of(&found.network);
    let cluster = Cluster {
        network: found.network.clone(),
        format: "found",
        description: from,
        notes: Vec::new(),
        graphs: None,
    };
    let mut out = super::net::show::text(&cluster, &summary, false);
    for tally in found.tally() {
        let figures = match (tally.bandwidths, tally.latencies) {
            (0, _) => "latency",
            (_, 0) => "bandwidth",
            _ => "bandwidth and latency",
        };
        let links = tally.bandwidths.max(tally.latencies);
        let plural = if links == 1 { "link" } else { "links" };
        let _ = writeln!(
            out,
            "  {:9}  {figures} of {links} {} {plural}",
            tally.provenance, tally.class
        );
    }
    if verbose {
        for (link, sources) in found.network.links().iter().zip(&found.links) {
            let name = |id| &found.network.node(id).name;
            let (bandwidth, latency) = (link.spec.bandwidth, link.spec.latency);
            let _ = writeln!(
                out,
                "  {} -> {}  {bandwidth} ({}), {latency} ({})",
                name(link.from),
                name(link.to),
                sources.bandwidth,
                sources.latency
            );
        }
    }
    for note in &found.notes {
        let _ = writeln!(out, "  note       {note}");
    }
    for unseen in &found.unseen {
        let _ = writeln!(out, "  not seen   {unseen}");
    }
    out
}

#[derive(Serialize)]
struct Json<'a> {
    gpus: usize,
    nics: usize,
    #[serde(flatten)]
    summary: Summary,
    figures: Vec<Figure<'a>>,
    unseen: Vec<UnseenJson<'a>>,
    notes: &'a [String],
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Figure<'a> {
    from: &'a str,
    to: &'a str,
    class: &'static str,
    lanes: u32,
    bandwidth_gbps: f64,
    latency_us: f64,
    bandwidth_source: SourceJson<'a>,
    latency_source: SourceJson<'a>,
}

#[derive(Serialize)]
struct SourceJson<'a> {
    provenance: &'static str,
    detail: &'a str,
}

#[derive(Serialize)]
struct UnseenJson<'a> {
    what: &'a str,
    why: &'a str,
}

impl<'a> Json<'a> {
    fn of(found: &'a Sourced, more: serde_json::Map<String, serde_json::Value>) -> Self {
        let network = &found.network;
        let source = |it: &'a Source| SourceJson {
            provenance: it.provenance.name(),
            detail: it.detail.as_str(),
        };
        let links = network.links().iter().zip(&found.links);
        let figures = links.map(|(link, sources)| Figure {
            from: &network.node(link.from).name,
            to: &network.node(link.to).name,
            class: link.spec.class.name(),
            lanes: link.spec.lanes,
            bandwidth_gbps: link.spec.bandwidth.as_gb_per_s_f64(),
            latency_us: link.spec.latency.as_us_f64(),
            bandwidth_source: source(&sources.bandwidth),
            latency_source: source(&sources.latency),
        });
        let unseen = |it: &'a Unseen| UnseenJson { what: &it.what, why: &it.why };
        Self {
            gpus: network.count(NodeKind::Gpu),
            nics: network.count(NodeKind::Nic),
            summary: Summary::of(network),
            figures: figures.collect(),
            unseen: found.unseen.iter().map(unseen).collect(),
            notes: &found.notes,
            more,
        }
    }
}

//! `motet net sketch`: a sketch from a network alone, and what each stage of pruning left.

use std::fmt::Write as _;

use motet_net::Network;
use motet_tune::sketch::{Connecting, NotPruned, Pruned, Stage, prune, taccl};
use motet_units::NodeId;
use serde::Serialize;

use crate::args::sketch::{SketchArgs, SketchFormat};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

#[derive(Serialize)]
struct SketchJson<'a> {
    network: &'a str,
    name: &'a str,
    format: &'static str,
    /// What there was, then after each stage.
    stages: Vec<StageJson>,
    binding: Vec<BoundJson<'a>>,
    groups: Vec<GroupJson<'a>>,
    /// The sketch itself, if it was not written to a file.
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct StageJson {
    stage: &'static str,
    nic_ways: usize,
    nic_connections: usize,
    gpu_connections: usize,
    links: usize,
}

#[derive(Serialize)]
struct BoundJson<'a> {
    gpu: &'a str,
    nic: &'a str,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    nics: Vec<&'a str>,
    send: Vec<&'a str>,
    receive: Vec<&'a str>,
}

pub(crate) fn run(args: &SketchArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let network = files::network(&args.cluster, &args.read.options(), printer)?.network;
    let connecting = match args.connections {
        Some(count) => Connecting::Most(count as usize),
        None if args.ungrouped => Connecting::Ungrouped,
        None => Connecting::All,
    };
    let pruned = prune(&network, connecting).map_err(|it| failure(&it).in_file(&args.cluster))?;
    let output = args.output.as_deref().filter(|it| *it != "-");
    let json_file = output.is_some_and(|it| it.to_ascii_lowercase().ends_with(".json"));
    let default = if json_file { SketchFormat::Taccl } else { SketchFormat::Motet };
    let format = args.to.unwrap_or(default);
    let text = match format {
        SketchFormat::Motet => pruned.sketch.write(&network),
        SketchFormat::Taccl => {
            let made = taccl::export(&network, &pruned.sketch).map_err(|it| {
                Failure::wrong(format!("has no sketch in TACCL's format: {it}"))
                    .in_file(&args.cluster)
                    .with_remedy("write it as Motet's own: `--to motet`")
            })?;
            taccl::write(&made)
        }
    };
    if let Some(name) = output {
        files::write(name, &text, printer)?;
    }
    if printer.is_json() {
        let text = output.is_none().then_some(text.as_str());
        printer.json(&json(&network, &pruned, format, text))?;
    } else if output.is_some() {
        printer.out(&table(&network, &pruned))?;
    } else {
        printer.note(table(&network, &pruned).trim_end());
        printer.out(&text)?;
    }
    Ok(Status::Done)
}

fn failure(why: &NotPruned) -> Failure {
    let failure = Failure::wrong(why.to_string());
    match why {
        NotPruned::FewServers | NotPruned::OneWay { .. } => {
            failure.with_remedy("no sketch is needed: without one `motet synth` uses every link")
        }
        NotPruned::NoWayOut => failure.with_remedy("give servers NICs, or links that leave them"),
        NotPruned::Parted { .. } => failure.with_remedy("`--connections` says how many connect"),
        _ => failure,
    }
}

fn json<'a>(
    network: &'a Network,
    pruned: &'a Pruned,
    format: SketchFormat,
    text: Option<&'a str>,
) -> SketchJson<'a> {
    let name = |it: &NodeId| network.node(*it).name.as_str();
    let names = |it: &[NodeId]| it.iter().map(name).collect();
    let connections = pruned.sketch.connections.iter();
    let stage = |it: &Stage| StageJson {
        stage: it.name,
        nic_ways: it.nic_ways,
        nic_connections: it.nic_connections,
        gpu_connections: it.gpu_connections,
        links: it.links,
    };
    let bound = connections.clone().flat_map(|it| &it.binding);
    let groups = connections.flat_map(|it| &it.groups);
    SketchJson {
        network: network.name(),
        name: &pruned.sketch.name,
        format: match format {
            SketchFormat::Motet => "motet",
            SketchFormat::Taccl => "taccl",
        },
        stages: pruned.stages.iter().map(stage).collect(),
        binding: bound.map(|(gpu, nic)| BoundJson { gpu: name(gpu), nic: name(nic) }).collect(),
        groups: groups
            .map(|it| GroupJson {
                nics: names(&it.ports),
                send: names(&it.senders),
                receive: names(&it.receivers),
            })
            .collect(),
        text,
    }
}

fn table(network: &Network, pruned: &Pruned) -> String {
    let heading = format!("sketch {} for {}", pruned.sketch.name, network.name());
    let about = "what each stage leaves in the server that has the most, and of all links";
    let mut out = format!("{}: {about}\n", Printer::strong(&heading));
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "  {:9}  {:>10}  {:>10}  {:>10}  {:>7}",
        "stage", "GPU to NIC", "NIC to NIC", "GPU to GPU", "links"
    );
    for it in &pruned.stages {
        let _ = writeln!(
            out,
            "  {:9}  {:>10}  {:>10}  {:>10}  {:>7}",
            it.name, it.nic_ways, it.nic_connections, it.gpu_connections, it.links
        );
    }
    out
}

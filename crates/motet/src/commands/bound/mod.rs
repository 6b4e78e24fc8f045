//! `motet bound`: the least time any program could take, and what sets it.
//!
//! One collective at one size is printed in words ([`text`]) or as one JSON object ([`json`]). Several
//! collectives or sizes, or several values of a template's parameter (`--sweep`), give a table, a CSV file and
//! a plot ([`table`]).

mod json;
mod table;
mod text;

use motet_collective::bound::{self, Bound, BoundError};
use motet_collective::{Collective, CollectiveError, CollectiveKind};
use motet_net::Network;
use motet_units::{Bytes, Duration, Rank};

use crate::args::bound::BoundArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

pub(crate) fn run(args: &BoundArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let sizes = args.range.or(&args.size)?;
    let many = args.collective.len() > 1
        || sizes.len() > 1
        || args.sweep.is_some()
        || args.csv.is_some()
        || args.plot.is_some();
    if many {
        return table::run(args, &sizes, printer);
    }
    let network = network(args, &args.cluster, printer)?;
    let progress = Progress::start(printer, "looking for the tightest cut");
    let kind = args.collective.first().copied().unwrap_or(CollectiveKind::AllReduce);
    let bound = bound_of(args, kind, &sizes, &args.cluster, &network)?;
    drop(progress);
    let size = sizes.first().copied();
    if printer.is_json() {
        printer.json(&json::json(&bound, &network, size))?;
    } else {
        printer.out(&text::text(&bound, &network, size))?;
    }
    Ok(Status::Done)
}

/// The network that `cluster` names, with the links that `--fail` and `--scale` name changed.
fn network(args: &BoundArgs, cluster: &str, printer: &Printer) -> Result<Network, Failure> {
    let network = files::network(cluster, &args.read.options(), printer)?.network;
    let change = args.what_if.of(&network, printer)?;
    change.network(&network).map_err(|it| Failure::unreadable(it.to_string()))
}

/// The bound of one collective over all GPUs of the network that `cluster` names.
fn bound_of(
    args: &BoundArgs,
    kind: CollectiveKind,
    sizes: &[Bytes],
    cluster: &str,
    network: &Network,
) -> Result<Bound, Failure> {
    let collective = collective(args, kind, cluster, network)?;
    let bound =
        bound::bound(network, &collective).map_err(|it| infinite(&it, network).in_file(cluster))?;
    match sizes.iter().find(|it| bound.time(**it) == Duration::MAX) {
        Some(size) => Err(too_slow(*size).in_file(cluster)),
        None => Ok(bound),
    }
}

/// Times end at 2⁶⁴ ps: of a bound that reaches it no more is known than that it is at least so long.
fn too_slow(size: Bytes) -> Failure {
    let problem = format!("{size} take at least 2⁶⁴ ps (213 days)");
    Failure::wrong(format!("{problem}: the network is too slow for Motet's clock"))
        .with_remedy("use a smaller size or faster links")
}

/// The collective over all GPUs of the network.
fn collective(
    args: &BoundArgs,
    kind: CollectiveKind,
    cluster: &str,
    network: &Network,
) -> Result<Collective, Failure> {
    let ranks = files::gpus(network, cluster)?;
    let made = match kind {
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

fn infinite(error: &BoundError, network: &Network) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match error {
        BoundError::Unreachable(it) => {
            failure.with_remedy(format!("the cut that proves it: {}", it.cut.describe(network)))
        }
        _ => failure,
    }
}

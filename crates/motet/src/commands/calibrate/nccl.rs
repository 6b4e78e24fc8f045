//! `motet calibrate` of NCCL: what was measured, and what its log says, beside the model of it; and terms that explain what
//! was measured.
//!
//! Files are read into calls and logs (`gather`); every number of ranks has a network and so a model. Then rows of
//! nccl-tests stand beside the model (`compare`), a log's tables and graphs beside the model's (`belief`), and the terms are
//! fitted (`fit`): with `-o`, and wherever a table of calls is given.

mod belief;
mod compare;
mod fit;
mod gather;

use std::collections::BTreeSet;

use motet_nccl::{NcclModel, NcclVersion};
use motet_net::Network;
use motet_tune::calibrate::Format;
use motet_tune::calibrate::nccl::{Version, first_ranks, store};
use serde::Serialize;

use self::gather::Gathered;
use crate::args::calibrate::CalibrateArgs;
use crate::commands::nccl;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

#[derive(Default, Serialize)]
struct NcclJson {
    model: String,
    cluster: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    compared: Option<compare::ComparedJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logs: Vec<belief::BeliefJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<fit::FitJson>,
}

/// NCCL on the network of one number of ranks.
struct Place<'a> {
    cluster: &'a str,
    network: Network,
    model: NcclModel,
}

pub(super) fn run(
    texts: &[(&str, Format, String)],
    args: &CalibrateArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let all = gather::gather(texts, args)?;
    if let Some(name) = &args.store {
        files::write(name, &store::write(&all.calls), printer)?;
    }
    if args.cluster.is_empty() {
        // A table of calls was all that was asked for.
        if args.store.is_some() && args.output.is_none() {
            return Ok(Status::Done);
        }
        return Err(Failure::unreadable("measurements of NCCL are held against its model")
            .in_file(texts[0].0)
            .with_remedy("name the network that they were measured on with `--cluster`"));
    }
    if args.plans.is_some() || args.ranks_per_gpu.is_some() {
        return Err(Failure::unreadable("`--plans` and `--ranks-per-gpu` are for MSCCL++"));
    }
    let usual = nccl::version(args.nccl);
    let places = {
        let _progress = Progress::start(printer, "searching rings and trees as NCCL does");
        places(&all, usual, args, printer)?
    };
    let mut json = NcclJson {
        model: versions(&places),
        cluster: args.cluster.join(" "),
        ..NcclJson::default()
    };
    let mut text = String::new();
    all.notes(printer);
    belief::add(&all, &places, &mut json.logs, &mut text);
    if args.output.is_some() || all.has_tables {
        fit::add(&all, &places, usual, args, printer, &mut json.fit, &mut text)?;
    } else if !all.rows.is_empty() {
        compare::add(&all, &places, usual, args, &mut json.compared, &mut text)?;
    }
    if printer.is_json() {
        printer.json(&json)?;
    } else if args.output.as_deref() != Some("-") && args.store.as_deref() != Some("-") {
        printer.out(&text)?;
    }
    Ok(Status::Done)
}

/// Every cluster with every version of NCCL that was measured or logged; and its first ranks, where calls are of fewer than any
/// cluster has.
fn places<'a>(
    all: &Gathered<'_>,
    usual: NcclVersion,
    args: &'a CalibrateArgs,
    printer: &Printer,
) -> Result<Vec<Place<'a>>, Failure> {
    let calls = all.calls.iter().map(|it| it.nccl);
    let logs = all.logs.iter().map(|it| it.1.version);
    let versions: BTreeSet<NcclVersion> =
        calls.chain(logs).map(|it| it.map_or(usual, Version::model)).collect();
    let mut places = Vec::new();
    for cluster in &args.cluster {
        for version in &versions {
            let (network, model) = nccl::model_of(cluster, &args.read, *version, printer)?;
            places.push(Place { cluster, network, model });
        }
    }
    // Rows of nccl-tests alone are held against the network that is named.
    let measured = all.calls.iter().filter(|_| all.has_tables || args.output.is_some());
    let ranks: BTreeSet<u32> = measured.filter_map(|it| it.ranks).collect();
    for ranks in ranks {
        for version in &versions {
            if place(&places, Some(ranks), *version).is_some() {
                continue;
            }
            let of_version = |it: &&Place<'_>| it.model.options().version == *version;
            let cut =
                |it: &Place<'a>| Some((it.cluster, first_ranks(&it.network, ranks as usize)?));
            let Some((cluster, network)) = places.iter().filter(of_version).find_map(cut) else {
                continue;
            };
            let model = nccl::model_on(cluster, &network, None, *version)?;
            places.push(Place { cluster, network, model });
        }
    }
    Ok(places)
}

fn versions(places: &[Place<'_>]) -> String {
    let all: BTreeSet<&str> = places.iter().map(|it| it.model.options().version.name()).collect();
    format!("NCCL {}", all.into_iter().collect::<Vec<_>>().join(", "))
}

/// The place of so many ranks; the first where nobody knows how many there were.
fn place<'a, 'b>(
    places: &'b [Place<'a>],
    ranks: Option<u32>,
    version: NcclVersion,
) -> Option<&'b Place<'a>> {
    let same =
        |it: &&Place<'a>| ranks.is_none_or(|ranks| it.model.communicator().ranks == ranks as usize);
    places.iter().filter(|it| it.model.options().version == version).find(same)
}

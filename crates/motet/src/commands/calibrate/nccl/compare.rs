//! Rows of nccl-tests beside the model of NCCL.

use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_nccl::NcclVersion;
use motet_tune::calibrate::nccl::{Compared, Comparison, Version, compare};
use serde::Serialize;

use super::gather::Gathered;
use super::{Place, place};
use crate::args::calibrate::CalibrateArgs;
use crate::failure::Failure;
use crate::printer::Printer;

#[derive(Serialize)]
pub(super) struct ComparedJson {
    results: Vec<LineJson>,
    /// Medians of modelled over measured, and of how far that is from 1.
    ratio: f64,
    error: f64,
}

#[derive(Serialize)]
struct LineJson {
    collective: CollectiveKind,
    size_bytes: u64,
    measured_us: Option<f64>,
    measured_in_place_us: Option<f64>,
    modelled_us: f64,
    ratio: f64,
}

pub(super) fn add(
    all: &Gathered<'_>,
    places: &[Place<'_>],
    usual: NcclVersion,
    args: &CalibrateArgs,
    json: &mut Option<ComparedJson>,
    text: &mut String,
) -> Result<(), Failure> {
    if let [_, (name, _), ..] = &all.rows[..] {
        return Err(Failure::unreadable("is a second log of nccl-tests")
            .in_file(name)
            .with_remedy("give one log by itself (several may stand in one file), or `-o` to fit terms to all"));
    }
    let Some((name, rows)) = all.rows.first() else { return Ok(()) };
    let logged = all.logs.iter().find(|it| it.0 == *name).and_then(|it| it.1.version);
    let version = logged.map_or(usual, Version::model);
    // Where no network has so many ranks, the first one is named in what is wrong.
    let place = place(places, rows.ranks, version).or_else(|| places.first());
    let Some(place) = place else { return Ok(()) };
    let found = compare(rows, args.collective, &place.network, &place.model);
    let found = found.map_err(|it| Failure::from(it).in_file(name))?;
    let version = format!("NCCL {}", place.model.options().version.name());
    text.push_str(&table(&found, &version, place.cluster));
    *json = Some(self::json(&found));
    Ok(())
}

fn json(found: &Comparison) -> ComparedJson {
    let line = |it: &Compared| LineJson {
        collective: it.kind,
        size_bytes: it.size.get(),
        measured_us: it.out_of_place,
        measured_in_place_us: it.in_place,
        modelled_us: it.modelled.as_us_f64(),
        ratio: it.ratio,
    };
    let results = found.calls.iter().map(line).collect();
    ComparedJson { results, ratio: found.ratio, error: found.error }
}

fn table(found: &Comparison, version: &str, cluster: &str) -> String {
    let mut out = format!("{version} as modelled on {cluster}, beside what was measured\n\n");
    let heading = "collective             bytes   measured   in place   modelled  ratio";
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", Printer::strong(heading));
    let time = |it: Option<f64>| it.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    for it in &found.calls {
        let _ = writeln!(
            out,
            "{:15} {:>12} {:>10} {:>10} {:>10.2} {:>6.2}",
            it.kind,
            it.size.get(),
            time(it.out_of_place),
            time(it.in_place),
            it.modelled.as_us_f64(),
            it.ratio
        );
    }
    let _ = writeln!(
        out,
        "\ntimes in µs; modelled over measured: median {:.2}, median distance from 1 {:.0}%",
        found.ratio,
        found.error * 100.0
    );
    out
}

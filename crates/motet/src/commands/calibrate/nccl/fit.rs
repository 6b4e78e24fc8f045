//! The terms that explain what was measured of NCCL, and how far off they and NCCL's own belief are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, NcclModel, NcclVersion, Protocol};
use motet_tune::calibrate::nccl::{
    NcclCalibration, NcclGroup, NcclSamples, SizeClass, Unfit, calibrate,
};
use motet_tune::calibrate::terms_file::{self, NcclNotes, TermsFile};
use serde::Serialize;

use super::Place;
use super::gather::Gathered;
use crate::args::calibrate::CalibrateArgs;
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

/// Digits of a term that are worth writing down.
const DIGITS: usize = 4;

#[derive(Serialize)]
pub(super) struct FitJson {
    samples: usize,
    /// Calls taken to have run what the model says that NCCL chooses.
    assumed: u64,
    left_out: LeftOutJson,
    /// Medians of relative errors: of NCCL's own belief on the half held back,
    believed_error: f64,
    /// and of the fitted terms on the half that they were fitted to and on the other.
    error: f64,
    held_back_error: f64,
    picks: u64,
    picks_good: u64,
    picks_good_believed: u64,
    terms: Vec<TermJson>,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct LeftOutJson {
    no_network: u64,
    own_choice: u64,
    not_counted: u64,
}

#[derive(Serialize)]
struct TermJson {
    name: &'static str,
    unit: &'static str,
    value: f64,
    /// NCCL's constant.
    believed: f64,
    /// By which share the error grows at least if this term alone is a fifth off.
    weight: f64,
}

#[derive(Serialize)]
struct GroupJson {
    collective: CollectiveKind,
    algorithm: &'static str,
    protocol: &'static str,
    sizes: &'static str,
    samples: usize,
    believed_error: Option<f64>,
    error: f64,
    bias: f64,
}

pub(super) fn add(
    all: &Gathered<'_>,
    places: &[Place<'_>],
    usual: NcclVersion,
    args: &CalibrateArgs,
    printer: &mut Printer,
    json: &mut Option<FitJson>,
    text: &mut String,
) -> Result<(), Failure> {
    let before = match &args.from {
        Some(name) => files::terms_file(name)?,
        None => TermsFile::default(),
    };
    let models: Vec<NcclModel> = places.iter().map(|it| it.model.clone()).collect();
    let none = || Failure::wrong("there is nothing to fit terms to");
    let mut samples = NcclSamples::new(&all.calls, &models, usual).ok_or_else(none)?;
    samples.start = before.nccl.unwrap_or(samples.start);
    notes(&samples, printer);
    if samples.list.is_empty() {
        return Err(Failure::wrong("no call was measured on a network that is named").with_remedy(
            "name the network with `--cluster`; it must have as many ranks and nodes as NCCL counted",
        ));
    }
    let found = {
        let _progress = Progress::start(printer, "fitting the terms");
        calibrate(&samples).map_err(|it| {
            Failure::wrong(it.to_string())
                .with_remedy("give more calls, with several sizes of each algorithm and protocol")
        })?
    };
    if let Some(name) = &args.output {
        files::write(name, &terms_file::write(&file(&found, &before)), printer)?;
    }
    text.push_str(&self::text(&found));
    *json = Some(self::json(&found, &samples));
    Ok(())
}

fn notes(samples: &NcclSamples, printer: &Printer) {
    let Unfit { no_network, own_choice, not_counted } = samples.unfit;
    for (count, why) in [
        (no_network, "no `--cluster` has their ranks and nodes"),
        (own_choice, "NCCL chose by itself, and other calls say what they ran"),
        (not_counted, "their algorithm is not counted"),
    ] {
        if count > 0 {
            printer.note(&format!("{count} calls are left out: {why}"));
        }
    }
    if samples.assumed > 0 {
        let count = samples.assumed;
        printer.note(&format!(
            "{count} calls do not say what they ran: taken is what NCCL's model chooses; give NCCL's log \
             (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING) of the run to be sure"
        ));
    }
}

/// A share to four digits.
fn share(it: f64) -> f64 {
    (it * 1e4).round() / 1e4
}

/// The terms found, beside those of MSCCL++ that there were before.
fn file(found: &NcclCalibration, before: &TermsFile) -> TermsFile {
    let notes = NcclNotes {
        samples: found.samples as u64,
        error: share(found.fitted.known),
        held_back_error: share(found.fitted.held_back),
        believed_error: share(found.believed),
    };
    TermsFile { nccl: Some(found.fitted.terms.rounded(DIGITS)), nccl_fit: Some(notes), ..*before }
}

fn json(found: &NcclCalibration, samples: &NcclSamples) -> FitJson {
    let Unfit { no_network, own_choice, not_counted } = samples.unfit;
    let terms = found.fitted.terms.list().into_iter().zip(found.start.values()).zip(found.weights);
    let group = |it: &NcclGroup| GroupJson {
        collective: it.kind,
        algorithm: it.algorithm.name(),
        protocol: it.protocol.name(),
        sizes: it.class.name(),
        samples: it.samples,
        believed_error: it.believed,
        error: it.error,
        bias: it.bias,
    };
    FitJson {
        samples: found.samples,
        assumed: samples.assumed,
        left_out: LeftOutJson { no_network, own_choice, not_counted },
        believed_error: found.believed,
        error: found.fitted.known,
        held_back_error: found.fitted.held_back,
        picks: found.picks,
        picks_good: found.picks_good,
        picks_good_believed: found.picks_believed,
        terms: terms
            .map(|(((name, unit, value), believed), weight)| TermJson {
                name,
                unit,
                value,
                believed,
                weight,
            })
            .collect(),
        groups: found.groups.iter().map(group).collect(),
    }
}

fn text(found: &NcclCalibration) -> String {
    let percent = |it: f64| it * 100.0;
    let mut out = format!("{} calls of NCCL\n\n", found.samples);
    // Writing to a string cannot fail.
    let heading = "term                    value    believed  unit   weight";
    let _ = writeln!(out, "{}", Printer::strong(heading));
    let terms = found.fitted.terms.rounded(DIGITS).list().into_iter().zip(found.start.values());
    for (((name, unit, value), believed), weight) in terms.zip(found.weights) {
        // A term that no call depends on is still what NCCL believes.
        let weight =
            if weight == 0.0 { "-".to_owned() } else { format!("{:.1}%", percent(weight)) };
        let believed = format!("{believed:.3}");
        let _ = writeln!(out, "{name:18} {value:>10}  {believed:>10}  {unit:5} {weight:>7}");
    }
    let _ = writeln!(
        out,
        "believed: NCCL's constant; weight: by how much the error grows at least if this term alone is a fifth off\n"
    );
    groups(&mut out, &found.groups);
    let _ = writeln!(
        out,
        "\nmedian error {:.1}% on the half that the terms were fitted to, {:.1}% on the half held back, where \
         NCCL's belief is {:.0}% off",
        percent(found.fitted.known),
        percent(found.fitted.held_back),
        percent(found.believed)
    );
    if found.picks > 0 {
        let _ = writeln!(
            out,
            "of {} calls that were run in several ways, the terms pick one within 10% of the fastest {} times, NCCL's \
             belief {} times",
            found.picks, found.picks_good, found.picks_believed
        );
    }
    out
}

/// One line for each collective, algorithm and protocol, with the errors of NCCL's belief and of the terms by size.
fn groups(out: &mut String, groups: &[NcclGroup]) {
    type Key = (CollectiveKind, Algorithm, Protocol);
    let mut rows: BTreeMap<Key, [Option<&NcclGroup>; 3]> = BTreeMap::new();
    for it in groups {
        let row = rows.entry((it.kind, it.algorithm, it.protocol)).or_default();
        row[it.class as usize] = Some(it);
    }
    let mut heading = "held back                        calls".to_owned();
    for class in SizeClass::ALL {
        let _ = write!(heading, "  {class:>14}");
    }
    let _ = writeln!(out, "{}", Printer::strong(&heading));
    for ((kind, algorithm, protocol), row) in rows {
        let calls: usize = row.iter().flatten().map(|it| it.samples).sum();
        let name = format!("{algorithm}/{protocol}");
        let _ = write!(out, "{kind:14} {name:18}{calls:>5}");
        for it in row {
            let cell = it.map_or_else(
                || "-".to_owned(),
                |it| {
                    let error = it.error * 100.0;
                    match it.believed {
                        Some(believed) => format!("{:.0}% → {error:.0}%", believed * 100.0),
                        None => format!("{error:.0}%"),
                    }
                },
            );
            let _ = write!(out, "  {cell:>14}");
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "median errors of NCCL's belief → of these terms, on calls that they were not fitted to"
    );
}

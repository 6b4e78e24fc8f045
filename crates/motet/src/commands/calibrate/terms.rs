//! `motet calibrate` of measured MSCCL++ plans: the terms that explain them, and how well.

use std::fmt::Write as _;
use std::path::Path;

use motet_nccl::mscclpp::PlanTerms;
use motet_tune::calibrate::terms_file::{self, FitNotes, TermsFile};
use motet_tune::calibrate::{
    CalibrateError, Calibration, Format, LeftOut, Machine, Results, Samples, calibrate, results,
};
use serde::Serialize;

use crate::args::calibrate::CalibrateArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

/// Digits of a term that are worth writing down.
const DIGITS: usize = 4;

#[derive(Serialize)]
struct TermsJson {
    samples: usize,
    plans: usize,
    left_out: LeftOutJson,
    /// Medians of relative errors: of the terms that the fit began with,
    start_error: f64,
    /// and of the fitted ones on the half that they were fitted to and on the other.
    error: f64,
    held_back_error: f64,
    pairs: u64,
    pairs_right: f64,
    picks: u64,
    picks_good: u64,
    terms: Vec<TermJson>,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct LeftOutJson {
    not_measured: u64,
    no_plan: u64,
    another_shape: u64,
    not_priced: u64,
}

#[derive(Serialize)]
struct TermJson {
    name: &'static str,
    unit: &'static str,
    value: f64,
    start: f64,
    /// By which share the error grows at least if this term alone is a fifth off.
    weight: f64,
}

#[derive(Serialize)]
struct GroupJson {
    name: String,
    samples: usize,
    bias: f64,
    error: f64,
}

pub(super) fn run(
    texts: &[(&str, Format, String)],
    args: &CalibrateArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    if args.collective.is_some() || args.store.is_some() {
        return Err(Failure::unreadable(
            "`--collective` and `--store` are for measurements of NCCL",
        ));
    }
    let before = match &args.from {
        Some(name) => files::terms_file(name)?,
        None => TermsFile::default(),
    };
    let start = before.mscclpp.unwrap_or(PlanTerms::H200);
    let results = read(texts)?;
    let samples = {
        let _progress = Progress::start(printer, "pricing plans");
        samples(results.calls, args, printer)?
    };
    note(&samples.left_out, results.others, printer);
    let found = {
        let _progress = Progress::start(printer, "fitting the terms");
        calibrate(&samples, &start).map_err(|it| Failure::wrong(it.to_string()))?
    };
    if let Some(name) = &args.output {
        let text = terms_file::write(&file(&found, &before));
        files::write(name, &text, printer)?;
    }
    if printer.is_json() {
        printer.json(&json(&found, &start, &samples.left_out, results.others))?;
    } else if args.output.as_deref() != Some("-") {
        printer.out(&text(&found, &start))?;
    }
    Ok(Status::Done)
}

/// The calls of all files.
fn read(texts: &[(&str, Format, String)]) -> Result<Results, Failure> {
    let mut all = Results::default();
    for (name, format, text) in texts {
        let read = match format {
            Format::Table => results::read_table(text),
            _ => results::read_harness(text),
        };
        let read = read.map_err(|it| Failure::from(it).in_file(name))?;
        all.calls.extend(read.calls);
        all.others += read.others;
    }
    Ok(all)
}

fn samples(
    calls: Vec<motet_tune::calibrate::Measured>,
    args: &CalibrateArgs,
    printer: &Printer,
) -> Result<Samples, Failure> {
    let file = |name: &str| {
        let folder = Path::new(args.plans.as_ref()?);
        Some(folder.join(format!("{name}.json")).to_string_lossy().into_owned())
    };
    // A name from a file must not lead out of the folder.
    let plain = |name: &str| !name.contains(['/', '\\']);
    let text = |name: &str| {
        let file = file(name).filter(|it| plain(name) && Path::new(it).exists())?;
        files::read(&file).ok()
    };
    if args.cluster.len() > 1 {
        return Err(Failure::unreadable("several networks are for measurements of NCCL"));
    }
    let found = match args.cluster.first() {
        None if args.ranks_per_gpu.is_some() => {
            return Err(Failure::unreadable(
                "`--ranks-per-gpu` needs the network between the GPUs",
            )
            .with_remedy("name it with `--cluster`; without it, all ranks share one GPU"));
        }
        None => Samples::new(calls, Machine::OneGpu, &text),
        Some(cluster) => {
            let network = files::network(cluster, &args.read.options(), printer)?.network;
            let ranks_per_gpu = args.ranks_per_gpu.unwrap_or(1);
            let machine = Machine::Network { network: &network, ranks_per_gpu };
            Samples::new(calls, machine, &text)
        }
    };
    found.map_err(|error| match error {
        CalibrateError::Plan { name, problem } => {
            Failure::unreadable(problem).in_file(&file(&name).unwrap_or(name))
        }
        CalibrateError::TooFew { .. } => Failure::wrong(error.to_string()),
    })
}

fn note(left_out: &LeftOut, others: u64, printer: &Printer) {
    let LeftOut { no_plan, another_shape, not_priced } = *left_out;
    for (count, why) in [
        (others, "are no time of a plan: not right, not run, or NCCL's"),
        (no_plan, "have a plan that is not at hand: name its folder with `--plans`"),
        (another_shape, "have a plan of another shape than its name says"),
        (not_priced, "have a plan with operations that are not priced"),
    ] {
        if count > 0 {
            printer.note(&format!("{count} lines are left out: they {why}"));
        }
    }
}

/// The terms found, beside those of NCCL that there were before.
fn file(found: &Calibration, before: &TermsFile) -> TermsFile {
    let it = &found.fitted;
    // A share to four digits.
    let share = |it: f64| (it * 1e4).round() / 1e4;
    let notes = FitNotes {
        samples: found.samples as u64,
        error: share(it.known),
        held_back_error: share(it.held_back),
        pairs: it.pairs,
        pairs_right: share(it.pairs_right),
    };
    TermsFile { mscclpp: Some(it.terms.rounded(DIGITS)), fit: Some(notes), ..*before }
}

fn json(found: &Calibration, start: &PlanTerms, left_out: &LeftOut, others: u64) -> TermsJson {
    let LeftOut { no_plan, another_shape, not_priced } = *left_out;
    let terms = found.fitted.terms.list().into_iter().zip(start.values()).zip(found.weights);
    let groups = found.groups.iter();
    TermsJson {
        samples: found.samples,
        plans: found.plans,
        left_out: LeftOutJson { not_measured: others, no_plan, another_shape, not_priced },
        start_error: found.before.error,
        error: found.fitted.known,
        held_back_error: found.fitted.held_back,
        pairs: found.fitted.pairs,
        pairs_right: found.fitted.pairs_right,
        picks: found.picks,
        picks_good: found.picks_good,
        terms: terms
            .map(|(((name, unit, value), start), weight)| TermJson {
                name,
                unit,
                value,
                start,
                weight,
            })
            .collect(),
        groups: groups
            .map(|it| GroupJson {
                name: it.name.clone(),
                samples: it.samples,
                bias: it.bias,
                error: it.error,
            })
            .collect(),
    }
}

fn text(found: &Calibration, start: &PlanTerms) -> String {
    let (fitted, percent) = (&found.fitted, |it: f64| it * 100.0);
    let mut out = format!("{} calls of {} plans\n\n", found.samples, found.plans);
    // Writing to a string cannot fail.
    let heading = "term              value        before  unit  weight";
    let _ = writeln!(out, "{}", Printer::strong(heading));
    let terms = fitted.terms.rounded(DIGITS).list().into_iter().zip(start.values());
    for (((name, unit, value), before), weight) in terms.zip(found.weights) {
        let weight = percent(weight);
        let _ = writeln!(out, "{name:12}  {value:>9}  {before:>12}  {unit:4} {weight:6.1}%");
    }
    let _ = writeln!(
        out,
        "weight: by how much the error grows at least if this term alone is a fifth off"
    );
    let _ = writeln!(
        out,
        "\nmedian error {:.1}% on the half that the terms were fitted to, {:.1}% on the half held back\n\
         ({:.1}% on all with the terms before)",
        percent(fitted.known),
        percent(fitted.held_back),
        percent(found.before.error)
    );
    let _ = writeln!(
        out,
        "{:.1}% of {} pairs held back that differ by more than a tenth are told apart rightly",
        percent(fitted.pairs_right),
        fitted.pairs
    );
    let _ = writeln!(
        out,
        "{} of {} picks take at most a tenth more than the best plan of their case\n",
        found.picks_good, found.picks
    );
    let _ = writeln!(out, "{}", Printer::strong("plans                      calls    bias  error"));
    for it in &found.groups {
        let (bias, error) = (percent(it.bias), percent(it.error));
        let _ = writeln!(out, "{:25} {:6} {bias:+6.1}% {error:5.1}%", it.name, it.samples);
    }
    out
}

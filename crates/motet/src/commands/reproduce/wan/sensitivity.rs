//! Every assumption that the paper leaves open, varied by itself.

use std::fmt::Write as _;

use motet_wan::Mode;
use serde::Serialize;

use super::setting::Setting;
use super::{REMAP, SYNTH, gain, seconds};
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

#[derive(Serialize)]
struct SensitivityJson {
    seed: u64,
    collectives: u32,
    settings: Vec<SettingJson>,
}

#[derive(Serialize)]
struct SettingJson {
    setting: String,
    gains_percent: Vec<(&'static str, f64)>,
    /// The paper's ordering and its 33%, for the remapping hand.
    ordering: bool,
    near_33: bool,
    /// Both hands took at most what the better hand alone took, in either strength.
    both_never_slower: bool,
}

/// Every assumption varied by itself, at 8 GPUs, 32 MB and 1 ms.
pub(in crate::commands::reproduce) fn sensitivity(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let count = args.count.unwrap_or(10_000);
    let mut found = Vec::new();
    for setting in settings() {
        printer.note(&setting.name);
        let accounts = setting.run(args, count, printer)?;
        let total = |mode| seconds(&accounts, mode);
        let [programs, both] = REMAP;
        let ordered = [Mode::Base, programs, Mode::Routes, both];
        let slower =
            |[programs, both]: [Mode; 2]| total(both) > total(Mode::Routes).min(total(programs));
        found.push(SettingJson {
            setting: setting.name.clone(),
            gains_percent: Mode::ALL.iter().map(|it| (it.name(), gain(&accounts, *it))).collect(),
            ordering: ordered.windows(2).all(|it| total(it[0]) > total(it[1])),
            near_33: (30.0..=36.0).contains(&gain(&accounts, both)),
            both_never_slower: !slower(REMAP) && !slower(SYNTH),
        });
    }
    if printer.is_json() {
        printer.json(&SensitivityJson { seed: args.seed, collectives: count, settings: found })?;
        return Ok(Status::Done);
    }
    printer.out(&text(args.seed, count, &found))?;
    Ok(Status::Done)
}

fn text(seed: u64, count: u32, found: &[SettingJson]) -> String {
    let heading = "How much less than base, in percent, as each assumption varies";
    let mut out = format!("{}\n", Printer::strong(heading));
    let _ = writeln!(out, "  8 GPUs, 32 MB, 1 ms, {count} collectives (seed {seed})");
    let _ = write!(out, "  {:38}", "");
    for mode in &Mode::ALL[1..] {
        let _ = write!(out, " {:>17}", mode.name());
    }
    out.push_str("  ordering  30–36%  never slower\n");
    for it in found {
        let _ = write!(out, "  {:38}", it.setting);
        for (_, gain) in &it.gains_percent[1..] {
            let _ = write!(out, " {gain:>17.1}");
        }
        let word = |it: bool| if it { "yes" } else { "no" };
        let (ordering, near) = (word(it.ordering), word(it.near_33));
        let _ = writeln!(out, "  {ordering:8}  {near:6}  {}", word(it.both_never_slower));
    }
    let _ = writeln!(
        out,
        "  ordering: base > programs > routes > both in time, for the remapping hand (what a user of NCCL can do)\n  \
         30–36%: what both gain with that hand\n  \
         never slower: both take at most what the better hand alone takes, in either strength"
    );
    let names = |holds: &dyn Fn(&SettingJson) -> bool| {
        let names: Vec<&str> =
            found.iter().filter(|it| holds(it)).map(|it| it.setting.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join("; ") }
    };
    let _ = writeln!(
        out,
        "  the paper's ordering and its 33% come out for: {}",
        names(&|it| it.ordering && it.near_33)
    );
    let _ = writeln!(out, "  its ordering alone for: {}", names(&|it| it.ordering && !it.near_33));
    let _ = writeln!(out, "  neither for: {}", names(&|it| !it.ordering && !it.near_33));
    out
}

fn settings() -> Vec<Setting> {
    let base = Setting::new("as in the figures", 4, "32 MB", "1 ms");
    let mut all = vec![base.clone()];
    let mut vary = |name: &str, change: &dyn Fn(&mut Setting)| {
        let mut setting = Setting { name: name.to_owned(), ..base.clone() };
        change(&mut setting);
        all.push(setting);
    };
    vary("one border router each", &|it| it.cluster = it.cluster.replace("borders=2", "borders=1"));
    vary("four border routers each", &|it| {
        it.cluster = it.cluster.replace("borders=2", "borders=4");
    });
    vary("border routers joined in pairs", &|it| it.cluster.push_str(",wan-links=paired"));
    vary("leaf and spine inside", &|it| it.cluster = it.cluster.replace("logical", "leaf-spine"));
    vary("leaf and spine, four borders", &|it| {
        it.cluster = it.cluster.replace("logical,borders=2", "leaf-spine,borders=4");
    });
    vary("16 GPUs", &|it| it.cluster = it.cluster.replace("gpus=4", "gpus=8"));
    vary("flows split over two ways", &|it| it.routes.push_str("\nsplit = 2"));
    vary("all start on the first way", &|it| it.routes.push_str("\nstart = \"first\""));
    vary("base: two rings", &|it| it.programs.push_str("\nbase = \"ring-bidirectional\""));
    vary("base: NCCL's rings as modelled", &|it| it.programs.push_str("\nbase = \"nccl-ring\""));
    vary("programs rebuilt every time", &|it| it.programs = "every = 1".to_owned());
    vary("programs rebuilt every 100", &|it| it.programs = "every = 100".to_owned());
    vary("bandwidth correlated, 0.9", &|it| {
        it.variation = "kind = \"correlated\"\ncorrelation = 0.9".to_owned();
    });
    vary("bandwidth correlated, 0.99", &|it| {
        it.variation = "kind = \"correlated\"\ncorrelation = 0.99".to_owned();
    });
    vary("a sample lasts 10 collectives", &|it| it.variation.push_str("\nevery = 10"));
    vary("a route move costs 1 ms", &|it| it.routes.push_str("\nconverge = \"1 ms\""));
    vary("a route move costs 10 ms, if worth it", &|it| {
        it.routes.push_str("\nconverge = \"10 ms\"\ntrigger = \"gain\"");
    });
    vary("a program costs 100 ms, if worth it", &|it| {
        it.programs.push_str("\ndistribute = \"100 ms\"\ntrigger = \"gain\"");
    });
    vary("routes by threshold 1.2 / 1.1", &|it| it.routes.push_str("\ntrigger = \"threshold\""));
    all
}

//! `motet plan diff OLD NEW`: which tasks two plans do otherwise, and what that changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_tune::plan::TunedTask;
use motet_tune::plan::folder::Manifest;
use motet_units::Bytes;
use serde::Serialize;

use super::show::setting;
use super::store;
use crate::args::plan::DiffArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

#[derive(Serialize)]
struct DiffJson {
    same_network: bool,
    same: usize,
    only_old: usize,
    only_new: usize,
    changed: Vec<Change>,
}

#[derive(Serialize)]
struct Change {
    collective: String,
    size_bytes: u64,
    old: String,
    new: String,
    old_us: f64,
    new_us: f64,
}

pub(crate) fn run(args: &DiffArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let (old, new) = (store::read(&args.old)?.manifest, store::read(&args.new)?.manifest);
    let diff = diff(&old, &new);
    if printer.is_json() {
        printer.json(&diff)?;
    } else {
        printer.out(&text(&diff))?;
    }
    Ok(Status::Done)
}

fn diff(old: &Manifest, new: &Manifest) -> DiffJson {
    let by_task = |it: &'_ Manifest| -> BTreeMap<(String, u64), TunedTask> {
        it.tasks.iter().map(|it| ((it.collective.to_string(), it.size_bytes), it.clone())).collect()
    };
    let (before, after) = (by_task(old), by_task(new));
    let mut made = DiffJson {
        same_network: old.signature == new.signature,
        same: 0,
        only_old: before.keys().filter(|it| !after.contains_key(*it)).count(),
        only_new: after.keys().filter(|it| !before.contains_key(*it)).count(),
        changed: Vec::new(),
    };
    for (key, a) in &before {
        let Some(b) = after.get(key) else { continue };
        let (a, b) = (&a.pick, &b.pick);
        if a == b {
            made.same += 1;
        } else {
            made.changed.push(Change {
                collective: key.0.clone(),
                size_bytes: key.1,
                old: setting(a),
                new: setting(b),
                old_us: a.time().as_us_f64(),
                new_us: b.time().as_us_f64(),
            });
        }
    }
    made
}

fn text(diff: &DiffJson) -> String {
    let mut out = String::new();
    if !diff.same_network {
        out.push_str("the plans are for different networks\n");
    }
    for it in &diff.changed {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{} {}: {:.3} µs {} → {:.3} µs {}",
            it.collective,
            Bytes::new(it.size_bytes),
            it.old_us,
            it.old,
            it.new_us,
            it.new
        );
    }
    let _ = writeln!(
        out,
        "{} tasks the same, {} otherwise, {} only in the old plan, {} only in the new one",
        diff.same,
        diff.changed.len(),
        diff.only_old,
        diff.only_new
    );
    out
}

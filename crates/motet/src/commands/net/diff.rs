//! `motet net diff`: what differs between two networks.

use std::fmt::Write as _;

use motet_net::NetworkDiff;
use motet_net::diff::{FieldChange, LinkName};

use crate::args::net::DiffArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &DiffArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let options = args.read.options();
    let before = files::network(&args.before, &options, printer)?.network;
    let after = files::network(&args.after, &options, printer)?.network;
    let diff = motet_net::diff::diff(&before, &after);
    if printer.is_json() {
        printer.json(&diff)?;
    } else {
        printer.out(&text(&diff))?;
    }
    Ok(Status::Done)
}

fn text(diff: &NetworkDiff) -> String {
    let mut out = String::new();
    let _ = match (diff.is_empty(), diff.same_signature) {
        (true, _) => writeln!(out, "no difference"),
        (false, true) => writeln!(out, "the same network under other names or in another order"),
        (false, false) => writeln!(out, "different networks"),
    };
    for name in &diff.nodes_removed {
        let _ = writeln!(out, "- node {name}");
    }
    for name in &diff.nodes_added {
        let _ = writeln!(out, "+ node {name}");
    }
    for node in &diff.nodes_changed {
        let _ = writeln!(out, "~ node {}: {}", node.name, changes(&node.fields));
    }
    for link in &diff.links_removed {
        let _ = writeln!(out, "- link {}", ends(link));
    }
    for link in &diff.links_added {
        let _ = writeln!(out, "+ link {}", ends(link));
    }
    for link in &diff.links_changed {
        let _ = writeln!(out, "~ link {}: {}", ends(&link.link), changes(&link.fields));
    }
    out
}

fn ends(link: &LinkName) -> String {
    let parallel = if link.parallel > 0 { format!(" (#{})", link.parallel) } else { String::new() };
    format!("{} -> {}{parallel}", link.from, link.to)
}

fn changes(fields: &[FieldChange]) -> String {
    let side = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
    let one =
        |it: &FieldChange| format!("{} {} -> {}", it.field, side(&it.before), side(&it.after));
    fields.iter().map(one).collect::<Vec<_>>().join(", ")
}

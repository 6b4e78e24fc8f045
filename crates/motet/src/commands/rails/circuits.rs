//! `motet rails circuits`: which circuits make a phase's collective fastest, given the ports.

use motet_rails::optical::Ports;
use motet_rails::optical::chosen::{Chosen, Phase, choose};
use motet_units::{Duration, Seed};
use serde::Serialize;

use super::failure;
use super::machine::machine;
use crate::args::rails::CircuitsArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct Found {
    ring_us: f64,
    seed: u64,
    circuits: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// Places further round, and ports to each of the two members there.
    distances: Vec<(u32, u32)>,
    time_us: f64,
    method: &'static str,
    ring_over_this: f64,
}

pub(crate) fn run(args: &CircuitsArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let machine = machine(&args.machine, None)?;
    let phase = Phase {
        kind: args.collective,
        members: args.members,
        ports: Ports::of(machine.rail.bandwidth, args.ports),
        latency: machine.rail.latency,
        size: args.size,
    };
    let (ring, found) = choose(&phase, Seed::new(args.seed)).map_err(failure)?;
    let rows: Vec<Row> = found.iter().map(|it| row(it, ring)).collect();
    if printer.is_json() {
        let ring_us = ring.as_us_f64();
        printer.json(&Found { ring_us, seed: args.seed, circuits: rows })?;
        return Ok(Status::Done);
    }
    printer.out(&format!(
        "{} of {} over {} members, {} ports of {}; a ring of circuits takes {:.1} µs\n\n",
        args.collective,
        args.size,
        args.members,
        args.ports,
        phase.ports.each,
        ring.as_us_f64()
    ))?;
    printer.out(&table(&rows).text())?;
    Ok(Status::Done)
}

fn row(it: &Chosen, ring: Duration) -> Row {
    Row {
        distances: it.distances.clone(),
        time_us: it.time.as_us_f64(),
        method: it.method,
        ring_over_this: ring.as_ps() as f64 / it.time.as_ps().max(1) as f64,
    }
}

fn table(rows: &[Row]) -> Table {
    let circuits = |it: &Row| {
        let each = it.distances.iter().map(|(far, count)| format!("±{far} by {count}"));
        each.collect::<Vec<_>>().join(", ")
    };
    Table::new()
        .with("circuits", Values::Words(rows.iter().map(circuits).collect()))
        .with("time_us", Values::Number(rows.iter().map(|it| it.time_us).collect(), 1))
        .with(
            "ring_over_this",
            Values::Number(rows.iter().map(|it| it.ring_over_this).collect(), 2),
        )
        .with("method", Values::Words(rows.iter().map(|it| it.method.to_owned()).collect()))
}

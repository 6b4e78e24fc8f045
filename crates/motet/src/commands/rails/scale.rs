//! `motet rails scale`: how many GPUs optical switches reach.

use motet_rails::scale::KNOWN;
use serde::Serialize;

use super::wiring;
use crate::args::rails::ScaleArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct Row {
    technology: String,
    maker: String,
    /// Of the optics alone; none for a switch of one's own.
    reconfiguration_ps: Option<u64>,
    switch_ports: u32,
    reach: Vec<Reach>,
}

#[derive(Serialize)]
struct Reach {
    domain: u32,
    gpus: u64,
}

pub(crate) fn run(args: &ScaleArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let wiring = wiring(&args.wiring);
    let reach = |ports: u32| {
        let of = |domain: &u32| Reach { domain: *domain, gpus: wiring.gpus(ports, *domain) };
        args.domain.iter().map(of).collect()
    };
    let known = KNOWN.iter().map(|it| Row {
        technology: it.technology.to_owned(),
        maker: it.maker.to_owned(),
        reconfiguration_ps: Some(it.reconfiguration.as_ps()),
        switch_ports: it.ports,
        reach: reach(it.ports),
    });
    let own = args.switch_ports.map(|ports| Row {
        technology: "yours".to_owned(),
        maker: String::new(),
        reconfiguration_ps: None,
        switch_ports: ports,
        reach: reach(ports),
    });
    let rows: Vec<Row> = known.chain(own).collect();
    if printer.is_json() {
        printer.json(&serde_json::json!({ "switches": rows }))?;
        return Ok(Status::Done);
    }
    printer.out(&table(&rows, &args.domain).text())?;
    let fibres = if args.wiring.fibre_pairs { "two fibres each" } else { "one fibre each" };
    let planes = if args.wiring.planes { ", each on a switch of its own" } else { "" };
    printer.out(&format!(
        "\na rail is one optical switch per plane; NICs with {} port(s), {fibres}{planes}\n",
        args.wiring.ports
    ))?;
    Ok(Status::Done)
}

fn table(rows: &[Row], domains: &[u32]) -> Table {
    let words = |of: &dyn Fn(&Row) -> String| Values::Words(rows.iter().map(of).collect());
    let time = |it: &Row| it.reconfiguration_ps.map_or(f64::NAN, |ps| ps as f64 / 1e9);
    let mut table = Table::new()
        .with("switch", words(&|it| it.technology.clone()))
        .with("maker", words(&|it| it.maker.clone()))
        .with("ms", Values::Number(rows.iter().map(time).collect(), 5))
        .with("ports", Values::Whole(rows.iter().map(|it| it.switch_ports.into()).collect()));
    for (index, domain) in domains.iter().enumerate() {
        let gpus = rows.iter().map(|it| i64::try_from(it.reach[index].gpus).unwrap_or(i64::MAX));
        table = table.with(&format!("GPUs, {domain} per domain"), Values::Whole(gpus.collect()));
    }
    table
}

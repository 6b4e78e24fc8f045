//! `motet rails cost`: dollars and watts of optical rails beside packet-switched networks.

use motet_rails::cost::{Bill, Cluster, Design, Prices, Total, bill, saving};
use motet_rails::formats::prices_toml;
use serde::Serialize;

use super::wiring;
use crate::args::rails::CostArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::table::{Table, Values};

/// One design for one cluster; empty if it does not reach so far.
pub(crate) struct Costed {
    pub(crate) gpus: u64,
    pub(crate) design: Design,
    /// Or why it cannot be built.
    pub(crate) bill: Result<Bill, String>,
    pub(crate) total: Option<Total>,
    /// What it saves of the fat tree's price and power.
    pub(crate) savings: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct Row {
    gpus: u64,
    design: String,
    refused: Option<String>,
    tiers: Option<u32>,
    transceivers: Option<u64>,
    packet_switches: Option<u64>,
    optical_switches: Option<u64>,
    optical_ports: Option<u64>,
    price_dollars: Option<u64>,
    power_watts: Option<f64>,
    price_saving_percent: Option<f64>,
    power_saving_percent: Option<f64>,
}

pub(crate) fn run(args: &CostArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if let Some(file) = &args.write_prices {
        files::write(file, prices_toml::DEFAULT, printer)?;
        return Ok(Status::Done);
    }
    let prices = prices(args.prices.as_deref())?;
    let mut all = Vec::new();
    for gpus in &args.gpus {
        let cluster = Cluster { gpus: *gpus, domain: args.domain, wiring: wiring(&args.wiring) };
        all.extend(costed(&cluster, &prices, args.nics)?);
    }
    let table = table(&all);
    if let Some(file) = &args.output {
        table.write(file, printer)?;
    }
    if printer.is_json() {
        let rows: Vec<Row> = all.iter().map(row).collect();
        printer.json(&serde_json::json!({ "networks": rows }))?;
        return Ok(Status::Done);
    }
    printer.out(&table.text())?;
    let mut refused: Vec<String> = all
        .iter()
        .filter_map(|it| {
            let why = it.bill.as_ref().err()?;
            Some(format!("\n{} for {} GPUs: {why}", it.design, it.gpus))
        })
        .collect();
    refused.dedup();
    printer
        .out(&format!("{}\nsavings are of the fat tree; prices and powers:\n", refused.concat()))?;
    printer.out(&sources(&prices))?;
    Ok(Status::Done)
}

/// The prices in a file, or the default ones.
pub(crate) fn prices(file: Option<&str>) -> Result<Prices, Failure> {
    let text = file.map(files::read).transpose()?;
    let read = prices_toml::read(text.as_deref().unwrap_or(prices_toml::DEFAULT));
    read.map_err(|it| {
        let failure = Failure::from(it);
        file.map_or_else(
            || Failure::unreadable("the default prices cannot be read; this is a fault in Motet"),
            |file| failure.in_file(file),
        )
    })
}

/// All designs for one cluster. A cluster that is no whole number of servers is an error; a design that does not
/// reach so far is not.
pub(crate) fn costed(
    cluster: &Cluster,
    prices: &Prices,
    nics: bool,
) -> Result<Vec<Costed>, Failure> {
    let is_whole = cluster.gpus > 0 && cluster.gpus.is_multiple_of(u64::from(cluster.domain));
    let mut fat_tree = None;
    let mut all = Vec::new();
    for design in Design::ALL {
        let bill = match bill(design, cluster, prices) {
            // No design can be built of a part of a server.
            Err(it) if !is_whole => {
                return Err(Failure::wrong(it.problem).with_remedy(it.nearest));
            }
            it => it.map_err(|it| format!("{}: {}", it.problem, it.nearest)),
        };
        let total = bill.as_ref().ok().map(|it| it.total(prices, nics));
        if design == Design::FatTree {
            fat_tree = total;
        }
        let savings = total.zip(fat_tree).map(|(new, old)| {
            let price = saving(new.price.0 as f64, old.price.0 as f64);
            [price, saving(new.power.as_f64(), old.power.as_f64())]
        });
        all.push(Costed { gpus: cluster.gpus, design, bill, total, savings });
    }
    Ok(all)
}

fn row(it: &Costed) -> Row {
    let bill = it.bill.as_ref().ok();
    let percent = |index: usize| it.savings.map(|it| it[index] * 100.0);
    Row {
        gpus: it.gpus,
        design: it.design.to_string(),
        refused: it.bill.as_ref().err().cloned(),
        tiers: bill.map(|it| it.tiers),
        transceivers: bill.map(|it| it.transceivers),
        packet_switches: bill.map(|it| it.packet_switches),
        optical_switches: bill.map(|it| it.optical_switches),
        optical_ports: bill.map(|it| it.optical_ports),
        price_dollars: it.total.map(|it| it.price.0),
        power_watts: it.total.map(|it| it.power.as_f64()),
        price_saving_percent: percent(0),
        power_saving_percent: percent(1),
    }
}

pub(crate) fn table(all: &[Costed]) -> Table {
    let number = |digits: usize, of: &dyn Fn(&Costed) -> Option<f64>| {
        Values::Number(all.iter().map(|it| of(it).unwrap_or(f64::NAN)).collect(), digits)
    };
    let count =
        |of: fn(&Bill) -> u64| number(0, &move |it| it.bill.as_ref().ok().map(|it| of(it) as f64));
    let per_gpu = |value: f64, it: &Costed| value / it.gpus as f64;
    Table::new()
        .with("GPUs", number(0, &|it| Some(it.gpus as f64)))
        .with("network", Values::Words(all.iter().map(|it| it.design.to_string()).collect()))
        .with("tiers", count(|it| it.tiers.into()))
        .with("transceivers", count(|it| it.transceivers))
        .with("packet switches", count(|it| it.packet_switches))
        .with("optical switches", count(|it| it.optical_switches))
        .with("$ per GPU", number(0, &|it| Some(per_gpu(it.total?.price.0 as f64, it))))
        .with("W per GPU", number(1, &|it| Some(per_gpu(it.total?.power.as_f64(), it))))
        .with("$ saved %", number(1, &|it| Some(it.savings?[0] * 100.0)))
        .with("W saved %", number(1, &|it| Some(it.savings?[1] * 100.0)))
}

fn sources(prices: &Prices) -> String {
    let Prices { transceiver, packet_switch, optical_switch, nic } = prices;
    let line = |name: &str, price: u64, unit: &str, watts: f64, source: &str| {
        format!("  {name:14}  ${price}{unit}, {watts} W ({source})\n")
    };
    let switch = &packet_switch.part;
    [
        line(
            "transceiver",
            transceiver.price.0,
            "",
            transceiver.power.as_f64(),
            &transceiver.source,
        ),
        line("packet switch", switch.price.0, "", switch.power.as_f64(), &switch.source),
        line(
            "optical switch",
            optical_switch.port_price.0,
            " a port",
            optical_switch.power.as_f64(),
            &optical_switch.source,
        ),
        line("NIC", nic.price.0, "", nic.power.as_f64(), &nic.source),
    ]
    .concat()
}

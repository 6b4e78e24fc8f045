//! Figure 7: dollars and watts of DGX H200 clusters, by network.

use motet_rails::cost::{
    Bill, Cluster, Design, Prices, Watts, optical_port_price, packet_switch_power,
};
use motet_rails::scale::Wiring;

use super::super::claims::Claim;
use super::super::report::Report;
use crate::args::reproduce::ReproduceArgs;
use crate::commands::rails::cost::{Costed, costed, prices, table};
use crate::failure::{Failure, Status};
use crate::plot::{Line, Plot};
use crate::printer::Printer;

/// The most that the paper says photonic rails save, of price and of power.
const PUBLISHED: [f64; 2] = [0.705, 0.9584];
/// Of price and of power, in the follow-up (arXiv 2602.12521, abstract).
const FOLLOW_UP: [f64; 2] = [4.0, 23.0];
/// GPUs that it simulates, at most.
const SIMULATED: u64 = 2048;
const DOMAIN: u32 = 8;
/// Up to what switches of 576 ports reach.
const GPUS: [u64; 9] = [64, 128, 256, 512, 1024, 1536, 2048, 2056, 2304];

pub(in crate::commands::reproduce) fn fig7(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let prices = prices(None)?;
    let mut all = Vec::new();
    for gpus in GPUS {
        let cluster = Cluster { gpus, domain: DOMAIN, wiring: Wiring::default() };
        all.extend(costed(&cluster, &prices, false)?);
    }
    let claims = claims(&all, &prices);
    Report {
        name: "opus-fig7",
        title: "Opus, figure 7: what the network of DGX H200 costs, by design",
        table: table(&all),
        claims,
        usual: &[],
        assumed: vec![
            "networks without oversubscription, of 64-port switches; fibres and NICs are not counted".to_owned(),
            "prices and powers are round figures with few exceptions (`motet rails cost` prints their sources): \
             the paper gives none, and no data sheet with them was found; with your own, \
             `motet rails cost --prices FILE`"
                .to_owned(),
        ],
        plots: ["dollars", "watts"]
            .into_iter()
            .enumerate()
            .map(|(index, unit)| (unit.to_owned(), plot(&all, unit, index)))
            .collect(),
    }
    .finish(args, printer)
}

fn find(all: &[Costed], design: Design, gpus: u64) -> Option<&Bill> {
    let found = all.iter().find(|it| it.design == design && it.gpus == gpus)?;
    found.bill.as_ref().ok()
}

fn claims(all: &[Costed], prices: &Prices) -> Vec<Claim> {
    let photonic = || all.iter().filter(|it| it.design == Design::Photonic);
    let best = |index: usize| {
        let savings = photonic().filter_map(|it| Some((it.savings?[index], it.gpus)));
        savings.fold((0.0_f64, 0), |best, it| if it.0 > best.0 { it } else { best })
    };
    let at = |index: usize| {
        let found = photonic().find(|it| it.gpus == SIMULATED);
        found.and_then(|it| it.savings).map_or(0.0, |it| it[index])
    };
    let percent = |it: f64| format!("{:.2}%", it * 100.0);
    let largest = GPUS[GPUS.len() - 1];
    let bills = find(all, Design::Photonic, largest).zip(find(all, Design::FatTree, largest));
    let claim = |index: usize, what: &str, detail: Option<String>| {
        let (saving, gpus) = best(index);
        let holds = (saving - PUBLISHED[index]).abs() < 0.005;
        Claim::published(
            format!("{what} saved, at most"),
            holds,
            format!("{} at {gpus} GPUs", percent(saving)),
        )
        .beside(percent(PUBLISHED[index]))
        .detail(|| detail)
    };
    let price = bills.map(|(photonic, packet)| {
        let at = |prices: &Prices| {
            let price = optical_port_price(PUBLISHED[0], photonic, packet, prices);
            format!("${price:.0}")
        };
        let mut dear = prices.clone();
        dear.packet_switch.part.price.0 *= 2;
        let mut cheap = prices.clone();
        cheap.packet_switch.part.price.0 /= 2;
        format!(
            "just {} at {largest} GPUs if an optical port costs {} (ours: ${}); {} with packet switches at half the \
             price, {} at twice",
            percent(PUBLISHED[0]),
            at(prices),
            prices.optical_switch.port_price.0,
            at(&cheap),
            at(&dear)
        )
    });
    let power = bills.map(|(photonic, packet)| {
        let at = |transceiver: f64| {
            let mut prices = prices.clone();
            prices.transceiver.power = Watts::of(transceiver);
            let watts = packet_switch_power(PUBLISHED[1], photonic, packet, &prices);
            format!("{watts:.0} W with transceivers of {transceiver:.0} W")
        };
        format!(
            "just {} at {largest} GPUs if a packet switch takes {}, or {} (ours: {} W){}",
            percent(PUBLISHED[1]),
            at(9.0),
            at(12.0),
            prices.packet_switch.part.power.as_f64(),
            last_tier(all, best(1).1)
        )
    });
    vec![
        claim(0, "dollars", price),
        claim(1, "power", power),
        times(FOLLOW_UP[0], best(0), at(0), "the fat tree's price is this many times"),
        times(FOLLOW_UP[1], best(1), at(1), "the fat tree's power is this many times"),
    ]
}

/// Between which sizes the fat tree gets its last tier, beside the size at which `most` is saved; nothing if it never
/// gets another.
fn last_tier(all: &[Costed], most: u64) -> String {
    let trees = all.iter().filter(|it| it.design == Design::FatTree);
    let tiers = trees.filter_map(|it| Some((it.gpus, it.bill.as_ref().ok()?.tiers)));
    let tiers: Vec<(u64, u32)> = tiers.collect();
    let last = tiers.windows(2).rfind(|it| it[0].1 < it[1].1);
    last.map_or_else(String::new, |it| {
        let ((below, _), (above, tier)) = (it[0], it[1]);
        format!("; the fat tree gets tier {tier} between {below} and {above} GPUs, and most is saved at {most}")
    })
}

/// What the follow-up says as a quotient: ours is of the cluster that saves most, and of one as large as the follow-up's.
fn times(published: f64, (saving, gpus): (f64, u64), there: f64, what: &str) -> Claim {
    let quotient = |saving: f64| 1.0 / (1.0 - saving);
    let (ours, there) = (quotient(saving), quotient(there));
    let statement = format!("{what} photonic rails' (follow-up)");
    let text = format!("{ours:.1} at {gpus} GPUs, {there:.1} at {SIMULATED}");
    Claim::published(statement, ours >= published, text).beside(format!("{published}"))
}

fn plot(all: &[Costed], unit: &str, index: usize) -> Plot {
    let line = |design: Design| {
        let points = all.iter().filter(|it| it.design == design).filter_map(|it| {
            let total = it.total?;
            let value = [total.price.0 as f64, total.power.as_f64()][index];
            Some((it.gpus as f64, value / it.gpus as f64))
        });
        Line { name: design.to_string(), points: points.collect() }
    };
    Plot {
        title: format!("Network of DGX H200, {unit} per GPU"),
        x: "GPUs".to_owned(),
        y: format!("{unit} per GPU"),
        log_x: true,
        lines: Design::ALL.into_iter().map(line).collect(),
    }
}

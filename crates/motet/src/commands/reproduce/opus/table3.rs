//! Table 3: GPUs by switch technology, for two sizes of scale-up domains.

use motet_rails::scale::{KNOWN, Wiring};

use super::super::claims::Claim;
use super::super::report::Report;
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// As published: GPUs with GB200 NVL72 and with DGX H200, in the order of [`KNOWN`].
const PUBLISHED: [[u64; 2]; 7] = [
    [576, 64],
    [1152, 128],
    [4608, 512],
    [11_520, 1280],
    [20_736, 2304],
    [18_432, 2048],
    [36_288, 4032],
];
const DOMAINS: [(&str, u32); 2] = [("GB200", 72), ("H200", 8)];

pub(in crate::commands::reproduce) fn table3(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let wiring = Wiring::default();
    let ours: Vec<[u64; 2]> =
        KNOWN.iter().map(|it| DOMAINS.map(|(_, domain)| wiring.gpus(it.ports, domain))).collect();
    let whole = |values: &mut dyn Iterator<Item = u64>| {
        Values::Whole(values.map(|it| i64::try_from(it).unwrap_or(i64::MAX)).collect())
    };
    let name = |it: &motet_rails::scale::OpticalSwitch| format!("{} ({})", it.technology, it.maker);
    let mut table = Table::new()
        .with("switch", Values::Words(KNOWN.iter().map(name).collect()))
        .with(
            "ms",
            Values::Number(
                KNOWN.iter().map(|it| it.reconfiguration.as_ps() as f64 / 1e9).collect(),
                5,
            ),
        )
        .with("ports", whole(&mut KNOWN.iter().map(|it| it.ports.into())));
    for (index, (name, _)) in DOMAINS.iter().enumerate() {
        table = table
            .with(&format!("GPUs, {name}"), whole(&mut ours.iter().map(|it| it[index])))
            .with("published", whole(&mut PUBLISHED.iter().map(|it| it[index])));
    }
    let same = ours.iter().flatten().zip(PUBLISHED.iter().flatten());
    let same = same.filter(|(ours, published)| ours == published).count();
    let statement = "all fourteen numbers of GPUs".to_owned();
    let claim = Claim::published(statement, same == 14, format!("{same} the same")).beside("14");
    Report {
        name: "opus-table3",
        title: "Opus, table 3: how far optical rails reach",
        table,
        claims: vec![claim],
        usual: &[],
        assumed: vec![
            "times and ports are the paper's, from makers' data sheets; GPUs follow: a rail is one switch, \
             every GPU has a NIC with two ports, and a fibre carries both directions"
                .to_owned(),
        ],
        plots: Vec::new(),
    }
    .finish(args, printer)
}

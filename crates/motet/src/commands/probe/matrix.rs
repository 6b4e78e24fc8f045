//! What `motet probe run` measured, as a matrix of hosts.

use std::fmt::Write as _;

use motet_net::probe::{Host, Measurement, Probed};
use motet_units::Bandwidth;

/// More hosts than this do not fit a terminal: their pairs are listed instead, so many of them.
const WIDEST: usize = 12;
const LISTED: usize = 40;

/// Latency and bandwidth between all hosts, from row to column; `-` where nothing was measured.
pub(super) fn text(hosts: &[Host], probed: &[Probed]) -> String {
    if hosts.len() > WIDEST { list(hosts, probed) } else { matrix(hosts, probed) }
}

fn list(hosts: &[Host], probed: &[Probed]) -> String {
    let mut out = String::from("measured between hosts\n");
    let good = || probed.iter().filter_map(|it| Some((it.pair, it.outcome.as_ref().ok()?)));
    for (pair, it) in good().take(LISTED) {
        let (a, b) = (&hosts[pair.a].name, &hosts[pair.b].name);
        let (latency, there, back) = (it.latency(), it.there, it.back);
        let _ = writeln!(out, "  {a} - {b}  {latency}, {there} there, {back} back");
    }
    let more = good().count().saturating_sub(LISTED);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more pairs: --json has them all");
    }
    out
}

fn matrix(hosts: &[Host], probed: &[Probed]) -> String {
    let names: Vec<&str> = hosts.iter().map(|it| it.name.as_str()).collect();
    let latency = |it: &Measurement, _: bool| format!("{:.1}", it.latency().as_us_f64());
    let rate = |it: Bandwidth| format!("{:.3}", it.as_gb_per_s_f64());
    let bandwidth = |it: &Measurement, there: bool| rate(if there { it.there } else { it.back });
    let mut out = table("latency, µs", &names, probed, latency);
    out.push_str(&table("bandwidth from row to column, GB/s", &names, probed, bandwidth));
    out
}

fn table(
    heading: &str,
    names: &[&str],
    probed: &[Probed],
    cell: impl Fn(&Measurement, bool) -> String,
) -> String {
    let mut cells = vec![vec!["-".to_owned(); names.len()]; names.len()];
    for probe in probed {
        if let Ok(measured) = &probe.outcome {
            let (a, b) = (probe.pair.a, probe.pair.b);
            cells[a][b] = cell(measured, true);
            cells[b][a] = cell(measured, false);
        }
    }
    let widest = |it: usize| cells.iter().map(|row| row[it].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..names.len()).map(|it| widest(it).max(names[it].chars().count())).collect();
    let first = names.iter().map(|it| it.chars().count()).max().unwrap_or(0);
    let mut out = format!("{heading}\n  {:first$}", "");
    for (name, width) in names.iter().zip(&widths) {
        let _ = write!(out, "  {name:>width$}");
    }
    out.push('\n');
    for (name, row) in names.iter().zip(&cells) {
        let _ = write!(out, "  {name:first$}");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::probe::{Pair, ProbeError};
    use motet_units::Duration;

    #[test]
    fn both_directions_have_their_place() {
        let host = |name: &str| Host {
            name: name.to_owned(),
            address: String::new(),
            rack: String::new(),
            dc: String::new(),
            gpus: 1,
        };
        let hosts = [host("a"), host("long"), host("c")];
        let measured = Measurement {
            round_trip: Duration::from_us(25),
            there: Bandwidth::gb_per_s(10),
            back: Bandwidth::gb_per_s(9),
        };
        let probed = [
            Probed { pair: Pair::new(0, 1), outcome: Ok(measured) },
            Probed { pair: Pair::new(1, 2), outcome: Err(ProbeError::Silent) },
        ];
        let wanted = "latency, µs\n           a  long  c\n  a        -  12.5  -\n  long  12.5     -  -\n  c        -     -  -\n";
        let text = text(&hosts, &probed);
        assert!(text.starts_with(wanted), "{text}");
        assert!(text.contains("  long  9.000       -  -"), "{text}");
    }
}

//! The TUNING tables of a log: `latency/bandwidth` per collective, algorithm and protocol, three algorithms abreast.

use motet_nccl::{Algorithm, Protocol, TunedCollective};

use super::super::call;

/// The latencies and bandwidths that rank 0 of one communicator expects.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningTable {
    /// Where it begins, from 1.
    pub line: usize,
    /// Ranks and nodes of the communicator, if the log gave them before the table.
    pub ranks: Option<u32>,
    pub nodes: Option<u32>,
    pub cells: Vec<TuningCell>,
}

/// One entry. A bandwidth of 0 means that NCCL does not allow the combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuningCell {
    pub collective: TunedCollective,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// In µs.
    pub latency: f64,
    /// In GB/s.
    pub bandwidth: f64,
}

/// Puts the lines of one process together.
#[derive(Default)]
pub(super) struct Reader {
    done: Vec<TuningTable>,
    /// The algorithms of the block that is being read.
    block: Vec<Algorithm>,
}

impl Reader {
    /// Takes in a line with bars; `None` if it is a part of a table and cannot be read.
    pub(super) fn line(
        &mut self,
        message: &str,
        line: usize,
        (ranks, nodes): (Option<u32>, Option<u32>),
    ) -> Option<()> {
        let mut cells = message.split('|').map(str::trim);
        let head = cells.next()?;
        let cells = cells.filter(|it| !it.is_empty());
        match head {
            "Algorithm" => {
                let block: Option<Vec<Algorithm>> = cells.map(call::algorithm).collect();
                self.block = block.filter(|it| !it.is_empty())?;
                if self.block.first() == Some(&Algorithm::Tree) {
                    self.done.push(TuningTable { line, ranks, nodes, cells: Vec::new() });
                }
                Some(())
            }
            "Protocol" | "Max NThreads" => Some(()),
            _ => {
                let row = TunedCollective::ALL.into_iter().find(|it| it.name() == head);
                // Other parts of NCCL draw bars, too.
                row.map_or(Some(()), |it| self.row(it, cells))
            }
        }
    }

    fn row<'a>(
        &mut self,
        collective: TunedCollective,
        cells: impl Iterator<Item = &'a str>,
    ) -> Option<()> {
        let values: Option<Vec<(f64, f64)>> = cells.map(value).collect();
        let values = values.filter(|it| it.len() == self.block.len() * Protocol::COUNT)?;
        let table = self.done.last_mut()?;
        let places = self.block.iter().flat_map(|a| Protocol::ALL.map(|p| (*a, p)));
        table.cells.extend(places.zip(values).map(|((algorithm, protocol), value)| {
            let (latency, bandwidth) = value;
            TuningCell { collective, algorithm, protocol, latency, bandwidth }
        }));
        Some(())
    }

    pub(super) fn finish(self) -> Vec<TuningTable> {
        self.done
    }
}

fn value(cell: &str) -> Option<(f64, f64)> {
    let (latency, bandwidth) = cell.split_once('/')?;
    let number = |it: &str| it.trim().parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
    Some((number(latency)?, number(bandwidth)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block() {
        let mut reader = Reader::default();
        let mut line = |text: &str| reader.line(text, 7, (Some(2), Some(2)));
        line("  Algorithm   |      Tree     |     Ring   |").unwrap();
        line("  Protocol    |  LL |  LL128 | Simple |  LL |  LL128 | Simple |").unwrap();
        line(" Max NThreads | 512 | 640 | 512 | 512 | 640 | 256 |").unwrap();
        line("    AllReduce |    16.8/   0.5 |    31.0/   0.0 |    36.4/   1.9 | 1.0/2.0 | 3/4 | 36.4/   2.4 |")
            .unwrap();
        assert_eq!(line("AllGather | 1.0/2.0 | 1.0/"), None);
        assert_eq!(line("  a picture | of something |"), Some(()));
        let tables = reader.finish();
        assert_eq!((tables.len(), tables[0].line, tables[0].ranks), (1, 7, Some(2)));
        let last = tables[0].cells[5];
        assert_eq!((last.algorithm, last.protocol), (Algorithm::Ring, Protocol::Simple));
        assert_eq!((last.latency, last.bandwidth), (36.4, 2.4));
    }
}

//! What fewer connections between servers are good for, on the clusters of *TuCCL*: a table for each
//! cluster and size.
//!
//! ```text
//! cargo run --release -p motet-tune --example connections -- [COLLECTIVE [SIZE...]]
//! ```

#![allow(clippy::print_stdout, reason = "it prints what it finds")]

use motet_collective::CollectiveKind;
use motet_tune::clusters::{A100, V100};
use motet_tune::sketch::experiment::{connections_experiment, table};
use motet_units::{Bytes, Seed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (kind, sizes) = match words.split_first() {
        Some((kind, sizes)) => (kind.parse()?, sizes),
        None => (CollectiveKind::AllGather, &[][..]),
    };
    let mut sizes: Vec<Bytes> = sizes.iter().map(|it| it.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes.push(Bytes::mib(64));
    }
    for cluster in V100.iter().chain(&A100).filter(|it| !it.name.ends_with("x1")) {
        let network = cluster.network()?;
        for size in &sizes {
            let rows = connections_experiment(&network, kind, *size, Seed::new(1))?;
            println!("{} {kind} {size}, µs\n{}", cluster.name, table(&rows));
        }
    }
    Ok(())
}

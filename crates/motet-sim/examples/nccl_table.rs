//! Prints what our model says NCCL would print: the GRAPH and TUNING lines of a communicator of
//! one GPU per host on sockets, and its choices by size. Beside the log of a real NCCL it shows
//! whether the model holds.
//!
//! ```sh
//! cargo run -p motet-sim --example nccl_table -- ranks=4 sm=90 version=2.28 interfaces=1 speed=10Gbps
//! ```
//!
//! Against NCCL itself: one process per rank on one GPU, each with its own `NCCL_HOSTID`, and
//! `NCCL_NET=Socket NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_DEBUG=INFO
//! NCCL_DEBUG_SUBSYS=TUNING,GRAPH`. The GRAPH log's `NET[…]` lines say how many interfaces NCCL
//! uses and how fast it thinks they are (`interfaces`, `speed`), the `CPU` line the vendor.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use motet_sim::nccl::{Loopback, NcclModel, NcclOptions, NcclVersion, Tuned};
use motet_units::{Bandwidth, Bytes};

const USAGE: &str = "words: ranks=N sm=N interfaces=N speed=RATE pcie=RATE cpu=intel|amd \
                     version=2.28|2.30 channels=N";

fn main() -> Result<(), Box<dyn Error>> {
    let mut machine = Loopback { ranks: 4, ..Loopback::default() };
    let mut options = NcclOptions::default();
    for word in std::env::args().skip(1) {
        let (key, value) = word.split_once('=').ok_or(USAGE)?;
        match (key, value) {
            ("ranks", _) => machine.ranks = value.parse()?,
            ("sm", _) => machine.sm = value.parse()?,
            ("interfaces", _) => machine.interfaces = value.parse()?,
            ("speed", _) => machine.speed = value.parse::<Bandwidth>()?,
            ("pcie", _) => machine.pcie = value.parse::<Bandwidth>()?,
            ("cpu", "intel") => machine.vendor = "GenuineIntel",
            ("cpu", "amd") => machine.vendor = "AuthenticAMD",
            ("version", "2.28") => options.version = NcclVersion::V2_28,
            ("version", "2.30") => options.version = NcclVersion::V2_30,
            ("channels", _) => options.max_channels = Some(value.parse()?),
            _ => return Err(USAGE.into()),
        }
    }
    let model = NcclModel::new(&machine.network()?, options)?;
    println!("{machine:?}");
    for line in model.graph_lines() {
        println!("{line}");
    }
    print!("{}", model.table());
    for collective in Tuned::ALL {
        for power in (10..=27).step_by(1) {
            if let Some(it) = model.choose(collective, Bytes::new(1 << power)) {
                println!(
                    "{collective}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..{}}} \
                     threads {} time {:.1}",
                    1u64 << power,
                    it.algorithm.name().to_uppercase(),
                    it.protocol.name().to_uppercase(),
                    it.used_channels - 1,
                    it.threads,
                    it.time
                );
            }
        }
    }
    Ok(())
}

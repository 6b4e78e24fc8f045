//! One AllReduce over 36,864 GPUs: 512 racks of 72 on photonic rails, the size of the largest
//! fabric of Opus (*Photonic Rails in ML Datacenters*). Builds the network and a hierarchical program, proves the program, and runs
//! it by both engines.
//!
//! `cargo run --release -p motet-sim --example largest_fabric [RACKS]`, where RACKS is a multiple
//! of 8 and 512 unless given.

#![allow(clippy::print_stdout, reason = "an example says what it found")]
#![allow(clippy::disallowed_methods, reason = "it measures the library, which has no clock")]

mod program;

use std::error::Error;
use std::time::Instant;

use motet_collective::Verified;
use motet_net::NetworkState;
use motet_net::builders::{Params, find};
use motet_sim::{Prepared, Replay, Routed, SimOptions, Simulation, SwitchForwarding};
use motet_units::Bytes;

fn main() -> Result<(), Box<dyn Error>> {
    let racks = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 512,
    };
    let params = Params::from_words([format!("count={racks}"), "fabric=rail-optical".to_owned()])?;
    let network = timed("network", || find("gb200-nvl72")?.build(&params))?;
    let program = timed("program", || program::all_reduce(&network, racks))?;
    println!("{} GPUs, {} transfers", network.ranks().len(), program.transfers().len());
    let program = timed("proof", || Verified::new(program, Some(&network)))?;
    let routed = timed("routes", || Routed::new(&program, &network, SwitchForwarding::CutThrough))?;
    let (size, options) = (Bytes::gib(1), SimOptions::default());

    let replay = timed("compile", || Replay::compile(&routed, size, &options))?;
    let state = NetworkState::nominal(&network);
    let end = timed("replay", || replay.run(&state))?;
    let states = vec![state.clone(); 32];
    let many = timed("replay, 32 states", || replay.run_many(&states));
    let usage = timed("usage", || replay.usage(&state))?;
    let busiest = usage.busiest().map_or(0, |it| usage.busy(it).as_ps());
    drop((replay, usage));

    let prepared = timed("prepare events", || Prepared::new(&routed));
    let outcome = timed("events", || Simulation::new(&prepared, size).options(options).run())?;
    let all_equal = many.into_iter().all(|it| it == Ok(end)) && outcome.time == end;
    println!(
        "ends after {end}; the busiest link is taken for {busiest} ps; engines agree: {all_equal}"
    );
    Ok(())
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what}: {:.2} s", start.elapsed().as_secs_f64());
    result
}

//! Thousands of random tasks, each of which must give a program or a clear refusal: no panic, no
//! stall, no time below the bound, in any discipline. `benches/torture` runs it.
//!
//! ```sh
//! cargo run --release -p motet-synth --example torture -- --runs 7000 --seed 1
//! ```
//!
//! `--only N` does the task of one number again and prints its network as a cluster file. Exits 1 if
//! anything failed. A run over its budget (`--budget`, seconds) has failed too.

#![allow(clippy::print_stdout, reason = "an example says what it found")]

mod cases;
#[path = "../clock/mod.rs"]
mod clock;
mod judge;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clock::{cpu_seconds, now};
use judge::{Verdict, judge};
use motet_net::formats::cluster_toml;
use motet_units::Seed;

struct Options {
    runs: u64,
    seed: u64,
    only: Option<u64>,
    budget: f64,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = options()?;
    let seed = Seed::new(options.seed);
    if let Some(number) = options.only {
        let case = cases::case(seed, number)?;
        print!("{}", cluster_toml::write(&case.network));
        println!("# {}", case.about);
        let verdict = judge(&case);
        println!("# {verdict:?}");
        return Ok(if verdict.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    // Panics are counted, and told with what gives them again; their traces would drown the rest.
    std::panic::set_hook(Box::new(|_| {}));
    let started = now();
    let (mut programs, mut failures) = (0u64, 0u64);
    let mut refusals: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..options.runs {
        match within(seed, number, options.budget) {
            Verdict::Program => programs += 1,
            Verdict::Refused(why) => *refusals.entry(why).or_default() += 1,
            Verdict::Failed(why) => {
                failures += 1;
                println!("FAILED {why}");
                println!("  {}", cases::case(seed, number)?.about);
                println!("  benches/torture --seed {} --only {number}", options.seed);
            }
        }
    }
    let refused: u64 = refusals.values().sum();
    for (why, count) in &refusals {
        println!("{count:6}  {why}");
    }
    let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds().unwrap_or(0.0));
    println!(
        "torture: {} runs, seed {}: {programs} programs, {refused} refusals, {failures} failures; \
         {wall:.0} s, {cpu:.0} s of CPU",
        options.runs, options.seed
    );
    Ok(if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { runs: 7000, seed: 1, only: None, budget: 60.0 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--runs" => options.runs = value.parse()?,
            "--seed" => options.seed = value.parse()?,
            "--only" => options.only = Some(value.parse()?),
            "--budget" => options.budget = value.parse()?,
            _ => return Err(format!("`{word}` is none of --runs --seed --only --budget").into()),
        }
    }
    Ok(options)
}

/// One run on a thread of its own, so that one that hangs is found and left behind.
fn within(seed: Seed, number: u64, budget: f64) -> Verdict {
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        let done = std::panic::catch_unwind(|| match cases::case(seed, number) {
            Ok(case) => judge(&case),
            Err(error) => Verdict::Failed(format!("there is no such task: {error}")),
        });
        let panicked = |it: Box<dyn std::any::Any + Send>| {
            let text = it.downcast_ref::<String>().cloned();
            let text = text.or_else(|| it.downcast_ref::<&str>().map(|it| (*it).to_owned()));
            Verdict::Failed(format!("panic: {}", text.unwrap_or_default()))
        };
        // Nobody listens any more if it took too long.
        let _ = sender.send(done.unwrap_or_else(panicked));
    };
    std::thread::spawn(run);
    let verdict = receiver.recv_timeout(Duration::from_secs_f64(budget));
    verdict.unwrap_or_else(|_| Verdict::Failed(format!("no end within {budget} s")))
}

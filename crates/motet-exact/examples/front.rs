//! Prints the AllGather front of a cluster file, and how long each point took to settle:
//!
//! ```text
//! cargo run --release -p motet-exact --example front -- CLUSTER.toml [MOST_CHUNKS [MORE_STEPS]]
//! ```
//!
//! With points after that (`3,2,4`), settles just those, with as many conflicts as it takes.

use std::process::ExitCode;
use std::time::Instant;

use motet_collective::{CollectiveKind, Verified};
use motet_exact::{Answer, Exact, Limits, Point};
use motet_net::formats::cluster_toml;
use motet_synth::{Fabric, Goal, Lowering, Task, Trees};
use motet_units::Bytes;

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::print_stderr, reason = "an example")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match show(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example")]
fn show(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let file = arguments.first().ok_or("name a cluster file")?;
    let number = |at: usize, unless: u32| arguments.get(at).map_or(Ok(unless), |it| it.parse());
    let network =
        cluster_toml::read(&std::fs::read_to_string(file)?, &|it| Err(it.to_owned()))?.network;
    let ranks = u32::try_from(network.ranks().len())?;
    let task = Task::new(&network, Goal::new(CollectiveKind::AllGather, ranks)?, Bytes::mib(1));
    let fabric = Fabric::new(&task)?;
    let started = now();
    let exact = Exact::new(&task, &fabric)?;
    println!("made ready in {:.4} s", started.elapsed().as_secs_f64());
    let limits = Limits { chunks: number(1, 6)?, more_steps: number(2, 3)?, ..Limits::default() };
    if arguments.len() <= 3 {
        let started = now();
        let front = exact.front(&limits);
        for best in &front.points {
            let proof = if best.is_proved() { "proved best" } else { "best found" };
            println!("{} {proof}, over {} points", best.plan.point, best.ruled_out.len());
        }
        let complete = if front.is_complete() { "complete" } else { "not complete" };
        println!("{complete}, in {:.4} s", started.elapsed().as_secs_f64());
    }
    for words in arguments.iter().skip(3) {
        let numbers: Vec<u32> = words.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [chunks, steps, rounds] = numbers[..] else { return Err("a point is C,S,R".into()) };
        let started = now();
        let answer = exact
            .solve(Point::new(chunks, steps, rounds), &Limits { conflicts: u64::MAX, ..limits });
        let seconds = started.elapsed().as_secs_f64();
        match answer {
            Answer::Possible(plan) => {
                let lowering = Lowering::new(&task, &fabric, Trees::Spread(&plan.forest))?;
                Verified::new(lowering.with_slices(1)?.program, Some(&network))
                    .map_err(|it| format!("{it:?}"))?;
                println!("{words}: rounds {:?}, verified; {seconds:.4} s", plan.rounds);
            }
            Answer::Impossible(proof) => {
                println!("{words}: impossible by {proof:?}; {seconds:.4} s");
            }
            Answer::Unknown => println!("{words}: too large to settle"),
        }
    }
    Ok(())
}

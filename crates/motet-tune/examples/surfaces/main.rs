//! Records the surfaces of some tasks, and judges searchers on recorded ones:
//!
//! ```text
//! cargo run --release -p motet-tune --example surfaces -- record DIR [NAME...]
//! cargo run --release -p motet-tune --example surfaces -- search FILE METHOD SEEDS NOISE RESTART
//! ```
//!
//! `record` times every point of every task ([`tasks`]) and writes one CSV for each and an index
//! of them; programs that no runtime can load are left out, and said. `search` runs a method once for each seed, with this noise per iteration (`0.05`)
//! and this time for a new communicator (`250ms`), and prints one JSON object per run
//! ([`judge`]). benches/search/compare.py makes a table of it, with Optuna beside.

mod judge;
mod tasks;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "an example")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example")]
fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["record", folder, ref names @ ..] => {
            let folder = Path::new(folder);
            let asked = |it: &&tasks::Surveyed| names.is_empty() || names.contains(&it.name);
            let mut index = String::from("name,used\n");
            for task in tasks::TASKS.iter().filter(asked) {
                let made = match tasks::record(task) {
                    Ok(made) => made,
                    Err(error) => {
                        println!("{}: left out: {error}", task.name);
                        continue;
                    }
                };
                made.left_out.iter().for_each(|it| println!("{}: without {it}", task.name));
                std::fs::write(folder.join(task.name).with_extension("csv"), tasks::csv(&made))?;
                let used =
                    if task.chosen_by { "constants were chosen by it" } else { "for judging only" };
                println!("{}: {} points; {used}", task.name, made.knobs.space().len());
                index += &format!("{},{used}\n", task.name);
            }
            std::fs::write(folder.join("index.csv"), index)?;
            Ok(())
        }
        ["search", file, method, seeds, noise, restart] => {
            let surface = judge::read(&std::fs::read_to_string(file)?)?;
            let trouble = judge::Trouble { noise: noise.parse()?, restart: restart.parse()? };
            for seed in 0..seeds.parse()? {
                println!("{}", judge::run(&surface, method.parse()?, seed, trouble)?);
            }
            Ok(())
        }
        _ => Err("say `record DIR [NAME...]` or `search FILE METHOD SEEDS NOISE RESTART`".into()),
    }
}

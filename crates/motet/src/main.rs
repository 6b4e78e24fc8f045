//! `motet`: the command line of Motet, which plans the collective communication of distributed training.
//!
//! This crate parses arguments, opens files, calls the library crates and prints what they return; it computes
//! nothing itself that a library could. Start reading in [`args`], which has every command and option as the
//! user types it, and in [`commands`], where each command has a file of its own with one function `run`. A
//! command returns a [`Status`](failure::Status), which is the exit code, or a [`Failure`](failure::Failure),
//! which names the file, what is wrong and what to do. What commands share: [`files`] reads and writes,
//! [`mistaken`] says what a file is that was given in the wrong place, [`printer`] is the only way to stdout
//! and stderr, [`progress`] draws bars, [`table`] writes CSV and Parquet, [`plot`] draws lines, [`c_format`]
//! prints numbers as nccl-tests does.

mod args;
mod c_format;
mod commands;
mod failure;
mod files;
mod mistaken;
mod parquet;
mod plot;
mod printer;
mod progress;
mod table;
mod token;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use args::Cli;
use mimalloc::MiMalloc;
use printer::Printer;

/// Synthesis and simulation take and give back tables of megabytes over and over. The system's allocator returns such
/// memory to the kernel each time, and page faults then cost up to a third of a run (BENCHMARKS.md, "The release build").
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let matches = args::help::command().try_get_matches();
    let cli = match matches.and_then(|it| Cli::from_arg_matches(&it)) {
        Ok(cli) => cli,
        Err(error) => return printer::usage(&error),
    };
    let mut printer = Printer::new(&cli.global);
    match commands::run(&cli.command, &mut printer) {
        Ok(status) => status.into(),
        Err(failure) => {
            printer.failure(&failure);
            failure.status().into()
        }
    }
}

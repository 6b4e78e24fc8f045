//! `motet`: the command line. Arguments are in [`args`], each command in a file of its own under
//! `commands/`, what they share in [`files`], [`failure`], [`printer`], [`progress`], [`table`],
//! [`plot`] and [`c_format`].

mod args;
mod c_format;
mod commands;
mod failure;
mod files;
mod parquet;
mod plot;
mod printer;
mod progress;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;
use printer::Printer;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut printer = Printer::new(&cli.global);
    match commands::run(&cli.command, &mut printer) {
        Ok(status) => status.into(),
        Err(failure) => {
            printer.failure(&failure);
            failure.status().into()
        }
    }
}

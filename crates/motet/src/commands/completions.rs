//! `motet completions`: a script that makes a shell complete Motet's commands and options.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

/// Prints the script of `shell`.
pub(crate) fn run(shell: Shell, printer: &mut Printer) -> Result<Status, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "motet", &mut script);
    printer.out(&String::from_utf8_lossy(&script))?;
    Ok(Status::Done)
}

//! `motet man`: the manual pages, made from the same description of the arguments that `--help` prints.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

/// Prints `motet(1)`, or with `--output` writes it and one page per command into a folder.
pub(crate) fn run(args: &ManArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let mut cli = Cli::command();
    // Passes global options and the version on to subcommands, and gives each its full name.
    cli.build();
    let Some(folder) = &args.output else {
        let page = page(&cli).map_err(|it| Failure::unreadable(it.to_string()))?;
        printer.out(&String::from_utf8_lossy(&page))?;
        return Ok(Status::Done);
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::unreadable(format!("cannot be created: {error}")).in_file(folder)
    })?;
    let written = write_all(&cli, Path::new(folder))?;
    printer.note(&format!("{written} pages in {folder}; read one with `man {folder}/motet.1`"));
    Ok(Status::Done)
}

/// Writes the page of a command and of all its subcommands, and returns how many that were.
fn write_all(command: &Command, folder: &Path) -> Result<usize, Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    let path = path.to_string_lossy();
    let page =
        page(command).map_err(|it| Failure::unreadable(it.to_string()).in_file(path.as_ref()))?;
    files::write_bytes(path.as_ref(), &page)?;
    let mut written = 1;
    for inner in command.get_subcommands().filter(|it| it.get_name() != "help") {
        written += write_all(inner, folder)?;
    }
    Ok(written)
}

/// One page as roff, the format that `man` reads.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

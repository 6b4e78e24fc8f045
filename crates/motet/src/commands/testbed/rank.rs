//! `motet testbed rank`: one rank of `motet wan --live`, told what to do on its standard input.

use std::io::Write as _;

use motet_exec::Config;
use motet_testbed::live::rank;
use motet_testbed::live::words::{FromRank, write};
use motet_units::Duration;

use crate::args::testbed::RankArgs;
use crate::commands::exec::{clock, note};
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(args: &RankArgs, printer: &mut Printer) -> Result<Status, Failure> {
    // What else the machine does is not to be measured.
    motet_testbed::linux::process::hurry(1);
    let config = Config {
        token: std::env::var("MOTET_EXEC_TOKEN").unwrap_or_default(),
        deadline: Duration::from_ms(60_000),
        ..Config::new(args.store.clone(), args.rank, args.ranks)
    };
    let input = std::io::stdin().lock();
    let served =
        rank::serve(&config, &clock(), note(printer.shows_notes()), input, std::io::stdout());
    let Err(why) = served else { return Ok(Status::Done) };
    // The controller says it to the user; if it is gone there is nobody to tell.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(write(&FromRank::Failed { why: why.clone() }).as_bytes());
    Err(Failure::wrong(why))
}

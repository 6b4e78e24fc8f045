//! `motet net convert`: a network in another format.

use crate::args::net::ConvertArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &ConvertArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let read = files::network(&args.cluster, &args.read.options(), printer)?;
    super::write(&read.network, &args.out, printer)?;
    Ok(Status::Done)
}

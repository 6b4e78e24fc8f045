//! `motet exec store`: where ranks meet.

use motet_exec::Store;

use super::{clock, failure, note};
use crate::args::exec::StoreArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(args: &StoreArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let tls = args.tls.load().map_err(|it| failure(&it))?;
    let note = note(printer.shows_notes());
    let store = Store::serve_with(args.listen, &args.token(), tls, clock(), note);
    let store = store.map_err(|it| failure(&it))?;
    let address = store.address().to_string();
    if printer.is_json() {
        printer.json(&serde_json::json!({ "listening": address }))?;
    } else {
        printer.out(&format!("listening on {address}\n"))?;
    }
    store.wait();
    Ok(Status::Done)
}

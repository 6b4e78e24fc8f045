//! `motet serve`: the controller of optical circuits as a service.

use std::path::Path;

use motet_server::config::Config;
use motet_server::serve::StartError;

use crate::args::serve::{LogArgs, LogFormat, ServeArgs};
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &ServeArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let text = files::read(&args.config)?;
    let folder = Path::new(&args.config).parent().unwrap_or(Path::new(""));
    let mut config = Config::parse(&text, folder).map_err(|it| {
        Failure::unreadable(it.problem).in_file(&args.config).with_remedy(it.remedy)
    })?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    log(&args.log, printer);
    let mut said = Ok(());
    let served = motet_server::run::serve(&config, |address| {
        said = if printer.is_json() {
            printer.json(&serde_json::json!({ "listening": address.to_string() }))
        } else {
            printer.out(&format!("listening on {address}\n"))
        };
    });
    served.map_err(|error| match error {
        StartError::Config(it) => {
            Failure::wrong(it.problem).in_file(&args.config).with_remedy(it.remedy)
        }
        other => Failure::unreadable(other.to_string()),
    })?;
    said?;
    Ok(Status::Done)
}

/// Begins to log as the arguments say.
pub(super) fn log(args: &LogArgs, printer: &Printer) {
    motet_server::logs::begin(args.log == LogFormat::Json, printer.is_verbose());
}

//! `motet manager`: the manager of a job's ranks on one host.

use motet_server::client::Address;
use motet_server::config::time;
use motet_server::job::JobSpec;
use motet_server::manager::Settings;

use crate::args::serve::ManagerArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &ManagerArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let spec: JobSpec = serde_json::from_str(&files::read(&args.job)?).map_err(|it| {
        Failure::unreadable(it.to_string())
            .in_file(&args.job)
            .with_remedy("docs/controller.md says what a job's file has")
    })?;
    let token = args.token.as_ref().map(|it| files::read(it)).transpose()?;
    let token = token.map(|it| it.lines().next().unwrap_or_default().to_owned());
    let address = Address {
        url: args.controller.clone(),
        token,
        ca: args.ca.clone(),
        identity: args.certificate.clone().zip(args.key.clone()),
    };
    let settings = Settings {
        spec,
        member: args.member,
        socket: args.socket.clone(),
        patience: time(args.patience),
    };
    super::serve::log(&args.log, printer);
    motet_server::run::manage(settings, &address)
        .map_err(|it| Failure::unreadable(it.to_string()))?;
    Ok(Status::Done)
}

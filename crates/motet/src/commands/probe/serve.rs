//! `motet probe serve`: the agent of a host.

use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration as Wall;

use motet_net::probe::{AgentOptions, serve};

use crate::args::discovery::ServeArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(args: &ServeArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let failure = |error: std::io::Error| {
        Failure::unreadable(format!("cannot listen on {}: {error}", args.listen))
            .with_remedy("give an address of this host and a free port, such as 10.0.0.1:7461")
    };
    let listener = TcpListener::bind(args.listen).map_err(failure)?;
    let address = listener.local_addr().map_err(failure)?;
    if printer.is_json() {
        printer.json(&serde_json::json!({ "listening": address.to_string() }))?;
    } else {
        printer.out(&format!("listening on {address}\n"))?;
    }
    let options = AgentOptions {
        token: args.shared.token.clone(),
        timeout: Wall::from_secs(args.shared.timeout),
        max_connections: args.max_connections as usize,
    };
    // It serves until the process is ended.
    let stop = AtomicBool::new(false);
    let printer = &*printer;
    serve(&listener, &super::clock(), &options, &stop, &|note| printer.note(note));
    Ok(Status::Done)
}

//! `motet probe serve`: the agent of a host.

use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration as Wall;

use motet_net::probe::{AgentOptions, serve};

use crate::args::discovery::ServeArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;
use crate::token;

pub(crate) fn run(args: &ServeArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if args.no_token && !args.listen.ip().to_canonical().is_loopback() {
        let problem = format!("without a token an agent cannot listen on {}", args.listen);
        return Err(Failure::unreadable(problem).with_remedy(
            "leave out `--no-token` (the agent then makes up a token and prints it), or listen on 127.0.0.1",
        ));
    }
    let failure = |error: std::io::Error| {
        Failure::unreadable(format!("cannot listen on {}: {error}", args.listen))
            .with_remedy("give an address of this host and a free port, such as 10.0.0.1:7461")
    };
    let listener = TcpListener::bind(args.listen).map_err(failure)?;
    let address = listener.local_addr().map_err(failure)?;
    let (secret, made_up) = match args.shared.given_token() {
        _ if args.no_token => (String::new(), false),
        Some(given) => (given, false),
        None => (token::random(), true),
    };
    let shown = made_up.then_some(secret.as_str());
    if printer.is_json() {
        let mut said = serde_json::json!({ "listening": address.to_string() });
        if let Some(token) = shown {
            said["token"] = token.into();
        }
        printer.json(&said)?;
    } else {
        printer.out(&format!("listening on {address}\n"))?;
        if let Some(token) = shown {
            printer.out(&format!(
                "token {token}\n  start the other agents and `motet probe run` with --token {token}\n"
            ))?;
        }
    }
    let options = AgentOptions {
        token: secret,
        timeout: Wall::from_secs(args.shared.timeout),
        max_connections: args.max_connections as usize,
    };
    // It serves until the process is ended.
    let stop = AtomicBool::new(false);
    let printer = &*printer;
    serve(&listener, &super::clock(), &options, &stop, &|note| printer.note(note));
    Ok(Status::Done)
}

//! `motet probe serve`: the agent of a host.

use std::hash::{BuildHasher as _, RandomState};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration as Wall;

use motet_net::probe::{AgentOptions, serve};

use crate::args::discovery::ServeArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

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
    let (token, made_up) = match args.shared.given_token() {
        _ if args.no_token => (String::new(), false),
        Some(token) => (token, false),
        None => (random_token(), true),
    };
    let shown = made_up.then_some(token.as_str());
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
        token,
        timeout: Wall::from_secs(args.shared.timeout),
        max_connections: args.max_connections as usize,
    };
    // It serves until the process is ended.
    let stop = AtomicBool::new(false);
    let printer = &*printer;
    serve(&listener, &super::clock(), &options, &stop, &|note| printer.note(note));
    Ok(Status::Done)
}

/// 128 bits that nobody can guess. The standard library keys its hash maps from the system's source
/// of randomness; the hashes of two numbers under such a key serve as well, without a dependency.
fn random_token() -> String {
    let key = RandomState::new();
    format!("{:016x}{:016x}", key.hash_one(0u64), key.hash_one(1u64))
}

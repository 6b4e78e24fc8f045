//! The connections that NETCONF runs over: the `ssh` program, another program, TLS, or (for tests and
//! tunnels) plain TCP.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::device::Fault;
use crate::error::Problem;
use crate::tls::Tls;
use crate::wire::{self, Line, start_of};

/// How to connect to a switch.
#[derive(Clone, Debug)]
pub enum Transport {
    Ssh(Ssh),
    /// A program that speaks NETCONF on its standard input and output, with its arguments.
    Program(Vec<String>),
    Tls(Arc<Tls>),
    Tcp {
        host: String,
        port: u16,
    },
}

/// How the `ssh` program is called.
#[derive(Clone, Debug)]
pub struct Ssh {
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    /// The first line of this file is the password. Without it, keys and agents are tried as `ssh` does.
    pub password_file: Option<PathBuf>,
    /// A script that prints the password from that file, which is how `ssh` gets a password without a
    /// terminal.
    pub ask: Option<Arc<tempfile::TempPath>>,
}

impl Ssh {
    /// The program that `ssh` asks for the password.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn ask_program() -> std::io::Result<tempfile::TempPath> {
        use std::io::Write;
        use std::os::unix::fs::PermissionsExt;
        let mut file = tempfile::Builder::new().prefix("motet-ask").tempfile()?;
        file.write_all(b"#!/bin/sh\nexec head -n 1 \"$MOTET_PASSWORD_FILE\"\n")?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o700))?;
        Ok(file.into_temp_path())
    }

    fn command(&self) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-T", "-o", "StrictHostKeyChecking=yes", "-p", &self.port.to_string()]);
        if let Some(user) = &self.user {
            command.args(["-l", user]);
        }
        match (&self.password_file, &self.ask) {
            (Some(file), Some(ask)) => {
                let options = ["-o", "NumberOfPasswordPrompts=1", "-o", "PubkeyAuthentication=no"];
                command.args(options).env("MOTET_PASSWORD_FILE", file);
                command.env("SSH_ASKPASS", ask.as_os_str()).env("SSH_ASKPASS_REQUIRE", "force");
            }
            _ => {
                command.args(["-o", "BatchMode=yes"]);
            }
        }
        command.args(["-s", "--", &self.host, "netconf"]);
        command
    }
}

/// What must be kept as long as the connection.
pub(super) enum Carrier {
    Program(Box<Child>),
    Nothing,
}

impl Carrier {
    /// Replaces the fault of a program that ended before it answered by what the program wrote to its
    /// standard error.
    pub(super) async fn explain(&mut self, fault: Fault) -> Fault {
        let Self::Program(child) = self else { return fault };
        let Some(mut errors) = child.stderr.take() else { return fault };
        let mut text = Vec::new();
        let read = errors.read_to_end(&mut text);
        if timeout(Duration::from_secs(1), read).await.is_err() || text.is_empty() {
            return fault;
        }
        let words = start_of(&String::from_utf8_lossy(&text));
        let login =
            ["Permission denied", "Host key verification failed", "REMOTE HOST IDENTIFICATION"];
        let problem = if login.iter().any(|it| words.contains(it)) {
            Problem::Login(words)
        } else {
            Problem::Unreachable(words)
        };
        Fault::new(fault.asked, problem)
    }
}

impl Transport {
    pub(super) async fn open(&self) -> Result<(Line, Carrier), Fault> {
        match self {
            Self::Ssh(ssh) => start(ssh.command(), "ssh"),
            Self::Program(words) => {
                let (program, arguments) =
                    words.split_first().map_or(("", [].as_slice()), |it| (it.0.as_str(), it.1));
                let mut command = Command::new(program);
                command.args(arguments);
                start(command, program)
            }
            Self::Tls(tls) => Ok((Line::new(tls.connect().await?), Carrier::Nothing)),
            Self::Tcp { host, port } => {
                Ok((Line::new(wire::tcp(host, *port).await?), Carrier::Nothing))
            }
        }
    }
}

fn start(mut command: Command, name: &str) -> Result<(Line, Carrier), Fault> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let lost = |it: String| Fault::new(format!("starting `{name}`"), Problem::Unreachable(it));
    let mut child = command.spawn().map_err(|it| lost(it.to_string()))?;
    let (input, output) =
        child.stdin.take().zip(child.stdout.take()).ok_or_else(|| lost("no pipes".to_owned()))?;
    Ok((Line::new(tokio::io::join(output, input)), Carrier::Program(Box::new(child))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program that `ssh` asks prints the first line of the file, and nobody else can read or run it.
    #[test]
    fn the_password_is_told_and_not_shown() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "se cret\nmore\n").unwrap();
        let ask = Ssh::ask_program().unwrap();
        assert_eq!(ask.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let said =
            std::process::Command::new(&ask).env("MOTET_PASSWORD_FILE", &file).output().unwrap();
        assert_eq!(said.stdout, b"se cret\n");
        let ssh = Ssh {
            host: "ocs".to_owned(),
            port: 830,
            user: Some("admin".to_owned()),
            password_file: Some(file),
            ask: Some(Arc::new(ask)),
        };
        let words = format!("{:?}", ssh.command().as_std().get_args().collect::<Vec<_>>());
        assert!(
            words.contains("\"-s\", \"--\", \"ocs\", \"netconf\"") && !words.contains("cret"),
            "{words}"
        );
    }
}

//! The arguments of `motet serve` and `motet manager`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use motet_units::Duration;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration: where to listen, who may use it, which switches there are (docs/controller.md)
    #[arg(value_name = "CONFIG")]
    pub(crate) config: String,
    /// Where to listen, instead of what the configuration says; port 0 for any
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// How the log on stderr looks
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object for each line
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ManagerArgs {
    /// The controller: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub(crate) controller: String,
    /// The job: members, groups, circuits and ranks (docs/controller.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) job: String,
    /// Which member of the job this host is
    #[arg(long, value_name = "NUMBER")]
    pub(crate) member: u32,
    /// The Unix socket that ranks connect to
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// A file whose first line is the token for the controller
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<String>,
    /// Who signs the controller's certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// This manager's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// How long the controller may be gone before calls pass without it
    #[arg(long, value_name = "TIME", default_value = "2 s")]
    pub(crate) patience: Duration,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

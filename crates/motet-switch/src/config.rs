//! [`SwitchConfig`]: a `[[switch]]` table of a configuration file, and [`open`], which makes a driver from
//! it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use motet_control::SwitchId;
use motet_units::Duration;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::driver::Driver;
use crate::error::{Error, Problem};
use crate::layout::{Layout, Wiring};
use crate::managed::{Managed, Manner};
use crate::sim::{SimConfig, Simulated, Switch};
use crate::tls::Tls;
use crate::{gnmi, netconf, restconf, scpi, tl1, wire};

/// A switch as configured in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Its name in messages.
    pub name: String,
    #[serde(default)]
    pub driver: DriverKind,
    /// `host:port`; the default port is the protocol's own. Simulated switches have no address.
    pub address: Option<String>,
    /// How many of its ports the controller may use.
    pub ports: Option<u32>,
    #[serde(default)]
    pub wiring: Wiring,
    /// The device's port (or, with duplex wiring, input) that is the controller's port 0. Default 1, and 0 for simulated switches.
    pub first_port: Option<u32>,
    /// With duplex wiring, the device's output that is the controller's port 0.
    pub first_output: Option<u32>,
    pub user: Option<String>,
    /// A file whose first line is the password, so that the configuration itself contains no secret.
    pub password_file: Option<PathBuf>,
    /// For gNMI, RESTCONF and NETCONF: use TLS, with these files. Without TLS gNMI and RESTCONF are not
    /// encrypted, and NETCONF uses SSH.
    pub tls: Option<TlsConfig>,
    /// For NETCONF: the program to start instead of `ssh`, with its arguments.
    pub command: Option<Vec<String>>,
    /// For RESTCONF: the part of paths before `/data`; `/api` by default.
    pub root: Option<String>,
    /// The time-out of connecting, of one reading, and of one change; 10 s by default.
    pub timeout: Option<Duration>,
    /// How long the switch may still carry out an order after its connection has broken; 1 s by default.
    pub settle: Option<Duration>,
    /// How often the switch is read to find changes by others; 10 s by default.
    pub poll: Option<Duration>,
    #[serde(default)]
    pub sim: SimConfig,
}

/// The protocol of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverKind {
    /// A simulated switch.
    #[default]
    Sim,
    /// OCP's model of optical circuit switches over gNMI.
    Gnmi,
    /// Polatis' model over NETCONF.
    Netconf,
    /// Polatis' model over RESTCONF.
    Restconf,
    /// Polatis' SCPI commands.
    Scpi,
    /// TL1.
    Tl1,
}

impl DriverKind {
    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Gnmi => "gnmi",
            Self::Netconf => "netconf",
            Self::Restconf => "restconf",
            Self::Scpi => "scpi",
            Self::Tl1 => "tl1",
        }
    }
}

/// Trusted certificate authorities, and the driver's own certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The PEM file of the certificate authority that signs the switches' certificates.
    pub ca: Option<PathBuf>,
    /// Our own certificate and key, in PEM, for switches that authenticate clients.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name in the switch's certificate, if it is not that of its address.
    pub server_name: Option<String>,
}

impl SwitchConfig {
    /// A simulated switch with so many ports and no delay.
    #[must_use]
    pub fn simulated(name: &str, ports: u32) -> Self {
        Self {
            name: name.to_owned(),
            driver: DriverKind::Sim,
            address: None,
            ports: Some(ports),
            wiring: Wiring::Bidirectional,
            first_port: None,
            first_output: None,
            user: None,
            password_file: None,
            tls: None,
            command: None,
            root: None,
            timeout: None,
            settle: None,
            poll: None,
            sim: SimConfig::default(),
        }
    }

    /// Makes the names of its files relative to `folder`, the folder of the configuration file.
    pub fn files_in(&mut self, folder: &Path) {
        let tls = self.tls.iter_mut().flat_map(|it| [&mut it.ca, &mut it.certificate, &mut it.key]);
        let files = tls.chain([&mut self.password_file, &mut self.sim.state]);
        files.flatten().for_each(|it| *it = folder.join(&*it));
    }

    /// Its name and address, for error messages.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.address {
            Some(address) => format!("{}://{address}", self.driver.name()),
            None => self.driver.name().to_owned(),
        }
    }

    pub(crate) fn wrong(&self, what: impl Into<String>) -> Error {
        Error {
            switch: self.name.clone(),
            address: self.place(),
            asked: "reading its configuration".to_owned(),
            problem: Problem::Config(what.into()),
        }
    }

    fn layout(&self) -> Result<Layout, Error> {
        let like = self.sim.like().map_err(|it| self.wrong(it))?;
        let ports = self.ports.or(like.map(|it| it.ports));
        let ports = ports.filter(|it| *it > 0).ok_or_else(|| self.wrong("`ports` is missing"))?;
        // Devices number their ports from 1, simulated ones from 0 as we do.
        let first = self.first_port.unwrap_or(u32::from(self.driver != DriverKind::Sim));
        let behind =
            first.checked_add(ports).ok_or_else(|| self.wrong("`first_port` is too large"))?;
        let first_output = self.first_output.unwrap_or(behind);
        if first_output.checked_add(ports).is_none() {
            return Err(self.wrong("`first_output` is too large"));
        }
        Ok(Layout { wiring: self.wiring, ports, first, first_output })
    }

    fn endpoint(&self, default: u16) -> Result<(String, u16), String> {
        let address = self.address.as_ref().ok_or("`address` is missing")?;
        wire::host_and_port(address, default).map_err(|it| format!("`address`: {it}"))
    }

    /// Name and password, if there are any.
    fn login(&self) -> Result<Option<(String, String)>, String> {
        match (&self.user, &self.password_file) {
            (Some(user), Some(file)) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|it| format!("{}: {it}", file.display()))?;
                let password = text.lines().next().filter(|it| !it.is_empty());
                let password = password
                    .ok_or_else(|| format!("{}: its first line is empty", file.display()))?;
                Ok(Some((user.clone(), password.to_owned())))
            }
            (None, None) => Ok(None),
            (Some(_), None) if self.driver == DriverKind::Netconf => Ok(None),
            _ => Err("`user` and `password_file` go together".to_owned()),
        }
    }

    /// The switch's identity and time-outs, as a driver needs them.
    pub(crate) fn manner(&self, id: SwitchId) -> Result<Manner, Error> {
        Ok(Manner {
            id,
            name: self.name.clone(),
            address: self.place(),
            layout: self.layout()?,
            timeout: self.timeout.unwrap_or(Duration::from_ms(10_000)),
            settle: self.settle.unwrap_or(Duration::from_ms(1_000)),
            poll: self.poll.unwrap_or(Duration::from_ms(10_000)),
        })
    }
}

/// A driver for a configured switch, which the controller calls `id`. Nothing is connected yet.
///
/// # Errors
///
/// If the configuration makes no sense, or a file that it names cannot be read.
pub fn open(id: SwitchId, config: &SwitchConfig) -> Result<Box<dyn Driver>, Error> {
    let manner = config.manner(id)?;
    let device = device(config, &manner).map_err(|it| config.wrong(it))?;
    Ok(Box::new(Managed::new(manner, device)))
}

fn device(config: &SwitchConfig, manner: &Manner) -> Result<Box<dyn Device>, String> {
    let only = |field: bool, name: &str, what: &str| {
        if field { Err(format!("`{name}` {what}")) } else { Ok(()) }
    };
    only(
        config.command.is_some() && config.driver != DriverKind::Netconf,
        "command",
        "is for NETCONF only",
    )?;
    only(
        config.root.is_some() && config.driver != DriverKind::Restconf,
        "root",
        "is for RESTCONF only",
    )?;
    let tls =
        matches!(config.driver, DriverKind::Gnmi | DriverKind::Netconf | DriverKind::Restconf);
    only(config.tls.is_some() && !tls, "tls", "is for gNMI, NETCONF and RESTCONF only")?;
    let layout = manner.layout;
    Ok(match config.driver {
        DriverKind::Sim => Box::new(Simulated(Switch::new(&config.sim)?)),
        DriverKind::Scpi => {
            only(config.user.is_some(), "user", "is of no use: SCPI has no login")?;
            let (host, port) = config.endpoint(scpi::PORT)?;
            Box::new(scpi::Scpi { host, port })
        }
        DriverKind::Tl1 => {
            let (host, port) = config.endpoint(tl1::PORT)?;
            let quote = |it: &str| tl1::text::quote(it);
            let login =
                config.login()?.map(|(user, password)| Ok((quote(&user)?, quote(&password)?)));
            let login =
                login.transpose().map_err(|it: String| format!("user or password: {it}"))?;
            Box::new(tl1::Tl1 { host, port, login, layout })
        }
        DriverKind::Netconf => Box::new(netconf::Netconf { transport: netconf_transport(config)? }),
        DriverKind::Restconf => {
            let default = if config.tls.is_some() { restconf::TLS_PORT } else { restconf::PORT };
            let (host, port) = config.endpoint(default)?;
            let tls = config.tls.as_ref().map(|it| Tls::new(host.clone(), port, it)).transpose()?;
            let login = config.login()?.map(|it| restconf::basic(&it.0, &it.1)).transpose()?;
            let root = config.root.clone().unwrap_or_else(|| "/api".to_owned());
            Box::new(restconf::Restconf { host, port, tls, root, authorization: login })
        }
        DriverKind::Gnmi => Box::new(gnmi(config, layout)?),
    })
}

fn netconf_transport(config: &SwitchConfig) -> Result<netconf::Transport, String> {
    if let Some(command) = &config.command {
        return if command.is_empty() {
            Err("`command` is empty".to_owned())
        } else {
            Ok(netconf::Transport::Program(command.clone()))
        };
    }
    if let Some(tls) = &config.tls {
        // RFC 7589's port.
        let (host, port) = config.endpoint(6513)?;
        return Ok(netconf::Transport::Tls(Arc::new(Tls::new(host, port, tls)?)));
    }
    let (host, port) = config.endpoint(830)?;
    let ask = match &config.password_file {
        Some(_) => {
            config.login()?;
            let program = netconf::Ssh::ask_program();
            Some(Arc::new(
                program.map_err(|it| format!("no temporary file for the password: {it}"))?,
            ))
        }
        None => None,
    };
    let (user, password_file) = (config.user.clone(), config.password_file.clone());
    Ok(netconf::Transport::Ssh(netconf::Ssh { host, port, user, password_file, ask }))
}

fn gnmi(config: &SwitchConfig, layout: Layout) -> Result<gnmi::Gnmi, String> {
    use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
    let (host, port) = config.endpoint(gnmi::PORT)?;
    let named = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let wrong = |it: tonic::transport::Error| {
        let why = std::error::Error::source(&it).map_or(String::new(), |it| format!(": {it}"));
        format!("{it}{why}")
    };
    let mut endpoint =
        Endpoint::from_shared(format!("{scheme}://{named}:{port}")).map_err(wrong)?;
    endpoint = endpoint.tcp_nodelay(true);
    if let Some(tls) = &config.tls {
        let read =
            |file: &PathBuf| std::fs::read(file).map_err(|it| format!("{}: {it}", file.display()));
        let ca = tls
            .ca
            .as_ref()
            .ok_or("`tls.ca` is missing: the file of whoever signed the switch's certificate")?;
        let mut with = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        match (&tls.certificate, &tls.key) {
            (Some(ours), Some(key)) => {
                with = with.identity(Identity::from_pem(read(ours)?, read(key)?));
            }
            (None, None) => {}
            _ => return Err("`tls.certificate` and `tls.key` go together".to_owned()),
        }
        if let Some(name) = &tls.server_name {
            with = with.domain_name(name);
        }
        endpoint = endpoint.tls_config(with).map_err(wrong)?;
    }
    let header =
        |it: String| it.parse().map_err(|_| "user or password cannot stand in a header".to_owned());
    let login =
        config.login()?.map(|it| Ok::<_, String>((header(it.0)?, header(it.1)?))).transpose()?;
    Ok(gnmi::Gnmi { endpoint, login, layout })
}

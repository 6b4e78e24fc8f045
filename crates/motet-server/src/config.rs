//! [`Config`]: the file that says where the service listens, who may use it, where it keeps its state, and which switches
//! there are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration as Time;

use motet_control::controller::Policy;
use motet_control::protocol::TenantId;
use motet_switch::SwitchConfig;
use motet_units::Duration;
use serde::Deserialize;

use crate::auth::tls::TlsFiles;
use crate::auth::{Access, Credential};
use crate::store::EtcdConfig;

/// The service's configuration file; `docs/controller.md` has the reference.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// A file, or `memory` to keep nothing.
    #[serde(default = "store")]
    pub store: PathBuf,
    /// Keeps the state in etcd instead of a file. Other controllers with the same configuration then stand by
    /// to replace this one.
    pub etcd: Option<EtcdConfig>,
    /// How many records of the journal are kept at least.
    #[serde(default = "journal")]
    pub journal: u64,
    /// How long a member may be gone before its job counts as ended.
    #[serde(default = "absence")]
    pub absence: Duration,
    pub tls: Option<TlsFiles>,
    /// Confirms that TLS is terminated by a proxy in front of the service, and that only the proxy can reach
    /// the service.
    #[serde(default)]
    pub tls_elsewhere: bool,
    #[serde(default, rename = "credential")]
    pub credentials: Vec<Credential>,
    #[serde(default)]
    pub policy: PolicyConfig,
    #[serde(default, rename = "quota")]
    pub quotas: Vec<Quota>,
    /// A switch's number is its place in the file, from 0.
    #[serde(default, rename = "switch")]
    pub switches: Vec<SwitchConfig>,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7400))
}

fn store() -> PathBuf {
    PathBuf::from("motet-store.redb")
}

const fn journal() -> u64 {
    1_000_000
}

const fn absence() -> Duration {
    Duration::from_ms(60_000)
}

/// Settings of the controller's policy that differ from the defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    pub gather: Option<Duration>,
    pub nudge: Option<Duration>,
    pub patience: Option<Duration>,
    pub stuck: Option<Duration>,
    pub answer: Option<Duration>,
    pub retry: Option<Duration>,
    pub attempts: Option<u32>,
}

/// How many ports a tenant's jobs may have together.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    pub tenant: u32,
    pub ports: usize,
}

/// What is wrong with a configuration, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct ConfigError {
    pub problem: String,
    pub remedy: String,
}

impl Config {
    /// Reads a configuration. Names of files in it are relative to `folder`, where the configuration is.
    ///
    /// # Errors
    ///
    /// If it is no TOML, or has unknown keys.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|it| ConfigError {
            problem: it.to_string().trim_end().to_owned(),
            remedy: "docs/controller.md says what the file may have".to_owned(),
        })?;
        let beside = |file: &mut PathBuf| *file = folder.join(&*file);
        if config.store != Path::new("memory") {
            beside(&mut config.store);
        }
        if let Some(tls) = &mut config.tls {
            beside(&mut tls.certificate);
            beside(&mut tls.key);
            tls.client_ca.iter_mut().for_each(beside);
        }
        if let Some(etcd) = &mut config.etcd {
            [&mut etcd.ca, &mut etcd.certificate, &mut etcd.key]
                .into_iter()
                .flatten()
                .for_each(beside);
        }
        for switch in &mut config.switches {
            switch.files_in(folder);
        }
        Ok(config)
    }

    /// Checks the consistency of the keys, and returns the access rules.
    ///
    /// # Errors
    ///
    /// If the service would be open to strangers, or the settings contradict each other.
    pub fn check(&self) -> Result<Access, ConfigError> {
        let wrong =
            |problem: String, remedy: &str| ConfigError { problem, remedy: remedy.to_owned() };
        let access = Access::new(&self.credentials)
            .map_err(|it| wrong(it, "docs/controller.md has examples of credentials"))?;
        let near = self.listen.ip().is_loopback();
        if access.is_open() && !near {
            return Err(wrong(
                format!(
                    "`listen = \"{}\"` can be reached from elsewhere, and there is no authentication",
                    self.listen
                ),
                "add [[credential]]s with tokens or certificates, or listen on 127.0.0.1",
            ));
        }
        if self.tls.is_none() && !near && !self.tls_elsewhere {
            return Err(wrong(
                format!(
                    "`listen = \"{}\"` can be reached from elsewhere, and tokens would go there unencrypted",
                    self.listen
                ),
                "add [tls] with `certificate` and `key`; or, if something in front of it does TLS, `tls_elsewhere = true`",
            ));
        }
        let signed = self.tls.as_ref().is_some_and(|it| it.client_ca.is_some());
        if access.has_certificates() && !signed {
            return Err(wrong(
                "a [[credential]] has `certificate`, but no client certificates are asked for"
                    .to_owned(),
                "add `client_ca` to [tls]",
            ));
        }
        if self.switches.is_empty() {
            return Err(wrong(
                "there is no [[switch]]".to_owned(),
                "add one for each optical switch; `name = \"rail0\"` and `ports = 64` simulate one",
            ));
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = self.switches.iter().find(|it| !names.insert(&it.name)) {
            let problem = format!("two switches are called `{}`", twice.name);
            return Err(wrong(problem, "give each a name of its own"));
        }
        Ok(access)
    }

    /// The controller's policy.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let (own, default) = (&self.policy, Policy::default());
        let quotas: BTreeMap<TenantId, usize> =
            self.quotas.iter().map(|it| (TenantId(it.tenant), it.ports)).collect();
        Policy {
            gather: own.gather.unwrap_or(default.gather),
            nudge: own.nudge.unwrap_or(default.nudge),
            patience: own.patience.unwrap_or(default.patience),
            stuck: own.stuck.unwrap_or(default.stuck),
            answer: own.answer.unwrap_or(default.answer),
            retry: own.retry.unwrap_or(default.retry),
            attempts: own.attempts.unwrap_or(default.attempts),
            quotas,
        }
    }
}

/// A duration as a `std` duration, in nanoseconds.
#[must_use]
pub const fn time(it: Duration) -> Time {
    Time::from_nanos(it.as_ps() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "[[switch]]\nname = 'a'\nports = 4\n";
    const TOKEN: &str = "[[credential]]\ntoken = 'aaaaaaaaaaaaaaaa'\ntenant = 1\n";

    fn refused(text: &str) -> (String, String) {
        let config = Config::parse(text, Path::new("/x")).unwrap();
        let error = config.check().unwrap_err();
        (error.problem, error.remedy)
    }

    #[test]
    fn without_authentication_only_loopback_will_do() {
        assert!(Config::parse(SWITCH, Path::new("")).unwrap().check().unwrap().is_open());
        let (problem, remedy) = refused(&format!("listen = '0.0.0.0:1'\n{SWITCH}"));
        assert!(problem.contains("no authentication"), "{problem}");
        assert!(remedy.contains("[[credential]]") && remedy.contains("127.0.0.1"), "{remedy}");
        let (problem, remedy) = refused(&format!("listen = '[::]:1'\n{TOKEN}{SWITCH}"));
        assert!(problem.contains("unencrypted") && remedy.contains("[tls]"), "{problem}; {remedy}");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        assert!(Config::parse("lisen = '127.0.0.1:1'", Path::new("")).is_err());
        assert!(refused("").0.contains("[[switch]]"));
        assert!(refused(&format!("{SWITCH}{SWITCH}")).0.contains("two switches"));
        let certificate = "[[credential]]\ncertificate = 'a.example'\ntenant = 1\n";
        assert!(refused(&format!("{certificate}{SWITCH}")).1.contains("client_ca"));
    }

    #[test]
    fn files_are_beside_the_configuration() {
        let config = Config::parse("store = 's'", Path::new("/x")).unwrap();
        assert_eq!(config.store, Path::new("/x/s"));
        let config = Config::parse("store = 'memory'", Path::new("/x")).unwrap();
        assert_eq!(config.store, Path::new("memory"));
    }
}

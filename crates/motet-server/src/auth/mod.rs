//! Authentication and authorization by tokens and client certificates that belong to tenants ([`Access`]).
//!
//! A *tenant's* credential reaches the jobs of that tenant, or one job of it. An *operator's* reaches everything, a
//! *viewer's* may look at everything and change nothing. Without any credentials in the configuration everybody may do
//! everything; the service then listens on loopback only (see `config`).

pub mod tls;

use std::collections::BTreeMap;

use motet_control::protocol::{JobId, TenantId};
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Deserialize;

/// The authenticated sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// There is no authentication, and this is the loopback.
    Local,
    Operator,
    Viewer,
    Tenant {
        tenant: TenantId,
        job: Option<JobId>,
    },
}

impl Caller {
    /// Whether its credential allows that job, as far as that depends on the job's number and not on its
    /// tenant.
    #[must_use]
    pub fn speaks_for(&self, job: JobId) -> bool {
        match self {
            Self::Local | Self::Operator => true,
            Self::Viewer => false,
            Self::Tenant { job: mine, .. } => mine.is_none_or(|it| it == job),
        }
    }

    /// Whether it may begin and end jobs of that tenant.
    #[must_use]
    pub fn may_register(&self, tenant: TenantId) -> bool {
        match self {
            Self::Local | Self::Operator => true,
            Self::Viewer => false,
            Self::Tenant { tenant: mine, .. } => *mine == tenant,
        }
    }

    /// Whether it may look at that job of that tenant.
    #[must_use]
    pub fn may_see(&self, job: JobId, tenant: TenantId) -> bool {
        *self == Self::Viewer || (self.speaks_for(job) && self.may_register(tenant))
    }

    /// Whether it may look at what is not a single tenant's: switches, the journal, metrics.
    #[must_use]
    pub const fn may_see_all(&self) -> bool {
        !matches!(self, Self::Tenant { .. })
    }

    /// The tenant that it is limited to.
    #[must_use]
    pub const fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Tenant { tenant, .. } => Some(*tenant),
            _ => None,
        }
    }
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Operator => f.write_str("operator"),
            Self::Viewer => f.write_str("viewer"),
            Self::Tenant { tenant, job: None } => tenant.fmt(f),
            Self::Tenant { tenant, job: Some(job) } => write!(f, "{job} of {tenant}"),
        }
    }
}

/// A credential in the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// The token itself. Give either this, or its SHA-256, or a certificate's name.
    pub token: Option<String>,
    /// The SHA-256 of the token, as `sha256sum` prints it, so that the file need not contain the token.
    pub sha256: Option<String>,
    /// A DNS name in the client's certificate.
    pub certificate: Option<String>,
    pub role: Option<Role>,
    pub tenant: Option<u32>,
    pub job: Option<u64>,
}

/// What a credential without a tenant may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Operator,
    Viewer,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("no token; send `authorization: Bearer TOKEN`, or use a client certificate")]
    NoToken,
    #[error("this token is not known; ask whoever runs the controller for one")]
    WrongToken,
    #[error("the client certificate has none of the names in the configuration")]
    WrongCertificate,
}

/// All credentials, with what each may do.
#[derive(Debug, Default)]
pub struct Access {
    /// Callers by the SHA-256 of their tokens. Looking up a hash leaks nothing about tokens by the time that
    /// it takes.
    tokens: BTreeMap<[u8; 32], Caller>,
    certificates: Vec<(ServerName<'static>, Caller)>,
}

impl Access {
    /// The access rules of a configuration's credentials. The error says what is wrong with one of them.
    ///
    /// # Errors
    ///
    /// If a credential is incomplete, ambiguous, or given twice.
    pub fn new(credentials: &[Credential]) -> Result<Self, String> {
        let mut access = Self::default();
        for (at, it) in credentials.iter().enumerate() {
            let wrong = |what: &str| format!("the {}. [[credential]]: {what}", at + 1);
            let caller = match (it.role, it.tenant, it.job) {
                (Some(Role::Operator), None, None) => Caller::Operator,
                (Some(Role::Viewer), None, None) => Caller::Viewer,
                (None, Some(tenant), job) => {
                    Caller::Tenant { tenant: TenantId(tenant), job: job.map(JobId) }
                }
                _ => return Err(wrong("give it `tenant` (and perhaps `job`), or `role`")),
            };
            let fresh = match (&it.token, &it.sha256, &it.certificate) {
                (Some(token), None, None) if token.len() < 16 => {
                    return Err(wrong("`token` is shorter than 16 characters; make a longer one"));
                }
                (Some(token), None, None) => {
                    access.tokens.insert(digest(token.as_bytes()), caller).is_none()
                }
                (None, Some(hex), None) => {
                    let digest =
                        unhex(hex).ok_or_else(|| wrong("`sha256` is not 64 hex digits"))?;
                    access.tokens.insert(digest, caller).is_none()
                }
                (None, None, Some(name)) => {
                    let name = ServerName::try_from(name.clone())
                        .map_err(|_| wrong("`certificate` is not a DNS name"))?;
                    let fresh = access.certificates.iter().all(|it| it.0 != name);
                    access.certificates.push((name, caller));
                    fresh
                }
                _ => return Err(wrong("give it one of `token`, `sha256` and `certificate`")),
            };
            if !fresh {
                return Err(wrong("it is there twice"));
            }
        }
        Ok(access)
    }

    /// Whether everybody may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens.is_empty() && self.certificates.is_empty()
    }

    #[must_use]
    pub fn has_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Identifies a caller by the `authorization` header and the certificate of the connection. A token takes
    /// precedence over the certificate.
    ///
    /// # Errors
    ///
    /// If neither is known.
    pub fn identify(
        &self,
        authorization: Option<&str>,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<Caller, Refused> {
        if self.is_open() {
            return Ok(Caller::Local);
        }
        if let Some(text) = authorization {
            let (scheme, token) = text.split_once(' ').unwrap_or(("", ""));
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(Refused::NoToken);
            }
            return self
                .tokens
                .get(&digest(token.trim().as_bytes()))
                .cloned()
                .ok_or(Refused::WrongToken);
        }
        let certificate = certificate.ok_or(Refused::NoToken)?;
        let parsed =
            webpki::EndEntityCert::try_from(certificate).map_err(|_| Refused::WrongCertificate)?;
        let mine = |it: &&(ServerName<'static>, Caller)| {
            parsed.verify_is_valid_for_subject_name(&it.0).is_ok()
        };
        self.certificates.iter().find(mine).map(|it| it.1.clone()).ok_or(Refused::WrongCertificate)
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    digest
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(text: &str) -> Credential {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_token_reaches_its_own_tenant_and_no_other() {
        let all = [
            credential("token = 'aaaaaaaaaaaaaaaa'\ntenant = 1"),
            credential("token = 'bbbbbbbbbbbbbbbb'\ntenant = 2\njob = 7"),
        ];
        let access = Access::new(&all).unwrap();
        let a = access.identify(Some("Bearer aaaaaaaaaaaaaaaa"), None).unwrap();
        assert!(a.may_register(TenantId(1)) && !a.may_register(TenantId(2)));
        assert!(a.speaks_for(JobId(7)) && !a.may_see_all());
        let b = access.identify(Some("bearer bbbbbbbbbbbbbbbb"), None).unwrap();
        assert!(b.speaks_for(JobId(7)) && !b.speaks_for(JobId(8)));
        assert_eq!(access.identify(Some("Bearer x"), None), Err(Refused::WrongToken));
        assert_eq!(access.identify(Some("Basic x"), None), Err(Refused::NoToken));
        assert_eq!(access.identify(None, None), Err(Refused::NoToken));
    }

    #[test]
    fn a_digest_stands_for_its_token() {
        let hex: String =
            digest(b"cccccccccccccccc").iter().map(|it| format!("{it:02x}")).collect();
        let it = credential(&format!("sha256 = '{hex}'\nrole = 'viewer'"));
        let access = Access::new(&[it]).unwrap();
        let viewer = access.identify(Some("Bearer cccccccccccccccc"), None).unwrap();
        assert_eq!(viewer, Caller::Viewer);
        assert!(viewer.may_see(JobId(1), TenantId(1)) && !viewer.may_register(TenantId(1)));
    }

    #[test]
    fn credentials_that_mean_nothing_or_two_things_are_refused() {
        for (text, why) in [
            ("token = 'short'\ntenant = 1", "shorter"),
            ("token = 'aaaaaaaaaaaaaaaa'", "`tenant`"),
            ("token = 'aaaaaaaaaaaaaaaa'\ntenant = 1\nrole = 'viewer'", "`tenant`"),
            ("tenant = 1", "one of"),
            ("sha256 = 'zz'\ntenant = 1", "64 hex"),
            ("certificate = 'not a name!'\ntenant = 1", "DNS"),
        ] {
            let error = Access::new(&[credential(text)]).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let twice = credential("token = 'aaaaaaaaaaaaaaaa'\ntenant = 1");
        assert!(Access::new(&[twice.clone(), twice]).unwrap_err().contains("twice"));
    }
}

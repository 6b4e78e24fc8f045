//! TLS between ranks and to the store: reads a certificate, its key and a CA from files, and makes rustls's configurations of them.
//!
//! Both sides of every connection show a certificate that the CA has signed. Ranks are addressed by numbers that
//! certificates seldom have, so the side that connects asks for one name, the same in the whole group. Only TLS 1.3 is
//! spoken, and no session is resumed: connections are made once, when a group meets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection,
    InconsistentKeys, RootCertStore, ServerConfig, ServerConnection,
};

use crate::error::ExecError;
use crate::wire::proof::Side;

/// The name that certificates of a group are for, where no other is set.
pub const NAME: &str = "motet";

/// Environment variables for what is not given otherwise: certificate, key, CA and name.
pub const VARIABLES: [&str; 4] = [
    "MOTET_EXEC_TLS_CERTIFICATE",
    "MOTET_EXEC_TLS_KEY",
    "MOTET_EXEC_TLS_CA",
    "MOTET_EXEC_TLS_NAME",
];

/// Files in PEM, all three or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// This rank's certificate, and those between it and the CA.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Who has signed the certificates of the group.
    pub ca: Option<PathBuf>,
    /// The DNS name that all certificates of the group are for; [`NAME`] if it is not set.
    pub name: Option<String>,
}

impl TlsFiles {
    /// Fills what is not set from [`VARIABLES`], whose values `look_up` gives.
    #[must_use]
    pub fn or(self, look_up: impl Fn(&str) -> Option<String>) -> Self {
        let [certificate, key, ca, name] =
            VARIABLES.map(|it| look_up(it).filter(|it| !it.is_empty()));
        Self {
            certificate: self.certificate.or(certificate.map(PathBuf::from)),
            key: self.key.or(key.map(PathBuf::from)),
            ca: self.ca.or(ca.map(PathBuf::from)),
            name: self.name.or(name),
        }
    }

    /// Reads the files and checks that they belong together; `None` if there are none.
    pub fn load(&self) -> Result<Option<Tls>, ExecError> {
        let (Some(certificate), Some(key), Some(ca)) = (&self.certificate, &self.key, &self.ca)
        else {
            let given = [&self.certificate, &self.key, &self.ca].map(Option::is_some);
            if given == [false; 3] && self.name.is_none() {
                return Ok(None);
            }
            let missing =
                ["a certificate (`tls-certificate`)", "its key (`tls-key`)", "the CA (`tls-ca`)"];
            let missing: Vec<&str> =
                missing.into_iter().zip(given).filter(|it| !it.1).map(|it| it.0).collect();
            return Err(ExecError::Tls(format!(
                "TLS also needs {}; give all three files, or none",
                missing.join(" and ")
            )));
        };
        Tls::new(certificate, key, ca, self.name.as_deref().unwrap_or(NAME))
            .map(Some)
            .map_err(ExecError::Tls)
    }
}

/// What a group needs to speak TLS.
#[derive(Clone)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({})", self.name.to_str())
    }
}

impl Tls {
    fn new(certificate: &Path, key: &Path, ca: &Path, name: &str) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let server_name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("`{name}` is no DNS name; take one such as `{NAME}`"))?;
        let chain = certificates(certificate)?;
        let secret = PrivateKeyDer::from_pem_file(key)
            .map_err(|it| unreadable(key, &it, "a private key"))?;
        let roots = Arc::new(roots(ca)?);
        let unusable = |it: rustls::server::VerifierBuilderError| format!("{}: {it}", ca.display());
        let of_servers =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let of_servers = of_servers.build().map_err(unusable)?;
        let of_clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let of_clients = of_clients.build().map_err(unusable)?;
        own_is_right(&chain, &of_servers, &*of_clients, &server_name)
            .map_err(|it| format!("{}: {}", certificate.display(), own_wrong(&it, ca, name)))?;
        let mismatch = |it: rustls::Error| match it {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!(
                    "{}: it is not the key of the certificate in {}",
                    key.display(),
                    certificate.display()
                )
            }
            it => format!("{}: {it}; give another key", key.display()),
        };
        let versions = [&TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|it| it.to_string())?
            .with_webpki_verifier(of_servers)
            .with_client_auth_cert(chain.clone(), secret.clone_key())
            .map_err(mismatch)?;
        client.resumption = rustls::client::Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|it| it.to_string())?
            .with_client_cert_verifier(of_clients)
            .with_single_cert(chain, secret)
            .map_err(mismatch)?;
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), name: server_name })
    }

    /// The TLS session of a new connection, before its handshake.
    pub(crate) fn begin(&self, side: Side) -> Result<Connection, rustls::Error> {
        Ok(match side {
            Side::Connecting => {
                ClientConnection::new(Arc::clone(&self.client), self.name.clone())?.into()
            }
            Side::Accepting => ServerConnection::new(Arc::clone(&self.server))?.into(),
        })
    }
}

/// Checks this rank's own certificate as the others will, so that a wrong one is known by its file. The system's time
/// is what its validity is measured by.
fn own_is_right(
    chain: &[CertificateDer<'_>],
    of_servers: &WebPkiServerVerifier,
    of_clients: &dyn ClientCertVerifier,
    name: &ServerName<'_>,
) -> Result<(), rustls::Error> {
    let (own, between) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
    let now = UnixTime::now();
    of_servers.verify_server_cert(own, between, name, &[], now)?;
    of_clients.verify_client_cert(own, between, now)?;
    Ok(())
}

/// What is wrong with this rank's own certificate, and what to do.
fn own_wrong(error: &rustls::Error, ca: &Path, name: &str) -> String {
    let ca = ca.display();
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => format!(
                "none of the certificates in {ca} has signed it; give the group's CA, and with the certificate all that \
                 lie between"
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "it is not for the name `{name}`; have one signed that is, or set the name of the group's \
                     certificates (`tls-name`)"
                )
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                "every rank both connects and is connected to; its extended key usage must allow clients and servers"
                    .to_owned()
            }
            why => format!("{why}; have another one signed by the CA in {ca}"),
        },
        error => format!("{error}; have another one signed by the CA in {ca}"),
    }
}

/// Why TLS could not be agreed on with the other side, and what to do.
pub(crate) fn explain(error: &rustls::Error) -> String {
    const CA: &str = "give all ranks and the store certificates of the same CA";
    match error {
        rustls::Error::NoCertificatesPresented => format!("it shows no certificate; {CA}"),
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => {
                format!("its certificate was not signed by the CA given here; {CA}")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "its certificate is for another name ({why}); set the same `tls-name` everywhere, and have \
                     certificates signed for it"
                )
            }
            why => format!("its certificate is not valid: {why}; {CA}"),
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::UnsupportedCertificate => {
                format!("it does not take the certificate of this side ({alert:?}); {CA}")
            }
            alert => format!("it refused TLS ({alert:?}); its own message says why"),
        },
        rustls::Error::InvalidMessage(_) => {
            "it does not speak TLS, and this group does; give all ranks and the store certificate, key and CA, or none"
                .to_owned()
        }
        rustls::Error::PeerIncompatible(_) => format!("{error}; this group speaks TLS 1.3 only"),
        error => format!("TLS: {error}"),
    }
}

fn unreadable(file: &Path, error: &pem::Error, what: &str) -> String {
    let why = match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "there is none in it".to_owned(),
        error => error.to_string(),
    };
    format!("{}: {why}; it should be {what} in PEM", file.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |it: pem::Error| unreadable(file, &it, "one or several certificates");
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(wrong)?.collect();
    let all = all.map_err(wrong)?;
    if all.is_empty() { Err(wrong(pem::Error::NoItemsFound)) } else { Ok(all) }
}

fn roots(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|it| format!("{}: {it}", file.display()))?;
    }
    Ok(roots)
}

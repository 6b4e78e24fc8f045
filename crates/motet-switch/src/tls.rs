//! TLS to a switch, with certificates from files.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::config::TlsConfig;
use crate::device::Fault;
use crate::error::Problem;
use crate::wire;

/// A TLS client for one switch.
#[derive(Clone)]
pub struct Tls {
    host: String,
    port: u16,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Prepares the client, and reads the certificates and the key from their files.
    ///
    /// # Errors
    ///
    /// If a file is missing or makes no sense.
    pub fn new(host: String, port: u16, files: &TlsConfig) -> Result<Self, String> {
        let ca = files
            .ca
            .as_ref()
            .ok_or("`tls.ca` is missing: the file of whoever signed the switch's certificate")?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            roots.add(certificate).map_err(|it| format!("{}: {it}", ca.display()))?;
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|it| it.to_string())?
            .with_root_certificates(roots);
        let config = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => {
                let ours = certificates(certificate)?;
                let read = PrivateKeyDer::from_pem_file(key)
                    .map_err(|it| format!("{}: {it}", key.display()))?;
                config
                    .with_client_auth_cert(ours, read)
                    .map_err(|it| format!("{}: {it}", certificate.display()))?
            }
            (None, None) => config.with_no_client_auth(),
            _ => return Err("`tls.certificate` and `tls.key` go together".to_owned()),
        };
        let name = files.server_name.clone().unwrap_or_else(|| host.clone());
        let name = ServerName::try_from(name).map_err(|it| format!("`tls.server_name`: {it}"))?;
        Ok(Self { host, port, name, config: Arc::new(config) })
    }

    pub(crate) async fn connect(&self) -> Result<TlsStream<TcpStream>, Fault> {
        let stream = wire::tcp(&self.host, self.port).await?;
        let connector = TlsConnector::from(self.config.clone());
        let connected = connector.connect(self.name.clone(), stream).await;
        connected.map_err(|it| Fault::new("TLS handshake", Problem::Login(it.to_string())))
    }
}

fn certificates(file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |it: &dyn std::fmt::Display| format!("{}: {it}", file.display());
    let read = CertificateDer::pem_file_iter(file).map_err(|it| wrong(&it))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|it| wrong(&it))?;
    if all.is_empty() { Err(wrong(&"no certificate in it")) } else { Ok(all) }
}

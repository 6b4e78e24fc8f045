//! TLS of the service: its certificate, and which clients' certificates it accepts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde::Deserialize;

/// The files of a service's TLS, in PEM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The certificate authority of clients' certificates. If given, clients must have a certificate, unless
    /// `tokens_too` says that a token is enough.
    pub client_ca: Option<PathBuf>,
    #[serde(default)]
    pub tokens_too: bool,
}

/// The TLS configuration of the service. The error says what is wrong with which file.
///
/// # Errors
///
/// If a file cannot be read or used.
pub fn server(files: &TlsFiles) -> Result<Arc<rustls::ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|it| it.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(file)?), provider);
            let verifier =
                if files.tokens_too { verifier.allow_unauthenticated() } else { verifier };
            let verifier = verifier.build().map_err(|it| format!("{}: {it}", file.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|it| {
        format!("{}: {it}; it should be a private key in PEM", files.key.display())
    })?;
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|it| format!("{}: {it}", files.certificate.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |it: &dyn std::fmt::Display| {
        format!("{}: {it}; it should have certificates in PEM", file.display())
    };
    let all = CertificateDer::pem_file_iter(file).map_err(|it| wrong(&it))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|it| wrong(&it))?;
    if all.is_empty() { Err(wrong(&"there is none")) } else { Ok(all) }
}

fn roots(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|it| format!("{}: {it}", file.display()))?;
    }
    Ok(roots)
}

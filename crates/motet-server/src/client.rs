//! [`Client`]: the gRPC client by which managers and tools reach the service.

use std::path::PathBuf;
use std::time::Duration;

use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::api::v1::control_client::ControlClient;

/// The address of the service, and the client's credentials.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// `http://host:port`, or `https://host:port`.
    pub url: String,
    pub token: Option<String>,
    /// The PEM file of the certificate authority that signs the service's certificate.
    pub ca: Option<PathBuf>,
    /// The client's own certificate and key, in PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "`{0}` is no address of a controller; write it as http://host:port or https://host:port"
    )]
    Url(String),
    #[error("the token has characters that no token has; it should be one line of ASCII")]
    Token,
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    #[error("{0}; check the files for TLS")]
    Tls(tonic::transport::Error),
}

/// A client of the service. It connects on first use, and again when the connection breaks.
#[derive(Clone, Debug)]
pub struct Client {
    inner: ControlClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// A client that is not connected yet.
    ///
    /// # Errors
    ///
    /// If the address, the token or a file cannot be used.
    pub fn new(address: &Address) -> Result<Self, ClientError> {
        let wrong = || ClientError::Url(address.url.clone());
        if !(address.url.starts_with("http://") || address.url.starts_with("https://")) {
            return Err(wrong());
        }
        let mut endpoint = Endpoint::from_shared(address.url.clone())
            .map_err(|_| wrong())?
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10));
        if address.url.starts_with("https://") {
            endpoint = endpoint.tls_config(tls(address)?).map_err(ClientError::Tls)?;
        }
        let token = address.token.as_ref().map(|it| format!("Bearer {}", it.trim()).parse());
        let token = token.transpose().map_err(|_| ClientError::Token)?;
        let inner = ControlClient::new(endpoint.connect_lazy())
            .max_decoding_message_size(crate::http::MOST_BODY);
        Ok(Self { inner, token })
    }

    /// A request with the token.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// The calls of the service.
    #[must_use]
    pub fn calls(&self) -> ControlClient<Channel> {
        self.inner.clone()
    }
}

fn tls(address: &Address) -> Result<ClientTlsConfig, ClientError> {
    let read =
        |file: &PathBuf| std::fs::read(file).map_err(|it| ClientError::File(file.clone(), it));
    let mut tls = ClientTlsConfig::new();
    if let Some(file) = &address.ca {
        tls = tls.ca_certificate(Certificate::from_pem(read(file)?));
    }
    if let Some((certificate, key)) = &address.identity {
        tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(tls)
}

//! Accepts connections, with TLS or without, and serves them until the service stops.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use tracing::{debug, warn};

use crate::http::check::Peer;
use crate::metrics::Metrics;

/// The most connections at a time; more wait.
const MOST: usize = 16_384;
/// The time-out for the beginning of a connection: handshake, first request, headers.
pub const BEGINNING: Duration = Duration::from_secs(10);
/// The interval of keep-alive pings to silent clients, and how long a client may take to answer one.
const ALIVE: Duration = Duration::from_secs(20);
/// How long answers under way may take when the service stops.
const STOPPING: Duration = Duration::from_secs(5);

/// The state of a listener.
#[derive(Clone)]
pub struct Door {
    pub routes: Router,
    pub tls: Option<TlsAcceptor>,
    pub metrics: Arc<Metrics>,
    /// Usually [`BEGINNING`].
    pub beginning: Duration,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Accepts connections until told to stop, then lets answers end that are under way.
pub async fn listen(listener: TcpListener, door: Door, mut stop: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        let (stream, address) = match accepted {
            Ok(it) => it,
            Err(error) => {
                // Usually there are too many open files; some will be closed.
                warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let (door, watcher) = (door.clone(), graceful.watcher());
        tokio::spawn(async move {
            begin(stream, address, door, watcher).await;
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(STOPPING, graceful.shutdown()).await.is_err() {
        warn!("connections are still open after {STOPPING:?}; they are cut");
    }
}

async fn begin(stream: TcpStream, address: SocketAddr, door: Door, watcher: Watcher) {
    // Messages are small, and each is waited for, so they must not be delayed to be merged.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(peer = %address, "{error}");
    }
    let Some(tls) = door.tls.clone() else {
        let peer = Peer { address, certificate: None };
        return carry(stream, peer, door, watcher).await;
    };
    match tokio::time::timeout(door.beginning, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let certificate =
                certificates.and_then(|it| it.first()).map(|it| it.clone().into_owned());
            carry(stream, Peer { address, certificate }, door, watcher).await;
        }
        Ok(Err(error)) => {
            door.metrics.refuse("tls");
            warn!(peer = %address, "refused: {error}");
        }
        Err(_) => slow(&door, address, "no TLS handshake"),
    }
}

fn slow(door: &Door, peer: SocketAddr, what: &str) {
    door.metrics.refuse("slow");
    warn!(%peer, "refused: {what} within {:?}", door.beginning);
}

/// Serves one connection, until it ends or the service stops.
pub(crate) async fn carry<S>(stream: S, peer: Peer, door: Door, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (address, routes) = (peer.address, door.routes.clone());
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<_>| {
        asks.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(peer.clone());
        let mut routes = routes.clone();
        async move {
            let request = request.map(axum::body::Body::new);
            Ok::<_, Infallible>(routes.call(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(door.beginning);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .max_concurrent_streams(1024)
        .max_header_list_size(16 << 10);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let mut connection = std::pin::pin!(watcher.watch(connection));
    // A connection without a request takes a place from others, so it is closed after a while. The first
    // bytes, by which HTTP/1 and HTTP/2 are told apart, have no time-out of their own.
    let ended = match tokio::time::timeout(door.beginning, &mut connection).await {
        Ok(ended) => ended,
        Err(_) if asked.load(Ordering::Relaxed) => connection.await,
        Err(_) => return slow(&door, address, "no request"),
    };
    if let Err(error) = ended {
        let late = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout);
        if late {
            return slow(&door, address, "no whole request");
        }
        debug!(peer = %address, "{error}");
    }
}

//! [`start`]: starts the whole service from a configuration.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use motet_control::SwitchId;
use motet_switch::Operator;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::info;

use crate::api::service::ControlService;
use crate::api::v1::control_server::ControlServer;
use crate::auth::Access;
use crate::config::{Config, ConfigError, time};
use crate::engine::{Engine, Health, Inbox, Limits, Message, Parts, Wall};
use crate::http::check::{Check, check};
use crate::metrics::Metrics;
use crate::net::{Door, listen};
use crate::store::{Embedded, Etcd, Memory, Store, StoreError};
use crate::switch::line;

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Switch(#[from] motet_switch::Error),
    #[error("{0}; check the files of [tls]")]
    Tls(String),
    #[error("cannot listen on {0}: {1}; is another service there?")]
    Listen(SocketAddr, std::io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("another controller has taken this one's place; start it again to wait for its turn")]
    Replaced,
}

/// Replacements for parts that a configuration would create, for tests.
pub struct Instead {
    pub store: Option<Arc<dyn Store>>,
    pub wall: Wall,
    /// How long a connection may be silent before its first request.
    pub beginning: std::time::Duration,
}

impl std::fmt::Debug for Instead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instead").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Default for Instead {
    fn default() -> Self {
        Self { store: None, wall: Box::new(wall), beginning: crate::net::BEGINNING }
    }
}

/// The host's clock, for the journal only.
fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

/// A running service.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    pub inbox: Inbox,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    stop: watch::Sender<bool>,
    door: tokio::task::JoinHandle<()>,
    engine: JoinHandle<()>,
    /// Closed when the engine has ended.
    ended: mpsc::Receiver<()>,
}

/// Starts the service.
///
/// # Errors
///
/// If the configuration is not safe, or something that it names cannot be used.
pub async fn start(config: &Config) -> Result<Running, StartError> {
    start_with(config, Instead::default()).await
}

/// As [`start`], with some parts replaced.
///
/// # Errors
///
/// As with [`start`].
pub async fn start_with(config: &Config, instead: Instead) -> Result<Running, StartError> {
    let access = Arc::new(config.check()?);
    let tls = config.tls.as_ref().map(crate::auth::tls::server).transpose();
    let tls = tls.map_err(StartError::Tls)?;
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener.map_err(|it| StartError::Listen(config.listen, it))?;
    let address = listener.local_addr().map_err(|it| StartError::Listen(config.listen, it))?;
    let store = match instead.store {
        Some(store) => store,
        None => open_store(config).await?,
    };
    let House { routes, inbox, metrics, health, engine, ended } =
        assemble(config, access, store, instead.wall)?;
    let (tls, beginning) = (tls.map(Into::into), instead.beginning);
    let door = Door { routes, tls, metrics: Arc::clone(&metrics), beginning };
    let (stop, stopped) = watch::channel(false);
    info!(%address, switches = config.switches.len(), tls = door.tls.is_some(), "listens");
    let door = tokio::spawn(listen(listener, door, stopped));
    Ok(Running { address, inbox, metrics, health, stop, door, engine, ended })
}

/// All parts of a service except its listener.
pub(crate) struct House {
    pub(crate) routes: axum::Router,
    pub(crate) inbox: Inbox,
    pub(crate) metrics: Arc<Metrics>,
    health: Arc<Health>,
    pub(crate) engine: JoinHandle<()>,
    ended: mpsc::Receiver<()>,
}

/// Assembles these parts and starts the engine.
pub(crate) fn assemble(
    config: &Config,
    access: Arc<Access>,
    store: Arc<dyn Store>,
    wall: Wall,
) -> Result<House, StartError> {
    let (metrics, health) = (Metrics::shared(), Arc::new(Health::default()));
    let switches = open_switches(config)?;
    let (mut parts, mut lines) = (Vec::new(), Vec::new());
    for switch in switches {
        let (orders, waiting) = mpsc::unbounded_channel();
        parts.push((switch.driver().id(), switch.driver().ports(), orders));
        lines.push((switch, waiting));
    }
    let (engine, inbox) = Engine::new(Parts {
        policy: config.policy(),
        switches: parts,
        store: Arc::clone(&store),
        limits: Limits { absence: time(config.absence) },
        metrics: Arc::clone(&metrics),
        health: Arc::clone(&health),
        wall,
    })?;
    for (switch, waiting) in lines {
        tokio::spawn(line(switch, waiting, inbox.clone()));
    }
    let (running, ended) = mpsc::channel(1);
    let engine = std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
        engine.run();
        drop(running);
    });
    let engine = engine.map_err(StartError::Thread)?;
    let context = crate::http::Context {
        inbox: inbox.clone(),
        store,
        metrics: Arc::clone(&metrics),
        health: Arc::clone(&health),
        names: config.switches.iter().map(|it| it.name.clone()).collect(),
    };
    let routes = routes(context, access);
    Ok(House { routes, inbox, metrics, health, engine, ended })
}

async fn open_store(config: &Config) -> Result<Arc<dyn Store>, StoreError> {
    if let Some(etcd) = &config.etcd {
        let (store, waited) = Etcd::lead(etcd, config.journal).await?;
        if waited {
            // Wait until the previous controller's last order to a switch is done; the switches are read afterwards.
            tokio::time::sleep(time(config.policy().answer)).await;
        }
        return Ok(Arc::new(store));
    }
    if config.store == Path::new("memory") {
        return Ok(Arc::new(Memory::default()));
    }
    Ok(Arc::new(Embedded::open(&config.store, config.journal)?))
}

fn open_switches(config: &Config) -> Result<Vec<Arc<Operator>>, StartError> {
    let open = |(id, it)| Ok(Arc::new(Operator::new(motet_switch::open(SwitchId(id), it)?)));
    (0..).zip(&config.switches).map(open).collect()
}

fn routes(context: crate::http::Context, access: Arc<Access>) -> axum::Router {
    let metrics = Arc::clone(&context.metrics);
    let control = ControlService::new(context.inbox.clone(), Arc::clone(&metrics));
    let control = ControlServer::new(control).max_decoding_message_size(crate::http::MOST_BODY);
    let open = crate::http::open_routes(Arc::clone(&context.health));
    let checked = crate::http::routes(context)
        .route_service("/motet.control.v1.Control/{*call}", control)
        .layer(axum::middleware::from_fn_with_state(Check { access, metrics }, check));
    checked.merge(open)
}

impl Running {
    /// Waits for the engine to end by itself, which it does when another controller has taken its place.
    pub async fn ended(&mut self) {
        // Nothing is ever sent.
        let _ = self.ended.recv().await;
    }

    /// Stops the service: writes what is under way to the store, closes connections, and leaves circuits as
    /// they are.
    pub async fn stop(self) {
        info!("stops");
        self.health.stopping.store(true, Ordering::Relaxed);
        let (done, stopped) = oneshot::channel();
        if self.inbox.send(Message::Stop(done)).is_ok() {
            // If the engine is gone, it has stopped.
            let _ = stopped.await;
        }
        // This does nothing if the listener has ended already.
        let _ = self.stop.send(true);
        let _ = self.door.await;
        let engine = self.engine;
        let _ = tokio::task::spawn_blocking(move || engine.join()).await;
    }
}

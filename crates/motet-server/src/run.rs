//! The service and the manager as whole programs, which run until they are told to end.

use std::net::SocketAddr;

use crate::config::Config;
use crate::serve::{StartError, start};

/// Runs the service until SIGTERM or SIGINT. Calls `listens` with its address once it listens.
///
/// # Errors
///
/// If it cannot start.
pub fn serve(config: &Config, listens: impl FnOnce(SocketAddr)) -> Result<(), StartError> {
    let runtime = runtime().map_err(StartError::Thread)?;
    runtime.block_on(async {
        // Signals are handled from the beginning, also while the service is still starting.
        let told = told_to_end();
        let mut told = std::pin::pin!(told);
        // With etcd this waits until the service leads.
        let mut running = tokio::select! {
            running = start(config) => running?,
            () = &mut told => return Ok(()),
        };
        listens(running.address);
        let replaced = tokio::select! {
            () = &mut told => false,
            () = running.ended() => true,
        };
        running.stop().await;
        if replaced { Err(StartError::Replaced) } else { Ok(()) }
    })
}

/// Runs a manager until SIGTERM or SIGINT, or until all its ranks have said goodbye.
///
/// # Errors
///
/// If it cannot start.
#[cfg(unix)]
pub fn manage(
    settings: crate::manager::Settings,
    address: &crate::client::Address,
) -> Result<(), ManageError> {
    let runtime = runtime().map_err(ManageError::Thread)?;
    runtime.block_on(async {
        let client = crate::client::Client::new(address)?;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let told = told_to_end();
        tokio::spawn(async move {
            told.await;
            // The manager may have ended.
            let _ = stop.send(true);
        });
        Ok(crate::manager::run(settings, client, stopped).await?)
    })
}

/// Why a manager does not run.
#[cfg(unix)]
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    #[error(transparent)]
    Client(#[from] crate::client::ClientError),
    #[error(transparent)]
    Manager(#[from] crate::manager::ManagerError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Ends when the process is told to end. Signals count from the call on, not only from when the future is
/// first polled.
#[cfg(unix)]
fn told_to_end() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    async move {
        let [Ok(mut term), Ok(mut int)] = signals else {
            // Without signals the process can only be killed, after which it can be started again like after
            // a crash.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }
}

#[cfg(not(unix))]
async fn told_to_end() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

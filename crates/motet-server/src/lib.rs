//! The controller of optical circuits as a service, and the manager that runs beside a job's ranks. All decisions are made in
//! `motet-control`, which does no IO and has no clock; this crate connects it to the real world.
//!
//! Where to start: [`start`] assembles the whole service from a [`Config`], and [`run`] has service and manager as programs. Then
//! [`engine`], the one thread that owns the controller: it passes messages and timers to it and writes its journal.
//!
//! ```text
//!  ranks ──Unix socket──► manager ──gRPC──► api ─┐
//!  people, Prometheus ─────────────HTTP──► http ─┼─► engine (one thread, owns the controller) ──► store
//!                                                │        ▲ │
//!                                                └────────┘ └──► switch lines ──► optical switches
//! ```
//!
//! - [`store`] persists the engine's journal; [`switch`] carries out the controller's orders.
//! - [`api`] and [`http`] are the interfaces, [`auth`] authenticates clients; [`client`] is the other end of `api`.
//! - `manager` (on Unix) is the domain's side; [`job`] is a job as people and launchers write it.
//! - [`fuzz`] tests the service with random inputs.

pub mod api;
pub mod auth;
pub mod client;
pub mod config;
pub mod engine;
pub mod fuzz;
pub mod http;
pub mod job;
pub mod logs;
#[cfg(unix)]
pub mod manager;
pub mod metrics;
pub mod net;
pub mod record;
pub mod run;
pub mod serve;
pub mod store;
pub mod switch;
pub mod timeline;

pub use config::Config;
pub use serve::{Running, StartError, start};

//! The controller of optical circuits as a service, and the manager that runs beside a job's ranks.
//!
//! ```text
//!  ranks ──Unix socket──► manager ──gRPC──► api ─┐
//!  people, Prometheus ─────────────HTTP──► http ─┼─► engine (one thread, owns the controller) ──► store
//!                                                │        ▲ │
//!                                                └────────┘ └──► switch lines ──► optical switches
//! ```
//!
//! All decisions are made in `motet-control`, which does no IO and has no clock. This crate connects it to the real world:
//! [`engine`] passes messages and timers to the controller and writes its journal, [`store`] persists that, [`switch`] carries out
//! its orders, [`api`] and [`http`] are its interfaces, [`auth`] authenticates clients. [`serve`] assembles all of it from a
//! [`config`]; [`fuzz`] tests it with random inputs.

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

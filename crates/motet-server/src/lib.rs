//! The controller of optical circuits as a service, and the manager that runs beside a job's ranks.
//!
//! ```text
//!  ranks ──Unix socket──► manager ──gRPC──► api ─┐
//!  people, Prometheus ─────────────HTTP──► http ─┼─► engine (one thread, owns the controller) ──► store
//!                                                │        ▲ │
//!                                                └────────┘ └──► switch lines ──► optical switches
//! ```
//!
//! What is decided is decided in `motet-control`, which knows neither time nor network. Here is what that needs in the real
//! world: [`engine`] gives the controller its messages and timers and writes down what it does, [`store`] keeps that, [`switch`]
//! carries out its orders, [`api`] and [`http`] are how others reach it, [`auth`] says who they are. [`serve`] puts it all together from
//! a [`config`]; [`fuzz`] throws anything at it.

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

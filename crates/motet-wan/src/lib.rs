//! Routes and programs over a WAN (seed 000): what adapting WAN routes to every collective,
//! adapting the program every few collectives, or both, buys on a network whose bandwidth varies.
//!
//! - [`scenario`]: what is run: network, variation, collectives, cadences, costs, faults.
//! - [`formats`]: files of scenarios, traffic matrices and traces.
//! - [`variation`]: how bandwidth varies from collective to collective; [`fault`]: what fails.
//! - [`built`]: a program made ready to run under any routes.
//! - [`route_table`]: the routes a flow may take; [`routes`]: the hand that chooses among them.
//! - [`programs`]: the hand that rebuilds programs, in two strengths.
//! - [`trigger`]: when a hand moves, and what that costs.
//! - [`mode`]: which hands may move; [`run`]: one mode over all collectives; [`account`]: what it adds up to.
//! - [`yardstick`]: what an oracle, and what the bound, would give; [`cut`]: which regions are held
//!   back by which WAN links.

pub mod account;
pub mod built;
pub mod cut;
pub mod error;
pub mod fault;
pub mod forecast;
pub mod formats;
pub mod mode;
pub mod programs;
pub mod route_table;
pub mod routes;
pub mod run;
pub mod scenario;
pub mod trigger;
pub mod variation;
pub mod yardstick;

pub use account::Account;
pub use error::WanError;
pub use mode::{Mode, Strength};
pub use run::run_mode;
pub use scenario::{Asked, Scenario};

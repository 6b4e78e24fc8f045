//! Collectives that cross datacenters: what it buys to adapt WAN routes before every collective, the
//! collective's program every few collectives, or both, on a network whose bandwidth varies.
//!
//! The question and the modes are those of Xiong et al., *Coordinating CCL Reoptimization and WAN
//! Reconfiguration for Cross-Regional AI Acceleration* (`docs/papers.md`). Two *hands* may move
//! between collectives: the **routes hand** chooses the WAN path of every flow, the **programs hand**
//! chooses the program. A [`Mode`] says which of them may; [`run_mode`] goes through thousands of
//! collectives in one mode and gives an [`Account`] of what they took. All modes of a [`Scenario`] see
//! the same states of the network.
//!
//! **Where to start reading.** [`scenario`] is what is run. [`mod@run`] is the loop over collectives; it
//! asks the hands, runs the collective and keeps the account. Then the two hands, [`routes`] and
//! [`programs`].
//!
//! - [`formats`]: files of scenarios, traffic matrices and traces.
//! - [`variation`]: how bandwidth varies from collective to collective; [`fault`]: what fails when.
//! - [`built`]: a verified program compiled so that it can run under any choice of routes;
//!   [`route_table`]: the routes that a flow may take.
//! - [`routes`]: the hand that chooses among those routes by the present state.
//! - [`programs`]: the hand that chooses among a pool of programs, by a [`forecast`] of how long the
//!   present state will last.
//! - [`knobs`]: what a third hand, which `motet-agent` has, may choose from before every collective.
//! - [`trigger`]: when a hand is asked, and what a move costs.
//! - [`world`]: where collectives happen: in the simulator, or on a testbed.
//! - [`mode`]: which hands may move; [`account`]: what a mode adds up to; [`error`]: why a run ended
//!   early.
//! - [`yardstick`]: the bound, and the best program in hindsight, on a sample of the collectives;
//!   [`cut`]: which regions are held back by which WAN links.
//!
//! Times are integer picoseconds (`motet_units::Duration`). Floating point is for what is statistical
//! or a guess: means and deviations of times by which programs are chosen ([`programs`],
//! [`trigger`]), how busy links would be when flows are placed ([`routes`]), bandwidths that are
//! drawn or forecast. Whatever is chosen by them is then timed in picoseconds by the simulator.

pub mod account;
pub mod built;
pub mod cut;
pub mod error;
pub mod fault;
pub mod forecast;
pub mod formats;
pub mod knobs;
pub mod mode;
pub mod programs;
pub mod route_table;
pub mod routes;
pub mod run;
pub mod scenario;
pub mod trigger;
pub mod variation;
pub mod world;
pub mod yardstick;

pub use account::Account;
pub use error::WanError;
pub use mode::{Mode, Strength};
pub use run::{run_in, run_mode, run_with};
pub use scenario::{Asked, Congestion, Links, Routers, Scenario};
pub use world::World;

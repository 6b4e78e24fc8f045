//! The modes of `motet wan` on a testbed: real collectives between real processes, under the same hands, triggers and account as in
//! the simulation.
//!
//! A *controller* runs `motet_wan::run_in` in a [`LiveWorld`]. Before each collective it sets the links' rates as the scenario
//! says, lets the hands move, puts the routes and the program that they chose in force, and has all ranks make the call; what that took is measured. [`rank`] is the other side, one process in
//! each host; [`words`] is what the two say to each other, [`sight`] what the controller knows of the links' rates.

pub mod rank;
pub mod sight;
pub mod words;
pub mod world;

pub use sight::Sight;
pub use world::LiveWorld;

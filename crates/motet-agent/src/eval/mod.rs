//! Evaluation: all policies on the same scenarios, which none of them was developed or trained with.
//!
//! - [`run`](mod@run): one policy through one scenario, call by call or by published tables;
//! - [`tables`]: how a policy's choices get into tables that hold for many calls;
//! - [`score`]: the results;
//! - [`contender`]: the policies that are judged;
//! - [`alarms`]: the cost of the trigger's false alarms;
//! - [`sweep`](mod@sweep): the same call at every tier.

pub mod alarms;
pub mod contender;
pub mod run;
pub mod score;
pub mod sweep;
pub mod tables;

pub use alarms::{Alarms, false_alarms};
pub use contender::Contender;
pub use run::{Kernel, Pace, Record, run};
pub use score::{Score, Trial};
pub use sweep::{AtTier, sweep};
pub use tables::Tables;

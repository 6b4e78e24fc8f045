//! [`Operator`]: carries out the controller's orders on a switch through its driver.

use motet_control::controller::{Answer, Order};
use tokio::sync::Mutex;

use crate::driver::{Delta, Driver, Notice, PortState, Watch};
use crate::error::Error;

/// A switch as the controller sees it: orders in, answers out.
#[derive(Debug)]
pub struct Operator {
    driver: Box<dyn Driver>,
    watch: Mutex<Option<Watch>>,
}

impl Operator {
    #[must_use]
    pub fn new(driver: Box<dyn Driver>) -> Self {
        Self { driver, watch: Mutex::default() }
    }

    #[must_use]
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// See [`carry_out`].
    pub async fn carry_out(&self, order: Order) -> (Option<Answer>, Option<Error>) {
        carry_out(&*self.driver, order).await
    }

    /// The next change of the switch that no order made: as an answer for the controller, and as a notice for
    /// the log. If a caller stops waiting, nothing is lost: the next caller gets it.
    pub async fn next(&self) -> (Answer, Notice) {
        let mut watch = self.watch.lock().await;
        let watch = watch.get_or_insert_with(|| self.driver.watch());
        loop {
            match watch.next().await {
                Some(notice) => {
                    if let Some(answer) = tell(&notice) {
                        return (answer, notice);
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

/// Carries out an order. The answer is for the controller, the error (if there is one) for the log. [`Order::Abort`] has no
/// answer: nothing was done for [`Order::Prepare`], so there is nothing to undo.
pub async fn carry_out(driver: &dyn Driver, order: Order) -> (Option<Answer>, Option<Error>) {
    match order {
        Order::Read => match driver.read().await {
            Ok(now) => {
                let circuits = now.circuits.iter().map(motet_control::Circuit::numbers).collect();
                (Some(Answer::Circuits(circuits)), None)
            }
            Err(error) => (Some(Answer::Lost), Some(error)),
        },
        Order::Prepare { change, delete, create } => {
            match driver.prepare(&Delta { delete, create }).await {
                Ok(()) => (Some(Answer::Prepared(change)), None),
                Err(error) if error.problem.leaves_doubt() => (Some(Answer::Lost), Some(error)),
                Err(error) => (Some(Answer::Rejected(change)), Some(error)),
            }
        }
        Order::Apply { change, delete, create } => {
            match driver.apply(&Delta { delete, create }).await {
                Ok(_) => (Some(Answer::Applied(change)), None),
                Err(failure) if failure.now.is_none() => (Some(Answer::Lost), Some(failure.error)),
                // The controller reads the switch again before it uses it.
                Err(failure) => (Some(Answer::Rejected(change)), Some(failure.error)),
            }
        }
        Order::Abort { .. } => (None, None),
    }
}

/// The answer that tells the controller of a notice. If someone else has changed circuits, that is [`Answer::Lost`], upon which the
/// controller reads the switch again.
#[must_use]
pub const fn tell(notice: &Notice) -> Option<Answer> {
    match notice {
        Notice::Circuits(_) | Notice::Lost(_) => Some(Answer::Lost),
        Notice::Port(number, PortState::Up) => Some(Answer::PortRepaired(*number)),
        Notice::Port(number, _) => Some(Answer::PortFailed(*number)),
        // The controller tries a lost switch by itself.
        Notice::Back(_) => None,
    }
}

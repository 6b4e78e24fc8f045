//! Optical switches, as the service sees them: [`Switch`] carries out one order after the other, and [`line()`] is the task
//! between it and the engine.
//!
//! [`sim`] is a switch that is not there. Drivers of real ones only have to implement [`Switch`].

pub mod sim;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use motet_control::SwitchId;
use motet_control::controller::{Answer, Order};
use tokio::sync::mpsc;
use tracing::warn;

use crate::engine::{Inbox, Message};

/// An answer that will come.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An optical switch, whatever it speaks. What it owes the controller is said in `motet_control::controller`'s module `switch`.
pub trait Switch: Send + Sync + std::fmt::Debug {
    fn id(&self) -> SwitchId;

    /// What people call it.
    fn name(&self) -> &str;

    /// How many ports it has, numbered from 0.
    fn ports(&self) -> u32;

    /// Carries out an order. The answer is for the controller ([`Order::Abort`] has none), the text for the log. It must end by
    /// itself, whatever the switch does.
    fn carry_out(&self, order: Order) -> Pending<'_, (Option<Answer>, Option<String>)>;

    /// The next thing that happened to the switch by itself; never, if nobody can know.
    fn watch(&self) -> Pending<'_, Answer>;
}

/// Carries out the orders that come, one after the other, until the service ends.
///
/// An order that the controller has given up on, because it has asked to read the switch since, is not carried out any
/// more: what it would change is not wanted.
pub async fn line(
    switch: Arc<dyn Switch>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    inbox: Inbox,
) {
    let id = switch.id();
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            answer = switch.watch() => {
                if inbox.send(Message::Switch(id, answer)).is_err() { return }
                continue;
            }
        };
        let Some(mut order) = order else { return };
        // Reading anew makes worthless what was ordered before it.
        let mut waiting = Vec::new();
        while let Ok(next) = orders.try_recv() {
            waiting.push(next);
        }
        if let Some(read) = waiting.iter().rposition(|it| *it == Order::Read) {
            order = Order::Read;
            waiting.drain(..=read);
        }
        for order in std::iter::once(order).chain(waiting) {
            let (answer, problem) = switch.carry_out(order).await;
            if let Some(problem) = problem {
                warn!(switch = id.0, name = switch.name(), "{problem}");
            }
            if let Some(answer) = answer
                && inbox.send(Message::Switch(id, answer)).is_err()
            {
                return;
            }
        }
    }
}

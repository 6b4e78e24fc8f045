//! [`line()`]: the task between the engine and one optical switch, whose driver is `motet_switch`'s.

use std::sync::Arc;

use motet_control::controller::Order;
use motet_switch::Operator;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::engine::{Inbox, Message};

/// Carries out the orders for one switch, one after the other, until the service ends. Changes that the
/// switch reports on its own go to the engine.
///
/// Orders that were followed by an order to read the switch are skipped: the controller has given up on them,
/// and no longer wants their changes.
pub async fn line(switch: Arc<Operator>, mut orders: mpsc::UnboundedReceiver<Order>, inbox: Inbox) {
    let id = switch.driver().id();
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            (answer, notice) = switch.next() => {
                info!(switch = id.0, name = switch.driver().name(), ?notice, "by itself");
                if inbox.send(Message::Switch(id, answer)).is_err() { return }
                continue;
            }
        };
        let Some(mut order) = order else { return };
        // An order to read makes all orders before it void.
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
                warn!(switch = id.0, name = switch.driver().name(), "{problem}");
            }
            if let Some(answer) = answer
                && inbox.send(Message::Switch(id, answer)).is_err()
            {
                return;
            }
        }
    }
}

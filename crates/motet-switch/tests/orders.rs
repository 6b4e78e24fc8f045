//! The controller's orders, carried out by a driver: every answer that there is, and that it is the right one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::sync::Arc;

use motet_control::controller::{Answer, ChangeId, Order};
use motet_control::{Circuit, SwitchId};
use motet_switch::managed::Manner;
use motet_switch::orders::{Operator, carry_out, tell};
use motet_switch::sim::{Mishap, SimConfig, Simulated, Switch};
use motet_switch::{Driver, Layout, Managed, Notice, PortState, Problem, Snapshot};
use motet_units::Duration;

const ID: SwitchId = SwitchId(5);
const CHANGE: ChangeId = ChangeId(9);

fn driver() -> (Managed, Arc<Switch>) {
    let switch = Switch::new(&SimConfig::default()).unwrap();
    let manner = Manner {
        id: ID,
        name: "rail-5".to_owned(),
        address: "sim".to_owned(),
        layout: Layout::bidirectional(8),
        timeout: Duration::from_ms(500),
        settle: Duration::from_ms(10),
        poll: Duration::from_ms(20),
    };
    (Managed::new(manner, Box::new(Simulated(switch.clone()))), switch)
}

fn circuits(pairs: &[(u32, u32)]) -> Vec<Circuit> {
    pairs.iter().map(|(a, b)| Circuit::new(ID, *a, *b).unwrap()).collect()
}

fn prepare(delete: &[(u32, u32)], create: &[(u32, u32)]) -> Order {
    Order::Prepare { change: CHANGE, delete: circuits(delete), create: circuits(create) }
}

fn apply(delete: &[(u32, u32)], create: &[(u32, u32)]) -> Order {
    Order::Apply { change: CHANGE, delete: circuits(delete), create: circuits(create) }
}

#[tokio::test(start_paused = true)]
async fn orders_have_answers() {
    let (driver, switch) = driver();
    let driver: &dyn Driver = &driver;
    let answer = async |order| {
        let (answer, error) = carry_out(driver, order).await;
        (answer, error.map(|it| it.problem))
    };
    assert_eq!(answer(Order::Read).await, (Some(Answer::Circuits(vec![])), None));
    assert_eq!(answer(prepare(&[], &[(1, 0)])).await, (Some(Answer::Prepared(CHANGE)), None));
    assert_eq!(switch.changes(), 0);
    assert_eq!(answer(Order::Abort { change: CHANGE }).await, (None, None));
    assert_eq!(answer(apply(&[], &[(1, 0)])).await, (Some(Answer::Applied(CHANGE)), None));
    assert_eq!(answer(Order::Read).await, (Some(Answer::Circuits(vec![[0, 1]])), None));
    let (rejected, why) = answer(prepare(&[], &[(1, 2)])).await;
    assert_eq!(rejected, Some(Answer::Rejected(CHANGE)));
    assert!(matches!(why, Some(Problem::Taken { number: 1, .. })), "{why:?}");
    switch.expect(Mishap::DoesHalf);
    let (rejected, _) = answer(apply(&[], &[(2, 3), (4, 5)])).await;
    assert_eq!(rejected, Some(Answer::Rejected(CHANGE)));
    // Done, though nobody said so.
    switch.expect(Mishap::DoesInSilence);
    assert_eq!(answer(apply(&[(0, 1)], &[])).await, (Some(Answer::Applied(CHANGE)), None));
    switch.power(false);
    for order in [Order::Read, prepare(&[], &[]), apply(&[], &[(6, 7)])] {
        let (lost, why) = answer(order).await;
        assert_eq!(lost, Some(Answer::Lost));
        assert!(matches!(why, Some(Problem::Unreachable(_))), "{why:?}");
    }
}

#[test]
fn notices_are_told() {
    assert_eq!(tell(&Notice::Circuits(Snapshot::default())), Some(Answer::Lost));
    assert_eq!(tell(&Notice::Back(Snapshot::default())), None);
    assert_eq!(tell(&Notice::Port(3, PortState::Failed)), Some(Answer::PortFailed(3)));
    assert_eq!(tell(&Notice::Port(3, PortState::Disabled)), Some(Answer::PortFailed(3)));
    assert_eq!(tell(&Notice::Port(3, PortState::Up)), Some(Answer::PortRepaired(3)));
}

/// A call that is dropped half way leaves doubt, which the next call clears up.
#[tokio::test(start_paused = true)]
async fn whoever_does_not_wait_leaves_no_lie_behind() {
    let config = SimConfig { optics: Some(Duration::from_ms(100)), ..SimConfig::default() };
    let switch = Switch::new(&config).unwrap();
    let (other, _) = driver();
    let manner = Manner {
        id: ID,
        name: other.name().to_owned(),
        address: "sim".to_owned(),
        layout: Layout::bidirectional(8),
        timeout: Duration::from_ms(500),
        settle: Duration::from_ms(10),
        poll: Duration::from_ms(20),
    };
    let driver = Managed::new(manner, Box::new(Simulated(switch.clone())));
    let order = apply(&[], &[(0, 1)]);
    let dropped =
        tokio::time::timeout(std::time::Duration::from_millis(50), carry_out(&driver, order)).await;
    assert!(dropped.is_err());
    let real = switch.crosses().len();
    let (answer, _) = carry_out(&driver, Order::Read).await;
    let Some(Answer::Circuits(now)) = answer else { panic!("{answer:?}") };
    assert_eq!(now.len(), real);
    assert_eq!(switch.crosses().len(), real, "the dropped order went on");
}

/// What happens is told even if whoever asked has stopped waiting in between.
#[tokio::test(start_paused = true)]
async fn an_operator_tells_what_happens() {
    let (driver, switch) = driver();
    let operator = Operator::new(Box::new(driver));
    assert_eq!(operator.carry_out(Order::Read).await.0, Some(Answer::Circuits(vec![])));
    let short = std::time::Duration::from_millis(5);
    assert!(tokio::time::timeout(short, operator.next()).await.is_err());
    switch.set_port(3, PortState::Failed);
    assert!(tokio::time::timeout(std::time::Duration::ZERO, operator.next()).await.is_err());
    assert_eq!(operator.next().await.0, Answer::PortFailed(2));
    switch.meddle(4, Some(5));
    assert_eq!(operator.next().await.0, Answer::Lost);
    assert_eq!(operator.driver().name(), "rail-5");
}

//! The simulated switch: what it does when all is well, and what the driver makes of every way in which it fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::sync::Arc;

use motet_control::{Circuit, SwitchId};
use motet_switch::managed::Manner;
use motet_switch::sim::{Mishap, Retention, SimConfig, Simulated, Switch};
use motet_switch::{
    Delta, Driver, Layout, Managed, Notice, PortState, Problem, SwitchConfig, open,
};
use motet_units::Duration;

const ID: SwitchId = SwitchId(3);

fn circuit(a: u32, b: u32) -> Circuit {
    Circuit::new(ID, a, b).unwrap()
}

fn delta(delete: &[(u32, u32)], create: &[(u32, u32)]) -> Delta {
    let all = |it: &[(u32, u32)]| it.iter().map(|(a, b)| circuit(*a, *b)).collect();
    Delta { delete: all(delete), create: all(create) }
}

fn driver(layout: Layout, config: &SimConfig) -> (Managed, Arc<Switch>) {
    let switch = Switch::new(config).unwrap();
    let manner = Manner {
        id: ID,
        name: "rail-3".to_owned(),
        address: "sim".to_owned(),
        layout,
        timeout: Duration::from_ms(500),
        settle: Duration::from_ms(10),
        poll: Duration::from_ms(20),
    };
    (Managed::new(manner, Box::new(Simulated(switch.clone()))), switch)
}

#[tokio::test(start_paused = true)]
async fn circuits_are_kept_deleted_and_created() {
    for layout in [Layout::bidirectional(8), Layout::duplex(8)] {
        let (driver, switch) = driver(layout, &SimConfig::default());
        let now = driver.apply(&delta(&[], &[(0, 1), (2, 3)])).await.unwrap();
        assert_eq!(now.circuits, [circuit(0, 1), circuit(2, 3)]);
        let before = switch.changes();
        // What is there already, and what is not there to be deleted, is no reason to tell the switch anything.
        driver.apply(&delta(&[(4, 5)], &[(0, 1)])).await.unwrap();
        assert_eq!(switch.changes(), before);
        let now = driver.apply(&delta(&[(0, 1)], &[(1, 4)])).await.unwrap();
        assert_eq!(now.circuits, [circuit(1, 4), circuit(2, 3)]);
        assert_eq!(now.strays, []);
    }
}

#[tokio::test(start_paused = true)]
async fn no_port_gets_into_two_circuits_and_nothing_is_sent() {
    let (driver, switch) = driver(Layout::duplex(4), &SimConfig::default());
    driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
    let before = switch.changes();
    for (wrong, asked) in [
        (Problem::Twice(2), delta(&[], &[(1, 2), (2, 3)])),
        (Problem::NoSuchPort { number: 4, ports: 4 }, delta(&[], &[(3, 4)])),
    ] {
        assert_eq!(driver.apply(&asked).await.unwrap_err().error.problem, wrong);
        assert_eq!(driver.prepare(&asked).await.unwrap_err().problem, wrong);
    }
    let failure = driver.apply(&delta(&[], &[(1, 2)])).await.unwrap_err();
    assert!(matches!(failure.error.problem, Problem::Taken { number: 1, .. }), "{failure}");
    assert_eq!(failure.now.unwrap().circuits, [circuit(0, 1)]);
    assert_eq!(switch.changes(), before);
}

#[tokio::test(start_paused = true)]
async fn what_is_half_done_is_not_called_done() {
    let (driver, switch) = driver(Layout::duplex(8), &SimConfig::default());
    driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
    switch.expect(Mishap::DoesHalf);
    let failure = driver.apply(&delta(&[(0, 1)], &[(2, 3), (4, 5), (6, 7)])).await.unwrap_err();
    assert!(failure.to_string().contains("connected 3 of 6"), "{failure}");
    let now = failure.now.unwrap();
    assert_eq!((now.circuits, now.strays.len()), (vec![circuit(2, 3)], 1));
    // The remainder is in nobody's way.
    let now = driver.apply(&delta(&[(2, 3)], &[(2, 4), (3, 5)])).await.unwrap();
    assert_eq!((now.circuits, now.strays), (vec![circuit(2, 4), circuit(3, 5)], vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_order_without_an_answer_is_looked_after() {
    let (driver, switch) = driver(Layout::bidirectional(8), &SimConfig::default());
    switch.expect(Mishap::Ignores);
    let failure = driver.apply(&delta(&[], &[(0, 1)])).await.unwrap_err();
    assert!(matches!(failure.error.problem, Problem::TimedOut(_)), "{failure}");
    assert_eq!(failure.now.unwrap().circuits, []);
    // It was done after all, and only the answer is missing.
    switch.expect(Mishap::DoesInSilence);
    let now = driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
    assert_eq!(now.circuits, [circuit(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn power_and_ports_fail_and_come_back() {
    for (retention, left) in [(Retention::Loses, 0), (Retention::Keeps, 1)] {
        let config = SimConfig { retention, ..SimConfig::default() };
        let (driver, switch) = driver(Layout::bidirectional(8), &config);
        driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
        switch.expect(Mishap::LosesPower);
        let failure = driver.apply(&delta(&[], &[(2, 3)])).await.unwrap_err();
        assert_eq!(failure.now.unwrap().circuits.len(), left);
        switch.power(false);
        let failure = driver.apply(&delta(&[], &[(2, 3)])).await.unwrap_err();
        assert_eq!(failure.now, None);
        assert!(driver.read().await.is_err());
        switch.power(true);
        assert_eq!(driver.read().await.unwrap().circuits.len(), left);
        switch.expect(Mishap::PortFails);
        driver.apply(&delta(&[], &[(4, 5)])).await.unwrap_err();
        let failure = driver.apply(&delta(&[], &[(4, 5)])).await.unwrap_err();
        assert_eq!(failure.error.problem, Problem::Port { number: 4, state: PortState::Failed });
        switch.expect(Mishap::Refuses);
        let failure = driver.apply(&delta(&[], &[(6, 7)])).await.unwrap_err();
        assert!(matches!(failure.error.problem, Problem::Rejected(_)), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_others_do_and_not_what_we_do() {
    let (driver, switch) = driver(Layout::bidirectional(8), &SimConfig::default());
    switch.set_port(8, PortState::Disabled);
    driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
    let mut watch = driver.watch();
    assert_eq!(watch.next().await, Some(Notice::Port(7, PortState::Disabled)));
    driver.apply(&delta(&[(0, 1)], &[(0, 2)])).await.unwrap();
    switch.meddle(4, Some(5));
    match watch.next().await.unwrap() {
        Notice::Circuits(now) => assert_eq!(now.circuits, [circuit(0, 2), circuit(3, 4)]),
        other => panic!("{other:?}"),
    }
    switch.power(false);
    assert!(matches!(watch.next().await, Some(Notice::Lost(_))));
    switch.power(true);
    assert!(matches!(watch.next().await, Some(Notice::Back(_))));
}

#[tokio::test]
async fn circuits_outlive_the_process_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = SwitchConfig::simulated("rail-3", 8);
    config.sim.state = Some(folder.path().join("rail-3"));
    let file = folder.path().join("rail-3");
    let first = open(ID, &config).unwrap();
    // Without the file there is no switch.
    let error = first.read().await.unwrap_err();
    assert!(matches!(error.problem, Problem::Unreachable(_)), "{error}");
    std::fs::write(&file, "[]").unwrap();
    first.apply(&delta(&[], &[(0, 1), (4, 7)])).await.unwrap();
    drop(first);
    let second = open(ID, &config).unwrap();
    assert_eq!(second.read().await.unwrap().circuits, [circuit(0, 1), circuit(4, 7)]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[[0,1],[4,7]]");
    // Whoever writes the file has changed the switch.
    std::fs::write(&file, "[[2,3]]").unwrap();
    assert_eq!(second.read().await.unwrap().circuits, [circuit(2, 3)]);
    std::fs::remove_file(&file).unwrap();
    let failure = second.apply(&delta(&[], &[(0, 1)])).await.unwrap_err();
    assert!(failure.now.is_none(), "{failure}");
}

/// Time is that of the technology: mirrors first, then transceivers.
#[tokio::test(start_paused = true)]
async fn a_change_takes_as_long_as_the_technology_does() {
    let config = SimConfig {
        technology: Some("piezo".to_owned()),
        link_up: Some(Duration::from_ms(100)),
        ..SimConfig::default()
    };
    let (driver, _) = driver(Layout::bidirectional(8), &config);
    let began = tokio::time::Instant::now();
    driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
    let took = began.elapsed().as_millis();
    assert!((125..=130).contains(&took), "{took} ms");
    let unknown = SimConfig { technology: Some("magic".to_owned()), ..SimConfig::default() };
    assert!(Switch::new(&unknown).unwrap_err().contains("3D MEMS"));
}

/// Not a test by itself: changes circuits for ever, until its parent kills it.
#[tokio::test]
async fn child_that_is_killed() {
    let Some(file) = std::env::var_os("MOTET_SWITCH_CHILD") else { return };
    let mut config = SwitchConfig::simulated("rail-3", 64);
    config.sim.state = Some(file.into());
    let driver = open(ID, &config).unwrap();
    let mut now = driver.read().await.unwrap().circuits;
    for turn in 1.. {
        let create: Vec<Circuit> = (0..32).map(|it| circuit(it, 32 + (it + turn) % 32)).collect();
        driver.apply(&Delta { delete: now, create: create.clone() }).await.unwrap();
        now = create;
    }
}

/// Whenever a process is killed, the switch has all circuits from before or from after a step, never half of them.
#[tokio::test]
async fn a_killed_process_leaves_whole_circuits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rail-3");
    let mut config = SwitchConfig::simulated("rail-3", 64);
    config.sim.state = Some(file.clone());
    std::fs::write(&file, "[]").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    // Half of the time the switch is between two sets of circuits, without any: five kills may all fall into such moments.
    for turn in 0..64_u64 {
        if turn >= 5 && seen.len() > 1 {
            break;
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_is_killed"])
            .env("MOTET_SWITCH_CHILD", &file)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // It has begun once the file is there and is not what it was.
        let before = std::fs::read(&file).unwrap_or_default();
        while std::fs::read(&file).unwrap_or_default() == before {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(7 * (turn % 5))).await;
        // SIGKILL: nothing of it can tidy up.
        child.kill().unwrap();
        child.wait().unwrap();
        let now = open(ID, &config).unwrap().read().await.unwrap();
        assert!(now.strays.is_empty(), "{now:?}");
        assert!(matches!(now.circuits.len(), 0 | 32), "{} circuits", now.circuits.len());
        seen.insert(now.circuits);
    }
    assert!(seen.len() > 1, "the child never changed anything");
}

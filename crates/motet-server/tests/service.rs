//! The whole service in this process, on a port of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may fail, and say so"
)]

#[allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    reason = "a module of several tests"
)]
mod common;

#[path = "dashboard/mod.rs"]
mod dashboard;

use common::{Members, ONE_SWITCH, circuits, client, get, job, register, service};
use motet_control::seat::Go;
use motet_server::serve::Instead;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_take_turns_over_the_same_ports() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let client = client(&running, None);
    let job = job(1, 0, 0);
    register(&client, &job).await.unwrap();
    // The same again is no error, another one under its number is.
    register(&client, &job).await.unwrap();
    let other = common::job(1, 0, 8);
    assert_eq!(register(&client, &other).await.unwrap_err().code(), tonic::Code::AlreadyExists);
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    for _ in 0..20 {
        assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
        assert_eq!(circuits(&running).await, [[0, 0, 1]]);
        assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
        assert_eq!(circuits(&running).await, [[0, 1, 2]]);
    }
    let (status, body) = get(&running, "/v1/jobs/1/groups", None).await;
    assert_eq!(status, 200);
    assert!(body.contains(r#""holding":2"#), "{body}");
    let (status, body) = get(&running, "/metrics", None).await;
    assert_eq!(status, 200);
    assert!(body.contains("motet_changes_total{kind=\"done\"} 40"), "{body}");
    let (_, body) = get(&running, "/v1/journal?most=10000", None).await;
    let records: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(records[0]["event"], "started");
    let done = records.iter().filter(|it| it["event"] == "done").count();
    assert_eq!(done, 40);
    let (status, body) = get(&running, "/v1/circuits", None).await;
    assert_eq!(
        (status, body.as_str()),
        (200, r#"[{"switch":0,"a":1,"b":2,"job":1,"members":[1,2],"groups":[1],"in_use":true}]"#)
    );
    client
        .calls()
        .leave(client.request(motet_server::api::v1::LeaveRequest { job: 1 }))
        .await
        .unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_jobs_under_one_number_one_is_taken() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let client = client(&running, None);
    for round in 0..50 {
        // At the same time, so that some pairs are handled together.
        let (a, b) = (job(round, 0, 0), job(round, 0, 8));
        let (first, second) = tokio::join!(register(&client, &a), register(&client, &b));
        assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
        // Ended and begun again at once: it is there.
        let leave = client.request(motet_server::api::v1::LeaveRequest { job: round });
        let mut calls = client.calls();
        let (left, _) = tokio::join!(calls.leave(leave), register(&client, &a));
        left.unwrap();
        let leave = client.request(motet_server::api::v1::LeaveRequest { job: round });
        client.calls().leave(leave).await.unwrap();
    }
    running.stop().await;
}

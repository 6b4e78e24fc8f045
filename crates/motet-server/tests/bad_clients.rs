//! Clients that are not what they should be: refused and logged, and others do not notice.

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

use std::time::Duration;

use common::{LONG, Members, ONE_SWITCH, client, exchange, get, job, register, service};
use motet_control::protocol::{GroupId, Member};
use motet_control::seat::Go;
use motet_server::api::v1;
use motet_server::client::{Address, Client};
use motet_server::metrics::Kind;
use motet_server::serve::{Instead, Running};
use tonic::Code;

const A: &str = "aaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbb";
const JOB7: &str = "7777777777777777777";
const BOSS: &str = "oooooooooooooooooooo";

fn tenants() -> String {
    format!(
        "{ONE_SWITCH}[[credential]]\ntoken = '{A}'\ntenant = 1\n[[credential]]\ntoken = '{B}'\ntenant = 2\n\
         [[credential]]\ntoken = '{JOB7}'\ntenant = 1\njob = 7\n[[credential]]\ntoken = '{BOSS}'\nrole = 'operator'\n"
    )
}

fn refused(running: &Running, kind: &'static str) -> u64 {
    running.metrics.refused.get_or_create(&Kind { kind }).get()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_cannot_speak_for_anothers_job() {
    let running = service(&tenants(), Instead::default()).await;
    let [a, b, seven] = [A, B, JOB7].map(|it| client(&running, Some(it)));
    let mine = job(1, 1, 0);
    register(&a, &mine).await.unwrap();
    let mut members = Members::connect(&a, &mine, &[0, 1, 2]).await.unwrap();
    members.whole_call(0, [0, 1]).await.unwrap();
    // Registering for another tenant, joining, ending and looking at its job.
    let code = |it: tonic::Status| it.code();
    assert_eq!(register(&b, &job(2, 1, 8)).await.map_err(code), Err(Code::PermissionDenied));
    assert_eq!(
        Members::connect(&b, &mine, &[0]).await.map(drop).map_err(code),
        Err(Code::NotFound)
    );
    let leave = |it: &Client| it.request(v1::LeaveRequest { job: 1 });
    assert_eq!(
        b.calls().leave(leave(&b)).await.map(drop).map_err(code),
        Err(Code::PermissionDenied)
    );
    let look = |it: &Client| it.request(v1::InspectRequest { job: 1 });
    assert_eq!(b.calls().inspect(look(&b)).await.map(drop).map_err(code), Err(Code::NotFound));
    // A token for one job is for no other of the same tenant.
    assert_eq!(register(&seven, &job(8, 1, 8)).await.map_err(code), Err(Code::PermissionDenied));
    register(&seven, &job(7, 1, 8)).await.unwrap();
    assert_eq!(
        Members::connect(&seven, &mine, &[0]).await.map(drop).map_err(code),
        Err(Code::PermissionDenied)
    );
    // No token, a wrong one.
    let nobody = client(&running, None);
    assert_eq!(register(&nobody, &mine).await.map_err(code), Err(Code::Unauthenticated));
    let wrong = client(&running, Some("xxxxxxxxxxxxxxxxxxxx"));
    assert_eq!(register(&wrong, &mine).await.map_err(code), Err(Code::Unauthenticated));
    // The same over HTTP.
    assert_eq!(get(&running, "/v1/jobs", None).await.0, 401);
    assert_eq!(get(&running, "/v1/jobs", Some("x")).await.0, 401);
    assert_eq!(get(&running, "/v1/jobs/1", Some(A)).await.0, 200);
    assert_eq!(get(&running, "/v1/jobs/1", Some(B)).await.0, 404);
    assert_eq!(get(&running, "/v1/jobs", Some(B)).await, (200, "[]".to_owned()));
    assert_eq!(get(&running, "/v1/circuits", Some(B)).await, (200, "[]".to_owned()));
    assert_eq!(get(&running, "/v1/journal", Some(A)).await.0, 403);
    assert_eq!(get(&running, "/metrics", Some(A)).await.0, 403);
    assert_eq!(get(&running, "/metrics", Some(BOSS)).await.0, 200);
    assert_eq!(get(&running, "/healthz", None).await.0, 200);
    let delete = format!(
        "DELETE /v1/jobs/1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {B}\r\n\r\n"
    );
    assert_eq!(exchange(running.address, delete.as_bytes()).await.0, 404);
    assert_eq!(refused(&running, "unauthenticated"), 4);
    assert!(refused(&running, "wrong_tenant") >= 2 && refused(&running, "wrong_job") >= 2);
    // The one whom it is about has not noticed.
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_ends_its_stream_and_no_other() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let client = client(&running, None);
    let good = job(1, 0, 0);
    register(&client, &good).await.unwrap();
    let mut members = Members::connect(&client, &good, &[0, 1, 2]).await.unwrap();
    members.whole_call(0, [0, 1]).await.unwrap();
    let other = job(2, 0, 8);
    register(&client, &other).await.unwrap();
    let report =
        v1::Report { job: 2, member: 0, group: 0, version: 1, stance: 1, ..v1::Report::default() };
    for (nonsense, code) in [
        (v1::Report { stance: 9, ..report }, Code::InvalidArgument),
        (v1::Report { ended: 4, ..report }, Code::InvalidArgument),
        (v1::Report { stance: 2, call: 0, ..report }, Code::InvalidArgument),
        // Not joined: another member, another job, a job that there is not.
        (v1::Report { member: 1, ..report }, Code::PermissionDenied),
        (v1::Report { job: 1, ..report }, Code::PermissionDenied),
        (v1::Report { job: 99, ..report }, Code::PermissionDenied),
    ] {
        let mut bad = Members::connect(&client, &other, &[0]).await.unwrap();
        let message = v1::ToController { join: Vec::new(), reports: vec![nonsense] };
        bad.out.send(message).await.unwrap();
        let end = tokio::time::timeout(LONG, bad.replies.message()).await.unwrap().unwrap_err();
        assert_eq!(end.code(), code, "{end:?}");
    }
    // Members and jobs that there are not.
    for (number, member) in [(2, 77), (99, 0)] {
        let mut wrong = other.clone();
        wrong.job.0 = number;
        let end = Members::connect(&client, &wrong, &[member]).await.map(drop).unwrap_err();
        assert_eq!(end.code(), Code::NotFound, "{end:?}");
    }
    // Bytes that are no protocol at all.
    exchange(running.address, b"\x00\xff\x13 no protocol\r\n\r\n").await;
    let (status, _) =
        exchange(running.address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n garbage frames").await;
    assert_ne!(status, 200);
    assert_eq!(refused(&running, "malformed"), 3);
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_again_changes_nothing() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let client = client(&running, None);
    let good = job(1, 0, 0);
    register(&client, &good).await.unwrap();
    let mut members = Members::connect(&client, &good, &[0, 1, 2]).await.unwrap();
    let early = members.seats[&(Member(1), GroupId(0))].report();
    members.call(0, 0).await;
    members.call(1, 0).await;
    let ask = members.seats[&(Member(1), GroupId(0))].report();
    members.until_gone(0, 0).await.unwrap();
    members.until_gone(1, 0).await.unwrap();
    // Old reports, as an attacker would replay them: the group still holds its circuits.
    for _ in 0..10 {
        members.send(Some(early)).await;
        members.send(Some(ask)).await;
    }
    let (_, body) = get(&running, "/v1/jobs/1/groups", None).await;
    assert!(body.starts_with(r#"[{"group":0,"circuits":1,"set":1,"queued":false,"changing":false,"away":0,"asking":0,"holding":2"#), "{body}");
    members.end(0, 0).await;
    members.end(1, 0).await;
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_bodies_are_refused() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let client = client(&running, None);
    let mut huge = job(1, 0, 0);
    let port = huge.ports[2];
    huge.ports = vec![port; 6_000_000];
    let refused = register(&client, &huge).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: 99999999999\r\n\r\n{{");
    assert_eq!(exchange(running.address, request.as_bytes()).await.0, 413);
    let request = format!("{head}content-length: 3\r\n\r\n{{}}}}");
    assert!((400..500).contains(&exchange(running.address, request.as_bytes()).await.0));
    register(&client, &job(1, 0, 0)).await.unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_read_is_cut_off() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let client = client(&running, None);
    let good = job(1, 0, 0);
    register(&client, &good).await.unwrap();
    let mut members = Members::connect(&client, &good, &[0, 1, 2]).await.unwrap();
    let lazy_job = job(2, 0, 8);
    let elsewhere = common::client(&running, None);
    register(&elsewhere, &lazy_job).await.unwrap();
    let lazy = Members::connect(&elsewhere, &lazy_job, &[0, 1, 2]).await.unwrap();
    let mut seat = lazy.seats[&(Member(0), GroupId(0))].clone();
    let mut partner = lazy.seats[&(Member(1), GroupId(0))].clone();
    lazy.send(partner.call().report).await;
    let ask = seat.call().report.unwrap();
    // It asks again and again, as if it had not heard the answer, and reads none.
    let asks = vec![(&ask).into(); 1000];
    let flood = async {
        loop {
            let message = v1::ToController { join: Vec::new(), reports: asks.clone() };
            if lazy.out.send(message).await.is_err() {
                // Cut off already.
                return std::future::pending().await;
            }
        }
    };
    let cut = async {
        while running.metrics.slow_readers.get() == 0 {
            assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
            assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let either = async {
        tokio::select! {
            () = flood => {}
            () = cut => {}
        }
    };
    assert!(tokio::time::timeout(LONG, either).await.is_ok(), "it was never cut off");
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    running.stop().await;
}

/// A certificate authority, and a certificate for each name, in a folder.
fn certificates(folder: &std::path::Path, names: &[&str]) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("ca.pem"), ca.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for name in names {
        let key = KeyPair::generate().unwrap();
        let mine = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
        let mine = mine.signed_by(&key, &issuer).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), mine.pem()).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_say_who_somebody_is() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path();
    certificates(there, &["localhost", "tenant-a.example", "stranger.example"]);
    let strange = tempfile::tempdir().unwrap();
    certificates(strange.path(), &["tenant-a.example"]);
    let text = format!(
        "{ONE_SWITCH}[tls]\ncertificate = '{0}/localhost.pem'\nkey = '{0}/localhost.key'\nclient_ca = '{0}/ca.pem'\n\
         [[credential]]\ncertificate = 'tenant-a.example'\ntenant = 1\n",
        there.display()
    );
    let running = service(&text, Instead::default()).await;
    let url = format!("https://localhost:{}", running.address.port());
    let client = |folder: &std::path::Path, name: Option<&str>| {
        let identity =
            name.map(|it| (folder.join(format!("{it}.pem")), folder.join(format!("{it}.key"))));
        let ca = Some(there.join("ca.pem"));
        Client::new(&Address { url: url.clone(), token: None, ca, identity }).unwrap()
    };
    let good = client(there, Some("tenant-a.example"));
    register(&good, &job(1, 1, 0)).await.unwrap();
    let denied = register(&good, &job(2, 2, 8)).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    let stranger = client(there, Some("stranger.example"));
    assert_eq!(register(&stranger, &job(2, 1, 8)).await.unwrap_err().code(), Code::Unauthenticated);
    // No certificate, and one that somebody else has signed: not even TLS.
    for bad in [client(there, None), client(strange.path(), Some("tenant-a.example"))] {
        assert!(register(&bad, &job(2, 1, 8)).await.is_err());
    }
    assert!(refused(&running, "tls") >= 2);
    running.stop().await;
}

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
#[allow(unreachable_pub, reason = "a module of several tests")]
#[path = "common/certificates.rs"]
mod signed;

use std::time::Duration;

use common::{LONG, Members, ONE_SWITCH, client, exchange, get, job, register, service};
use motet_control::protocol::{GroupId, Member};
use motet_control::seat::Go;
use motet_server::api::v1;
use motet_server::client::{Address, Client};
use motet_server::metrics::Kind;
use motet_server::serve::{Instead, Running};
use signed::certificates;
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

/// Waits until so many are counted: whoever is cut off knows it before the service has counted it.
async fn counted(running: &Running, kind: &'static str, many: u64) {
    let wait = async {
        while refused(running, kind) < many {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let all = tokio::time::timeout(LONG, wait).await.is_ok();
    assert!(all, "{} of {many} refusals are counted as {kind:?}", refused(running, kind));
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
    // The client's headers leave only when its whole message is encoded, which takes seconds on a busy machine; a service that
    // waits no longer than usual for the first request would close the connection by then, instead of refusing the message.
    let running = service(ONE_SWITCH, Instead { beginning: LONG, ..Instead::default() }).await;
    let client = client(&running, None);
    let mut huge = job(1, 0, 0);
    let port = huge.ports[2];
    huge.ports = vec![port; 6_000_000];
    let refused = register(&client, &huge).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: 99999999999\r\n\r\n{{");
    assert_eq!(exchange(running.address, request.as_bytes()).await.0, 413);
    // One that does not say beforehand how long it is.
    let mut request = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    let chunk = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..33 {
        request.extend(&chunk);
    }
    request.extend(b"0\r\n\r\n");
    assert_eq!(upload(running.address, &request).await, 413);
    assert_eq!(self::refused(&running, "oversized"), 3);
    // The same on a stream: a message that is too long, and one with too many reports.
    let good = job(1, 0, 0);
    register(&client, &good).await.unwrap();
    // Too many bytes, and too many reports.
    let (job, version, stance, large) = (1, 1, 1, u64::MAX / 2);
    let report = v1::Report {
        job,
        version,
        stance,
        begun: large,
        ended: large,
        host: large,
        ..v1::Report::default()
    };
    for (many, code) in [(1_000_000, Code::OutOfRange), (65_537, Code::InvalidArgument)] {
        let mut bad = Members::connect(&client, &good, &[0]).await.unwrap();
        let message = v1::ToController { join: Vec::new(), reports: vec![report; many] };
        bad.out.send(message).await.unwrap();
        let end = tokio::time::timeout(LONG, bad.replies.message()).await.unwrap().unwrap_err();
        assert_eq!(end.code(), code, "{end:?}");
    }
    assert_eq!(self::refused(&running, "oversized"), 5);
    let mut members = Members::connect(&client, &good, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    running.stop().await;
}

/// The status of the answer to a request that the service may not read to its end.
async fn upload(address: std::net::SocketAddr, request: &[u8]) -> u16 {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut reader, mut writer) =
        tokio::net::TcpStream::connect(address).await.unwrap().into_split();
    let write = async {
        let _ = writer.write_all(request).await;
        std::future::pending::<()>().await;
    };
    let mut head = [0; 12];
    let read = async { reader.read_exact(&mut head).await };
    tokio::select! {
        () = write => {}
        read = tokio::time::timeout(LONG, read) => drop(read.unwrap().unwrap()),
    }
    std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_over_http_is_refused_and_counted() {
    let running = service(ONE_SWITCH, Instead::default()).await;
    let post = |kind: &str, body: &str| {
        let length = body.len();
        let head = "POST /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
        format!("{head}{kind}content-length: {length}\r\n\r\n{body}").into_bytes()
    };
    let json = "content-type: application/json\r\n";
    let itself = r#"{"job":1,"ports":[],"groups":[{"id":0,"members":[0],"circuits":[{"switch":0,"a":1,"b":1}]}]}"#;
    for (request, status) in [
        (post(json, "{"), 400),
        (post("", "{}"), 415),
        (post(json, "{\"job\": -1}"), 422),
        (post(json, itself), 422),
        (b"GET /v1/journal?most=-1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(), 400),
        (b"GET /v1/jobs/-1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(), 400),
    ] {
        let answer = exchange(running.address, &request).await;
        assert_eq!(answer.0, status, "{}: {}", String::from_utf8_lossy(&request), answer.1);
    }
    assert_eq!((refused(&running, "malformed"), refused(&running, "unprocessable")), (4, 2));
    assert_eq!(get(&running, "/v1/jobs", None).await, (200, "[]".to_owned()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_asks_for_nothing_is_shown_out() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let beginning = Duration::from_millis(500);
    let running = service(ONE_SWITCH, Instead { beginning, ..Instead::default() }).await;
    // Nothing at all, half a request of HTTP/1, and the first words of HTTP/2, of which two and three look alike for a while.
    for words in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n", "PRI * HTTP/2.0\r\n"] {
        let before = refused(&running, "slow");
        let mut stream = tokio::net::TcpStream::connect(running.address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "{words:?} keeps a connection open");
        counted(&running, "slow", before + 1).await;
    }
    // Streams of those who have asked for something stay, however long they are silent.
    let client = client(&running, None);
    let good = job(1, 0, 0);
    register(&client, &good).await.unwrap();
    let mut members = Members::connect(&client, &good, &[0, 1, 2]).await.unwrap();
    tokio::time::sleep(2 * beginning).await;
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    running.stop().await;
}

/// A stream on which members of a job have joined says nothing for the next job of that number, which may be another tenant's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_changes_hands_takes_its_streams_with_it() {
    let running = service(&tenants(), Instead::default()).await;
    let [a, b] = [A, B].map(|it| client(&running, Some(it)));
    register(&b, &job(1, 2, 0)).await.unwrap();
    let mut old = Members::connect(&b, &job(1, 2, 0), &[0, 1, 2]).await.unwrap();
    b.calls().leave(b.request(v1::LeaveRequest { job: 1 })).await.unwrap();
    let mine = job(1, 1, 0);
    register(&a, &mine).await.unwrap();
    let mut members = Members::connect(&a, &mine, &[0, 1, 2]).await.unwrap();
    assert_eq!(members.whole_call(0, [0, 1]).await.unwrap(), Go::Circuits);
    // As if member 0 had given its circuits back: others could take them from under its traffic.
    let away = v1::Report { job: 1, version: 99, stance: 1, ..v1::Report::default() };
    old.out.send(v1::ToController { join: Vec::new(), reports: vec![away] }).await.unwrap();
    let end = tokio::time::timeout(LONG, old.replies.message()).await.unwrap().unwrap_err();
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    assert_eq!(refused(&running, "not_joined"), 1);
    let (_, body) = get(&running, "/v1/jobs/1/groups", Some(A)).await;
    assert!(body.contains(r#""holding":2"#), "{body}");
    assert_eq!(members.whole_call(1, [1, 2]).await.unwrap(), Go::Circuits);
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
    counted(&running, "tls", 2).await;
    running.stop().await;
}

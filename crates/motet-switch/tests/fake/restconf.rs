//! A switch that speaks RESTCONF: `cross-connects` with an entity tag, pairs to be put and deleted, `port-config`.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, ETAG, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use motet_switch::PortState;
use motet_switch::layout::Cross;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::{Fake, Verdict};

pub async fn start(fake: Fake, tls: Option<TlsAcceptor>) -> SocketAddr {
    super::serve(fake.switch.clone(), move |stream| {
        let (fake, tls) = (fake.clone(), tls.clone());
        async move {
            let gone = Arc::new(tokio::sync::Notify::new());
            let (fake, leave) = (fake.clone(), gone.clone());
            let service = service_fn(move |request| answer(fake.clone(), request, leave.clone()));
            let builder = hyper::server::conn::http1::Builder::new();
            tokio::select! {
                () = gone.notified() => {}
                () = async {
                    match tls {
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                        }
                        None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
                    }
                } => {}
            }
        }
    })
    .await
}

type Answer = Response<Full<Bytes>>;

fn reply(status: StatusCode, body: &Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Response::builder().status(status).body(Full::from(text)).unwrap()
}

fn no(status: StatusCode, tag: &str, words: &str) -> Answer {
    reply(
        status,
        &json!({"ietf-restconf:errors": {"error": [{"error-tag": tag, "error-message": words}]}}),
    )
}

async fn answer(
    fake: Fake,
    request: Request<Incoming>,
    gone: Arc<tokio::sync::Notify>,
) -> Result<Answer, std::convert::Infallible> {
    if let Some((user, password)) = fake.login {
        let wanted = motet_switch::restconf::basic(user, password).unwrap();
        if request.headers().get(AUTHORIZATION) != Some(&wanted) {
            return Ok(no(StatusCode::UNAUTHORIZED, "access-denied", "who are you"));
        }
    }
    let path = request.uri().path().to_owned();
    let pair =
        path.strip_prefix("/api/data/optical-switch:cross-connects/pair=").map(str::to_owned);
    let verdict = match (request.method().clone(), path.as_str(), pair) {
        (Method::GET, "/api/data/optical-switch:cross-connects", _) => {
            return Ok(list(&fake, &request));
        }
        (Method::GET, "/api/data/optical-switch:port-config", _) => return Ok(ports(&fake)),
        (Method::DELETE, _, Some(input)) => {
            fake.change(&[Cross { input: input.parse().unwrap(), output: 0 }], &[]).await
        }
        (Method::PUT, _, Some(input)) => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let entry = &body["optical-switch:pair"][0];
            let number = |name: &str| u32::try_from(entry[name].as_u64().unwrap()).unwrap();
            let cross = Cross { input: number("ingress"), output: number("egress") };
            assert_eq!(input, cross.input.to_string());
            fake.change(&[], &[cross]).await
        }
        _ => return Ok(no(StatusCode::NOT_FOUND, "invalid-value", "no such resource")),
    };
    Ok(match verdict {
        Verdict::Done => reply(StatusCode::NO_CONTENT, &Value::Null),
        Verdict::No(words) => no(StatusCode::CONFLICT, "operation-failed", &words),
        Verdict::Gone => {
            gone.notify_one();
            std::future::pending().await
        }
    })
}

fn list(fake: &Fake, request: &Request<Incoming>) -> Answer {
    let crosses = fake.switch.crosses();
    let pairs: Vec<Value> =
        crosses.iter().map(|it| json!({"ingress": it.input, "egress": it.output})).collect();
    let body = json!({"optical-switch:cross-connects": {"pair": pairs}});
    // The tag says what is in it, so it changes when that does.
    let tag = format!(
        "\"{}\"",
        crosses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").replace('→', "-")
    );
    let same =
        request.headers().get(IF_NONE_MATCH).is_some_and(|it| it.as_bytes() == tag.as_bytes());
    let mut answer = if same {
        reply(StatusCode::NOT_MODIFIED, &Value::Null)
    } else {
        reply(StatusCode::OK, &body)
    };
    answer.headers_mut().insert(ETAG, tag.parse().unwrap());
    answer
}

fn ports(fake: &Fake) -> Answer {
    let port = |port: u32| {
        let status = match fake.state(port) {
            PortState::Up => "ENABLED",
            PortState::Disabled => "DISABLED",
            PortState::Failed => "FAILED",
        };
        json!({"port-id": port, "status": status})
    };
    let ports: Vec<Value> = (1..=fake.ports).map(port).collect();
    reply(StatusCode::OK, &json!({"optical-switch:port-config": {"port": ports}}))
}

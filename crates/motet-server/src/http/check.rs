//! Authentication of requests over HTTP and gRPC, before anything else is done with them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rustls::pki_types::CertificateDer;
use tracing::warn;

use super::views::Problem;
use crate::auth::{Access, Refused};
use crate::metrics::Metrics;

/// The connection that a request came on.
#[derive(Clone, Debug)]
pub struct Peer {
    pub address: std::net::SocketAddr,
    pub certificate: Option<CertificateDer<'static>>,
}

/// The state of the check.
#[derive(Clone, Debug)]
pub struct Check {
    pub access: Arc<Access>,
    pub metrics: Arc<Metrics>,
}

/// Passes a request on with its caller added, or refuses it.
pub async fn check(State(check): State<Check>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    let certificate = peer.and_then(|it| it.certificate.as_ref());
    let header = request.headers().get(header::AUTHORIZATION);
    let caller = check.access.identify(header.and_then(|it| it.to_str().ok()), certificate);
    match caller {
        Ok(caller) => {
            let (who, path) = (caller.to_string(), request.uri().path().to_owned());
            request.extensions_mut().insert(caller);
            let response = next.run(request).await;
            if let Some(kind) = nonsense(&response) {
                check.metrics.refuse(kind);
                let status = response.status().as_u16();
                warn!(caller = who, path, status, kind, "refused");
            }
            response
        }
        Err(why) => {
            check.metrics.refuse("unauthenticated");
            let from = peer.map(|it| it.address.to_string()).unwrap_or_default();
            warn!(peer = from, path = request.uri().path(), "refused: {why}");
            refusal(request.headers(), why)
        }
    }
}

/// The kind of refusal, for requests that were refused before they reached a handler; handlers count their
/// own refusals. gRPC has its status in a header of its own.
fn nonsense(response: &Response) -> Option<&'static str> {
    let grpc = tonic::Status::from_header_map(response.headers()).map(|it| it.code());
    match (grpc, response.status()) {
        (Some(tonic::Code::OutOfRange), _) | (_, StatusCode::PAYLOAD_TOO_LARGE) => {
            Some("oversized")
        }
        (Some(tonic::Code::Internal | tonic::Code::Unimplemented), _)
        | (_, StatusCode::BAD_REQUEST | StatusCode::UNSUPPORTED_MEDIA_TYPE) => Some("malformed"),
        (_, StatusCode::UNPROCESSABLE_ENTITY) => Some("unprocessable"),
        (_, StatusCode::REQUEST_TIMEOUT) => Some("slow"),
        _ => None,
    }
}

/// A refusal, as gRPC or as JSON depending on the request.
fn refusal(headers: &HeaderMap, why: Refused) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    if kind.is_some_and(|it| it.starts_with("application/grpc")) {
        return tonic::Status::unauthenticated(why.to_string()).into_http();
    }
    let problem = Json(Problem { problem: why.to_string() });
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response()
}

/// How long a request over HTTP may take, its body included.
const TIME: std::time::Duration = std::time::Duration::from_secs(30);

/// Refuses requests whose declared length is too large, and requests that take too long. gRPC does not pass
/// through here.
pub async fn bound(request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|it| it.to_str().ok()).and_then(|it| it.parse::<u64>().ok());
    if length.is_some_and(|it| it > super::MOST_BODY as u64) {
        let problem = format!("the body is larger than {} bytes", super::MOST_BODY);
        return (StatusCode::PAYLOAD_TOO_LARGE, Json(Problem { problem })).into_response();
    }
    match tokio::time::timeout(TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let problem = format!("the request took longer than {} s", TIME.as_secs());
            (StatusCode::REQUEST_TIMEOUT, Json(Problem { problem })).into_response()
        }
    }
}

//! Polatis' model over RESTCONF (RFC 8040): JSON over HTTP or HTTPS.
//!
//! Pairs are deleted and put one by one. Putting the whole list would replace it, and Polatis' manual does
//! not say whether unchanged pairs then stay undisturbed. Before a change is sent, the list is requested once
//! more with the entity tag of the last reading; if somebody has changed it in between, the change is
//! refused. The same tag makes polling for changes cheap.

pub mod json;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use crate::device::{Device, Fault, Readout, Seen, Session, Steps};
use crate::driver::Pending;
use crate::error::Problem;
use crate::tls::Tls;
use crate::wire::{self, LONGEST, start_of};

/// The port of Polatis' RESTCONF without TLS.
pub const PORT: u16 = 8008;
/// The port of HTTPS.
pub const TLS_PORT: u16 = 443;

const MEDIA: &str = "application/yang-data+json";

/// A switch that speaks RESTCONF.
#[derive(Clone)]
pub struct Restconf {
    pub host: String,
    pub port: u16,
    pub tls: Option<Tls>,
    /// The part of paths before `/data`: `/api` on Polatis, `/restconf` elsewhere.
    pub root: String,
    /// The value of the `Authorization` header.
    pub authorization: Option<HeaderValue>,
}

impl std::fmt::Debug for Restconf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restconf")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// The `Authorization` header for a name and a password.
///
/// # Errors
///
/// If they have characters that a header cannot have.
pub fn basic(user: &str, password: &str) -> Result<HeaderValue, String> {
    let text = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    let mut header = HeaderValue::try_from(text).map_err(|it| it.to_string())?;
    header.set_sensitive(true);
    Ok(header)
}

struct Talk {
    send: SendRequest<Full<Bytes>>,
    task: AbortHandle,
    device: Restconf,
    /// The cross-connections that were read last, with their entity tag.
    last: Option<(HeaderValue, Vec<Seen>)>,
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Device for Restconf {
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>> {
        Box::pin(async {
            let (send, task) = match &self.tls {
                Some(tls) => open(tls.connect().await?).await?,
                None => open(wire::tcp(&self.host, self.port).await?).await?,
            };
            let talk = Talk { send, task, device: self.clone(), last: None };
            Ok(Box::new(talk) as Box<dyn Session>)
        })
    }
}

async fn open(
    stream: impl wire::Duplex + 'static,
) -> Result<(SendRequest<Full<Bytes>>, AbortHandle), Fault> {
    let lost = |it: hyper::Error| Fault::new("connecting", Problem::Unreachable(it.to_string()));
    let (send, connection) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // The connection ends with the session, which drops the sender.
    let task = tokio::spawn(async move { drop(connection.await) });
    Ok((send, task.abort_handle()))
}

struct Answer {
    status: StatusCode,
    tag: Option<HeaderValue>,
    text: String,
}

impl Talk {
    /// Sends one request and returns its answer, which may be a refusal.
    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Option<String>,
        tag: Option<&HeaderValue>,
    ) -> Result<Answer, Fault> {
        let asked = format!("{method} {path}");
        let lost = |it: &dyn std::fmt::Display| {
            Fault::new(asked.clone(), Problem::Unreachable(it.to_string()))
        };
        let uri = format!("{}/data/{path}", self.device.root);
        let mut request = Request::builder().method(method).uri(uri).header(ACCEPT, MEDIA);
        request = request.header(HOST, format!("{}:{}", self.device.host, self.device.port));
        if let Some(it) = &self.device.authorization {
            request = request.header(AUTHORIZATION, it);
        }
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, MEDIA);
        }
        let request = request.body(Full::from(body.unwrap_or_default())).map_err(|it| lost(&it))?;
        self.send.ready().await.map_err(|it| lost(&it))?;
        let response = self.send.send_request(request).await.map_err(|it| lost(&it))?;
        let (status, tag) = (response.status(), response.headers().get(ETAG).cloned());
        let body =
            Limited::new(response.into_body(), LONGEST).collect().await.map_err(|it| lost(&it))?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let words = format!("{status}: {}", json::read_error(&text));
                Err(Fault::new(asked, Problem::Login(start_of(&words))))
            }
            _ => Ok(Answer { status, tag, text }),
        }
    }

    /// Reads the cross-connections; `None` if they have not changed since the last reading.
    async fn crosses(&mut self) -> Result<Option<Vec<Seen>>, Fault> {
        const PATH: &str = "optical-switch:cross-connects";
        let tag = self.last.as_ref().map(|it| it.0.clone());
        let answer = self.ask(Method::GET, PATH, None, tag.as_ref()).await?;
        let garbled = |it| Fault::new(format!("GET {PATH}"), Problem::Garbled(it));
        let crosses = match answer.status {
            StatusCode::NOT_MODIFIED if tag.is_some() => return Ok(None),
            StatusCode::OK => json::read_crosses(&answer.text).map_err(garbled)?,
            // An empty list does not exist as a resource.
            StatusCode::NOT_FOUND | StatusCode::NO_CONTENT => Vec::new(),
            _ => return Err(refused("GET", PATH, &answer)),
        };
        self.last = answer.tag.map(|it| (it, crosses.clone()));
        Ok(Some(crosses))
    }

    async fn read_in(&mut self) -> Result<Readout, Fault> {
        const PATH: &str = "optical-switch:port-config";
        let crosses = match self.crosses().await? {
            Some(crosses) => crosses,
            None => self.last.as_ref().map(|it| it.1.clone()).unwrap_or_default(),
        };
        let answer = self.ask(Method::GET, PATH, None, None).await?;
        let ports = match answer.status {
            StatusCode::OK => json::read_ports(&answer.text)
                .map_err(|it| Fault::new(format!("GET {PATH}"), Problem::Garbled(it)))?,
            StatusCode::NOT_FOUND | StatusCode::NO_CONTENT => Vec::new(),
            _ => return Err(refused("GET", PATH, &answer)),
        };
        Ok(Readout { crosses, ports })
    }

    async fn change_in(&mut self, steps: &Steps) -> Result<(), Fault> {
        let before = self.last.as_ref().map(|it| it.1.clone());
        if let Some(before) = before
            && let Some(now) = self.crosses().await?
            && now != before
        {
            let words =
                "somebody has changed the cross-connections since they were read".to_owned();
            return Err(Fault::new("checking the entity tag", Problem::Rejected(words)));
        }
        for seen in &steps.remove {
            let path = format!("optical-switch:cross-connects/pair={}", seen.cross.input);
            let answer = self.ask(Method::DELETE, &path, None, None).await?;
            if !answer.status.is_success() {
                return Err(refused("DELETE", &path, &answer));
            }
        }
        for cross in &steps.add {
            let path = format!("optical-switch:cross-connects/pair={}", cross.input);
            let answer = self.ask(Method::PUT, &path, Some(json::write_pair(*cross)), None).await?;
            if !answer.status.is_success() {
                return Err(refused("PUT", &path, &answer));
            }
        }
        Ok(())
    }
}

fn refused(method: &str, path: &str, answer: &Answer) -> Fault {
    let words = format!("{}: {}", answer.status, json::read_error(&answer.text));
    Fault::new(format!("{method} {path}"), Problem::Rejected(start_of(&words)))
}

impl Session for Talk {
    fn read(&mut self) -> Pending<'_, Result<Readout, Fault>> {
        Box::pin(self.read_in())
    }

    fn change<'a>(&'a mut self, steps: &'a Steps) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.change_in(steps))
    }
}

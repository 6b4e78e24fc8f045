//! A gNMI target that serves OCP's model of an optical switch: Capabilities, Get, Set and Subscribe.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use motet_switch::PortState;
use motet_switch::gnmi::path;
use motet_switch::gnmi::proto::{
    CapabilityRequest, CapabilityResponse, Encoding, GetRequest, GetResponse, ModelData,
    Notification, Path, SetRequest, SetResponse, SubscribeAnswer, SubscribeAsk, SubscribeRequest,
    SubscribeResponse, TypedValue, Update, UpdateResult, Value,
};
use motet_switch::layout::Cross;
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_stream::Stream;
use tonic::codegen::http;
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::{Fake, Verdict};

/// How long a connection is pending after `Set` has been answered.
const PENDING: Duration = Duration::from_millis(30);

#[derive(Clone)]
pub struct Target {
    fake: Fake,
    /// The controller's names, by what they connect, and since when.
    names: Arc<Mutex<BTreeMap<Cross, (String, Instant)>>>,
}

pub async fn start(fake: Fake, tls: Option<TlsAcceptor>) -> SocketAddr {
    let target = Target { fake: fake.clone(), names: Arc::default() };
    super::serve(fake.switch.clone(), move |stream| {
        let (target, tls) = (target.clone(), tls.clone());
        async move {
            let service = service_fn(move |request: http::Request<Incoming>| {
                let target = target.clone();
                async move { Ok::<_, std::convert::Infallible>(target.route(request).await) }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            match tls {
                Some(tls) => {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                }
                None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
            }
        }
    })
    .await
}

type Answering<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

struct Capabilities(Target);
struct Get(Target);
struct Set(Target);
struct Subscribe(Target);

impl UnaryService<CapabilityRequest> for Capabilities {
    type Response = CapabilityResponse;
    type Future = Answering<Self::Response>;

    fn call(&mut self, request: Request<CapabilityRequest>) -> Self::Future {
        let target = self.0.clone();
        Box::pin(async move {
            target.admit(&request)?;
            let model = |name: &str| ModelData {
                name: name.to_owned(),
                organization: "Open Compute Project".to_owned(),
                version: "0.8.0".to_owned(),
            };
            Ok(Response::new(CapabilityResponse {
                supported_models: vec![
                    model("ocp-ocs-optical-switch"),
                    model("ocp-ocs-optical-switch-connections"),
                ],
                supported_encodings: vec![Encoding::JsonIetf as i32],
                gnmi_version: "0.10.0".to_owned(),
            }))
        })
    }
}

impl UnaryService<GetRequest> for Get {
    type Response = GetResponse;
    type Future = Answering<Self::Response>;

    fn call(&mut self, request: Request<GetRequest>) -> Self::Future {
        let target = self.0.clone();
        Box::pin(async move {
            target.admit(&request)?;
            let request = request.into_inner();
            let tree = target.tree();
            let mut notification = Vec::new();
            for path in &request.path {
                let value = find(&tree, path).ok_or_else(|| Status::not_found(path::text(path)))?;
                let update = vec![update(path.clone(), &value)];
                notification.push(Notification { timestamp: 1, update, ..Notification::default() });
            }
            Ok(Response::new(GetResponse { notification }))
        })
    }
}

impl UnaryService<SetRequest> for Set {
    type Response = SetResponse;
    type Future = Answering<Self::Response>;

    fn call(&mut self, request: Request<SetRequest>) -> Self::Future {
        let target = self.0.clone();
        Box::pin(async move {
            target.admit(&request)?;
            target.set(request.into_inner()).await.map(Response::new)
        })
    }
}

impl StreamingService<SubscribeRequest> for Subscribe {
    type Response = SubscribeResponse;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send>>;
    type Future = Answering<Self::ResponseStream>;

    fn call(&mut self, request: Request<Streaming<SubscribeRequest>>) -> Self::Future {
        let target = self.0.clone();
        Box::pin(async move {
            target.admit(&request)?;
            let mut asks = request.into_inner();
            let ask = asks.message().await?.and_then(|it| it.request);
            let Some(SubscribeAsk::Subscribe(list)) = ask else {
                return Err(Status::invalid_argument("no subscription"));
            };
            let (send, receive) = tokio::sync::mpsc::channel(16);
            tokio::spawn(async move {
                // The stream of asks is kept, as its end is the client's way to leave.
                let _asks = asks;
                let answer = |it| Ok(SubscribeResponse { response: Some(it) });
                let mut last = Json::Null;
                for turn in 0_u64.. {
                    let tree = target.tree();
                    if tree != last {
                        last = tree.clone();
                        for path in list.subscription.iter().filter_map(|it| it.path.clone()) {
                            let Some(value) = find(&tree, &path) else { continue };
                            let update = vec![update(path, &value)];
                            let notification =
                                Notification { timestamp: 1, update, ..Notification::default() };
                            if send
                                .send(answer(SubscribeAnswer::Update(notification)))
                                .await
                                .is_err()
                            {
                                return;
                            }
                        }
                    }
                    if turn == 0 && send.send(answer(SubscribeAnswer::Sync(true))).await.is_err() {
                        return;
                    }
                    if list.mode == 1 {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
            let stream = tokio_stream::wrappers::ReceiverStream::new(receive);
            Ok(Response::new(Box::pin(stream) as Self::ResponseStream))
        })
    }
}

fn update(path: Path, value: &Json) -> Update {
    let value = Some(Value::JsonIetf(value.to_string().into_bytes()));
    Update { path: Some(path), val: Some(TypedValue { value }) }
}

/// What is at a path. Entries of lists are found by their name; a wildcard stops there.
fn find(tree: &Json, path: &Path) -> Option<Json> {
    let mut at = tree;
    for elem in &path.elem {
        at = at.get(elem.name.rsplit(':').next()?)?;
        match elem.key.get("name").map(String::as_str) {
            None => {}
            Some("*") => return Some(at.clone()),
            Some(name) => at = at.as_array()?.iter().find(|it| it["name"] == name)?,
        }
    }
    Some(at.clone())
}

impl Target {
    async fn route(self, request: http::Request<Incoming>) -> http::Response<tonic::body::Body> {
        let request = request.map(tonic::body::Body::new);
        match request.uri().path() {
            "/gnmi.gNMI/Capabilities" => {
                Grpc::new(ProstCodec::default()).unary(Capabilities(self), request).await
            }
            "/gnmi.gNMI/Get" => Grpc::new(ProstCodec::default()).unary(Get(self), request).await,
            "/gnmi.gNMI/Set" => Grpc::new(ProstCodec::default()).unary(Set(self), request).await,
            "/gnmi.gNMI/Subscribe" => {
                Grpc::new(ProstCodec::default()).streaming(Subscribe(self), request).await
            }
            _ => Status::unimplemented("no such call").into_http(),
        }
    }

    fn admit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let Some((user, password)) = self.fake.login else { return Ok(()) };
        let is =
            |name: &str, wanted: &str| request.metadata().get(name).is_some_and(|it| it == wanted);
        if is("username", user) && is("password", password) {
            Ok(())
        } else {
            Err(Status::unauthenticated("who are you"))
        }
    }

    fn tree(&self) -> Json {
        let crosses = self.fake.switch.crosses();
        let names = self.names.lock().unwrap();
        let connected = |port: u32| crosses.iter().any(|it| it.input == port || it.output == port);
        let connection = |cross: &Cross| {
            let named = names.get(cross);
            let name = named.map_or(format!("by hand {cross}"), |it| it.0.clone());
            let pending = named.is_some_and(|it| it.1.elapsed() < PENDING);
            let failed = [cross.input, cross.output]
                .iter()
                .any(|it| self.fake.state(*it) == PortState::Failed);
            let status = match (failed, pending) {
                (true, _) => "FAILED",
                (false, true) => "PENDING_CONNECTION",
                (false, false) => "CONNECTED",
            };
            let config = json!({
                "name": name,
                "input-port-name": format!("port-{}", cross.input),
                "output-port-name": format!("port-{}", cross.output),
            });
            let mut state = config.clone();
            state["status"] = json!(status);
            state["status-reason"] = json!(if failed { "a port has failed" } else { "" });
            json!({"name": name, "config": config, "state": state})
        };
        let component = |port: u32| {
            let (status, enabled) = match self.fake.state(port) {
                PortState::Failed => ("FAILED", true),
                PortState::Disabled => ("BLOCKED", false),
                PortState::Up if connected(port) => ("TUNED", true),
                PortState::Up => ("BLOCKED", true),
            };
            let group = match self.fake.inputs {
                None => "all",
                Some(inputs) if port <= inputs => "in",
                Some(_) => "out",
            };
            let state =
                json!({"index": port, "group": group, "status": status, "enabled": enabled});
            json!({"name": format!("port-{port}"), "ocp-ocs-port": {"state": state}})
        };
        let group = |name: &str, direction: &str, peer: &str| json!({"name": name, "direction": direction, "connection-groups": [{"peer-name": peer}]});
        let groups = match self.fake.inputs {
            None => vec![group("all", "ANY", "all")],
            Some(_) => vec![group("in", "INPUT-ONLY", "out"), group("out", "OUTPUT-ONLY", "in")],
        };
        let components: Vec<Json> = (1..=self.fake.ports).map(component).collect();
        json!({
            "connections": {"port-connection": crosses.iter().map(connection).collect::<Vec<_>>()},
            "components": {"component": components},
            "optical-switch": {"state": {"bidirectional": self.fake.inputs.is_none(), "port-groups": groups}},
        })
    }

    async fn set(&self, request: SetRequest) -> Result<SetResponse, Status> {
        let tree = self.tree();
        let connections = tree["connections"]["port-connection"].as_array().unwrap().clone();
        let port = |it: &Json| -> Option<u32> { it.as_str()?.strip_prefix("port-")?.parse().ok() };
        let cross = |config: &Json| {
            Some(Cross {
                input: port(&config["input-port-name"])?,
                output: port(&config["output-port-name"])?,
            })
        };
        let (mut remove, mut add) = (Vec::new(), Vec::new());
        let mut response = Vec::new();
        for path in request.delete {
            let name = path.elem.last().and_then(|it| it.key.get("name")).cloned();
            let found = connections.iter().find(|it| it["name"].as_str() == name.as_deref());
            // Deleting what is not there is no error in gNMI.
            remove.extend(found.and_then(|it| cross(&it["config"])));
            response.push(UpdateResult { path: Some(path), op: 1 });
        }
        for update in request.replace.into_iter().chain(request.update) {
            let value = update.val.and_then(|it| it.value);
            let (Some(Value::JsonIetf(bytes)), Some(path)) = (value, update.path) else {
                return Err(Status::invalid_argument("JSON_IETF is wanted"));
            };
            let entry: Json = serde_json::from_slice(&bytes)
                .map_err(|it| Status::invalid_argument(it.to_string()))?;
            let name =
                path.elem.last().and_then(|it| it.key.get("name")).cloned().unwrap_or_default();
            let cross =
                cross(&entry["config"]).ok_or_else(|| Status::invalid_argument("no such port"))?;
            add.push((cross, name));
            response.push(UpdateResult { path: Some(path), op: 3 });
        }
        let crosses: Vec<Cross> = add.iter().map(|it| it.0).collect();
        match self.fake.change(&remove, &crosses).await {
            Verdict::Done => {
                let now = Instant::now();
                self.names
                    .lock()
                    .unwrap()
                    .extend(add.into_iter().map(|(cross, name)| (cross, (name, now))));
                Ok(SetResponse { response, timestamp: 1, ..SetResponse::default() })
            }
            Verdict::No(words) => Err(Status::failed_precondition(words)),
            Verdict::Gone => Err(Status::unavailable("no power")),
        }
    }
}

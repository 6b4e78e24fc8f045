//! OCP's model of optical circuit switches over gNMI.
//!
//! A change is one `Set` request, which the switch accepts as a whole or not at all: it deletes, then
//! creates, and keeps all connections that are not named. After its answer it works until every connection is
//! made or has failed; the driver keeps reading until then.

pub mod model;
pub mod path;
pub mod proto;

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use serde_json::Value as Json;
use tokio::sync::Notify;
use tokio_stream::StreamExt;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status as Refusal};
use tonic_prost::ProstCodec;

use crate::device::{Device, Fault, Readout, Session, Steps};
use crate::driver::Pending;
use crate::error::Problem;
use crate::layout::{Layout, Wiring};
use crate::wire::{LONGEST, start_of};
use model::Ports;
use path::Leaf;
use proto::{
    CapabilityRequest, CapabilityResponse, Encoding, GetRequest, GetResponse, Path, SetRequest,
    SetResponse, SubscribeAnswer, SubscribeAsk, SubscribeRequest, SubscribeResponse, Subscription,
    SubscriptionList,
};

/// gNMI's port.
pub const PORT: u16 = 9339;

type Metadata = MetadataValue<tonic::metadata::Ascii>;

/// A switch that speaks gNMI.
#[derive(Clone)]
pub struct Gnmi {
    pub endpoint: Endpoint,
    /// Name and password, sent with every request.
    pub login: Option<(Metadata, Metadata)>,
    pub layout: Layout,
}

impl std::fmt::Debug for Gnmi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gnmi").field("address", self.endpoint.uri()).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Talk {
    grpc: tonic::client::Grpc<Channel>,
    device: Gnmi,
    encoding: Encoding,
    ports: Ports,
}

fn fault(asked: &str, refusal: &Refusal) -> Fault {
    let words = start_of(&format!("{:?}: {}", refusal.code(), refusal.message()));
    let problem = match refusal.code() {
        Code::Unauthenticated | Code::PermissionDenied => Problem::Login(words),
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => Problem::Unreachable(words),
        Code::Unknown | Code::Internal | Code::DataLoss | Code::Unimplemented => {
            Problem::Garbled(words)
        }
        _ => Problem::Rejected(words),
    };
    Fault::new(asked, problem)
}

impl Gnmi {
    async fn open(&self) -> Result<Talk, Fault> {
        let lost = |it: tonic::transport::Error| {
            let why = std::error::Error::source(&it).map_or(String::new(), |it| format!(": {it}"));
            Fault::new("connecting", Problem::Unreachable(format!("{it}{why}")))
        };
        let channel = self.endpoint.connect().await.map_err(lost)?;
        let grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(LONGEST);
        let mut talk = Talk {
            grpc,
            device: self.clone(),
            encoding: Encoding::JsonIetf,
            ports: Ports::default(),
        };
        let can: CapabilityResponse = talk.ask("Capabilities", CapabilityRequest {}).await?;
        if !can.supported_encodings.contains(&(Encoding::JsonIetf as i32))
            && can.supported_encodings.contains(&(Encoding::Json as i32))
        {
            talk.encoding = Encoding::Json;
        }
        let leaves = talk.get(&["/components", "/optical-switch"]).await?;
        let garbled = |it| Fault::new("Get /components", Problem::Garbled(it));
        talk.ports = Ports::read(&leaves).map_err(garbled)?;
        if talk.ports.count() == 0 {
            return Err(garbled("no component has an `ocp-ocs-port` with an index".to_owned()));
        }
        if self.layout.wiring == Wiring::Bidirectional && talk.ports.bidirectional == Some(false) {
            let words =
                "the switch carries light one way only, but `wiring` is bidirectional".to_owned();
            return Err(Fault::new("Get /optical-switch", Problem::Config(words)));
        }
        Ok(talk)
    }
}

impl Device for Gnmi {
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>> {
        Box::pin(async { Ok(Box::new(self.open().await?) as Box<dyn Session>) })
    }

    fn listen(&self, nudge: Arc<Notify>) -> Option<Pending<'static, Fault>> {
        let device = self.clone();
        Some(Box::pin(async move {
            match device.open().await {
                Ok(mut talk) => match talk.listen(&nudge).await {
                    Ok(()) => {
                        Fault::new("Subscribe", Problem::Unreachable("it has ended it".to_owned()))
                    }
                    Err(fault) => fault,
                },
                Err(fault) => fault,
            }
        }))
    }
}

impl Talk {
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some((user, password)) = &self.device.login {
            request.metadata_mut().insert("username", user.clone());
            request.metadata_mut().insert("password", password.clone());
        }
        request
    }

    async fn ready(&mut self, asked: &str) -> Result<PathAndQuery, Fault> {
        let lost =
            |it: &dyn std::fmt::Display| Fault::new(asked, Problem::Unreachable(it.to_string()));
        self.grpc.ready().await.map_err(|it| lost(&it))?;
        PathAndQuery::try_from(format!("/gnmi.gNMI/{asked}")).map_err(|it| lost(&it))
    }

    async fn ask<Q, A>(&mut self, asked: &str, message: Q) -> Result<A, Fault>
    where
        Q: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let path = self.ready(asked).await?;
        let request = self.request(message);
        let answer = self.grpc.unary(request, path, ProstCodec::<Q, A>::default()).await;
        answer.map(tonic::Response::into_inner).map_err(|it| fault(asked, &it))
    }

    async fn get(&mut self, paths: &[&str]) -> Result<BTreeMap<Leaf, Json>, Fault> {
        let asked = format!("Get {}", paths.join(", "));
        let garbled = |it| Fault::new(asked.clone(), Problem::Garbled(it));
        let path = paths
            .iter()
            .map(|it| path::parse(it))
            .collect::<Result<Vec<Path>, _>>()
            .map_err(garbled)?;
        let message = GetRequest { path, encoding: self.encoding as i32, ..GetRequest::default() };
        let answer: GetResponse =
            self.ask("Get", message).await.map_err(|it| Fault { asked: asked.clone(), ..it })?;
        path::flatten(&answer.notification).map_err(garbled)
    }

    async fn read_in(&mut self) -> Result<Readout, Fault> {
        let leaves = self.get(&["/connections", "/components"]).await?;
        let read = self.ports.readout(&leaves);
        read.map_err(|it| Fault::new("Get /connections, /components", Problem::Garbled(it)))
    }

    async fn change_in(&mut self, steps: &Steps) -> Result<(), Fault> {
        let asked = format!(
            "Set, delete {} and create {} connections",
            steps.remove.len(),
            steps.add.len()
        );
        let refused = |it| Fault::new(asked.clone(), Problem::Rejected(it));
        let mut message = SetRequest::default();
        for seen in &steps.remove {
            let name = seen.key.as_deref().unwrap_or_default();
            message.delete.push(model::connection_path(name).map_err(refused)?);
        }
        let either_way = self.device.layout.wiring == Wiring::Bidirectional;
        for cross in &steps.add {
            let (input, output) = self.ports.names(*cross, either_way).map_err(refused)?;
            let mut update = model::connection(input, output).map_err(refused)?;
            if self.encoding == Encoding::Json
                && let Some(value) = update.val.as_mut().and_then(|it| it.value.as_mut())
                && let proto::Value::JsonIetf(bytes) = value
            {
                *value = proto::Value::Json(std::mem::take(bytes));
            }
            message.update.push(update);
        }
        let _: SetResponse = self.ask("Set", message).await.map_err(|it| Fault { asked, ..it })?;
        Ok(())
    }

    async fn listen(&mut self, nudge: &Notify) -> Result<(), Fault> {
        const ASKED: &str = "Subscribe";
        let mut subscription = Vec::new();
        for text in ["/connections", "/components/component[name=*]/ocp-ocs-port/state/status"] {
            let path = path::parse(text).map_err(|it| Fault::new(ASKED, Problem::Garbled(it)))?;
            subscription.push(Subscription { path: Some(path), mode: 1, sample_interval: 0 });
        }
        let list = SubscriptionList {
            subscription,
            encoding: self.encoding as i32,
            ..SubscriptionList::default()
        };
        let ask = SubscribeRequest { request: Some(SubscribeAsk::Subscribe(list)) };
        let path = self.ready(ASKED).await?;
        // The stream of requests stays open: its end would end the subscription.
        let asks = tokio_stream::once(ask).chain(tokio_stream::pending());
        let request = self.request(asks);
        let codec = ProstCodec::<SubscribeRequest, SubscribeResponse>::default();
        let answer =
            self.grpc.streaming(request, path, codec).await.map_err(|it| fault(ASKED, &it))?;
        let mut answers = answer.into_inner();
        let mut synced = false;
        loop {
            match answers
                .message()
                .await
                .map_err(|it| fault(ASKED, &it))?
                .and_then(|it| it.response)
            {
                Some(SubscribeAnswer::Sync(_)) => synced = true,
                Some(SubscribeAnswer::Update(_)) if synced => nudge.notify_one(),
                Some(SubscribeAnswer::Update(_)) => {}
                None => return Ok(()),
            }
        }
    }
}

impl Session for Talk {
    fn read(&mut self) -> Pending<'_, Result<Readout, Fault>> {
        Box::pin(self.read_in())
    }

    fn change<'a>(&'a mut self, steps: &'a Steps) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.change_in(steps))
    }
}

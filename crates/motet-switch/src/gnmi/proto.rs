//! gNMI's messages, as far as they are used here, by the field numbers of OpenConfig's `gnmi.proto` (0.10).

#![allow(missing_docs, reason = "names and meanings are gNMI's own")]

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Eq, Message)]
pub struct PathElem {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub key: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Path {
    #[prost(string, tag = "2")]
    pub origin: String,
    #[prost(message, repeated, tag = "3")]
    pub elem: Vec<PathElem>,
    #[prost(string, tag = "4")]
    pub target: String,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Value {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(int64, tag = "2")]
    Int(i64),
    #[prost(uint64, tag = "3")]
    Uint(u64),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(double, tag = "14")]
    Double(f64),
    #[prost(bytes = "vec", tag = "10")]
    Json(Vec<u8>),
    #[prost(bytes = "vec", tag = "11")]
    JsonIetf(Vec<u8>),
    #[prost(string, tag = "12")]
    Ascii(String),
}

#[derive(Clone, PartialEq, Message)]
pub struct TypedValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 14, 10, 11, 12")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Update {
    #[prost(message, optional, tag = "1")]
    pub path: Option<Path>,
    #[prost(message, optional, tag = "3")]
    pub val: Option<TypedValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Notification {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<Update>,
    #[prost(message, repeated, tag = "5")]
    pub delete: Vec<Path>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Encoding {
    Json = 0,
    Bytes = 1,
    Proto = 2,
    Ascii = 3,
    JsonIetf = 4,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct ModelData {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub organization: String,
    #[prost(string, tag = "3")]
    pub version: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CapabilityRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct CapabilityResponse {
    #[prost(message, repeated, tag = "1")]
    pub supported_models: Vec<ModelData>,
    #[prost(enumeration = "Encoding", repeated, tag = "2")]
    pub supported_encodings: Vec<i32>,
    #[prost(string, tag = "3")]
    pub gnmi_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetRequest {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub path: Vec<Path>,
    /// 0 is all, 1 configuration, 2 state.
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(enumeration = "Encoding", tag = "5")]
    pub encoding: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetResponse {
    #[prost(message, repeated, tag = "1")]
    pub notification: Vec<Notification>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SetRequest {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub delete: Vec<Path>,
    #[prost(message, repeated, tag = "3")]
    pub replace: Vec<Update>,
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<Update>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct UpdateResult {
    #[prost(message, optional, tag = "2")]
    pub path: Option<Path>,
    /// 1 delete, 2 replace, 3 update.
    #[prost(int32, tag = "4")]
    pub op: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct SetResponse {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub response: Vec<UpdateResult>,
    #[prost(int64, tag = "4")]
    pub timestamp: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Subscription {
    #[prost(message, optional, tag = "1")]
    pub path: Option<Path>,
    /// 0 as the target likes, 1 on change, 2 sampled.
    #[prost(int32, tag = "2")]
    pub mode: i32,
    #[prost(uint64, tag = "3")]
    pub sample_interval: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct SubscriptionList {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub subscription: Vec<Subscription>,
    /// 0 stream, 1 once, 2 poll.
    #[prost(int32, tag = "5")]
    pub mode: i32,
    #[prost(enumeration = "Encoding", tag = "8")]
    pub encoding: i32,
    #[prost(bool, tag = "9")]
    pub updates_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct SubscribeRequest {
    #[prost(oneof = "SubscribeAsk", tags = "1, 3")]
    pub request: Option<SubscribeAsk>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum SubscribeAsk {
    #[prost(message, tag = "1")]
    Subscribe(SubscriptionList),
    #[prost(message, tag = "3")]
    Poll(CapabilityRequest),
}

#[derive(Clone, PartialEq, Message)]
pub struct SubscribeResponse {
    #[prost(oneof = "SubscribeAnswer", tags = "1, 3")]
    pub response: Option<SubscribeAnswer>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum SubscribeAnswer {
    #[prost(message, tag = "1")]
    Update(Notification),
    #[prost(bool, tag = "3")]
    Sync(bool),
}

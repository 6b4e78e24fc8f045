//! The form of an InfraGraph file, as far as it matters here.

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Infrastructure {
    pub(super) name: String,
    pub(super) devices: Vec<Device>,
    pub(super) links: Vec<Link>,
    pub(super) instances: Vec<Instance>,
    pub(super) edges: Vec<InstanceEdge>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Device {
    pub(super) name: String,
    #[serde(default)]
    pub(super) components: Vec<Component>,
    #[serde(default)]
    pub(super) links: Vec<Link>,
    #[serde(default)]
    pub(super) edges: Vec<DeviceEdge>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Component {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) count: u32,
    pub(super) choice: String,
    pub(super) custom: Option<Custom>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Custom {
    #[serde(rename = "type")]
    pub(super) kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Link {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) physical: Physical,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Physical {
    pub(super) bandwidth: BandwidthOf,
    pub(super) latency: LatencyOf,
}

/// At most one of them is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BandwidthOf {
    pub(super) gigabits_per_second: Option<f64>,
    pub(super) gigabytes_per_second: Option<f64>,
    pub(super) gigatransfers_per_second: Option<f64>,
}

/// At most one of them is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LatencyOf {
    pub(super) ms: Option<f64>,
    pub(super) us: Option<f64>,
    pub(super) ns: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) count: u32,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct InstanceEdge {
    pub(super) ep1: InstanceEnd,
    pub(super) ep2: InstanceEnd,
    #[serde(default)]
    pub(super) scheme: String,
    pub(super) link: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct InstanceEnd {
    pub(super) instance: String,
    pub(super) component: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DeviceEdge {
    pub(super) ep1: DeviceEnd,
    pub(super) ep2: DeviceEnd,
    #[serde(default)]
    pub(super) scheme: String,
    pub(super) link: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct DeviceEnd {
    pub(super) device: Option<String>,
    pub(super) component: String,
}

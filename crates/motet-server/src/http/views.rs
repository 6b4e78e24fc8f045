//! What the HTTP API answers.

use motet_control::controller;
use motet_control::protocol::Registration;
use serde::Serialize;
use utoipa::ToSchema;

use crate::record::Record;

/// Why there is no answer, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    pub problem: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HealthView {
    pub version: &'static str,
    /// The store has failed and not worked since: nothing is granted meanwhile.
    pub store_failing: bool,
    pub jobs: usize,
    pub switches: usize,
    pub switches_up: usize,
    /// Groups that wait for circuits.
    pub queue: usize,
    /// Changes that are under way.
    pub changing: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct JobView {
    pub job: u64,
    pub tenant: u32,
    pub members: usize,
    pub ports: usize,
    pub groups: usize,
}

impl JobView {
    pub(super) fn new(it: &Registration) -> Self {
        let members = it.ports.iter().map(|it| it.0);
        let members = members.chain(it.groups.iter().flat_map(|it| it.members.iter().copied()));
        Self {
            job: it.job.0,
            tenant: it.tenant.0,
            members: members.collect::<std::collections::BTreeSet<_>>().len(),
            ports: it.ports.len(),
            groups: it.groups.len(),
        }
    }
}

/// A group: how many of its circuits are set, and how many members are in which stance.
#[derive(Debug, Serialize, ToSchema)]
pub struct GroupView {
    pub group: u32,
    pub circuits: usize,
    pub set: usize,
    pub queued: bool,
    pub changing: bool,
    pub away: usize,
    pub asking: usize,
    pub holding: usize,
    /// Members that have not reported since the controller started.
    pub unknown: usize,
}

impl From<controller::GroupView> for GroupView {
    fn from(it: controller::GroupView) -> Self {
        Self {
            group: it.group.0,
            circuits: it.circuits,
            set: it.set,
            queued: it.queued,
            changing: it.changing,
            away: it.away,
            asking: it.asking,
            holding: it.holding,
            unknown: it.unknown,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CircuitView {
    pub switch: u32,
    pub a: u32,
    pub b: u32,
    /// Whose ports these are.
    pub job: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SwitchView {
    pub switch: u32,
    pub ports: u32,
    /// `up`, `down`, or `unread` while it is asked for its circuits.
    #[schema(value_type = String)]
    pub contact: controller::Contact,
    pub circuits: usize,
    /// Ports that a change is about.
    pub locked: usize,
    /// Ports that have failed.
    pub failed: Vec<u32>,
}

impl From<controller::SwitchView> for SwitchView {
    fn from(it: controller::SwitchView) -> Self {
        Self {
            switch: it.id.0,
            ports: it.ports,
            contact: it.contact,
            circuits: it.circuits,
            locked: it.locked,
            failed: it.failed,
        }
    }
}

/// A record of the journal, with what it says in words.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordView {
    pub text: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub record: Record,
}

impl From<Record> for RecordView {
    fn from(record: Record) -> Self {
        Self { text: record.entry.to_string(), record }
    }
}

//! The types of the HTTP API's answers.

use motet_control::controller;
use motet_control::protocol::Registration;
use motet_control::shim::Mode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::engine::{Presence, Sight};
use crate::record::Record;

/// The most absent members that are listed.
const MOST_NAMED: usize = 32;

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
    /// What its ranks do: `observe`, `on_demand` or `provisioned`; nothing if they have not said it.
    #[schema(value_type = Option<String>)]
    pub mode: Option<Mode>,
    pub members: usize,
    /// Members that have a connection.
    pub present: usize,
    /// The first members that have none.
    pub absent: Vec<u32>,
    pub ports: usize,
    pub groups: usize,
}

impl JobView {
    pub(super) fn new(it: &Registration, sight: &Sight<'_>) -> Self {
        let Presence { members, here } = sight.presence(it.job);
        let absent = if here < members { sight.absent(it.job, MOST_NAMED) } else { Vec::new() };
        Self {
            job: it.job.0,
            tenant: it.tenant.0,
            mode: it.mode,
            members,
            present: here,
            absent: absent.into_iter().map(|it| it.0).collect(),
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
    /// The members at the two ends.
    pub members: [Option<u32>; 2],
    /// The groups of the job that it is for.
    pub groups: Vec<u32>,
    /// Somebody may be sending over it, so it stays.
    pub in_use: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SwitchView {
    pub switch: u32,
    /// As the configuration calls it.
    pub name: String,
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

impl SwitchView {
    pub(super) fn new(it: controller::SwitchView, names: &[String]) -> Self {
        let name = usize::try_from(it.id.0).ok().and_then(|at| names.get(at));
        Self {
            switch: it.id.0,
            name: name.cloned().unwrap_or_default(),
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

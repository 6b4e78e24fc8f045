//! [`JobSpec`]: a job as people and launchers write it, in JSON: what is registered, and for managers which ranks are where.

use std::collections::BTreeSet;

use motet_control::manager::Rule;
use motet_control::protocol::{GroupId, GroupSpec as Group, JobId, Member, Registration, TenantId};
use motet_control::shim::Mode;
use motet_control::{Circuit, Port, SwitchId};
use motet_units::{Bytes, Rank};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A job's description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    pub job: u64,
    #[serde(default)]
    pub tenant: u32,
    /// Where members are plugged in.
    pub ports: Vec<PortSpec>,
    pub groups: Vec<GroupSpec>,
    /// Calls of AllReduce of up to so many bytes take the host's packet network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<u64>,
    /// How the ranks' shims ask for circuits: `observe`, `on_demand` or `provisioned`.
    #[serde(default)]
    #[schema(value_type = String)]
    pub mode: Mode,
}

/// A switch port that a member is plugged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSpec {
    pub member: u32,
    pub switch: u32,
    pub number: u32,
}

/// A communication group: its members, and the circuits that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    pub id: u32,
    pub members: Vec<u32>,
    pub circuits: Vec<CircuitSpec>,
    /// The ranks of each member, in the order of `members`; only managers and ranks need them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<Vec<u32>>,
    /// What it is for, as in traces of the job: `dp_shard`, `pp` …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A circuit between ports `a` and `b` of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CircuitSpec {
    pub switch: u32,
    pub a: u32,
    pub b: u32,
}

impl From<Circuit> for CircuitSpec {
    fn from(it: Circuit) -> Self {
        let [a, b] = it.numbers();
        Self { switch: it.switch.0, a, b }
    }
}

impl JobSpec {
    /// The registration for the controller; the error's text says what is wrong.
    ///
    /// # Errors
    ///
    /// If a circuit connects a port to itself.
    pub fn registration(&self) -> Result<Registration, String> {
        let group = |it: &GroupSpec| {
            let circuits = it.circuits.iter().map(|circuit| {
                let itself = || format!("group {} connects port {} to itself", it.id, circuit.a);
                Circuit::new(SwitchId(circuit.switch), circuit.a, circuit.b).ok_or_else(itself)
            });
            let members = it.members.iter().copied().map(Member).collect();
            Ok::<_, String>(Group {
                id: GroupId(it.id),
                members,
                circuits: circuits.collect::<Result<_, _>>()?,
            })
        };
        let port = |it: &PortSpec| (Member(it.member), Port::new(it.switch, it.number));
        Ok(Registration {
            job: JobId(self.job),
            tenant: TenantId(self.tenant),
            ports: self.ports.iter().map(port).collect(),
            groups: self.groups.iter().map(group).collect::<Result<_, _>>()?,
            mode: Some(self.mode),
        })
    }

    /// The ranks of a member in each group that reaches beyond it; the error's text says what is wrong.
    ///
    /// # Errors
    ///
    /// If a group does not say which ranks its members have.
    pub fn ranks(&self, member: u32) -> Result<Vec<(GroupId, BTreeSet<Rank>)>, String> {
        let mut all = Vec::new();
        for group in self.groups.iter().filter(|it| it.members.len() > 1) {
            let Some(at) = group.members.iter().position(|it| *it == member) else { continue };
            let ranks = group.ranks.get(at).filter(|it| !it.is_empty()).ok_or_else(|| {
                format!(
                    "group {} does not say which ranks member {member} has; add `ranks`",
                    group.id
                )
            })?;
            all.push((GroupId(group.id), ranks.iter().copied().map(Rank).collect()));
        }
        Ok(all)
    }

    #[must_use]
    pub fn rule(&self) -> Rule {
        Rule { offload: self.offload.map(Bytes::new) }
    }
}

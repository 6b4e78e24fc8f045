//! Converts between protobuf messages and the core's types. Invalid messages are refused with the name of the field.

use motet_control::protocol::{
    GroupId, GroupSpec, JobId, Member, Notice, Refusal, Registration, Reply, Report, Stance,
    TenantId, Word,
};
use motet_control::shim::Mode;
use motet_control::{Circuit, Port, SwitchId};

use super::v1;

/// The most reports in one message.
pub const MOST_REPORTS: usize = 65_536;

/// A message that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Malformed {
    pub field: &'static str,
    pub problem: &'static str,
}

const fn malformed(field: &'static str, problem: &'static str) -> Malformed {
    Malformed { field, problem }
}

impl TryFrom<v1::Circuit> for Circuit {
    type Error = Malformed;

    fn try_from(it: v1::Circuit) -> Result<Self, Malformed> {
        let same = malformed("circuit", "a port cannot be connected to itself");
        Self::new(SwitchId(it.switch), it.a, it.b).ok_or(same)
    }
}

impl From<&Circuit> for v1::Circuit {
    fn from(it: &Circuit) -> Self {
        let [a, b] = it.numbers();
        Self { switch: it.switch.0, a, b }
    }
}

impl TryFrom<v1::RegisterRequest> for Registration {
    type Error = Malformed;

    fn try_from(it: v1::RegisterRequest) -> Result<Self, Malformed> {
        let port = |it: v1::MemberPort| {
            let port = it.port.ok_or(malformed("ports.port", "it is missing"))?;
            Ok((Member(it.member), Port::new(port.switch, port.number)))
        };
        let group = |it: v1::Group| {
            let members = it.members.into_iter().map(Member).collect();
            let circuits = it.circuits.into_iter().map(TryInto::try_into);
            Ok(GroupSpec {
                id: GroupId(it.id),
                members,
                circuits: circuits.collect::<Result<_, _>>()?,
            })
        };
        let mode = match v1::Mode::try_from(it.mode) {
            Ok(v1::Mode::Unspecified) => None,
            Ok(v1::Mode::Observe) => Some(Mode::Observe),
            Ok(v1::Mode::OnDemand) => Some(Mode::OnDemand),
            Ok(v1::Mode::Provisioned) => Some(Mode::Provisioned),
            Err(_) => return Err(malformed("mode", "it is none that this version knows")),
        };
        Ok(Self {
            job: JobId(it.job),
            tenant: TenantId(it.tenant),
            ports: it.ports.into_iter().map(port).collect::<Result<_, _>>()?,
            groups: it.groups.into_iter().map(group).collect::<Result<_, _>>()?,
            mode,
        })
    }
}

impl From<&Registration> for v1::RegisterRequest {
    fn from(it: &Registration) -> Self {
        let port = |(member, port): &(Member, Port)| v1::MemberPort {
            member: member.0,
            port: Some(v1::Port { switch: port.switch.0, number: port.number }),
        };
        let group = |it: &GroupSpec| v1::Group {
            id: it.id.0,
            members: it.members.iter().map(|it| it.0).collect(),
            circuits: it.circuits.iter().map(Into::into).collect(),
        };
        let mode = match it.mode {
            None => v1::Mode::Unspecified,
            Some(Mode::Observe) => v1::Mode::Observe,
            Some(Mode::OnDemand) => v1::Mode::OnDemand,
            Some(Mode::Provisioned) => v1::Mode::Provisioned,
        };
        Self {
            job: it.job.0,
            tenant: it.tenant.0,
            ports: it.ports.iter().map(port).collect(),
            groups: it.groups.iter().map(group).collect(),
            mode: mode.into(),
        }
    }
}

impl TryFrom<v1::Report> for Report {
    type Error = Malformed;

    fn try_from(it: v1::Report) -> Result<Self, Malformed> {
        let stance = match v1::Stance::try_from(it.stance) {
            Ok(v1::Stance::Away) => Stance::Away,
            Ok(v1::Stance::Asking) => Stance::Asking { call: it.call },
            Ok(v1::Stance::Holding) => Stance::Holding,
            Ok(v1::Stance::Unspecified) | Err(_) => {
                return Err(malformed("report.stance", "it is none that this version knows"));
            }
        };
        if it.ended > it.begun {
            return Err(malformed("report.ended", "more calls have ended than begun"));
        }
        if matches!(stance, Stance::Asking { call } if call == 0 || call == u64::MAX) {
            return Err(malformed("report.call", "calls are numbered from 1"));
        }
        if it.begun == u64::MAX || it.version == u64::MAX {
            return Err(malformed("report.begun", "the number is too large"));
        }
        Ok(Self {
            job: JobId(it.job),
            member: Member(it.member),
            group: GroupId(it.group),
            version: it.version,
            stance,
            begun: it.begun,
            ended: it.ended,
            host: it.host,
            run: it.run,
        })
    }
}

impl From<&Report> for v1::Report {
    fn from(it: &Report) -> Self {
        let (stance, call) = match it.stance {
            Stance::Away => (v1::Stance::Away, 0),
            Stance::Asking { call } => (v1::Stance::Asking, call),
            Stance::Holding => (v1::Stance::Holding, 0),
        };
        Self {
            job: it.job.0,
            member: it.member.0,
            group: it.group.0,
            version: it.version,
            stance: stance.into(),
            call,
            begun: it.begun,
            ended: it.ended,
            host: it.host,
            run: it.run,
            traffic: None,
        }
    }
}

impl From<&Notice> for v1::Notice {
    fn from(it: &Notice) -> Self {
        let (word, version, refusal) = match it.what {
            Word::Reply { version, reply: Reply::Grant } => (v1::Word::Grant, version, None),
            Word::Reply { version, reply: Reply::Pass } => (v1::Word::Pass, version, None),
            Word::Reply { version, reply: Reply::Refuse(why) } => {
                (v1::Word::Refuse, version, Some(why.into()))
            }
            Word::Recall => (v1::Word::Recall, 0, None),
            Word::Report => (v1::Word::Report, 0, None),
        };
        let (job, member, group) = (it.job.0, it.member.0, it.group.0);
        Self { job, member, group, word: word.into(), version, refusal }
    }
}

impl TryFrom<v1::Notice> for Notice {
    type Error = Malformed;

    fn try_from(it: v1::Notice) -> Result<Self, Malformed> {
        let reply = |reply| Word::Reply { version: it.version, reply };
        let what = match v1::Word::try_from(it.word) {
            Ok(v1::Word::Grant) => reply(Reply::Grant),
            Ok(v1::Word::Pass) => reply(Reply::Pass),
            Ok(v1::Word::Refuse) => {
                let why = it.refusal.ok_or(malformed("notice.refusal", "it is missing"))?;
                reply(Reply::Refuse(why.try_into()?))
            }
            Ok(v1::Word::Recall) => Word::Recall,
            Ok(v1::Word::Report) => Word::Report,
            Ok(v1::Word::Unspecified) | Err(_) => {
                return Err(malformed("notice.word", "it is none that this version knows"));
            }
        };
        Ok(Self { job: JobId(it.job), member: Member(it.member), group: GroupId(it.group), what })
    }
}

impl From<Refusal> for v1::Refusal {
    fn from(it: Refusal) -> Self {
        use v1::refusal::Why;
        let why = match it {
            Refusal::SwitchDown { switch } => Why::SwitchDown(switch.0),
            Refusal::PortFailed { port } => {
                Why::PortFailed(v1::Port { switch: port.switch.0, number: port.number })
            }
            Refusal::ChangeFailed { attempts } => Why::ChangeFailed(attempts),
            Refusal::AsOthers => Why::AsOthers(true),
            Refusal::Impatient => Why::Impatient(true),
        };
        Self { why: Some(why) }
    }
}

impl TryFrom<v1::Refusal> for Refusal {
    type Error = Malformed;

    fn try_from(it: v1::Refusal) -> Result<Self, Malformed> {
        use v1::refusal::Why;
        Ok(match it.why.ok_or(malformed("refusal.why", "it is missing"))? {
            Why::SwitchDown(switch) => Self::SwitchDown { switch: SwitchId(switch) },
            Why::PortFailed(it) => Self::PortFailed { port: Port::new(it.switch, it.number) },
            Why::ChangeFailed(attempts) => Self::ChangeFailed { attempts },
            Why::AsOthers(_) => Self::AsOthers,
            Why::Impatient(_) => Self::Impatient,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_and_reports_come_through_whole() {
        let words = [
            Word::Recall,
            Word::Report,
            Word::Reply { version: 3, reply: Reply::Grant },
            Word::Reply { version: 4, reply: Reply::Pass },
        ];
        let refusals = [
            Refusal::SwitchDown { switch: SwitchId(2) },
            Refusal::PortFailed { port: Port::new(1, 2) },
            Refusal::ChangeFailed { attempts: 3 },
            Refusal::AsOthers,
            Refusal::Impatient,
        ];
        let refusals = refusals.map(|it| Word::Reply { version: 5, reply: Reply::Refuse(it) });
        for what in words.into_iter().chain(refusals) {
            let notice = Notice { job: JobId(1), member: Member(2), group: GroupId(3), what };
            assert_eq!(Notice::try_from(v1::Notice::from(&notice)), Ok(notice));
        }
        for stance in [Stance::Away, Stance::Asking { call: 8 }, Stance::Holding] {
            let (job, member, group) = (JobId(1), Member(2), GroupId(3));
            let (version, begun, ended, host, run) = (4, 7, 6, 5, 3);
            let report = Report { job, member, group, version, stance, begun, ended, host, run };
            assert_eq!(Report::try_from(v1::Report::from(&report)), Ok(report));
        }
    }

    #[test]
    fn nonsense_is_named() {
        let report = v1::Report { stance: 9, ..v1::Report::default() };
        assert_eq!(Report::try_from(report).unwrap_err().field, "report.stance");
        let report = v1::Report { stance: 1, ended: 1, ..v1::Report::default() };
        assert_eq!(Report::try_from(report).unwrap_err().field, "report.ended");
        let circuit = v1::Circuit { switch: 0, a: 1, b: 1 };
        assert_eq!(Circuit::try_from(circuit).unwrap_err().field, "circuit");
    }
}

//! [`Runs`]: when calls of each group went over circuits, by the manager's own clock, to tell the controller's dashboard.
//!
//! Members that hold circuits send without telling anybody, so only they know when traffic began and ended,
//! which windows are computed from. They say it with the report that gives the circuits up, which needs no
//! extra message.

use std::collections::{BTreeMap, BTreeSet};

use motet_control::protocol::{GroupId, Report, Stance};
use motet_units::Rank;
use tokio::time::Instant;

use crate::api::v1;

/// By group, the calls over circuits since the last report.
#[derive(Debug, Default)]
pub(super) struct Runs(BTreeMap<GroupId, Run>);

/// The calls of one group over circuits since the last report.
#[derive(Debug, Default)]
struct Run {
    /// Ranks that have made a call.
    ranks: BTreeSet<Rank>,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Runs {
    /// A rank's call goes over circuits. The first call begins when the last rank has joined it.
    pub(super) fn goes(&mut self, group: GroupId, rank: Rank, now: Instant) {
        let run = self.0.entry(group).or_default();
        if run.ranks.insert(rank) {
            run.began = Some(now);
        }
    }

    /// A call over circuits has ended on all ranks.
    pub(super) fn ended(&mut self, group: GroupId, now: Instant) {
        if let Some(run) = self.0.get_mut(&group) {
            run.ended = Some(now);
        }
    }

    /// The report as it is sent: with the run of calls that it ends, if there is one.
    pub(super) fn with(&mut self, report: &Report, now: Instant) -> v1::Report {
        let over = report.stance != Stance::Holding && report.begun == report.ended;
        let run = if over { self.0.remove(&report.group) } else { None };
        let ago = |at: Instant| {
            u64::try_from(now.saturating_duration_since(at).as_micros()).unwrap_or(u64::MAX)
        };
        let traffic = run.and_then(|it| {
            let (began, ended) = it.began.zip(it.ended)?;
            Some(v1::Traffic { began_us_ago: ago(began), ended_us_ago: ago(ended) })
        });
        v1::Report { traffic, ..report.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_control::protocol::{JobId, Member};
    use std::time::Duration;

    #[test]
    fn a_run_is_told_once_when_circuits_are_given_up() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (job, member, group) = (JobId(1), Member(0), GroupId(3));
        let (version, stance, host) = (1, Stance::Holding, 0);
        let holds =
            Report { job, member, group, version, stance, begun: 2, ended: 2, host, run: 2 };
        let mut runs = Runs::default();
        assert_eq!(runs.with(&holds, at(0)).traffic, None);
        runs.goes(group, Rank(0), at(10));
        runs.goes(group, Rank(1), at(15));
        runs.ended(group, at(20));
        // The second call of the run.
        runs.goes(group, Rank(0), at(21));
        runs.goes(group, Rank(1), at(22));
        runs.ended(group, at(30));
        assert_eq!(runs.with(&holds, at(40)).traffic, None);
        let busy = Report { stance: Stance::Away, ended: 1, ..holds };
        assert_eq!(runs.with(&busy, at(40)).traffic, None);
        let away = Report { stance: Stance::Away, ..holds };
        let told = v1::Traffic { began_us_ago: 85_000, ended_us_ago: 70_000 };
        assert_eq!(runs.with(&away, at(100)).traffic, Some(told));
        assert_eq!(runs.with(&away, at(100)).traffic, None);
    }
}

//! [`check`]: frames that two ranks send to their manager in turn.

use std::collections::{BTreeMap, BTreeSet};

use motet_control::Manager;
use motet_control::manager::{Rule, Said};
use motet_control::protocol::{GroupId, JobId, Member, Notice, Refusal, Reply, Stance, Word};
use motet_control::shim::Tell;
use motet_control::wire::Frame;
use motet_units::{Bytes, Rank};

/// Checks that every frame that can be read is written as the same bytes, and that no rank is told to start a
/// call that it has not made, or one call twice. The input counts as understood if its first frame can be
/// read.
///
/// # Errors
///
/// If one of these properties does not hold.
pub fn check(bytes: &[u8]) -> Result<bool, String> {
    let ranks = BTreeSet::from([Rank(0), Rank(1)]);
    let groups = (0..2).map(|it| (GroupId(it), ranks.clone()));
    let rule = Rule { offload: Some(Bytes::new(1000)) };
    let mut manager = Manager::new(JobId(1), Member(0), groups, rule);
    let mut waiting: BTreeMap<(Rank, GroupId), u64> = BTreeMap::new();
    let (mut rest, mut understood) = (bytes, false);
    for rank in [Rank(0), Rank(1)].into_iter().cycle() {
        let Ok(Some((frame, length))) = Frame::read(rest) else { break };
        understood = true;
        let mut again = Vec::new();
        frame.write(&mut again);
        if rest.get(..length) != Some(&again) {
            return Err(format!("{frame:?} comes back as {again:?}"));
        }
        rest = rest.get(length..).unwrap_or_default();
        let Frame::Tell(tell) = frame else { continue };
        if let Tell::Call { call, .. } = tell {
            *waiting.entry((rank, call.group)).or_default() += 1;
        }
        let mut said = manager.tell(rank, tell);
        while let Some(it) = said.pop() {
            match it {
                Said::Go { rank, group, .. } => {
                    let count = waiting.get_mut(&(rank, group)).filter(|it| **it > 0);
                    *count.ok_or_else(|| format!("{rank} goes in {group} without a call"))? -= 1;
                }
                Said::Report(report) if matches!(report.stance, Stance::Asking { .. }) => {
                    // A controller that grants and refuses in turn, and recalls what it has granted.
                    let refuse = Reply::Refuse(Refusal::Impatient);
                    let version = report.version;
                    let reply = if version % 3 == 0 { refuse } else { Reply::Grant };
                    let notice = |what| Notice {
                        job: report.job,
                        member: report.member,
                        group: report.group,
                        what,
                    };
                    said.extend(manager.hear(&notice(Word::Reply { version, reply })));
                    if version % 5 == 0 {
                        said.extend(manager.hear(&notice(Word::Recall)));
                    }
                }
                Said::Report(_) => {}
            }
        }
    }
    Ok(understood)
}

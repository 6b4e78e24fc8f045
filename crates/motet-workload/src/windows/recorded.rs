//! The calls of a recording that are on a rail.

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Rank};

use super::Call;
use crate::recording::Recording;
use crate::simulate::Placement;

impl Recording {
    /// The calls on one rail, by the placement of ranks; of all ranks, or only those that `rank` takes part in.
    ///
    /// A call starts when its slowest rank starts and ends when its last rank ends. Its class is the
    /// parallelism of its group or, if that is not known, the group's description or name.
    #[must_use]
    pub fn rail_calls(&self, placement: Placement, rail: u32, rank: Option<Rank>) -> Vec<Call> {
        let mut calls = Vec::new();
        for call in self.calls() {
            let group = self.group(call);
            // A message involves only its two ends.
            let ranks: Vec<Rank> = match call.kind {
                CollectiveKind::SendRecv => call.seen.iter().map(|it| it.rank).collect(),
                _ => group.members.clone(),
            };
            let there = ranks.iter().any(|it| placement.rail(*it) == rail);
            let asked = rank.is_none_or(|it| ranks.contains(&it));
            // If only one end of a message was recorded, whether it leaves the domain is judged by its whole
            // group.
            let reach = if ranks.len() > 1 { &ranks } else { &group.members };
            if !there || !asked || !placement.reach(reach).on_rail() {
                continue;
            }
            let class = match group.parallelism {
                Some(it) => it.name().to_owned(),
                None if group.description.is_empty() => group.name.clone(),
                None => group.description.clone(),
            };
            let bytes = match call.kind {
                CollectiveKind::AllGather => {
                    Bytes::new(call.bytes.get().div_ceil(group.members.len().max(1) as u64))
                }
                _ => call.bytes,
            };
            let (start, end) = (call.joined(), call.span().end);
            let stages = Vec::new();
            calls.push(Call { class, stages, kind: call.kind, bytes, start, end });
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use motet_units::Duration;

    use super::*;
    use crate::recording::{Clocks, LoggedCall, LoggedGroup, LoggedSpan, RankLog};
    use crate::windows::Windows;

    /// Two servers of two: DP over the rails, TP inside. Rank 2 is late to the first AllGather.
    #[test]
    fn rails_see_what_leaves_servers() {
        let log = |rank: u32, late: i64| {
            let (other, peer) = (rank ^ 1, rank ^ 2);
            let group = |description: &str, mut members: Vec<u32>| {
                members.sort_unstable();
                LoggedGroup {
                    name: format!("{description}{}", members[0]),
                    description: description.to_owned(),
                    size: Some(2),
                    members: Some(members.into_iter().map(Rank).collect()),
                }
            };
            let call = |group, kind, start: i64, end: i64| LoggedCall {
                group,
                kind,
                bytes: Bytes::new(1000),
                span: LoggedSpan { start, end },
                stream: group as u64,
                sequence: None,
                ends: None,
            };
            RankLog {
                rank,
                world: Some(4),
                groups: vec![
                    group("mesh_dp_shard", vec![rank, peer]),
                    group("mesh_tp", vec![rank, other]),
                    group("something", vec![rank, peer]),
                ],
                calls: vec![
                    call(0, CollectiveKind::AllGather, late, 100),
                    call(1, CollectiveKind::AllReduce, 120, 130),
                    call(2, CollectiveKind::AllReduce, 400, 500),
                ],
                ..RankLog::default()
            }
        };
        let logs = vec![log(0, 0), log(1, 0), log(2, 60), log(3, 60)];
        let recording = Recording::join(logs, Clocks::Shared).unwrap();
        let placement = Placement { domain: 2 };
        let calls = recording.rail_calls(placement, 0, None);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls[0].bytes.get(), calls[1].bytes.get()), (500, 1000));
        assert_eq!(calls[0].end.since(calls[0].start), Duration::from_ns(40));
        let windows = Windows::of(&calls);
        let lengths: Vec<Duration> = windows.all().map(|it| it.length()).collect();
        assert_eq!(lengths, [Duration::from_ns(300)]);
        assert_eq!(recording.rail_calls(placement, 0, Some(Rank(1))), []);
        assert_eq!(recording.rail_calls(placement, 1, Some(Rank(1))).len(), 2);
        // All four in one scale-up domain: nothing is on a rail.
        assert_eq!(recording.rail_calls(Placement { domain: 4 }, 0, None), []);
    }
}

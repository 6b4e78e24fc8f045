//! Windows: the idle time on a rail between the traffic of one phase and that of the next (Opus, §3.1).
//!
//! Opus defines windows between phases of different parallelisms. The controller does not know what a group
//! is for; it knows ports, and circuits change group by group. So on each rail the window before a phase of a
//! group lasts from the last end of what *other* groups sent over the group's ports there to the first start
//! of the group's own traffic. If the two overlap, the window is zero, as in `motet rails windows`.

use std::collections::{BTreeMap, BTreeSet};

use motet_control::protocol::{GroupId, GroupSpec};
use motet_control::{Circuit, Port};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Moment, Phase, Traffic};

/// The time between two phases on a rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Window {
    /// The switch that is the rail.
    pub rail: u32,
    /// The groups whose traffic came before, on ports of the one after.
    #[schema(value_type = Vec<u32>)]
    pub before: Vec<GroupId>,
    #[schema(value_type = u32)]
    pub after: GroupId,
    /// The last end of what came before.
    pub from_us: Moment,
    /// The first start of what came after.
    pub to_us: Moment,
    pub length_us: u64,
    /// For how long both ran.
    pub overlap_us: u64,
}

/// The windows between these phases of a job with these groups, in the order of the starts of what follows them. Phases whose
/// traffic is not known have none.
#[must_use]
pub fn windows(phases: &[Phase], groups: &[GroupSpec]) -> Vec<Window> {
    let ports: BTreeMap<GroupId, BTreeSet<Port>> = groups
        .iter()
        .map(|it| (it.id, it.circuits.iter().flat_map(Circuit::ends).collect()))
        .collect();
    let mut runs: Vec<(GroupId, Traffic)> =
        phases.iter().filter_map(|it| Some((it.group, it.traffic?))).collect();
    runs.sort_by_key(|(group, it)| (it.began_us, it.ended_us, *group));
    // Who used a port last, and until when.
    let mut last: BTreeMap<Port, (GroupId, Moment)> = BTreeMap::new();
    let mut all = Vec::new();
    for (group, traffic) in runs {
        let Some(mine) = ports.get(&group) else { continue };
        let mut rails: BTreeMap<u32, Vec<(GroupId, Moment)>> = BTreeMap::new();
        for port in mine {
            if let Some(before) = last.get(port).filter(|it| it.0 != group) {
                rails.entry(port.switch.0).or_default().push(*before);
            }
        }
        for (rail, before) in rails {
            let groups: BTreeSet<GroupId> = before.iter().map(|it| it.0).collect();
            let from = before.iter().map(|it| it.1).max().unwrap_or(0);
            let to = traffic.began_us;
            all.push(Window {
                rail,
                before: groups.into_iter().collect(),
                after: group,
                from_us: from,
                to_us: to,
                length_us: to.saturating_sub(from),
                overlap_us: from.min(traffic.ended_us).saturating_sub(to),
            });
        }
        for port in mine {
            let entry = last.entry(*port).or_insert((group, traffic.ended_us));
            if entry.1 <= traffic.ended_us {
                *entry = (group, traffic.ended_us);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Outcome;
    use motet_control::SwitchId;
    use motet_control::protocol::Member;

    /// Groups 0 (ports 0, 1) and 2 (ports 2, 3) are of one parallelism, 1 (ports 1, 2) of another; on two rails.
    fn groups() -> Vec<GroupSpec> {
        let group = |id: u32, a: u32| GroupSpec {
            id: GroupId(id),
            members: vec![Member(a), Member(a + 1)],
            circuits: (0..2).filter_map(|rail| Circuit::new(SwitchId(rail), a, a + 1)).collect(),
        };
        vec![group(0, 0), group(1, 1), group(2, 2)]
    }

    fn ran(group: u32, began_us: u64, ended_us: u64) -> Phase {
        let traffic = Some(Traffic { began_us, ended_us });
        let (group, outcome) = (GroupId(group), Outcome::Held);
        Phase { group, asked: None, held_us: None, ended_us: None, traffic, outcome }
    }

    fn lengths(phases: &[Phase]) -> Vec<(u32, u32, u64, u64)> {
        let all = windows(phases, &groups());
        all.iter().map(|it| (it.rail, it.after.0, it.length_us, it.overlap_us)).collect()
    }

    /// Worked out by hand from the definition: first start of what follows, less the last end of what came before.
    #[test]
    fn windows_are_the_papers() {
        let phases = [ran(0, 0, 10), ran(2, 5, 20), ran(1, 50, 60), ran(0, 61, 70)];
        // Group 1 has a port of 0 and one of 2, the later of which ended at 20.
        assert_eq!(lengths(&phases), [(0, 1, 30, 0), (1, 1, 30, 0), (0, 0, 1, 0), (1, 0, 1, 0)]);
        let first = windows(&phases, &groups()).remove(0);
        assert_eq!(
            (first.before, first.from_us, first.to_us),
            (vec![GroupId(0), GroupId(2)], 20, 50)
        );
    }

    #[test]
    fn a_group_that_goes_on_has_no_window_and_neither_have_other_ports() {
        assert_eq!(lengths(&[ran(0, 0, 10), ran(0, 30, 40), ran(2, 60, 70)]), []);
        assert_eq!(lengths(&[]), []);
        // Nobody knows when this one sent.
        let silent = Phase { traffic: None, ..ran(1, 0, 0) };
        assert_eq!(lengths(&[ran(0, 0, 10), silent, ran(0, 30, 40)]), []);
        assert_eq!(lengths(&[ran(9, 0, 1)]), []);
    }

    #[test]
    fn where_traffic_overlaps_the_window_is_zero() {
        let phases = [ran(0, 0, 30), ran(1, 20, 25), ran(0, 40, 50)];
        // What ended last on the shared port is still group 0's first traffic, so it goes on.
        assert_eq!(lengths(&phases), [(0, 1, 0, 5), (1, 1, 0, 5)]);
    }

    /// In whatever order phases ended.
    #[test]
    fn order_does_not_matter() {
        let mut phases = [ran(0, 0, 10), ran(2, 5, 20), ran(1, 50, 60), ran(0, 61, 70)];
        let forwards = lengths(&phases);
        phases.reverse();
        assert_eq!(lengths(&phases), forwards);
    }
}

//! Finds which groups of different ranks' logs are the same, and which of their ranks have no log.
//!
//! Groups are identified by name *and* members, because PyTorch gives parallel groups the same name if they
//! were split off together. If a log truncates its list of members, the members are the ranks whose logs have
//! a group of that name and size.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::error::{JoinError, Missing};
use super::{LoggedGroup, RankLog, RecordedGroup, parallelism};

/// For each log and each of its groups, the group's number among all groups; `None` if the rank makes no call
/// in it.
pub(super) type Numbers = Vec<Vec<Option<usize>>>;

/// All groups in which some rank makes a call, and the numbers of each log's groups among them.
pub(super) fn groups(logs: &[RankLog]) -> Result<(Vec<RecordedGroup>, Numbers), JoinError> {
    let used: Vec<BTreeSet<usize>> =
        logs.iter().map(|log| log.calls.iter().map(|it| it.group).collect()).collect();
    // Ranks that have a group of a name, for lists of members that are cut short.
    let mut by_name: BTreeMap<(&str, Option<u32>), Vec<Rank>> = BTreeMap::new();
    for (log, used) in logs.iter().zip(&used) {
        for group in used.iter().filter_map(|it| log.groups.get(*it)) {
            let ranks = by_name.entry((&group.name, group.size)).or_default();
            if ranks.last() != Some(&Rank(log.rank)) {
                ranks.push(Rank(log.rank));
            }
        }
    }
    let seen: BTreeSet<Rank> = logs.iter().map(|it| Rank(it.rank)).collect();
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    let mut places: BTreeMap<(String, Vec<Rank>), usize> = BTreeMap::new();
    let mut numbers = Vec::new();
    for (log, used) in logs.iter().zip(&used) {
        let mut of_log = vec![None; log.groups.len()];
        for place in used.iter().filter(|it| **it < log.groups.len()) {
            let group = &log.groups[*place];
            let found =
                by_name.get(&(group.name.as_str(), group.size)).map_or(&[][..], Vec::as_slice);
            let members = group.members.clone().unwrap_or_else(|| found.to_vec());
            let number = *places.entry((group.name.clone(), members)).or_insert_with_key(|key| {
                missing.extend(lacking(group, &key.1, &seen));
                all.push(RecordedGroup {
                    name: group.name.clone(),
                    description: group.description.clone(),
                    members: key.1.clone(),
                    parallelism: parallelism::described(&group.description)
                        .or_else(|| parallelism::described(&group.name)),
                    is_guessed: false,
                });
                all.len() - 1
            });
            of_log[*place] = Some(number);
        }
        numbers.push(of_log);
    }
    if missing.is_empty() { Ok((all, numbers)) } else { Err(JoinError::Missing(missing)) }
}

/// The ranks of a group that have no log, if there are any.
fn lacking(group: &LoggedGroup, members: &[Rank], seen: &BTreeSet<Rank>) -> Option<Missing> {
    let ranks: Vec<Rank> = members.iter().copied().filter(|it| !seen.contains(it)).collect();
    let size = group.size.map_or(members.len(), |it| it as usize).max(members.len());
    let count = ranks.len() + (size - members.len());
    let name = if group.name.is_empty() { &group.description } else { &group.name };
    (count > 0).then(|| Missing { group: name.clone(), size, ranks, count })
}

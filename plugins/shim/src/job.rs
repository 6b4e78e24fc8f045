//! The job file, as far as a rank needs it: `MOTET_SHIM_JOB`, the same file that `motet manager` is given
//! (docs/controller.md).

use std::collections::BTreeSet;
use std::path::Path;

use motet_control::{GroupId, JobId};
use serde::Deserialize;

/// See the [module](self). Keys that only others need are passed over.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Job {
    pub(crate) job: u64,
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    id: u32,
    /// The ranks of each of its members.
    #[serde(default)]
    ranks: Vec<Vec<u32>>,
    #[serde(default)]
    name: String,
}

impl Job {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|it| format!("cannot read {}: {it}", path.display()))?;
        serde_json::from_str(&text).map_err(|it| {
            format!("{}: {it}; it should be the file that `motet manager` has", path.display())
        })
    }

    pub(crate) const fn id(&self) -> JobId {
        JobId(self.job)
    }

    /// The group of just these ranks, and its name.
    pub(crate) fn group(&self, ranks: &BTreeSet<u32>) -> Option<(GroupId, &str)> {
        let same =
            |it: &&Group| it.ranks.iter().flatten().copied().collect::<BTreeSet<_>>() == *ranks;
        self.groups.iter().find(same).map(|it| (GroupId(it.id), it.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_their_ranks() {
        let text = r#"{"job": 7, "ports": [], "mode": "provisioned",
            "groups": [{"id": 3, "members": [0, 1], "circuits": [], "ranks": [[0], [1]], "name": "dp_shard"},
                       {"id": 4, "members": [0, 2], "circuits": [], "ranks": [[0], [2]]}]}"#;
        let job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(job.id(), JobId(7));
        let group = |ranks: &[u32]| job.group(&ranks.iter().copied().collect());
        assert_eq!(group(&[1, 0]), Some((GroupId(3), "dp_shard")));
        assert_eq!(group(&[0, 2]), Some((GroupId(4), "")));
        assert_eq!(group(&[0, 1, 2]), None);
        assert!(Job::read(Path::new("nowhere.json")).unwrap_err().contains("nowhere.json"));
    }
}

//! [`Record`]: an entry of the journal, which records in order what the controller did and when.

use motet_control::controller::ChangeId;
use motet_control::journal::Event;
use serde::{Deserialize, Serialize};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the journal, without gaps. This is the order in which events happened, whatever clocks
    /// say.
    pub number: u64,
    /// Milliseconds since 1970 by the host's clock, for people. Nothing depends on it, and it may jump.
    pub time: u64,
    #[serde(flatten)]
    pub entry: Entry,
}

/// What was done, by the controller or by the service around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    Controller(Event),
    Service(Service),
}

/// What happened to the service itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Service {
    /// It has started, with the jobs in the store. Changes that had begun but not ended when the last service
    /// stopped may be done completely, partly or not at all; so the switches are read before anything else.
    Started { version: String, jobs: u64, unfinished: Vec<ChangeId> },
    /// It was told to stop. Circuits stay as they are.
    Stopped,
    /// Members of a job were disconnected for too long, so the job counts as ended.
    Abandoned { job: motet_control::JobId },
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Controller(it) => it.fmt(f),
            Self::Service(Service::Started { version, jobs, unfinished }) => {
                write!(f, "version {version} starts with {jobs} jobs")?;
                if unfinished.is_empty() {
                    return Ok(());
                }
                let all: Vec<String> = unfinished.iter().map(ToString::to_string).collect();
                write!(f, "; {} had not ended, so the switches say what came of it", all.join(", "))
            }
            Self::Service(Service::Stopped) => write!(f, "stops; circuits stay as they are"),
            Self::Service(Service::Abandoned { job }) => {
                write!(f, "members of {job} are gone for too long; it counts as ended")
            }
        }
    }
}

/// Which changes had begun and have no end among these records.
pub(crate) fn unfinished(records: &[Record]) -> Vec<ChangeId> {
    let mut open = std::collections::BTreeSet::new();
    for record in records {
        match &record.entry {
            Entry::Controller(Event::Begun { change, .. }) => {
                open.insert(*change);
            }
            Entry::Controller(
                Event::Done { change }
                | Event::RolledBack { change }
                | Event::Failed { change, .. },
            ) => {
                open.remove(change);
            }
            // Changes that an earlier run left unfinished were already recorded at this start.
            Entry::Service(Service::Started { .. }) => open.clear(),
            _ => {}
        }
    }
    open.into_iter().collect()
}

/// The number of the last change among these records.
pub(crate) fn last_change(records: &[Record]) -> Option<ChangeId> {
    let begun = records.iter().filter_map(|it| match it.entry {
        Entry::Controller(Event::Begun { change, .. }) => Some(change),
        _ => None,
    });
    begun.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_flat_json_and_read_back() {
        let change = ChangeId(4);
        let entry = Entry::Controller(Event::Committed { change });
        let record = Record { number: 7, time: 1, entry };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text, r#"{"number":7,"time":1,"event":"committed","change":4}"#);
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        let entry = Entry::Service(Service::Stopped);
        let record = Record { number: 8, time: 1, entry };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn changes_without_an_end_are_named() {
        let begun = |change| Event::Begun {
            change: ChangeId(change),
            job: None,
            groups: Vec::new(),
            delete: Vec::new(),
            create: Vec::new(),
        };
        let events = [begun(0), begun(1), Event::Done { change: ChangeId(0) }];
        let records: Vec<Record> = (0..)
            .zip(events)
            .map(|(number, it)| Record { number, time: 0, entry: Entry::Controller(it) })
            .collect();
        assert_eq!(unfinished(&records), [ChangeId(1)]);
        assert_eq!(last_change(&records), Some(ChangeId(1)));
    }
}

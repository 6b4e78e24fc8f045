//! [`State`]: the file by which `up`, `run` and `down` find a testbed, and how they know whether it is still there.
//!
//! Process numbers are used again. So the file also says when the keeper started and in which boot of the machine, and a keeper
//! counts as there only if all three agree ([`State::is_of`]). A file whose keeper is gone is left over from one that was killed. The
//! devices went with the keeper; to be cleaned up remain the file, and processes that were started on the hosts ([`State::mark`]).

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::error::TestbedError;

/// The version of the file.
const VERSION: u32 = 1;

/// A process, as surely as the system can name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// When it started, in the system's ticks since the machine did.
    pub started: u64,
}

/// A host, as a rank needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    pub name: String,
    pub address: Ipv4Addr,
    /// The file descriptor by which the keeper holds its namespace open.
    pub namespace: u32,
}

/// A testbed that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub version: u32,
    /// The scenario file, as it was given.
    pub scenario: String,
    pub keeper: ProcessId,
    /// The id of the machine's boot in which the keeper runs.
    pub boot: String,
    /// By rank.
    pub hosts: Vec<HostState>,
    /// The numbers of all namespaces, by which processes in them are found.
    pub namespaces: Vec<u64>,
    /// Whether the kernel shapes its WAN links; the keeper does otherwise.
    #[serde(default)]
    pub kernel_links: bool,
    /// TCP's congestion control on its hosts, as Linux calls it.
    #[serde(default)]
    pub congestion: String,
}

impl State {
    #[must_use]
    pub fn new(
        scenario: &str,
        keeper: ProcessId,
        boot: &str,
        hosts: Vec<HostState>,
        namespaces: Vec<u64>,
    ) -> Self {
        let (scenario, boot) = (scenario.to_owned(), boot.to_owned());
        let (kernel_links, congestion) = (false, String::new());
        let version = VERSION;
        Self { version, scenario, keeper, boot, hosts, namespaces, kernel_links, congestion }
    }

    /// The same with links that the kernel shapes, or not.
    #[must_use]
    pub fn with_kernel_links(self, kernel_links: bool) -> Self {
        Self { kernel_links, ..self }
    }

    /// The same with this congestion control.
    #[must_use]
    pub fn with_congestion(self, congestion: String) -> Self {
        Self { congestion, ..self }
    }

    /// What tells this testbed's processes from another's, within one boot of the machine.
    #[must_use]
    pub fn mark(&self) -> String {
        format!("{}-{}", self.keeper.pid, self.keeper.started)
    }

    /// Whose its WAN links are, as a scenario says it.
    #[must_use]
    pub const fn links(&self) -> &'static str {
        if self.kernel_links { "kernel" } else { "own" }
    }

    /// Reads the text of a state file.
    pub fn read(text: &str) -> Result<Self, TestbedError> {
        let state: Self = serde_json::from_str(text)
            .map_err(|it| TestbedError::Unreadable(format!("not the state of a testbed: {it}")))?;
        if state.version != VERSION {
            let problem =
                format!("the state of a testbed is of version {}, not {VERSION}", state.version);
            return Err(TestbedError::Unreadable(problem));
        }
        Ok(state)
    }

    /// The text of a state file.
    pub fn write(&self) -> Result<String, TestbedError> {
        serde_json::to_string_pretty(self).map_err(|it| TestbedError::Unreadable(it.to_string()))
    }

    /// Whether the keeper is there, given the id of the present boot and when the process that now has the keeper's number started.
    #[must_use]
    pub fn is_of(&self, boot: &str, started: Option<u64>) -> bool {
        self.boot == boot && started == Some(self.keeper.started)
    }
}

/// The kernel's `PF_EXITING`.
const EXITING: u32 = 4;

/// When a process started, if it has not ended, from the text of its `/proc/PID/stat`. The command, which comes second, may hold anything but is in parentheses.
#[must_use]
pub fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    // A zombie is still listed, and a process that is about to end has already closed its files.
    let ended = rest.trim_start().starts_with(['Z', 'X']);
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let flags: u32 = words.get(6)?.parse().ok()?;
    words.get(19).filter(|_| !ended && flags & EXITING == 0)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let host =
            HostState { name: "a0".into(), address: Ipv4Addr::new(10, 100, 0, 1), namespace: 7 };
        State::new("two.toml", ProcessId { pid: 77, started: 1234 }, "b", vec![host], vec![4026])
    }

    #[test]
    fn a_state_reads_back_and_others_are_refused() {
        let text = state().write().unwrap();
        assert_eq!(State::read(&text).unwrap(), state());
        assert!(State::read(&text.replace("\"version\": 1", "\"version\": 2")).is_err());
        assert!(State::read("{}").is_err());
        let state = state().with_kernel_links(true);
        assert_eq!(State::read(&state.write().unwrap()).unwrap().links(), "kernel");
    }

    #[test]
    fn a_keeper_is_there_only_if_all_agrees() {
        assert!(state().is_of("b", Some(1234)));
        // Gone; another process with its number; another run of the machine.
        assert!(!state().is_of("b", None));
        assert!(!state().is_of("b", Some(1235)));
        assert!(!state().is_of("c", Some(1234)));
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let rest = (4..=21).map(|it| it.to_string()).collect::<Vec<_>>().join(" ");
        for name in ["motet", "a) b (c", ") 1 2 3"] {
            let stat = format!("77 ({name}) S {rest} 987654 23 24");
            assert_eq!(started(&stat), Some(987_654));
        }
        assert_eq!(started(&format!("77 (motet) Z {rest} 987654 23 24")), None);
        let about_to_end = rest.replace(" 9 ", " 13 ");
        assert_eq!(started(&format!("77 (motet) S {about_to_end} 987654 23 24")), None);
        assert_eq!((started(""), started("77 (x) S 1")), (None, None));
    }
}

//! The journal of a plan in the making, as text: a line for every task that has been tuned.
//!
//! ```text
//! CHECKSUM {"motet_journal":3,"fingerprint":"…"}
//! CHECKSUM {"collective":"allgather","size_bytes":1024,…}
//! ```
//!
//! The fingerprint is of everything that tuning depends on: a journal of another plan is none. Each
//! line has the checksum of its own text, because the writer may be killed at any moment and a line
//! that was half written must not become half a result. What follows the first line that is not whole
//! is not believed either; whoever goes on cuts it off first. Nothing is read or written here.

use motet_runtime::Checksum;
use serde::{Deserialize, Serialize};

use super::Tuned;

const VERSION: u32 = 3;

#[derive(Serialize, Deserialize)]
struct Header {
    motet_journal: u32,
    fingerprint: String,
}

/// What is left of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub tuned: Vec<Tuned>,
    /// How many bytes of it are whole lines.
    pub whole: u64,
}

/// The first line of a journal.
#[must_use]
pub fn header(fingerprint: &str) -> String {
    sealed(&Header { motet_journal: VERSION, fingerprint: fingerprint.to_owned() })
}

/// The line of a task.
#[must_use]
pub fn line(tuned: &Tuned) -> String {
    sealed(tuned)
}

fn sealed(value: &impl Serialize) -> String {
    // Text, numbers and lists of them are always JSON.
    let text = serde_json::to_string(value).unwrap_or_default();
    format!("{} {text}\n", Checksum::of(text.as_bytes()))
}

/// Reads a journal; `None` if it is not one of the plan with this fingerprint.
#[must_use]
pub fn read(journal: &[u8], fingerprint: &str) -> Option<Known> {
    let mut lines = journal.split_inclusive(|it| *it == b'\n');
    let first = lines.next()?;
    let header: Header = opened(first)?;
    if header.motet_journal != VERSION || header.fingerprint != fingerprint {
        return None;
    }
    let mut known = Known { tuned: Vec::new(), whole: first.len() as u64 };
    for line in lines {
        let Some(tuned) = opened(line) else { break };
        known.tuned.push(tuned);
        known.whole += line.len() as u64;
    }
    Some(known)
}

fn opened<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Option<T> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (checksum, text) = line.split_once(' ')?;
    (checksum == Checksum::of(text.as_bytes()).to_string()).then_some(())?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_nccl::{Basis, Protocol};

    use super::*;
    use crate::plan::{Pick, Runtime};

    fn tuned(size_bytes: u64) -> Tuned {
        let pick = Pick {
            runtime: Runtime::Msccl,
            way: "ring".to_owned(),
            algorithm: None,
            protocol: Protocol::Simple,
            channels: 4,
            asked: false,
            instances: 4,
            packed: false,
            blocks: 4,
            time_ps: 1000,
            basis: Basis::Kernels,
        };
        Tuned {
            collective: CollectiveKind::AllGather,
            size_bytes,
            bound_ps: 900,
            program: Some(pick.clone()),
            pick,
            mscclpp: None,
            nccl: None,
            nccl_best: None,
            msccl: None,
            sketch_only: None,
            knobs_only: None,
            trials: 7,
        }
    }

    #[test]
    fn what_is_whole_comes_back_wherever_it_is_cut() {
        let all = [tuned(1024), tuned(2048)];
        let lines = [header("mine"), line(&all[0]), line(&all[1])];
        let text = lines.concat().into_bytes();
        assert_eq!(read(&text, "other"), None);
        let ends = [1, 2, 3].map(|it| lines[..it].concat().len());
        for cut in 0..=text.len() {
            let known = read(&text[..cut], "mine");
            let whole = ends.iter().rposition(|it| *it <= cut);
            let expected =
                whole.map(|it| Known { tuned: all[..it].to_vec(), whole: ends[it] as u64 });
            assert_eq!(known, expected, "{cut}");
        }
    }

    #[test]
    fn a_changed_byte_ends_it() {
        let lines = [header("mine"), line(&tuned(1024)), line(&tuned(2048))];
        let text = lines.concat().into_bytes();
        for at in lines[0].len()..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            let known = read(&changed, "mine").unwrap();
            let line = usize::from(at >= lines[0].len() + lines[1].len());
            assert_eq!(known.tuned.len(), line, "{at}");
        }
    }
}

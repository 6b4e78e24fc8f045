//! The journal of a plan in the making, as text: a line for every task that has been tuned, or measured.
//!
//! ```text
//! CHECKSUM {"motet_journal":4,"fingerprint":"…"}
//! CHECKSUM {"collective":"allgather","size_bytes":1024,…}
//! ```
//!
//! The fingerprint covers everything that tuning depends on, so that the journal of another plan is not
//! used. Each line has the checksum of its own text, because the writer may be killed at any moment and a
//! line that was half written must not become half a result. Lines behind the first one that is not whole
//! are ignored too; whoever continues the journal cuts them off first. Nothing is read or written here.

use motet_collective::CollectiveKind;
use motet_nccl::mscclpp::terms::TERMS;
use motet_net::{Network, Signature};
use motet_runtime::Checksum;
use motet_units::Bytes;
use serde::{Deserialize, Serialize};

use super::{Request, Runtime};

/// Counted up when lines or fingerprints of older journals no longer mean the same.
const VERSION: u32 = 4;

#[derive(Serialize, Deserialize)]
struct Header {
    motet_journal: u32,
    fingerprint: String,
}

/// All that is read before the version is known.
#[derive(Deserialize)]
struct Versioned {
    motet_journal: u32,
}

/// Everything that the tuning of a task depends on; its JSON is what the fingerprint is of.
#[derive(Serialize)]
struct Basis<'a> {
    motet: &'a str,
    network: String,
    tasks: &'a [(CollectiveKind, Vec<Bytes>)],
    seed: u64,
    search: String,
    trials: u32,
    sketch: Option<String>,
    most_blocks: Option<u32>,
    margin_percent: u32,
    ranks_per_gpu: u32,
    in_place: bool,
    terms: [f64; TERMS],
    runtime: Option<Runtime>,
}

/// What tells apart journals of different plans: the checksum of all that tuning depends on.
/// `motet` is the version of the program that tunes.
#[must_use]
pub fn fingerprint(motet: &str, network: &Network, request: &Request) -> String {
    let basis = Basis {
        motet,
        network: Signature::of(network).to_string(),
        tasks: &request.tasks,
        seed: request.seed,
        search: request.effort.method.to_string(),
        trials: request.effort.trials,
        sketch: request.sketch.as_ref().map(|it| it.sketch.write(network)),
        most_blocks: request.most_blocks,
        margin_percent: request.margin_percent,
        ranks_per_gpu: request.mscclpp.ranks_per_gpu,
        in_place: request.mscclpp.in_place,
        terms: request.mscclpp.terms.values(),
        runtime: request.runtime,
    };
    // Text, numbers and lists of them are always JSON.
    let text = serde_json::to_string(&basis).unwrap_or_default();
    Checksum::of(text.as_bytes()).to_string()
}

/// What a file that should be a journal turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// The journal of this plan.
    Ours(Known<T>),
    /// The journal of a plan of another network or with other options.
    OtherPlan,
    /// A journal that another Motet wrote in another version of the format.
    OtherVersion(u32),
    /// Empty, or cut off before the end of its first line.
    Nothing,
}

/// The part of a journal that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T> {
    pub tasks: Vec<T>,
    /// How many bytes of the journal are whole lines, from its beginning.
    pub whole: u64,
}

/// The first line of a journal.
#[must_use]
pub fn header(fingerprint: &str) -> String {
    sealed(&Header { motet_journal: VERSION, fingerprint: fingerprint.to_owned() })
}

/// The line of a task.
#[must_use]
pub fn line<T: Serialize>(task: &T) -> String {
    sealed(task)
}

fn sealed(value: &impl Serialize) -> String {
    // Text, numbers and lists of them are always JSON.
    let text = serde_json::to_string(value).unwrap_or_default();
    format!("{} {text}\n", Checksum::of(text.as_bytes()))
}

/// Reads a journal of the plan with this fingerprint.
#[must_use]
pub fn read<T: for<'a> Deserialize<'a>>(journal: &[u8], fingerprint: &str) -> Found<T> {
    let mut lines = journal.split_inclusive(|it| *it == b'\n');
    let Some(first) = lines.next() else { return Found::Nothing };
    let Some(Versioned { motet_journal }) = opened(first) else { return Found::Nothing };
    if motet_journal != VERSION {
        return Found::OtherVersion(motet_journal);
    }
    match opened::<Header>(first) {
        Some(header) if header.fingerprint == fingerprint => {}
        _ => return Found::OtherPlan,
    }
    let mut known = Known { tasks: Vec::new(), whole: first.len() as u64 };
    for line in lines {
        let Some(task) = opened(line) else { break };
        known.tasks.push(task);
        known.whole += line.len() as u64;
    }
    Found::Ours(known)
}

fn opened<T: for<'a> Deserialize<'a>>(line: &[u8]) -> Option<T> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (checksum, text) = line.split_once(' ')?;
    (checksum == Checksum::of(text.as_bytes()).to_string()).then_some(())?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TunedTask;
    use crate::plan::testing::tuned;

    #[test]
    fn what_is_whole_comes_back_wherever_it_is_cut() {
        let all = [tuned(1024), tuned(2048)];
        let lines = [header("mine"), line(&all[0]), line(&all[1])];
        let text = lines.concat().into_bytes();
        assert_eq!(read::<TunedTask>(&text, "other"), Found::OtherPlan);
        let ends = [1, 2, 3].map(|it| lines[..it].concat().len());
        for cut in 0..=text.len() {
            let known = read(&text[..cut], "mine");
            let whole = ends.iter().rposition(|it| *it <= cut);
            let expected =
                whole.map(|it| Known { tasks: all[..it].to_vec(), whole: ends[it] as u64 });
            assert_eq!(known, expected.map_or(Found::Nothing, Found::Ours), "{cut}");
        }
    }

    #[test]
    fn a_changed_byte_ends_it() {
        let lines = [header("mine"), line(&tuned(1024)), line(&tuned(2048))];
        let text = lines.concat().into_bytes();
        for at in lines[0].len()..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            let Found::Ours(known) = read::<TunedTask>(&changed, "mine") else { panic!("{at}") };
            let line = usize::from(at >= lines[0].len() + lines[1].len());
            assert_eq!(known.tasks.len(), line, "{at}");
        }
    }
    #[test]
    fn older_journals_are_known_as_such() {
        let old = sealed(&Header { motet_journal: 3, fingerprint: "mine".to_owned() });
        assert_eq!(read::<TunedTask>(old.as_bytes(), "mine"), Found::OtherVersion(3));
        assert_eq!(read::<TunedTask>(b"", "mine"), Found::Nothing);
    }
}

//! [`Table`]: for every task of a plan its [`Candidate`]s, in order of preference. The `table` file of a
//! plan directory holds one.
//!
//! A table does not change: another choice is another table, with another checksum (see
//! [`Amendment`](crate::Amendment)). `read.rs` describes the file.

mod error;
mod read;
mod write;

use motet_units::{Bytes, Duration};

use crate::checksum::Checksum;
use crate::key::{Algorithm, Key, Protocol};

pub use error::{TableError, TableErrorKind};

/// Far above any plan, and low enough that a hostile file is refused before it hurts.
pub const MOST_ENTRIES: usize = 1 << 20;
pub const MOST_CANDIDATES: usize = 16;
pub const MOST_RANKS: u32 = 1 << 17;
pub(crate) const MOST_CHANNELS: u32 = 1024;
const MOST_THREADS: u32 = 1024;
/// NCCL keeps chunks in 32 bits.
const MOST_CHUNK: u64 = u32::MAX as u64;
const MOST_NAME: usize = 100;

/// The knobs of a call; knobs that are `None` are left to the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableKnobs {
    pub protocol: Option<Protocol>,
    pub channels: Option<u32>,
    pub threads: Option<u32>,
    pub buffer: Option<Bytes>,
    /// How much of the data a channel takes at a time; NCCL asks for it since 2.30.
    pub chunk: Option<Bytes>,
}

/// How a collective is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// By NCCL itself; `None` is the algorithm that NCCL chooses.
    Nccl { algorithm: Option<Algorithm> },
    /// By the plan's program of this name: letters, digits, `.`, `_` and `-`, so that it can be a
    /// file's stem. The checksum is of the program's file.
    Program { name: Box<str>, checksum: Checksum },
}

/// What to ask of the library, or which program to run in its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    pub method: Method,
    pub knobs: TableKnobs,
}

/// One way to do a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub setting: Setting,
    /// How long it is expected to take, by the plan or by what ranks have measured and agreed on since.
    pub expected: Duration,
}

/// The candidates for one task; the first is the one in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub candidates: Vec<Candidate>,
}

/// Entries in the order of their keys, each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    entries: Vec<Entry>,
    checksum: Checksum,
}

impl Table {
    /// A table of `entries`, in any order.
    ///
    /// # Errors
    /// When an entry is out of bounds or has no candidate, or when two have the same key.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self, TableError> {
        let refuse = |kind, problem| Err(TableError::new(kind, None, problem));
        if entries.len() > MOST_ENTRIES {
            let problem = format!("{} entries are more than {MOST_ENTRIES}", entries.len());
            return refuse(TableErrorKind::TooLarge, problem);
        }
        entries.sort_by_key(|it| it.key);
        if let Some(pair) = entries.windows(2).find(|it| it[0].key == it[1].key) {
            let problem = format!("two entries have the key `{}`", pair[0].key);
            return refuse(TableErrorKind::Malformed, problem);
        }
        for Entry { key, candidates } in &entries {
            let amount = check_amount(candidates.len());
            let checked = check_ranks(key.ranks)
                .and(amount)
                .and_then(|()| candidates.iter().try_for_each(|it| it.setting.check()));
            if let Err(problem) = checked {
                return refuse(TableErrorKind::Malformed, format!("entry `{key}`: {problem}"));
            }
        }
        let checksum = Checksum::of(write::body(&entries).as_bytes());
        Ok(Self { entries, checksum })
    }

    /// The entries, in the order of their keys.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The checksum of the file's text up to the checksum line; tables with equal checksums count as the same.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }
}

impl Setting {
    fn check(&self) -> Result<(), String> {
        if let Method::Program { name, .. } = &self.method {
            check_name(name)?;
        }
        let TableKnobs { channels, threads, buffer, chunk, .. } = self.knobs;
        if let Some(channels) = channels.filter(|it| !(1..=MOST_CHANNELS).contains(it)) {
            return Err(format!("{channels} channels are not between 1 and {MOST_CHANNELS}"));
        }
        let warps = |it: u32| it.is_multiple_of(32) && (32..=MOST_THREADS).contains(&it);
        if let Some(threads) = threads.filter(|it| !warps(*it)) {
            return Err(format!(
                "{threads} threads are not a multiple of 32 between 32 and {MOST_THREADS}"
            ));
        }
        if buffer.is_some_and(Bytes::is_zero) {
            return Err("a buffer of 0 bytes holds nothing".to_owned());
        }
        if let Some(chunk) = chunk.filter(|it| !(1..=MOST_CHUNK).contains(&it.get())) {
            return Err(format!(
                "a chunk of {} bytes is not between 1 and {MOST_CHUNK}",
                chunk.get()
            ));
        }
        Ok(())
    }
}

fn check_ranks(ranks: u32) -> Result<(), String> {
    let fits = (1..=MOST_RANKS).contains(&ranks);
    if fits { Ok(()) } else { Err(format!("{ranks} ranks are not between 1 and {MOST_RANKS}")) }
}

fn check_amount(candidates: usize) -> Result<(), String> {
    match candidates {
        0 => Err("it has no candidate".to_owned()),
        1..=MOST_CANDIDATES => Ok(()),
        _ => Err(format!("more than {MOST_CANDIDATES} candidates")),
    }
}

/// A name becomes part of a path, so it must not be able to lead out of the plan's folder.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'_' | b'-');
    let first = name.bytes().next().is_some_and(|it| it.is_ascii_alphanumeric());
    if first && name.len() <= MOST_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a program name: up to {MOST_NAME} letters, digits, `.`, `_`, `-`, \
         and a letter or digit first",
        error::excerpt(name)
    ))
}

#[cfg(test)]
pub(crate) mod tests;

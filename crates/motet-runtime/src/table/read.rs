//! Reading tables. The format, line by line:
//!
//! ```text
//! motet-table 1
//! entry 000000000000000000000000000000a1 allreduce 16 20
//! nccl time=81234567 algorithm=ring protocol=simple channels=8 threads=512 buffer=4194304 chunk=131072
//! program time=85000000 name=allreduce-1m checksum=0123456789abcdef protocol=simple
//! checksum fedcba9876543210
//! ```
//!
//! The first line names the format and its version. `entry` gives the network's signature, the
//! collective, the ranks and the size bucket (floor of log₂ of the bytes); its candidates follow,
//! best first. Times are picoseconds, buffers and chunks bytes; knobs that are left to the library are not
//! there. The last line is the CRC-64/XZ of all bytes before it.
//!
//! Only what [`Table::write`] writes is read: entries by key, one space between words, knobs in
//! this order, no needless zeros. So a table has one text and one checksum, ranks that compare
//! checksums compare tables, and a changed byte cannot pass as another spelling of the same.
//! The version is looked at first: a newer format may be sealed in another way.

use std::iter::Peekable;
use std::str::Split;

use motet_units::{Bytes, Duration};

use super::error::{TableError, TableErrorKind, excerpt};
use super::write::{MAGIC, VERSION};
use super::{
    Candidate, Entry, MOST_ENTRIES, Method, Setting, Table, TableKnobs, check_amount, check_ranks,
};
use crate::checksum::Checksum;
use crate::key::{Algorithm, Bucket, Collective, Key, Protocol};

use TableErrorKind::{Corrupt, Malformed, NewerVersion, NotATable, TooLarge, Truncated};

impl Table {
    /// The table of a file's text.
    ///
    /// # Errors
    /// When the text is not exactly a table: see [`TableErrorKind`].
    pub fn read(text: &str) -> Result<Self, TableError> {
        check_version(text)?;
        let (body, checksum) = unseal(text)?;
        let mut entries: Vec<Entry> = Vec::new();
        let mut line = 1;
        for text in body.split_terminator('\n').skip(1) {
            line += 1;
            read_line(text, line, &mut entries)?;
        }
        if let Some(last) = entries.last() {
            check_amount(last.candidates.len()).map_err(|it| malformed(line, it))?;
        }
        Ok(Self { entries, checksum })
    }
}

fn check_version(text: &str) -> Result<(), TableError> {
    let refuse = |kind, problem| Err(TableError::new(kind, Some(1), problem));
    let first = text.split('\n').next().unwrap_or_default();
    let Some(version) = first.strip_prefix(MAGIC).and_then(|it| it.strip_prefix(' ')) else {
        if MAGIC.starts_with(first.trim_end()) && first.len() == text.len() {
            return refuse(Truncated, "the file ends within its first line".to_owned());
        }
        return refuse(NotATable, format!("`{}` is not `{MAGIC} {VERSION}`", excerpt(first)));
    };
    if version.is_empty() && first.len() == text.len() {
        return refuse(Truncated, "the file ends within its first line".to_owned());
    }
    match number(version) {
        Some(VERSION) => Ok(()),
        Some(newer) if newer > VERSION => {
            let problem = format!("the table has version {newer}, and this Motet reads {VERSION}");
            refuse(NewerVersion, problem)
        }
        _ => refuse(NotATable, format!("`{}` is no version of a table", excerpt(version))),
    }
}

/// The text before the checksum line, when the checksum is right.
fn unseal(text: &str) -> Result<(&str, Checksum), TableError> {
    let lines = text.bytes().filter(|it| *it == b'\n').count();
    let last = text.strip_suffix('\n').and_then(|it| it.rsplit_once('\n'));
    let Some(given) = last.and_then(|it| it.1.strip_prefix("checksum ")) else {
        let problem = "the table does not end with its checksum line".to_owned();
        return Err(TableError::new(Truncated, Some(lines.max(1)), problem));
    };
    let corrupt = |problem| TableError::new(Corrupt, Some(lines), problem);
    let given_text = excerpt(given);
    let Some(given) = Checksum::from_text(given) else {
        return Err(corrupt(format!("`{given_text}` is not a checksum of 16 hexadecimal digits")));
    };
    // All lines but the last, with their ends.
    let body = &text[..text.len() - "checksum 0123456789abcdef\n".len()];
    let computed = Checksum::of(body.as_bytes());
    if computed != given {
        let problem = format!("the contents have checksum {computed}, and the file says {given}");
        return Err(corrupt(problem));
    }
    Ok((body, given))
}

fn read_line(text: &str, line: usize, entries: &mut Vec<Entry>) -> Result<(), TableError> {
    let mut words = Words { words: text.split(' ').peekable(), line };
    match words.any("a line") {
        Ok("entry") => {
            let key = words.key()?;
            if let Some(last) = entries.last() {
                check_amount(last.candidates.len()).map_err(|it| malformed(line - 1, it))?;
                if last.key >= key {
                    return Err(malformed(
                        line,
                        "the entry is not in the order of keys".to_owned(),
                    ));
                }
            }
            if entries.len() == MOST_ENTRIES {
                let problem = format!("more than {MOST_ENTRIES} entries");
                return Err(TableError::new(TooLarge, Some(line), problem));
            }
            entries.push(Entry { key, candidates: Vec::new() });
        }
        Ok(word @ ("nccl" | "program")) => {
            let Some(entry) = entries.last_mut() else {
                return Err(malformed(line, format!("`{word}` before the first `entry`")));
            };
            entry.candidates.push(words.candidate(word == "nccl")?);
            check_amount(entry.candidates.len()).map_err(|it| malformed(line, it))?;
        }
        _ => {
            let problem = format!("`{}` is not an entry or a candidate", excerpt(text));
            return Err(malformed(line, problem));
        }
    }
    words.end()
}

const fn malformed(line: usize, problem: String) -> TableError {
    TableError::new(Malformed, Some(line), problem)
}

/// A whole number as it is written: digits, without needless zeros.
fn number(text: &str) -> Option<u64> {
    let plain =
        text.bytes().all(|it| it.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// The words of a line that are still to be read.
struct Words<'a> {
    words: Peekable<Split<'a, char>>,
    line: usize,
}

impl<'a> Words<'a> {
    fn any(&mut self, what: &str) -> Result<&'a str, TableError> {
        self.words.next().ok_or_else(|| malformed(self.line, format!("{what} is missing")))
    }

    /// The value of `key=value`, if that is the next word.
    fn optional(&mut self, key: &str) -> Option<&'a str> {
        let value = |it: &&'a str| it.strip_prefix(key).and_then(|it| it.strip_prefix('='));
        let found = self.words.peek().and_then(value);
        if found.is_some() {
            self.words.next();
        }
        found
    }

    fn required(&mut self, key: &str) -> Result<&'a str, TableError> {
        self.optional(key).ok_or_else(|| malformed(self.line, format!("`{key}=…` is missing here")))
    }

    fn end(&mut self) -> Result<(), TableError> {
        self.words.next().map_or(Ok(()), |it| {
            let problem = format!("`{}` is unknown, repeated, or out of order", excerpt(it));
            Err(malformed(self.line, problem))
        })
    }

    fn bad(&self, what: &str, text: &str) -> TableError {
        malformed(self.line, format!("`{}` is not {what}", excerpt(text)))
    }

    fn number<T: TryFrom<u64>>(&self, what: &str, text: &str) -> Result<T, TableError> {
        let value = number(text).and_then(|it| T::try_from(it).ok());
        value.ok_or_else(|| self.bad(what, text))
    }

    fn known<T>(&self, value: Option<T>, what: &str, text: &str) -> Result<T, TableError> {
        value.ok_or_else(|| self.bad(what, text))
    }

    fn key(&mut self) -> Result<Key, TableError> {
        let word = self.any("the network's signature")?;
        let signature = self.known(word.parse().ok(), "a network's signature", word)?;
        let word = self.any("the collective")?;
        let collective = self.known(Collective::from_name(word), "a collective", word)?;
        let word = self.any("the number of ranks")?;
        let ranks = self.number("a number of ranks", word)?;
        check_ranks(ranks).map_err(|it| malformed(self.line, it))?;
        let word = self.any("the size bucket")?;
        let bucket = self.number("a size bucket", word).map(Bucket::new)?;
        let bucket = self.known(bucket, "a size bucket from 0 to 63", word)?;
        Ok(Key { signature, collective, ranks, bucket })
    }

    fn candidate(&mut self, nccl: bool) -> Result<Candidate, TableError> {
        let time = self.required("time")?;
        let expected = Duration::from_ps(self.number("a time in picoseconds", time)?);
        let method = if nccl {
            let word = self.optional("algorithm");
            let read = |it| self.known(Algorithm::from_name(it), "an algorithm", it);
            Method::Nccl { algorithm: word.map(read).transpose()? }
        } else {
            let name = self.required("name")?.into();
            let word = self.required("checksum")?;
            let checksum = self.known(Checksum::from_text(word), "a checksum", word)?;
            Method::Program { name, checksum }
        };
        let protocol = self.optional("protocol");
        let channels = self.optional("channels");
        let threads = self.optional("threads");
        let buffer = self.optional("buffer");
        let chunk = self.optional("chunk");
        let bytes = |it| self.number("a number of bytes", it).map(Bytes::new);
        let read = |it| self.known(Protocol::from_name(it), "a protocol", it);
        let knobs = TableKnobs {
            protocol: protocol.map(read).transpose()?,
            channels: channels.map(|it| self.number("a number of channels", it)).transpose()?,
            threads: threads.map(|it| self.number("a number of threads", it)).transpose()?,
            buffer: buffer.map(bytes).transpose()?,
            chunk: chunk.map(bytes).transpose()?,
        };
        let setting = Setting { method, knobs };
        setting.check().map_err(|it| malformed(self.line, it))?;
        Ok(Candidate { setting, expected })
    }
}

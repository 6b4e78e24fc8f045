//! Writing tables. One table has one text: entries by key, knobs in a fixed order, none of them
//! written when it is left to the library. See `read.rs` for the format.

use std::fmt::Write as _;

use super::{Candidate, Entry, Method, Setting, Table};
use crate::checksum::Checksum;

pub(super) const MAGIC: &str = "motet-table";
pub(super) const VERSION: u64 = 1;

impl Table {
    /// The text of the table's file.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = body(&self.entries);
        seal(&mut text, self.checksum);
        text
    }
}

fn seal(text: &mut String, checksum: Checksum) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "checksum {checksum}");
}

/// All but the checksum line.
pub(super) fn body(entries: &[Entry]) -> String {
    let mut text = format!("{MAGIC} {VERSION}\n");
    for Entry { key, candidates } in entries {
        let _ = writeln!(text, "entry {key}");
        for Candidate { setting: Setting { method, knobs }, expected } in candidates {
            let time = expected.as_ps();
            let _ = match method {
                Method::Nccl { .. } => write!(text, "nccl time={time}"),
                Method::Program { name, checksum } => {
                    write!(text, "program time={time} name={name} checksum={checksum}")
                }
            };
            if let Method::Nccl { algorithm: Some(algorithm) } = method {
                let _ = write!(text, " algorithm={algorithm}");
            }
            if let Some(protocol) = knobs.protocol {
                let _ = write!(text, " protocol={protocol}");
            }
            if let Some(channels) = knobs.channels {
                let _ = write!(text, " channels={channels}");
            }
            if let Some(threads) = knobs.threads {
                let _ = write!(text, " threads={threads}");
            }
            if let Some(buffer) = knobs.buffer {
                let _ = write!(text, " buffer={}", buffer.get());
            }
            if let Some(chunk) = knobs.chunk {
                let _ = write!(text, " chunk={}", chunk.get());
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
/// `body` with a right checksum, for tests of what is wrong inside.
pub(super) fn sealed(body: &str) -> String {
    let mut text = body.to_owned();
    seal(&mut text, Checksum::of(body.as_bytes()));
    text
}

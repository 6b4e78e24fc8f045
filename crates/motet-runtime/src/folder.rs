//! What the run-time half must know of a plan's folder: the names of the files it reads, the version
//! of the format, and the list of checksums by which it checks that files are undamaged.
//!
//! `motet-tune` writes the folder (its `plan::folder`), and has everything else that is in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::checksum::Checksum;

/// The version of the format of [`MANIFEST`].
pub const VERSION: u64 = 2;

/// The file with the plan's tasks, and everything that they were compared with.
pub const MANIFEST: &str = "plan.json";
/// The file with the [`Table`](crate::Table) that the run-time half looks calls up in.
pub const TABLE: &str = "table";
/// The file with the checksums of all others.
pub const CHECKSUMS: &str = "checksums";

/// Why a list of checksums is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("{CHECKSUMS} is not what the plan was written with; make the plan anew")]
    Corrupt,
    #[error("`{0}` is not a file of the plan's folder; make the plan anew")]
    Outside(String),
}

/// The text of [`CHECKSUMS`]: a line for every file, and a last one with the checksum of these lines.
#[must_use]
pub fn list(files: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (name, content) in files {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{} {name}", Checksum::of(content.as_bytes()));
    }
    let own = Checksum::of(text.as_bytes());
    let _ = writeln!(text, "{own} {CHECKSUMS}");
    text
}

/// The files that the text of [`CHECKSUMS`] names, with their checksums.
///
/// # Errors
/// When the list is damaged, or names a file outside the folder.
pub fn read_list(text: &str) -> Result<BTreeMap<String, Checksum>, ListError> {
    let body = text.strip_suffix('\n').ok_or(ListError::Corrupt)?;
    let (lines, last) = body.rsplit_once('\n').ok_or(ListError::Corrupt)?;
    let lines = &text[..=lines.len()];
    if last != format!("{} {CHECKSUMS}", Checksum::of(lines.as_bytes())) {
        return Err(ListError::Corrupt);
    }
    let mut files = BTreeMap::new();
    for line in lines.lines() {
        let (sum, name) = line.split_once(' ').ok_or(ListError::Corrupt)?;
        // Backslashes and colons lead out of it on Windows.
        let outside =
            name.contains(['\\', ':']) || name.split('/').any(|it| matches!(it, "" | "." | ".."));
        if outside {
            return Err(ListError::Outside(name.to_owned()));
        }
        files.insert(name.to_owned(), Checksum::from_text(sum).ok_or(ListError::Corrupt)?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written_or_not_at_all() {
        let files =
            [("table", "x"), ("nccl/env", "y")].map(|it| (it.0.to_owned(), it.1.to_owned()));
        let text = list(&files.into());
        let read = read_list(&text).unwrap();
        assert_eq!(read["table"], Checksum::of(b"x"));
        assert_eq!(read.len(), 2);
        for cut in 0..text.len() {
            assert!(read_list(&text[..cut]).is_err(), "{cut}");
        }
        assert_eq!(read_list(&text.replace("env", "end")), Err(ListError::Corrupt));
    }

    #[test]
    fn no_file_outside_the_folder_is_named() {
        for name in ["../table", "/table", "a//b", "c:table", "a\\b", "."] {
            let text = list(&[(name.to_owned(), String::new())].into());
            assert_eq!(read_list(&text), Err(ListError::Outside(name.to_owned())));
        }
    }
}

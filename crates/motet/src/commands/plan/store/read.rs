//! Plans are read from plain files of their folder, however they came there: a plan may come from
//! someone else, and its `checksums` names the files.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use motet_tune::plan::folder::{FolderError, Stored};

use crate::failure::Failure;
use crate::files;

/// As large as any file is read ([`files::read`]), known before it is.
const MOST_BYTES: u64 = 1 << 30;

/// Reads the plan in a folder.
pub(crate) fn read(folder: &str) -> Result<Stored, Failure> {
    let path = Path::new(folder);
    if !path.is_dir() {
        return Err(Failure::unreadable("is not a folder")
            .in_file(folder)
            .with_remedy("give the folder that `motet plan -o` wrote"));
    }
    // Why a file could not be read says more than that it is missing.
    let problem = RefCell::new(None);
    let get = |name: &str| {
        text(path, name).unwrap_or_else(|why| {
            problem.borrow_mut().get_or_insert(why);
            None
        })
    };
    let stored = Stored::read(&get);
    if let Some(why) = problem.into_inner() {
        return Err(why);
    }
    stored.map_err(|error| match error {
        FolderError::NoManifest => Failure::unreadable(error.to_string()).in_file(folder),
        _ => Failure::wrong(error.to_string()).in_file(folder),
    })
}

/// The text of a file of the plan, if there is one of that name.
fn text(folder: &Path, name: &str) -> Result<Option<String>, Failure> {
    let path = folder.join(name);
    let shown = path.display().to_string();
    let wrong = |problem: String| Failure::unreadable(problem).in_file(&shown);
    let unread = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    let found = match fs::canonicalize(&path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unread(error)),
    };
    // Links within the folder are as good as files; some systems deliver folders so.
    if !found.starts_with(fs::canonicalize(folder).map_err(unread)?) {
        return Err(wrong(format!("leads out of the plan's folder, to {}", found.display()))
            .with_remedy("copy the plan with what its links lead to, or make it anew"));
    }
    let about = fs::metadata(&found).map_err(unread)?;
    if !about.is_file() {
        return Err(wrong("is no plain file".to_owned()).with_remedy("make the plan anew"));
    }
    if about.len() > MOST_BYTES {
        return Err(wrong(format!("is larger than {MOST_BYTES} bytes"))
            .with_remedy("no plan has such a file; make the plan anew"));
    }
    files::read(&shown).map(Some)
}

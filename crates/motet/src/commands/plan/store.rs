//! Where a plan is kept while it is made, and how it takes the place of an old one.
//!
//! Beside the plan's folder `F` there is `F.part` meanwhile: a journal of what has been tuned, so that
//! a plan that was stopped goes on where it was, and at the end the new plan's files. Whole and on disk,
//! they change places with the old ones in one step; where the system has no such step the old folder
//! is moved aside first. Whenever `motet plan` is killed, `F` is a whole plan or was none before.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use motet_collective::CollectiveKind;
use motet_tune::plan::folder::{self, MANIFEST, Stored};
use motet_tune::plan::{Journal, Step, Tuned, journal};
use motet_units::Bytes;

use crate::failure::Failure;
use crate::progress::Bar;

const JOURNAL: &str = "journal.jsonl";

/// A plan in the making.
pub(crate) struct Store<'a> {
    folder: PathBuf,
    part: PathBuf,
    known: Vec<Tuned>,
    journal: Mutex<File>,
    bar: &'a Bar,
    done: Mutex<u64>,
}

fn failure(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::unreadable(format!("{what}: {error}")).in_file(&path.display().to_string())
}

impl<'a> Store<'a> {
    /// Opens the place for a plan in `folder`, with what is left of one that was stopped.
    pub(crate) fn open(folder: &str, fingerprint: &str, bar: &'a Bar) -> Result<Self, Failure> {
        let folder = PathBuf::from(folder);
        check_target(&folder)?;
        let mut part = folder.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        fs::create_dir_all(&part).map_err(|it| failure(&part, "cannot be made", &it))?;
        let path = part.join(JOURNAL);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(|it| failure(&path, "cannot be opened", &it))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::unreadable("another `motet plan` is making this plan")
                    .in_file(&folder.display().to_string())
                    .with_remedy("wait for it, or give another folder"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(failure(&path, "cannot be locked", &error));
            }
        }
        let wrong = |it: std::io::Error| failure(&path, "cannot be written", &it);
        let mut text = Vec::new();
        let known = match file.read_to_end(&mut text) {
            Ok(_) => journal::read(&text, fingerprint),
            Err(error) => return Err(failure(&path, "cannot be read", &error)),
        };
        // What was cut off goes, or the next line would be glued to it.
        file.set_len(known.as_ref().map_or(0, |it| it.whole)).map_err(wrong)?;
        if known.is_none() {
            file.write_all(journal::header(fingerprint).as_bytes()).map_err(wrong)?;
        }
        let known = known.unwrap_or_default().tuned;
        let (journal, done) = (Mutex::new(file), Mutex::new(0));
        Ok(Self { folder, part, known, journal, bar, done })
    }

    /// How many tasks are known from before.
    pub(crate) const fn resumed(&self) -> usize {
        self.known.len()
    }

    /// Puts the files of the plan in its place.
    pub(crate) fn finish(self, files: &BTreeMap<String, String>) -> Result<(), Failure> {
        let new = self.part.join("new");
        if new.exists() {
            fs::remove_dir_all(&new).map_err(|it| failure(&new, "cannot be removed", &it))?;
        }
        for (name, text) in files {
            let path = new.join(name);
            let wrong = |it: std::io::Error| failure(&path, "cannot be written", &it);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(wrong)?;
            }
            let mut file = File::create(&path).map_err(wrong)?;
            file.write_all(text.as_bytes()).map_err(wrong)?;
            file.sync_all().map_err(wrong)?;
        }
        let wrong = |it: std::io::Error| failure(&self.folder, "cannot be replaced", &it);
        if self.folder.exists() {
            exchange(&new, &self.folder).map_err(wrong)?;
        } else {
            fs::rename(&new, &self.folder).map_err(wrong)?;
        }
        // The plan is there; what cannot be tidied up does no harm.
        let _ = fs::remove_dir_all(&self.part);
        Ok(())
    }
}

impl Journal for Store<'_> {
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<Tuned> {
        let same = |it: &&Tuned| it.collective == kind && it.size() == size;
        self.known.iter().find(same).cloned()
    }

    fn done(&self, step: Step<'_>) {
        let Step::Tuned(tuned) = step else { return };
        if self.known(tuned.collective, tuned.size()).is_none()
            && let Ok(mut file) = self.journal.lock()
        {
            // Without it, a plan that is stopped is begun anew: no reason to stop this one.
            let _ = file.write_all(journal::line(tuned).as_bytes());
        }
        if let Ok(mut done) = self.done.lock() {
            *done += 1;
            self.bar.set(*done);
        }
    }
}

/// A plan may take the place of nothing, of an empty folder, or of a plan.
fn check_target(folder: &Path) -> Result<(), Failure> {
    let name = folder.display().to_string();
    if folder.file_name().is_none() {
        return Err(Failure::unreadable("is no name for a folder").in_file(&name));
    }
    if !folder.exists() {
        let parent = folder.parent().filter(|it| !it.as_os_str().is_empty());
        if parent.is_some_and(|it| !it.is_dir()) {
            return Err(Failure::unreadable("cannot be made: the folder above it does not exist")
                .in_file(&name)
                .with_remedy("create that first"));
        }
        return Ok(());
    }
    let is_empty = fs::read_dir(folder).is_ok_and(|mut it| it.next().is_none());
    if folder.is_dir() && (is_empty || folder.join(MANIFEST).is_file()) {
        return Ok(());
    }
    Err(Failure::unreadable("is there already and is not the folder of a plan")
        .in_file(&name)
        .with_remedy("give `-o` another folder"))
}

/// Two folders change places.
fn exchange(new: &Path, old: &Path) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
            Ok(()) => return Ok(()),
            // Some file systems cannot; they get two steps.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let aside = new.with_file_name("old");
    fs::rename(old, &aside)?;
    fs::rename(new, old)
}

/// Reads the plan in a folder.
pub(crate) fn read(folder: &str) -> Result<Stored, Failure> {
    let path = Path::new(folder);
    if !path.is_dir() {
        return Err(Failure::unreadable("is not a folder").in_file(folder));
    }
    let get = |name: &str| fs::read_to_string(path.join(name)).ok();
    Stored::read(&get).map_err(|error| match error {
        folder::FolderError::NoManifest => Failure::unreadable(error.to_string()).in_file(folder),
        _ => Failure::wrong(error.to_string()).in_file(folder),
    })
}

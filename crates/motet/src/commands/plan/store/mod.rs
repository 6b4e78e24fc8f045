//! Where a plan is kept while it is made, and how it takes the place of an old one.
//!
//! Beside the plan's folder `F` there is `F.part` meanwhile: a journal of what has been tuned, so that
//! a plan that was stopped goes on where it was, and at the end the new plan's files. Whole and on disk,
//! they change places with the old ones in one step; where the system has no such step the old folder
//! is moved aside first, and back by the next run if there was no second step. Whenever `motet plan` is
//! killed, `F` is a whole plan or was none before. What cannot be written is taken away again, but for
//! the journal.
//!
//! [`target`] looks, before any work, whether a plan can go where it should; [`read()`] reads plans.

mod read;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use motet_collective::CollectiveKind;
use motet_tune::plan::journal::{self, Found};
use motet_tune::plan::{Journal, PlanEvent, TunedTask};
use motet_units::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::progress::Bar;
pub(super) use read::read;
use target::Target;

const JOURNAL: &str = "journal.jsonl";
/// The new plan, until it is whole; then, for a moment, the old one.
const NEW: &str = "new";
/// The old plan, where folders cannot change places in one step.
const OLD: &str = "old";

/// A plan in the making; `T` is what is known of a task that is finished.
pub(crate) struct Store<'a, T> {
    target: Target,
    known: Vec<T>,
    /// Why a journal that was there is not used.
    passed_over: Option<String>,
    log: Mutex<Log>,
    bar: &'a Bar,
    done: Mutex<u64>,
    /// The task that gains most over NCCL at its best so far, in words.
    most: Mutex<Option<(f64, String)>>,
}

/// The journal's file, and how much of it is whole lines.
struct Log {
    file: File,
    whole: u64,
}

fn failure(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::unreadable(format!("{what}: {error}")).in_file(&path.display().to_string())
}

impl<'a, T: Serialize + DeserializeOwned> Store<'a, T> {
    /// Opens the place for a plan in `folder`, with what is left of one that was stopped.
    pub(crate) fn open(folder: &str, fingerprint: &str, bar: &'a Bar) -> Result<Self, Failure> {
        let target = Target::find(folder)?;
        let made = match fs::create_dir(&target.part) {
            Ok(()) => true,
            Err(_) if target.part.is_dir() => false,
            Err(error) => {
                // Beside it, under a name that tells the user nothing.
                let asked = Path::new(&target.name);
                return Err(failure(asked, "cannot be made", &error).with_remedy(
                    "make the folder around it writable, or give `-o` another folder",
                ));
            }
        };
        let part = target.part.clone();
        let opened = Self::begin(target, fingerprint, bar);
        if made && opened.is_err() {
            // Nothing was there before, and nothing is worth keeping.
            let _ = fs::remove_dir_all(part);
        }
        opened
    }

    fn begin(target: Target, fingerprint: &str, bar: &'a Bar) -> Result<Self, Failure> {
        let path = target.part.join(JOURNAL);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(|it| failure(&path, "cannot be opened", &it))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::unreadable("another `motet plan` is making this plan")
                    .in_file(&target.name)
                    .with_remedy("wait for it, or give another folder"));
            }
            Err(TryLockError::Error(error)) => {
                return Err(failure(&path, "cannot be locked", &error));
            }
        }
        tidy(&target)?;
        let wrong = |it: std::io::Error| failure(&path, "cannot be written", &it);
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|it| failure(&path, "cannot be read", &it))?;
        let (known, passed_over) = match journal::read(&text, fingerprint) {
            Found::Ours(known) => (Some(known), None),
            Found::Nothing => (None, None),
            Found::OtherPlan => {
                let note = "a plan with other options was stopped here; this one begins anew";
                (None, Some(note.to_owned()))
            }
            Found::OtherVersion(version) => {
                let note = format!(
                    "a plan was stopped here whose journal has version {version} of the format, \
                     which this Motet does not read; it begins anew"
                );
                (None, Some(note))
            }
        };
        // What was cut off goes, or the next line would be glued to it.
        file.set_len(known.as_ref().map_or(0, |it| it.whole)).map_err(wrong)?;
        let mut log = Log { file, whole: known.as_ref().map_or(0, |it| it.whole) };
        if known.is_none() {
            log.add(&journal::header(fingerprint)).map_err(wrong)?;
        }
        let known = known.map(|it| it.tasks).unwrap_or_default();
        let (log, done, most) = (Mutex::new(log), Mutex::new(0), Mutex::new(None));
        Ok(Self { target, known, passed_over, log, bar, done, most })
    }

    /// Why what is left of a stopped plan is not used, if that is so.
    pub(crate) fn passed_over(&self) -> Option<&str> {
        self.passed_over.as_deref()
    }

    /// What is known from before.
    pub(crate) fn known(&self) -> &[T] {
        &self.known
    }

    /// Writes down a task that is finished.
    pub(crate) fn keep(&self, task: &T) {
        if let Ok(mut log) = self.log.lock() {
            // Without it, a plan that is stopped is begun anew: no reason to stop this one.
            let _ = log.add(&journal::line(task));
        }
    }

    /// Moves the bar by one task.
    pub(crate) fn count(&self) {
        if let Ok(mut done) = self.done.lock() {
            *done += 1;
            self.bar.set(*done);
        }
    }

    /// Puts the files of the plan in its place, or leaves everything as it was.
    pub(crate) fn finish(self, files: &BTreeMap<String, String>) -> Result<(), Failure> {
        let Target { folder, part, .. } = &self.target;
        let new = part.join(NEW);
        let had = folder.exists();
        let put = write(&new, files).and_then(|()| {
            let wrong = |it: std::io::Error| failure(folder, "cannot be replaced", &it);
            if had { exchange(&new, folder) } else { fs::rename(&new, folder) }.map_err(wrong)
        });
        if let Err(failure) = put {
            // It may be what fills the disk.
            let _ = fs::remove_dir_all(&new);
            let old = if had { "the plan that was there is as it was; " } else { "" };
            return Err(failure.with_remedy(format!(
                "{old}what was tuned is kept in {}: mend this and run the same command again",
                part.display()
            )));
        }
        // The plan is there; what cannot be tidied up does no harm.
        if let Some(parent) = folder.parent() {
            let _ = sync_folder(parent);
        }
        let _ = fs::remove_dir_all(part);
        Ok(())
    }
}

impl Log {
    /// Adds lines, whole or not at all: what follows half a line would be lost with it.
    fn add(&mut self, lines: &str) -> std::io::Result<()> {
        match self.file.write_all(lines.as_bytes()) {
            Ok(()) => {
                self.whole += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.whole)?;
                Err(error)
            }
        }
    }
}

impl Store<'_, TunedTask> {
    /// Remembers the task that gains most over NCCL at its best setting.
    fn compare(&self, tuned: &TunedTask) {
        let Some(gain) = tuned.gain(tuned.nccl_best.as_ref()) else { return };
        let Ok(mut most) = self.most.lock() else { return };
        if most.as_ref().is_none_or(|it| it.0 < gain) {
            *most = Some((gain, format!("{} of {}", tuned.collective, tuned.size())));
        }
    }

    /// What is being tuned, and what the plan gains most so far.
    fn tuning(&self, kind: CollectiveKind, size: Bytes) -> String {
        match self.most.lock().as_deref() {
            Ok(Some((gain, task))) => format!(
                "tuning {kind} of {size}; best so far {gain:.2} times NCCL at its best ({task})"
            ),
            _ => format!("tuning {kind} of {size}"),
        }
    }
}

impl Journal for Store<'_, TunedTask> {
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<TunedTask> {
        let same = |it: &&TunedTask| it.collective == kind && it.size() == size;
        self.known.iter().find(same).cloned()
    }

    fn done(&self, event: PlanEvent<'_>) {
        let tuned = match event {
            PlanEvent::Making(_, name) => return self.bar.say(format!("making {name}")),
            PlanEvent::Made(kind, programs) => {
                return self.bar.say(format!("{} programs for {kind}", programs.len()));
            }
            PlanEvent::Tuning(kind, size) => {
                return self.bar.say(self.tuning(kind, size));
            }
            PlanEvent::Tuned(tuned) => tuned,
        };
        self.compare(tuned);
        if Journal::known(self, tuned.collective, tuned.size()).is_none() {
            self.keep(tuned);
        }
        self.count();
    }
}

/// What a run left behind that was killed at its end: an old plan goes back to where it was, all else
/// is worth nothing.
fn tidy(target: &Target) -> Result<(), Failure> {
    let Target { folder, part, .. } = target;
    let old = part.join(OLD);
    if old.is_dir() && !folder.exists() {
        fs::rename(&old, folder).map_err(|it| failure(&old, "cannot be put back", &it))?;
    }
    for rest in [part.join(NEW), old] {
        if rest.exists() {
            fs::remove_dir_all(&rest).map_err(|it| failure(&rest, "cannot be removed", &it))?;
        }
    }
    Ok(())
}

/// Writes all files below a new folder, so that they are there even if the power goes.
fn write(new: &Path, files: &BTreeMap<String, String>) -> Result<(), Failure> {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::from([new.to_owned()]);
    for (name, text) in files {
        let path = new.join(name);
        let wrong = |it: std::io::Error| failure(&path, "cannot be written", &it);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(wrong)?;
            let between = parent.ancestors().take_while(|it| *it != new);
            folders.extend(between.map(Path::to_owned));
        }
        let mut file = File::create(&path).map_err(wrong)?;
        file.write_all(text.as_bytes()).map_err(wrong)?;
        file.sync_all().map_err(wrong)?;
    }
    for folder in &folders {
        sync_folder(folder).map_err(|it| failure(folder, "cannot be written", &it))?;
    }
    Ok(())
}

/// Makes the names in a folder last, where a folder can be asked to.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) && !folder.as_os_str().is_empty() {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
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
    in_two_steps(new, old)
}

fn in_two_steps(new: &Path, old: &Path) -> std::io::Result<()> {
    let aside = new.with_file_name(OLD);
    fs::rename(old, &aside)?;
    fs::rename(new, old).or_else(|error| fs::rename(&aside, old).and(Err(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(at: &Path) -> Target {
        Target::find(&at.join("plan").to_string_lossy()).unwrap()
    }

    #[test]
    fn two_steps_are_one_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let (new, plan) = (at.join("plan.part/new"), at.join("plan"));
        for (path, text) in [(&new, "new"), (&plan, "old")] {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("plan.json"), text).unwrap();
        }
        // Without a new plan the old one goes back.
        assert!(in_two_steps(&at.join("plan.part/none"), &plan).is_err());
        assert_eq!(fs::read_to_string(plan.join("plan.json")).unwrap(), "old");
        in_two_steps(&new, &plan).unwrap();
        assert_eq!(fs::read_to_string(plan.join("plan.json")).unwrap(), "new");
    }

    #[test]
    fn what_was_killed_between_two_steps_is_put_right() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in ["plan.part/old", "plan.part/new"] {
            fs::create_dir_all(at.join(name)).unwrap();
            fs::write(at.join(name).join("plan.json"), name).unwrap();
        }
        tidy(&target(at)).unwrap();
        let left = fs::read_to_string(at.join("plan/plan.json")).unwrap();
        assert_eq!(left, "plan.part/old");
        assert_eq!(fs::read_dir(at.join("plan.part")).unwrap().count(), 0);
    }
}

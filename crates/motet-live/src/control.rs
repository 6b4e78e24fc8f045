//! [`ControlFile`]: this process's own control file (`MOTET_CONTROL`), through which its tuner is told what to do.
//!
//! Every rank has one of its own and changes it between two collectives of its own. All ranks run the same
//! collectives with the same settings in the same order, so they agree without a barrier.
//!
//! The plugin maps the file; here it is read and written like any other. Both see the same pages.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_runtime::Segment;
use motet_runtime::segment::{CONTROL_WORDS, WORDS};

use crate::LiveError;

const WORD: usize = size_of::<u64>();

/// The control file of this process, which is removed when this is dropped.
#[derive(Debug)]
pub struct ControlFile {
    path: PathBuf,
    file: File,
}

impl ControlFile {
    /// Makes the file.
    ///
    /// # Errors
    /// When it is there already, or cannot be made.
    pub fn create(path: &Path) -> Result<Self, LiveError> {
        let made =
            crate::private_file().read(true).create_new(true).open(path).and_then(|mut it| {
                it.write_all(&vec![0; WORDS * WORD])?;
                Ok(it)
            });
        let file = made.map_err(|it| failed(path, &it))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Reads what is forced and noted, lets `work` change it, and writes back what has changed.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is no control file any more.
    pub fn with<T>(&self, work: impl FnOnce(&Segment<'_>) -> T) -> Result<T, LiveError> {
        let mut bytes = vec![0; CONTROL_WORDS * WORD];
        let wrong = |it| failed(&self.path, &it);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut bytes)).map_err(wrong)?;
        let (before, _) = bytes.as_chunks::<WORD>();
        let before: Vec<u64> = before.iter().map(|it| u64::from_ne_bytes(*it)).collect();
        let times = std::iter::repeat_n(0, WORDS - CONTROL_WORDS);
        let words: Vec<AtomicU64> =
            before.iter().copied().chain(times).map(AtomicU64::new).collect();
        let result = work(&Segment::new(&words)?);
        for (at, (word, before)) in words.iter().zip(&before).enumerate() {
            let word = word.load(Relaxed);
            if word != *before {
                let bytes = word.to_ne_bytes();
                let at = SeekFrom::Start((at * WORD) as u64);
                file.seek(at).and_then(|_| file.write_all(&bytes)).map_err(wrong)?;
            }
        }
        Ok(result)
    }
}

impl Drop for ControlFile {
    fn drop(&mut self) {
        // A file that stays behind does no harm: it is some kilobytes that nobody uses.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn failed(path: &Path, error: &std::io::Error) -> LiveError {
    LiveError::Control { file: path.display().to_string(), problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use motet_runtime::Collective;

    #[test]
    fn what_is_forced_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let control = ControlFile::create(&path).unwrap();
        assert!(ControlFile::create(&path).is_err(), "there is one");
        let mode: Mode = "tree/ll/4".parse().unwrap();
        let force = |it: &Segment<'_>| it.force(Collective::AllReduce, mode.forced());
        control.with(force).unwrap().unwrap();
        let forced = control.with(|it| it.forced(Collective::AllReduce)).unwrap();
        assert_eq!(forced, mode.forced());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (WORDS * WORD) as u64);
        drop(control);
        assert!(!path.exists());
    }
}

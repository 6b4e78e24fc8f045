//! [`Log`]: the last records of the journal, as lines in two files, until they are in the database.
//!
//! Once written, a file's contents are the operating system's and survive the end of this process; until they
//! are synced to the disk, only a crash of the machine can lose them. Syncing takes milliseconds on many
//! disks, and a change of circuits would wait for it three times. So records go to a log first, and a thread
//! moves the records of one file into the database while the other file is being written.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::record::Record;

/// One of the two files.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    length: u64,
}

/// The paths of a store's two files.
pub(super) fn paths(store: &Path) -> [PathBuf; 2] {
    ["log0", "log1"].map(|it| {
        let mut name = store.as_os_str().to_owned();
        name.push(".");
        name.push(it);
        PathBuf::from(name)
    })
}

impl Log {
    /// Opens or creates a file, and reads its records. An incomplete last line is ignored: it was being
    /// written when the process ended, so nothing was carried out that depends on it.
    pub(super) fn open(path: &Path) -> std::io::Result<(Self, Vec<Record>)> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.split_inclusive(|it| *it == b'\n').filter(|it| it.ends_with(b"\n"));
        let records = whole.map_while(|it| serde_json::from_slice(it).ok()).collect();
        let length = text.len() as u64;
        Ok((Self { file, length }, records))
    }

    /// Adds records: all of them or none.
    pub(super) fn append(&mut self, records: &[Record]) -> std::io::Result<()> {
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record)?;
            text.push(b'\n');
        }
        if let Err(error) = self.file.write_all(&text) {
            // A partial line would make all later ones unreadable.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += text.len() as u64;
        Ok(())
    }

    /// Empties the file, once its records are in the database.
    pub(super) fn clear(&mut self) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.length = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Entry, Service};

    fn record(number: u64) -> Record {
        Record { number, time: 0, entry: Entry::Service(Service::Stopped) }
    }

    #[test]
    fn half_a_line_is_ignored_and_the_rest_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (mut log, records) = Log::open(&path).unwrap();
        assert_eq!(records, []);
        log.append(&[record(0), record(1)]).unwrap();
        drop(log);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(br#"{"number":2,"ti"#).unwrap();
        let (mut log, records) = Log::open(&path).unwrap();
        assert_eq!(records, [record(0), record(1)]);
        log.clear().unwrap();
        log.append(&[record(7)]).unwrap();
        assert_eq!(Log::open(&path).unwrap().1, [record(7)]);
    }
}

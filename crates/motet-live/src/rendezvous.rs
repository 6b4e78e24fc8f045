//! How ranks that a launcher has started on many hosts find the driver: through a file that all hosts see.
//!
//! The driver is beside rank 0. It writes where it listens and the token that lets ranks in; the file can be read by
//! its owner only, and lies where the user says, which is as safe as the user's other files. A file that an earlier run has
//! left there leads nowhere, or to a driver with another token; ranks then read it again, until the limit.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::LiveError;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meeting {
    /// The driver's host, by a name that others know.
    pub host: String,
    pub port: u16,
    pub token: String,
}

impl Meeting {
    /// Writes the file, so that readers see all of it or none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LiveError> {
        let part = path.with_extension("part");
        let wrong = |error| LiveError::Io {
            what: format!("{} cannot be written, where ranks look for the driver", path.display()),
            error,
        };
        // Numbers and text are always JSON.
        let text = serde_json::to_string(self).unwrap_or_default();
        let file = crate::private_file().create(true).truncate(true).open(&part);
        file.and_then(|mut it| it.write_all(text.as_bytes())).map_err(wrong)?;
        fs::rename(&part, path).map_err(wrong)
    }

    /// What the file says at this moment; none if it is not there or not whole.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// The driver's address, asked of the name service.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        (self.host.as_str(), self.port).to_socket_addrs().ok()?.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_half_of_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meet");
        assert_eq!(Meeting::read(&path), None);
        let meeting = Meeting { host: "127.0.0.1".to_owned(), port: 9, token: "t".to_owned() };
        meeting.write(&path).unwrap();
        assert_eq!(Meeting::read(&path), Some(meeting.clone()));
        assert_eq!(meeting.address().unwrap().port(), 9);
        fs::write(&path, "{\"host\"").unwrap();
        assert_eq!(Meeting::read(&path), None);
        let nowhere = meeting.write(&folder.path().join("no/meet")).unwrap_err().to_string();
        assert!(nowhere.contains("ranks look for the driver"), "{nowhere}");
    }
}

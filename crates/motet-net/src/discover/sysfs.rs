//! Reads sysfs, or a recorded copy of it under another root. Sizes are bounded, and nothing is
//! assumed: an entry may be missing, may not be a file, or may hold anything.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::provenance::Unseen;

/// A file of sysfs is at most a page; the list of a CPU's features is the longest we read.
const MAX_BYTES: u64 = 1 << 16;
const MAX_ENTRIES: usize = 1 << 14;

/// A sysfs tree, and what of it could not be read.
#[derive(Debug)]
pub(super) struct Sysfs {
    root: PathBuf,
    pub(super) unseen: Vec<Unseen>,
}

impl Sysfs {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), unseen: Vec::new() }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The text of a file without blanks around; `None` if there is none. What is there and cannot
    /// be read is noted, but for what the kernel refuses to say of a device that is down.
    pub(super) fn text(&mut self, path: &str) -> Option<String> {
        let full = self.root.join(path);
        // Only plain files: opening a pipe in a strange tree would wait for ever.
        let kind = fs::metadata(&full).map_err(|error| error.kind());
        match kind {
            Ok(meta) if meta.is_file() => {}
            Err(std::io::ErrorKind::NotFound) => return None,
            Ok(_) => {
                self.unseen.push(Unseen::new(path, "is not a file"));
                return None;
            }
            Err(error) => {
                self.unseen.push(Unseen::new(path, format!("cannot be read: {error}")));
                return None;
            }
        }
        let mut bytes = Vec::new();
        let read = File::open(&full).and_then(|it| it.take(MAX_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => {
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                (!text.is_empty()).then_some(text)
            }
            // An interface that is down has no speed: the kernel answers EINVAL.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => None,
            Err(error) => {
                self.unseen.push(Unseen::new(path, format!("cannot be read: {error}")));
                None
            }
        }
    }

    /// The names in a folder, sorted; `None` if there is no such folder.
    pub(super) fn list(&mut self, path: &str) -> Option<Vec<String>> {
        let entries = fs::read_dir(self.root.join(path)).ok()?;
        let mut names: Vec<String> = entries
            .filter_map(|it| it.ok()?.file_name().into_string().ok())
            .take(MAX_ENTRIES + 1)
            .collect();
        if names.len() > MAX_ENTRIES {
            let why = format!("has more than {MAX_ENTRIES} entries, of which some are left out");
            self.unseen.push(Unseen::new(path, why));
            names.truncate(MAX_ENTRIES);
        }
        names.sort_unstable();
        Some(names)
    }

    /// Where a link leads, as written in it; it is not followed.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        Some(fs::read_link(self.root.join(path)).ok()?.to_string_lossy().into_owned())
    }
}

/// A PCI address, `0000:1b:00.0`; domains above ffff have more digits.
pub(super) fn is_bus_id(text: &str) -> bool {
    let hex = |it: &str, least: usize, most: usize| {
        (least..=most).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_hexdigit())
    };
    let mut parts = text.split([':', '.']);
    let four =
        [parts.next(), parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    let [domain, bus, device, function] = four;
    parts.next().is_none()
        && text.matches(':').count() == 2
        && text.rfind(':') < text.find('.')
        && hex(domain, 4, 8)
        && hex(bus, 2, 2)
        && hex(device, 2, 2)
        && hex(function, 1, 1)
}

/// A PCI address as a number to compare by; zero for what is none.
pub(super) fn bus_number(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids() {
        for good in ["0000:1b:00.0", "0000:1B:1f.7", "10000:01:00.0"] {
            assert!(is_bus_id(good), "{good}");
        }
        for bad in ["pci0000:16", "0000:1b:00", "0000:1b.00:0", "0000:1b:00.0.1", "", "virtio0"] {
            assert!(!is_bus_id(bad), "{bad}");
        }
        assert!(bus_number("0000:1b:00.0") < bus_number("0000:3a:00.0"));
        assert!(bus_number("0001:00:00.0") > bus_number("0000:ff:00.0"));
    }
}

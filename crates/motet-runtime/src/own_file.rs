//! [`own_file`]: a file name for each process, where several ranks are given the same path for traces or metrics.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The path with `%r` replaced by the rank (or by `p` and the process's number, where the rank is not known) and `%p`
/// by the process's number; with neither of them, the process's number is put before the extension.
#[must_use]
pub fn own_file(path: &Path, rank: Option<u32>, process: u32) -> PathBuf {
    let text = path.to_string_lossy();
    if text.contains("%r") || text.contains("%p") {
        let rank = rank.map_or_else(|| format!("p{process}"), |it| it.to_string());
        return text.replace("%r", &rank).replace("%p", &process.to_string()).into();
    }
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!(".{process}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_has_its_own_file() {
        let own =
            |path: &str| own_file(Path::new(path), Some(3), 77).to_string_lossy().into_owned();
        assert_eq!(own("/x/rank-%r.prom"), "/x/rank-3.prom");
        assert_eq!(own("/x/%r-%p"), "/x/3-77");
        assert_eq!(own("/x/job.trace"), "/x/job.77.trace");
        assert_eq!(own("job"), "job.77");
        assert_eq!(own_file(Path::new("%r.prom"), None, 77), Path::new("p77.prom"));
    }
}

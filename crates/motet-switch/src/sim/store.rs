//! The file that a simulated switch keeps its cross-connections in: inputs and outputs in JSON, as `[[0,1],[7,9]]`.
//!
//! A new file is written beside the old one and then renamed, so that after a kill the file has the old or
//! the new circuits, never half of them. It is not synced to the disk, because it has to outlive the process,
//! not the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

pub(super) fn load(file: &Path) -> Result<BTreeMap<u32, u32>, String> {
    let text = std::fs::read_to_string(file).map_err(|it| {
        format!("{}: {it}; a file with `[]` is a switch without circuits", file.display())
    })?;
    parse(&text).map_err(|it| format!("{}: {it}", file.display()))
}

fn parse(text: &str) -> Result<BTreeMap<u32, u32>, String> {
    let pairs: Vec<[u32; 2]> = serde_json::from_str(text).map_err(|it| it.to_string())?;
    let mut crosses = BTreeMap::new();
    let mut outputs = BTreeSet::new();
    for [input, output] in pairs {
        if crosses.insert(input, output).is_some() || !outputs.insert(output) {
            return Err(format!("port {input} or {output} is in two circuits"));
        }
    }
    Ok(crosses)
}

pub(super) fn save(file: &Path, crosses: &BTreeMap<u32, u32>) -> Result<(), String> {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut beside = tempfile::NamedTempFile::new_in(folder)?;
        let pairs: Vec<(&u32, &u32)> = crosses.iter().collect();
        beside.write_all(serde_json::to_string(&pairs)?.as_bytes())?;
        beside.persist(file).map_err(|it| it.error)?;
        Ok::<(), std::io::Error>(())
    };
    write().map_err(|it| format!("{} cannot be written: {it}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("circuits");
        assert!(load(&file).unwrap_err().contains("`[]` is a switch without circuits"));
        let crosses = BTreeMap::from([(1, 4), (7, 2)]);
        save(&file, &crosses).unwrap();
        assert_eq!(load(&file).unwrap(), crosses);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "[[1,4],[7,2]]");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "1", "[[1]]", "[[1,2,3]]", "[[1,2],[1,3]]", "[[1,2],[3,2]]", "[[-1,2]]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

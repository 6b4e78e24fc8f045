//! [`Target`]: where a plan goes, found out before hours of work rather than after.
//!
//! A plan takes the place of nothing, of an empty folder or of a plan. What it takes the place of is
//! deleted, so a folder with anything else in it is none of these.

use std::fs;
use std::path::{Path, PathBuf};

use motet_tune::plan::folder::{CHECKSUMS, MANIFEST, NETWORK, TABLE};

use super::failure;
use crate::failure::Failure;

/// What plans have in their folders, those of format 1 too.
const OURS: [&str; 10] = [
    MANIFEST,
    CHECKSUMS,
    TABLE,
    NETWORK,
    "report.html",
    "sketches",
    "nccl",
    "msccl",
    "mscclpp",
    "programs",
];

/// Where a plan goes.
#[derive(Debug)]
pub(super) struct Target {
    /// As the user wrote it.
    pub(super) name: String,
    /// The folder itself, not a link to it.
    pub(super) folder: PathBuf,
    /// Where the plan is made, on the same file system.
    pub(super) part: PathBuf,
}

impl Target {
    /// What `name` stands for, if a plan can be put there.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        let wrong = |problem: &str, remedy: &str| {
            Err(Failure::unreadable(problem).in_file(name).with_remedy(remedy))
        };
        // Without a slash at the end, as shells complete names with.
        let mut folder: PathBuf = Path::new(name).components().collect();
        let link = fs::symlink_metadata(&folder).is_ok_and(|it| it.is_symlink());
        if link {
            folder = match fs::canonicalize(&folder) {
                Ok(found) => found,
                Err(error) => {
                    return wrong(
                        &format!("is a link that cannot be followed: {error}"),
                        "remove the link, or make the folder that it leads to",
                    );
                }
            };
        }
        let Some(last) = folder.file_name() else {
            return wrong(
                "is no name for a folder",
                "give `-o` a folder of its own, as in `-o plan`",
            );
        };
        let mut part = last.to_owned();
        part.push(".part");
        let part = folder.with_file_name(part);
        match fs::metadata(&folder) {
            Ok(found) if found.is_dir() => replaceable(name, &folder)?,
            Ok(_) => return wrong("is a file, and a plan is a folder", "give `-o` another name"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if !above(&folder).is_dir() {
                    return wrong(
                        "cannot be made: the folder above it does not exist",
                        "create that first",
                    );
                }
            }
            Err(error) => return Err(failure(&folder, "cannot be looked at", &error)),
        }
        Ok(Self { name: name.to_owned(), folder, part })
    }
}

/// The folder that something lies in.
fn above(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a plan can take the place of a folder.
fn replaceable(name: &str, folder: &Path) -> Result<(), Failure> {
    let wrong = |problem: String, remedy: &str| {
        Err(Failure::unreadable(problem).in_file(name).with_remedy(remedy))
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(|it| failure(folder, "cannot be read", &it))? {
        let entry = entry.map_err(|it| failure(folder, "cannot be read", &it))?;
        entries.push(entry.file_name());
    }
    entries.sort();
    if !entries.is_empty() && !folder.join(MANIFEST).is_file() {
        return wrong(
            "is there already and is not the folder of a plan".to_owned(),
            "give `-o` another folder",
        );
    }
    let stray = entries.iter().find(|it| !OURS.iter().any(|ours| it.as_os_str() == *ours));
    if let Some(stray) = stray {
        return wrong(
            format!(
                "has `{}` in it, which is no file of a plan and would be deleted with the old plan",
                stray.to_string_lossy()
            ),
            "move it elsewhere, or give `-o` another folder",
        );
    }
    movable(folder).or_else(|problem| {
        wrong(problem, "give `-o` another folder, or one below it that does not exist yet")
    })
}

/// Whether the system lets a folder change places with another.
#[cfg(unix)]
fn movable(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    let device = |it: &Path| fs::metadata(it).map(|it| it.dev());
    if device(folder).ok() != device(above(folder)).ok() {
        return Err("is where a file system is mounted, and cannot be replaced".to_owned());
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
        return Err(format!("cannot be replaced: {error}"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn movable(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(at: &Path, name: &str) -> Result<Target, Failure> {
        // Not `join`, which would drop what is at the end.
        Target::find(&format!("{}/{name}", at.display()))
    }

    #[test]
    fn a_slash_at_the_end_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in ["plan", "plan/", "plan//", "./plan/.", "plan/./"] {
            for made in [false, true] {
                if made {
                    fs::create_dir(at.join("plan")).unwrap();
                }
                let target = find(at, name).unwrap();
                assert_eq!((target.folder, target.part), (at.join("plan"), at.join("plan.part")));
                let _ = fs::remove_dir(at.join("plan"));
            }
        }
    }

    #[test]
    fn only_nothing_an_empty_folder_and_plans_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let problem = |name: &str| find(at, name).map(|_| ()).unwrap_err().problem;
        assert!(problem("a/plan").contains("the folder above it does not exist"));
        assert!(problem("..").contains("no name"));
        fs::write(at.join("file"), "").unwrap();
        assert!(problem("file").contains("is a file"));
        assert!(problem("file/plan").contains("cannot be looked at"));
        fs::create_dir(at.join("mine")).unwrap();
        assert!(find(at, "mine").is_ok());
        fs::write(at.join("mine/notes"), "").unwrap();
        assert!(problem("mine").contains("is not the folder of a plan"));
        fs::write(at.join("mine").join(MANIFEST), "").unwrap();
        assert!(problem("mine/").contains("has `notes` in it"));
        fs::remove_file(at.join("mine/notes")).unwrap();
        assert!(find(at, "mine/").is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stands_for_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        fs::create_dir_all(at.join("disk/v1")).unwrap();
        std::os::unix::fs::symlink("disk/v1", at.join("plan")).unwrap();
        for name in ["plan", "plan/"] {
            let target = find(&at, name).unwrap();
            assert_eq!(target.folder, at.join("disk/v1"));
            assert_eq!(target.part, at.join("disk/v1.part"));
        }
        fs::remove_dir(at.join("disk/v1")).unwrap();
        let problem = find(&at, "plan").unwrap_err().problem;
        assert!(problem.contains("is a link that cannot be followed"), "{problem}");
    }

    #[cfg(unix)]
    #[test]
    fn a_mounted_file_system_is_not_replaced() {
        // On every Unix `/dev` or `/proc` is one.
        let mounted = ["/proc", "/dev"].map(Path::new).into_iter().find(|it| it.is_dir());
        let Some(mounted) = mounted else { return };
        assert!(movable(mounted).unwrap_err().contains("mounted"));
    }
}

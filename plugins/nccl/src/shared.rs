//! Mapping the file that `MOTET_CONTROL` names. Its layout, and what its users promise one another, is
//! [`motet_runtime::segment`].

#![allow(
    unsafe_code,
    reason = "memory that is shared with other processes cannot be had without it"
)]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use motet_runtime::Segment;
use motet_runtime::segment::WORDS;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap};

const BYTES: usize = WORDS * size_of::<u64>();

/// The segment of this process, mapped when it is first asked for; none if `MOTET_CONTROL` is not set.
///
/// # Errors
/// In words, when it is set and the file is not usable.
pub(crate) fn segment() -> Result<Option<Segment<'static>>, &'static str> {
    static SEGMENT: OnceLock<Result<Option<Segment<'static>>, String>> = OnceLock::new();
    let mapped = SEGMENT.get_or_init(|| {
        let Some(path) = std::env::var_os("MOTET_CONTROL").map(PathBuf::from) else {
            return Ok(None);
        };
        open(&path)
            .and_then(|it| map(&it))
            .map(Some)
            .map_err(|it| format!("MOTET_CONTROL: {}: {it}", path.display()))
    });
    mapped.as_ref().copied().map_err(String::as_str)
}

/// The file, made if it is not there. Whoever comes first, all make it of the same length, and of zeros.
fn open(path: &std::path::Path) -> Result<File, String> {
    // Links are not followed: such files lie in folders that others can write to.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path).map_err(|it| it.to_string())?;
    let about = file.metadata().map_err(|it| it.to_string())?;
    if !about.is_file() {
        return Err("it is not an ordinary file; give another".to_owned());
    }
    if about.len() != 0 && about.len() != BYTES as u64 {
        let length = about.len();
        return Err(format!("it has {length} bytes, not {BYTES}; remove it, or give another"));
    }
    // All of it now, and holes that others left: a disk that is full when a page is first touched ends the job.
    fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64).map_err(|it| {
        format!("{BYTES} bytes cannot be had there: {it}; give a file in /dev/shm")
    })?;
    Ok(file)
}

fn map(file: &File) -> Result<Segment<'static>, String> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses where, so no memory of ours is replaced.
    let mapped = unsafe {
        mmap(std::ptr::null_mut(), BYTES, protection, MapFlags::SHARED, file, 0)
            .map_err(|it| it.to_string())?
    };
    // SAFETY: mapped above with this length, page-aligned, and never unmapped; every process touches it through
    // atomics only. A file that someone shortens would end the job; the users of the file promise not to.
    let words = unsafe { std::slice::from_raw_parts(mapped.cast::<AtomicU64>(), WORDS) };
    Segment::new(words).map_err(|it| it.to_string())
}

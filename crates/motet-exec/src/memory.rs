//! [`Memory`]: buffers that other ranks of the same host can read, or that are the caller's for a call, and
//! [`Foreign`], such a buffer of another rank.
//!
//! On Linux a buffer that others read is a file in memory (`memfd_create`) that is mapped; a rank of the same
//! host opens it by way of `/proc` and maps it for reading. So data inside a host is moved once, by the rank that
//! receives it, straight from the sender's buffer, and a reduction reads it there. Nothing is left
//! behind when a process is killed. Elsewhere a buffer is plain memory and data goes over TCP.
//!
//! A buffer that nobody else reads needs no file, and no memory until it is written; during a call it may be
//! the caller's own ([`crate::lending`]).

#![allow(
    unsafe_code,
    reason = "memory that is mapped or lent: what others do to it, the compiler cannot see"
)]

use std::fmt;

use crate::error::ExecError;

/// A buffer. A new one holds zeros and is aligned for every element type; one that is lent is the caller's memory as it is.
pub struct Memory {
    inner: Inner,
}

enum Inner {
    Plain(Vec<u64>, usize),
    #[cfg(target_os = "linux")]
    Private(memmap2::MmapMut),
    #[cfg(target_os = "linux")]
    Shared(memmap2::MmapMut, std::fs::File),
    Lent(Lent),
}

/// Memory of the caller's, for the time of a call.
struct Lent {
    at: *mut u8,
    len: usize,
    /// Whether it may be written; otherwise it is for reading only.
    writable: bool,
}

// SAFETY: a pointer to memory that, as was promised to `Memory::lent`, is this one's alone, or written by nobody.
unsafe impl Send for Lent {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes().len())
    }
}

#[cfg(not(target_os = "linux"))]
fn plain(len: usize) -> std::io::Result<Inner> {
    let mut words = Vec::new();
    words.try_reserve_exact(len.div_ceil(8)).map_err(std::io::Error::other)?;
    words.resize(len.div_ceil(8), 0);
    Ok(Inner::Plain(words, len))
}

impl Memory {
    fn made(len: usize, make: fn(usize) -> std::io::Result<Inner>) -> Result<Self, ExecError> {
        if len == 0 {
            return Ok(Self { inner: Inner::Plain(Vec::new(), 0) });
        }
        let inner = make(len).map_err(|it| ExecError::Memory(len, it.to_string()))?;
        Ok(Self { inner })
    }

    /// A buffer of `len` bytes that other ranks of the host can read.
    pub fn new(len: usize) -> Result<Self, ExecError> {
        #[cfg(target_os = "linux")]
        return Self::made(len, shared);
        #[cfg(not(target_os = "linux"))]
        Self::made(len, plain)
    }

    /// A buffer of `len` bytes that nobody else reads. On Linux it takes memory only as it is written.
    pub(crate) fn private(len: usize) -> Result<Self, ExecError> {
        #[cfg(target_os = "linux")]
        return Self::made(len, |it| memmap2::MmapMut::map_anon(it).map(Inner::Private));
        #[cfg(not(target_os = "linux"))]
        Self::made(len, plain)
    }

    /// The caller's memory.
    ///
    /// # Safety
    /// As long as this exists, `len` bytes are readable at `at` and nobody writes them; if `writable`, they are writable too, and
    /// nobody else touches them.
    pub(crate) const unsafe fn lent(at: *mut u8, len: usize, writable: bool) -> Self {
        Self { inner: Inner::Lent(Lent { at, len, writable }) }
    }

    /// Whether it is the caller's memory, lent for reading only.
    pub(crate) const fn is_read_only(&self) -> bool {
        matches!(self.inner, Inner::Lent(Lent { writable: false, .. }))
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.inner {
            Inner::Plain(words, len) => &bytemuck::cast_slice(words)[..*len],
            #[cfg(target_os = "linux")]
            Inner::Private(map) | Inner::Shared(map, _) => map,
            Inner::Lent(Lent { len: 0, .. }) => &[],
            // SAFETY: readable, and written by nobody else, as was promised to `lent`.
            Inner::Lent(Lent { at, len, .. }) => unsafe { std::slice::from_raw_parts(*at, *len) },
        }
    }

    /// The bytes, to be written. Memory that was lent for reading only is replaced by a copy first, so that the caller's can never
    /// change; that is a safeguard, because memory is lent so only where nothing writes it ([`crate::lending`]).
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.is_read_only() {
            let Aligned { words, len } = Aligned::from_bytes(self.bytes());
            self.inner = Inner::Plain(words, len);
        }
        match &mut self.inner {
            Inner::Plain(words, len) => &mut bytemuck::cast_slice_mut(words)[..*len],
            #[cfg(target_os = "linux")]
            Inner::Private(map) | Inner::Shared(map, _) => map,
            Inner::Lent(Lent { len: 0, .. }) => &mut [],
            // SAFETY: writable, and touched by nobody else, as was promised to `lent`.
            Inner::Lent(Lent { at, len, .. }) => unsafe {
                std::slice::from_raw_parts_mut(*at, *len)
            },
        }
    }

    /// The file descriptor by which another process of this host can open it, and its length; 0 and 0 if none can.
    pub(crate) fn descriptor(&self) -> (u32, u64) {
        match &self.inner {
            Inner::Plain(..) | Inner::Lent(_) => (0, 0),
            #[cfg(target_os = "linux")]
            Inner::Private(_) => (0, 0),
            #[cfg(target_os = "linux")]
            Inner::Shared(map, file) => {
                use std::os::fd::AsRawFd as _;
                (file.as_raw_fd().unsigned_abs(), map.len() as u64)
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn shared(len: usize) -> std::io::Result<Inner> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = std::fs::File::from(memfd_create("motet-exec", flags)?);
    file.set_len(len as u64)?;
    // A reader whose mapping is cut off would be killed; what is sealed cannot shrink.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // SAFETY: this process writes the mapping through this one `Memory` only, and other processes map
    // it for reading. The file cannot shrink.
    let map = unsafe { memmap2::MmapMut::map_mut(&file)? };
    Ok(Inner::Shared(map, file))
}

/// A buffer of another rank of this host, to read from.
pub(crate) struct Foreign {
    #[cfg(target_os = "linux")]
    map: Option<memmap2::Mmap>,
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({} bytes)", self.bytes().len())
    }
}

impl Foreign {
    /// Maps the memory that process `process` has under a file descriptor.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(process: u32, (descriptor, len): (u32, u64)) -> Result<Self, String> {
        use rustix::fs::{Mode, OFlags, SealFlags, fcntl_get_seals, fstat, open};
        if len == 0 {
            return Ok(Self { map: None });
        }
        let path = format!("/proc/{process}/fd/{descriptor}");
        // What lies there is only known once it is open. Opening a pipe would wait for whoever writes it, for ever; opening a
        // terminal would make it this process's own.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = open(&path, flags, Mode::empty()).map_err(|it| format!("{path}: {it}"))?;
        let file = std::fs::File::from(file);
        // Only memory files can be sealed, so nothing else passes for one.
        let sealed = fcntl_get_seals(&file).is_ok_and(|it| it.contains(SealFlags::SHRINK));
        let long = fstat(&file).is_ok_and(|it| u64::try_from(it.st_size) == Ok(len));
        if !sealed || !long {
            return Err(format!("{path} is not the memory of a rank"));
        }
        // SAFETY: the file is sealed against shrinking. The owner writes it, but by the program's order
        // never while it has offered what is read here; one that did would only spoil the values, and any
        // bytes are values of every element type.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|it| format!("{path}: {it}"))?;
        Ok(Self { map: Some(map) })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(_process: u32, _memory: (u32, u64)) -> Result<Self, String> {
        Err("memory is shared on Linux only".to_owned())
    }

    /// Reads one byte as it is now, and not before any earlier read.
    pub(crate) fn byte_now(&self, at: usize) -> Option<u8> {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let byte = self.bytes().get(at)?;
        // SAFETY: a reference to a byte is valid to read; volatile, because another process writes it.
        Some(unsafe { std::ptr::from_ref(byte).read_volatile() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        #[cfg(target_os = "linux")]
        return self.map.as_deref().unwrap_or_default();
        #[cfg(not(target_os = "linux"))]
        &[]
    }
}

/// A text that is the same for two processes exactly if they can map each other's memory: the same
/// running kernel, process numbers of the same space, the same user. Ranks in different network
/// namespaces count as different hosts, because whoever puts them there wants a network between them.
/// `None` where memory cannot be shared.
pub(crate) fn host() -> Option<String> {
    #[cfg(target_os = "linux")]
    {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let space = |name: &str| {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some(link.to_string_lossy().into_owned())
        };
        let user = rustix::process::getuid().as_raw();
        Some(format!("{} {} {} {user}", boot.trim(), space("pid")?, space("net")?))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// A receive buffer, aligned for every element type and used for one payload after another.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    words: Vec<u64>,
    len: usize,
}

impl Aligned {
    /// Makes it `len` bytes long. Their content is whatever was left from before, which saves clearing them.
    pub(crate) fn set_len(&mut self, len: usize) {
        if self.words.len() < len.div_ceil(8) {
            self.words.resize(len.div_ceil(8), 0);
        }
        self.len = len;
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut it = Self::default();
        it.set_len(bytes.len());
        it.bytes_mut().copy_from_slice(bytes);
        it
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// Empty receive buffers, for reuse. New memory from the system would cost more than filling it does, because it is cleared first.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    buffers: Vec<Aligned>,
}

impl Spare {
    /// How many buffers are kept: a few MiB.
    const MOST: usize = 16;

    /// Takes a full buffer's content, where it pays with the buffer itself, for which an empty one is left.
    pub(crate) fn instead_of(&mut self, full: &mut Aligned) -> Aligned {
        if full.words.len() * 8 > 2 * full.len {
            // The buffer is much longer than its content. How much may be kept is limited in bytes of content, so that is
            // copied into a buffer of its own length.
            return Aligned::from_bytes(full.bytes());
        }
        std::mem::replace(full, self.buffers.pop().unwrap_or_default())
    }

    /// Takes a buffer back whose content is not needed any more.
    pub(crate) fn put_back(&mut self, buffer: Aligned) {
        if self.buffers.len() < Self::MOST {
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_takes_its_buffer_and_leaves_another() {
        let mut spare = Spare::default();
        let mut buffer = Aligned::from_bytes(&[7; 1000]);
        let place = buffer.bytes().as_ptr();
        let kept = spare.instead_of(&mut buffer);
        assert_eq!((kept.bytes(), kept.bytes().as_ptr()), (&[7; 1000][..], place));
        assert!(buffer.bytes().is_empty());
        spare.put_back(kept);
        buffer.set_len(900);
        spare.instead_of(&mut buffer);
        // The one that was put back.
        assert_eq!(buffer.bytes().as_ptr(), place);
        // Of little in a long buffer only that little is kept.
        buffer.set_len(10);
        assert_eq!(spare.instead_of(&mut buffer).words.len(), 2);
        assert_eq!(buffer.bytes().as_ptr(), place);
        (0..100).for_each(|_| spare.put_back(Aligned::default()));
        assert_eq!(spare.buffers.len(), Spare::MOST);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_one_writes_the_other_reads() {
        let mut memory = Memory::new(10_000).unwrap();
        memory.bytes_mut()[9_999] = 7;
        let foreign = Foreign::open(std::process::id(), memory.descriptor()).unwrap();
        assert_eq!(foreign.bytes()[9_999], 7);
        memory.bytes_mut()[0] = 5;
        assert_eq!(foreign.bytes()[0], 5);
        assert_eq!(foreign.bytes().len(), 10_000);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_memory_files_of_the_said_length_are_mapped() {
        use std::os::fd::AsRawFd as _;
        let memory = Memory::new(100).unwrap();
        let (descriptor, _) = memory.descriptor();
        assert!(Foreign::open(std::process::id(), (descriptor, 4096)).is_err());
        let other = std::fs::File::open("/proc/self/exe").unwrap();
        let len = other.metadata().unwrap().len();
        assert!(Foreign::open(std::process::id(), (other.as_raw_fd() as u32, len)).is_err());
        assert!(Memory::new(0).unwrap().bytes().is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_in_the_place_of_memory_is_refused_at_once() {
        use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
        use std::os::fd::AsRawFd as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // For reading only, so that nobody has it open for writing.
        let pipe = open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        let (sender, answer) = std::sync::mpsc::channel();
        let descriptor = pipe.as_raw_fd() as u32;
        std::thread::spawn(move || {
            let opened = Foreign::open(std::process::id(), (descriptor, 100));
            sender.send(opened.map(|_| ())).unwrap();
        });
        let opened = answer.recv_timeout(std::time::Duration::from_secs(5));
        let why = opened.expect("opening waits for a writer").unwrap_err();
        assert!(why.contains("is not the memory of a rank"), "{why}");
    }

    #[test]
    fn what_nobody_else_reads_has_no_file() {
        let mut memory = Memory::private(10_000).unwrap();
        assert_eq!((memory.descriptor(), memory.bytes()[9_999]), ((0, 0), 0));
        memory.bytes_mut()[9_999] = 7;
        assert_eq!((memory.bytes().len(), memory.bytes()[9_999]), (10_000, 7));
        assert!(Memory::private(0).unwrap().bytes_mut().is_empty());
    }
}

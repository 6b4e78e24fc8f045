//! The few calls to the kernel that Rust's libraries have no safe form of: a new network namespace, and a TUN device.

#![allow(
    unsafe_code,
    reason = "`unshare` and `ioctl` are unsafe in general; each block says why it is not here"
)]

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{IntegerSetter, Setter, ioctl};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::error::TestbedError;

/// `TUNSETIFF` and `TUNSETOFFLOAD` of `linux/if_tun.h`.
const SET_INTERFACE: u32 = 0x4004_54ca;
const SET_OFFLOAD: u32 = 0x4004_54d0;
/// `IFF_TUN | IFF_NO_PI | IFF_VNET_HDR`: IP packets, with a virtio-net header and nothing else before them.
const FLAGS: u16 = 0x0001 | 0x1000 | 0x4000;
/// `TUN_F_CSUM | TUN_F_TSO4`: packets come with checksums still to be made, and of many segments at once.
const OFFLOAD: usize = 1 | 2;

/// `struct ifreq`, as far as `TUNSETIFF` reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Runs `work` in a namespace, on a thread of its own that ends there.
pub(super) fn within<T: Send>(
    namespace: &OwnedFd,
    work: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<T, TestbedError> {
    on_thread(|| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|it| TestbedError::system("enter a network namespace", it))?;
        work()
    })
}

fn on_thread<T: Send>(
    work: impl FnOnce() -> Result<T, TestbedError> + Send,
) -> Result<T, TestbedError> {
    let ended = || TestbedError::system("run a thread in a namespace", "it ended early");
    std::thread::scope(|scope| scope.spawn(work).join().map_err(|_| ended())?)
}

/// A new network namespace, which lives as long as this is open.
pub(super) fn new_namespace() -> Result<OwnedFd, TestbedError> {
    on_thread(|| {
        // SAFETY: `unshare` is unsafe because of flags that part a thread's files or memory from those of its process. The network namespace is neither, and the
        // thread ends here.
        let made = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
        made.map_err(|it| TestbedError::system("make a network namespace", it))?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        open("/proc/thread-self/ns/net", flags, Mode::empty())
            .map_err(|it| TestbedError::system("open a network namespace", it))
    })
}

/// A TUN device of this name in the namespace of this thread; it is there as long as this is open.
pub(super) fn open_tun(name: &str) -> Result<File, TestbedError> {
    let failed = |it| TestbedError::system("open /dev/net/tun", it);
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = open("/dev/net/tun", flags, Mode::empty()).map_err(failed)?;
    let mut request = Request { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    for (to, from) in request.name.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    // SAFETY: the device is a TUN device, for which this number means `TUNSETIFF`; it reads a `struct ifreq`, which `Request` is as long as, and writes
    // no more than that.
    let setter = unsafe { Setter::<SET_INTERFACE, Request>::new(request) };
    // SAFETY: as above.
    unsafe { ioctl(&device, setter) }
        .map_err(|it| TestbedError::system("make a TUN device by /dev/net/tun", it))?;
    // SAFETY: this number means `TUNSETOFFLOAD`, whose argument is a number.
    let setter = unsafe { IntegerSetter::<SET_OFFLOAD>::new_usize(OFFLOAD) };
    // SAFETY: as above.
    unsafe { ioctl(&device, setter) }
        .map_err(|it| TestbedError::system("set up a TUN device by /dev/net/tun", it))?;
    Ok(File::from(device))
}

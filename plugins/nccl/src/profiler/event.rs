//! NCCL's event descriptors, as far as we read them. Layouts: `src/include/plugin/profiler/profiler_v1.h` to
//! `profiler_v7.h` in NVIDIA/nccl (v7 as of 2.31.2). In all of them the type is first (a byte up to v4, eight bytes
//! since), then the parent, the rank, and at byte 24 a union. What v6 and v7 add stands behind what we read.

#![allow(unsafe_code, reason = "NCCL gives pointers to C structs")]

use std::ffi::{CStr, c_char, c_int, c_void};

use motet_runtime::{Algorithm, Collective, Protocol};

use super::slot::Enqueued;
use crate::abi;

/// What every descriptor begins with.
#[repr(C)]
pub(super) struct Head {
    kind: u64,
    pub(super) parent: *mut c_void,
    rank: c_int,
}

/// The type of an event. Where that is one byte (`bytewise`), the bytes above it are padding and may hold anything.
pub(super) const fn kind(head: &Head, bytewise: bool) -> u64 {
    if bytewise { head.kind & 0xff } else { head.kind }
}

/// A collective in v4 and later.
#[repr(C)]
pub(super) struct Collective4 {
    head: Head,
    sequence: u64,
    function: *const c_char,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    root: c_int,
    datatype: *const c_char,
    channels: u8,
    warps: u8,
    algorithm: *const c_char,
    protocol: *const c_char,
}

/// The same in v3; v2 has the traffic before the channels.
#[repr(C)]
pub(super) struct Collective3 {
    head: Head,
    name: *const c_char,
    communicator: u64,
    sequence: u64,
    function: *const c_char,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    root: c_int,
    datatype: *const c_char,
    channels: u8,
    warps: u8,
    algorithm: *const c_char,
    protocol: *const c_char,
}

#[repr(C)]
pub(super) struct Collective2 {
    head: Head,
    name: *const c_char,
    communicator: u64,
    sequence: u64,
    function: *const c_char,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    root: c_int,
    datatype: *const c_char,
    traffic: usize,
    channels: u8,
    warps: u8,
    algorithm: *const c_char,
    protocol: *const c_char,
}

#[repr(C)]
pub(super) struct Collective1 {
    head: Head,
    name: *const c_char,
    communicator: u64,
    sequence: u64,
    function: u8,
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    root: c_int,
    datatype: u8,
    operation: u32,
    traffic: usize,
    channels: u8,
    warps: u8,
    algorithm: u8,
    protocol: u8,
}

/// A channel of a kernel; v3 has no time.
#[repr(C)]
pub(super) struct Channel4 {
    head: Head,
    channel: u8,
    pub(super) start_ns: u64,
}

/// A group of calls as the application makes it, since v5.
#[repr(C)]
pub(super) struct Group5 {
    head: Head,
    /// C's `bool`: whether the calls are captured in a CUDA graph.
    pub(super) captured: u8,
    depth: c_int,
}

/// A collective as the application calls it, since v5: reported if anything below it is profiled.
#[repr(C)]
pub(super) struct Collective5 {
    head: Head,
    function: *const c_char,
    count: usize,
    datatype: *const c_char,
    root: c_int,
    stream: *mut c_void,
    /// As a group's.
    pub(super) captured: u8,
}

/// The same of a send or receive.
#[repr(C)]
pub(super) struct Send5 {
    head: Head,
    function: *const c_char,
    count: usize,
    datatype: *const c_char,
    stream: *mut c_void,
    /// As a group's.
    pub(super) captured: u8,
}

const _: () = {
    assert!(std::mem::offset_of!(Group5, captured) == 24);
    assert!(std::mem::offset_of!(Collective5, captured) == 64);
    assert!(std::mem::offset_of!(Send5, captured) == 56);
    assert!(std::mem::offset_of!(Collective4, sequence) == 24);
    assert!(std::mem::offset_of!(Collective4, datatype) == 72);
    assert!(std::mem::offset_of!(Collective4, channels) == 80);
    assert!(std::mem::offset_of!(Collective4, protocol) == 96);
    assert!(size_of::<Collective3>() == 120 && size_of::<Collective2>() == 128);
    // v1's ends with two more numbers.
    assert!(std::mem::offset_of!(Collective1, protocol) == 107);
    assert!(std::mem::offset_of!(Channel4, start_ns) == 32);
};

/// # Safety
/// `text` must be null or end with a zero.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null; the caller promises the rest.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// The parts that v2 and later have as texts.
struct Texts {
    sequence: u64,
    function: *const c_char,
    count: usize,
    datatype: *const c_char,
    channels: u8,
    algorithm: *const c_char,
    protocol: *const c_char,
}

/// # Safety
/// The texts must be null or end with a zero.
unsafe fn enqueued(it: &Texts, ranks: u32) -> Option<Enqueued> {
    // SAFETY: as the caller promises, four times.
    let function = unsafe { text(it.function) };
    // SAFETY: as above.
    let datatype = unsafe { text(it.datatype) };
    // SAFETY: as above.
    let algorithm = unsafe { text(it.algorithm) };
    // SAFETY: as above.
    let protocol = unsafe { text(it.protocol) };
    let collective = function?.parse().ok()?;
    Some(Enqueued {
        sequence: it.sequence,
        collective,
        bytes: bytes(collective, it.count as u64, width(datatype?), ranks),
        algorithm: algorithm.and_then(|it| it.parse().ok()),
        protocol: protocol.and_then(|it| it.parse().ok()),
        channels: it.channels,
        position: 0,
    })
}

macro_rules! with_texts {
    ($name:ident, $descriptor:ty) => {
        /// The collective that is enqueued; none of those that no tuner is asked about.
        ///
        /// # Safety
        /// The descriptor must be of a collective, and its texts null or end with a zero.
        pub(super) unsafe fn $name(it: *const $descriptor, ranks: u32) -> Option<Enqueued> {
            // SAFETY: as the caller promises.
            let it = unsafe { it.as_ref() }?;
            let texts = Texts {
                sequence: it.sequence,
                function: it.function,
                count: it.count,
                datatype: it.datatype,
                channels: it.channels,
                algorithm: it.algorithm,
                protocol: it.protocol,
            };
            // SAFETY: as the caller promises.
            unsafe { enqueued(&texts, ranks) }
        }
    };
}

with_texts!(collective4, Collective4);
with_texts!(collective3, Collective3);
with_texts!(collective2, Collective2);

/// The same for v1, which has NCCL's numbers where later versions have texts.
pub(super) fn collective1(it: &Collective1, ranks: u32) -> Option<Enqueued> {
    // `ncclDataType_t`, with bfloat16 and the 8-bit floats at the end.
    const WIDTHS: [u64; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    let collective = abi::collective(it.function.into())?;
    let width = *WIDTHS.get(usize::from(it.datatype))?;
    Some(Enqueued {
        sequence: it.sequence,
        collective,
        bytes: bytes(collective, it.count as u64, width, ranks),
        algorithm: Algorithm::ALL.get(usize::from(it.algorithm)).copied(),
        protocol: Protocol::ALL.get(usize::from(it.protocol)).copied(),
        channels: it.channels,
        position: 0,
    })
}

/// The size of a call in nccl-tests' sense, in which the tuner is told it too.
fn bytes(collective: Collective, count: u64, width: u64, ranks: u32) -> u64 {
    let all = match collective {
        Collective::AllGather | Collective::ReduceScatter => u64::from(ranks),
        _ => 1,
    };
    count.saturating_mul(width).saturating_mul(all)
}

/// Bytes of an element: NCCL's names end with their bits, but for `ncclFloat8e4m3` and its like.
fn width(datatype: &str) -> u64 {
    let name = datatype.strip_prefix("nccl").unwrap_or(datatype);
    if name.starts_with("Float8") {
        return 1;
    }
    let bits = name.trim_start_matches(|it: char| !it.is_ascii_digit());
    bits.parse::<u64>().map_or(1, |it| it / 8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_the_tuner_is_told() {
        assert_eq!(bytes(Collective::AllReduce, 256, width("ncclFloat32"), 8), 1024);
        assert_eq!(bytes(Collective::AllGather, 256, width("ncclBfloat16"), 8), 4096);
        for (name, bytes) in [("ncclInt8", 1), ("ncclUint64", 8), ("ncclFloat8e5m2", 1), ("?", 1)] {
            assert_eq!(width(name), bytes, "{name}");
        }
        assert_eq!(bytes(Collective::ReduceScatter, u64::MAX, 8, 8), u64::MAX);
    }

    #[test]
    fn a_descriptor_of_v4_is_read() {
        let null = std::ptr::null_mut();
        let it = Collective4 {
            head: Head { kind: 2, parent: null, rank: 0 },
            sequence: 9,
            function: c"ReduceScatter".as_ptr(),
            from: null,
            to: null,
            count: 4,
            root: 0,
            datatype: c"ncclFloat64".as_ptr(),
            channels: 3,
            warps: 16,
            algorithm: c"COLLNET_DIRECT".as_ptr(),
            protocol: c"LL128".as_ptr(),
        };
        let expected = Enqueued {
            sequence: 9,
            collective: Collective::ReduceScatter,
            bytes: 64,
            algorithm: Some(Algorithm::CollNetDirect),
            protocol: Some(Protocol::Ll128),
            channels: 3,
            position: 0,
        };
        // SAFETY: literals.
        assert_eq!(unsafe { collective4(&raw const it, 2) }, Some(expected));
        let nothing = Collective4 { function: std::ptr::null(), ..it };
        // SAFETY: as above.
        assert_eq!(unsafe { collective4(&raw const nothing, 2) }, None);
        let unknown =
            Collective4 { function: c"AllGather".as_ptr(), algorithm: std::ptr::null(), ..nothing };
        // SAFETY: as above.
        let unknown = unsafe { collective4(&raw const unknown, 2) };
        assert_eq!(unknown.and_then(|it| it.algorithm), None);
    }
}

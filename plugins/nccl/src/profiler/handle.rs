//! [`Handle`]: what NCCL holds of an event: a number that is the address of no object, because it is odd.

use std::ffi::c_void;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Collective,
    /// A channel of its kernel.
    Channel,
}

/// Which use of which slot of which context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) kind: Kind,
    /// Of 4096.
    pub(super) context: u16,
    /// Of 256.
    pub(super) slot: u8,
    /// How often the slot had been used.
    pub(super) reuse: u32,
}

/// What NCCL holds of a group. We follow nothing of groups, but up to 2.27 NCCL reports only the calls of groups that have a handle.
pub(super) const fn of_group() -> *mut c_void {
    std::ptr::without_provenance_mut(2)
}

impl Handle {
    pub(super) fn pack(self) -> *mut c_void {
        let kind = u64::from(self.kind == Kind::Channel);
        let bits = 1
            | kind << 1
            | u64::from(self.context & 0xfff) << 2
            | u64::from(self.slot) << 14
            | u64::from(self.reuse) << 22;
        std::ptr::without_provenance_mut(bits as usize)
    }

    /// The handle of a pointer from NCCL; `None` for null, and for pointers that we never gave.
    pub(super) fn unpack(pointer: *mut c_void) -> Option<Self> {
        let bits = pointer.addr() as u64;
        let ours = bits & 1 == 1 && bits >> 54 == 0;
        ours.then_some(Self {
            kind: if bits >> 1 & 1 == 1 { Kind::Channel } else { Kind::Collective },
            context: (bits >> 2 & 0xfff) as u16,
            slot: (bits >> 14 & 0xff) as u8,
            reuse: (bits >> 22) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_no_address_and_comes_back_as_it_was() {
        for kind in [Kind::Collective, Kind::Channel] {
            let handle = Handle { kind, context: 4095, slot: 255, reuse: u32::MAX };
            assert_eq!(Handle::unpack(handle.pack()), Some(handle));
        }
        assert_eq!(Handle::unpack(std::ptr::null_mut()), None);
        assert_eq!(Handle::unpack(of_group()), None);
        assert_eq!(Handle::unpack((&raw mut *Box::new(0u64)).cast()), None);
    }
}

//! The NCCL behind us: the functions that the job would have called.

#![allow(unsafe_code, reason = "a foreign library cannot be called without it")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::sync::Mutex;

/// The name by which every program is linked to NCCL.
const LIBRARY: &CStr = c"libnccl.so.2";

/// The address of a function of the real NCCL; null if it has none of this name.
///
/// It is looked for behind us in the order in which libraries were loaded, then in the library that is loaded already (that of
/// PyTorch is not in that order, because Python loads it privately), and at last in the one that the system finds.
pub(crate) fn address(name: &'static CStr) -> *mut c_void {
    static KNOWN: Mutex<BTreeMap<&CStr, usize>> = Mutex::new(BTreeMap::new());
    // A thread that panicked while it held the lock has left a map that is whole.
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *known.entry(name).or_insert_with(|| find(name) as usize) as *mut c_void
}

fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero; `RTLD_NEXT` asks for the symbol of a library after ours.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next;
    }
    for flags in [libc::RTLD_LAZY | libc::RTLD_NOLOAD, libc::RTLD_LAZY] {
        // SAFETY: the name ends with a zero. Loading NCCL runs its initializers, as the job itself would have done;
        // the handle is never closed.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), flags) };
        if library.is_null() {
            continue;
        }
        // SAFETY: the handle is one that `dlopen` has just given us.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        if !found.is_null() {
            return found;
        }
    }
    std::ptr::null_mut()
}

/// Calls a function of the real NCCL with the types that the declaration has; `INVALID_USAGE` if there is none.
macro_rules! real {
    ($name:literal, fn($($type:ty),*), ($($argument:expr),*)) => {{
        let address = $crate::real::address($name);
        if address.is_null() {
            $crate::log::warn(&format!("NCCL has no function {}", $name.to_string_lossy()));
            $crate::abi::INVALID_USAGE
        } else {
            type Function = unsafe extern "C" fn($($type),*) -> $crate::abi::Status;
            // SAFETY: the address is that of the function of this name in NCCL, whose declaration in `nccl.h` has these
            // types.
            let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
            // SAFETY: the arguments are those of the job's own call, or ours with the lifetimes that NCCL asks for.
            unsafe { function($($argument),*) }
        }
    }};
}
pub(crate) use real;

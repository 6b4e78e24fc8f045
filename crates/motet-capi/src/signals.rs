//! Writing to a connection that the other side has closed raises SIGPIPE, which ends a process that has not said otherwise. Rust's and Python's
//! programs have; a C program need not have. So the threads that write block it, and see an error instead.

#![allow(unsafe_code, reason = "the system's masks of signals are set through C")]

/// Blocks SIGPIPE in this thread, and in those that it starts. The caller's threads and handlers stay as they are.
pub(crate) fn block_broken_pipes() {
    #[cfg(unix)]
    {
        let mut mask = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: it writes a set, which is large enough for it.
        unsafe { libc::sigemptyset(mask.as_mut_ptr()) };
        // SAFETY: the set was made just before, and SIGPIPE is a signal.
        unsafe { libc::sigaddset(mask.as_mut_ptr(), libc::SIGPIPE) };
        // SAFETY: a set that was made; the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, mask.as_ptr(), std::ptr::null_mut()) };
    }
}

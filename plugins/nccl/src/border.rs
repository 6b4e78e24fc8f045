//! The border to C: no panic crosses it, and no error does, but for calls that no rank may decide alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{REMOTE_ERROR, SUCCESS, Status};

/// Does `work` and returns success, whatever comes of it: NCCL would pass a plugin's error on to the job's
/// collective, but what we leave undone it does by itself.
pub(crate) fn border(work: impl FnOnce()) -> Status {
    // What a panic leaves half done are settings of this communicator that NCCL then chooses itself.
    let _ = catch_unwind(AssertUnwindSafe(work));
    SUCCESS
}

/// The same for decisions that must not be left to one rank: where `work` returns false, the call fails. See `Notice::Hopeless`.
pub(crate) fn border_or_fail(work: impl FnOnce() -> bool) -> Status {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(false) => REMOTE_ERROR,
        Ok(true) | Err(_) => SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stays_on_this_side() {
        assert_eq!(border(|| panic!("on purpose")), SUCCESS);
        assert_eq!(border_or_fail(|| panic!("on purpose")), SUCCESS);
        assert_eq!(border_or_fail(|| false), REMOTE_ERROR);
    }
}

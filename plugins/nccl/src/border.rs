//! The border to C: no panic crosses it, and no error does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{SUCCESS, Status};

/// Does `work` and says that all is well, whatever comes of it: NCCL passes a plugin's error on to the job's
/// collective, and what we have left undone it does by itself.
pub(crate) fn border(work: impl FnOnce()) -> Status {
    // What a panic leaves half done are settings of this communicator that NCCL then chooses itself.
    let _ = catch_unwind(AssertUnwindSafe(work));
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stays_on_this_side() {
        assert_eq!(border(|| panic!("on purpose")), SUCCESS);
    }
}

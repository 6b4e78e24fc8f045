//! [`CommError`]: why something failed, as C is told it: a [`Status`], and a text.

use motet_exec::ExecError;

/// What a function of `motet.h` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    /// An argument is wrong; nothing has happened.
    Invalid = 1,
    /// The cluster file, or no program for it.
    Cluster = 2,
    /// A rank is gone. `motet_survivors` goes on without it.
    Lost = 3,
    /// The call failed otherwise, or took too long among ranks that all still answer.
    Failed = 4,
    /// A fault in Motet.
    Fault = 5,
}

/// Why something failed. One cause ends all calls that are under way, so it can be cloned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CommError {
    pub status: Status,
    pub text: String,
    /// The rank at fault, as far as is known.
    pub culprit: Option<u32>,
    /// Whether the group is of no use any more.
    pub(crate) fatal: bool,
}

impl CommError {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { status: Status::Invalid, text: text.into(), culprit: None, fatal: false }
    }

    pub(crate) fn cluster(text: impl Into<String>) -> Self {
        Self { status: Status::Cluster, text: text.into(), culprit: None, fatal: false }
    }

    pub(crate) fn fault(text: impl Into<String>) -> Self {
        Self { status: Status::Fault, text: text.into(), culprit: None, fatal: true }
    }

    /// For calls that were asked of a group that has ended.
    pub(crate) fn left() -> Self {
        ExecError::Left.into()
    }
}

impl From<ExecError> for CommError {
    fn from(error: ExecError) -> Self {
        let culprit = error.culprit();
        let status = match &error {
            ExecError::Internal(_) | ExecError::Ended => Status::Fault,
            ExecError::NeedsToken { .. } | ExecError::Unresolved { .. } | ExecError::Tls(_) => {
                Status::Invalid
            }
            _ if culprit.is_some() => Status::Lost,
            _ => Status::Failed,
        };
        // What goes wrong before anything is sent harms neither the group nor other operations.
        let fatal = !matches!(
            error,
            ExecError::Mismatch { .. }
                | ExecError::Form { .. }
                | ExecError::Stash { .. }
                | ExecError::Memory(..)
                | ExecError::TooLarge { .. }
                | ExecError::Size { .. }
        );
        Self { status, text: error.to_string(), culprit, fatal }
    }
}

//! [`Failure`]: why a command stopped, and [`Status`], how it ended.

use std::fmt;
use std::process::ExitCode;

use motet_net::builders::TemplateError;
use motet_net::formats::{Position, ReadError};
use motet_net::state::WhatIfError;

/// How a command ended, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done = 0,
    /// The input was understood and is wrong.
    Wrong = 1,
    /// Usage, or input that cannot be read.
    Unreadable = 2,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Why a command stopped before its end: the file and the place in it where there are any, what is wrong and
/// what to do. It is printed as `error: FILE:LINE:COLUMN: PROBLEM` and `hint: REMEDY`.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    pub(crate) file: Option<String>,
    pub(crate) at: Option<Position>,
    pub(crate) problem: String,
    /// What to do about it.
    pub(crate) remedy: Option<String>,
    /// A file is refused for its size alone, so nothing else is worth trying on it.
    pub(crate) is_too_large: bool,
}

impl Failure {
    /// The input could not be used at all: exit code 2.
    pub(crate) fn unreadable(problem: impl Into<String>) -> Self {
        Self {
            status: Status::Unreadable,
            file: None,
            at: None,
            problem: problem.into(),
            remedy: None,
            is_too_large: false,
        }
    }

    /// The input was understood, and it is wrong: exit code 1.
    pub(crate) fn wrong(problem: impl Into<String>) -> Self {
        Self { status: Status::Wrong, ..Self::unreadable(problem) }
    }

    /// Names the file that is at fault.
    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Says what to do about it.
    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The exit code that the failure leads to.
    pub(crate) const fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let Some(at) = self.at {
                write!(f, "{at}:")?;
            }
            write!(f, " ")?;
        }
        f.write_str(&self.problem)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let ReadError { at, problem, remedy, is_too_large } = error;
        Self { at, remedy, is_too_large, ..Self::unreadable(problem) }
    }
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        Self { remedy: error.remedy, ..Self::unreadable(error.problem) }
    }
}

impl From<WhatIfError> for Failure {
    fn from(error: WhatIfError) -> Self {
        Self { remedy: error.remedy, ..Self::unreadable(error.problem) }
    }
}

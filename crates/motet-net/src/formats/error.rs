//! [`ReadError`]: what is wrong with a file, where, and what to do about it.
//!
//! Shared by every reader of Motet, those of programs included. The file's name is not here:
//! readers take text, and whoever opened the file adds its name.

use std::fmt;

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// In characters.
    pub column: usize,
}

impl Position {
    /// The position of byte `offset` of `text`.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |it| it + 1);
        Self {
            line: before.bytes().filter(|it| *it == b'\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", at.map(|it| format!("line {}, column {}: ", it.line, it.column)).unwrap_or_default())]
pub struct ReadError {
    /// Where it is wrong, if that is one place.
    pub at: Option<Position>,
    /// What is wrong, as a phrase without a final period.
    pub problem: String,
    /// What to do about it, where that is known.
    pub remedy: Option<String>,
    /// The text is refused for its size alone: nothing else is worth trying on it.
    pub is_too_large: bool,
}

impl ReadError {
    /// An error without a place or a remedy.
    #[must_use]
    pub fn new(problem: impl Into<String>) -> Self {
        Self { at: None, problem: problem.into(), remedy: None, is_too_large: false }
    }

    /// With the place of byte `offset` of `text`.
    #[must_use]
    pub fn at(mut self, text: &str, offset: usize) -> Self {
        self.at = Some(Position::of(text, offset));
        self
    }

    /// At the beginning of a line, counted from 1.
    #[must_use]
    pub fn at_line(mut self, line: usize) -> Self {
        self.at = Some(Position { line, column: 1 });
        self
    }

    /// For a text that is refused for its size.
    pub(super) fn too_large(mut self) -> Self {
        self.is_too_large = true;
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<crate::BuildError> for ReadError {
    fn from(error: crate::BuildError) -> Self {
        Self::new(error.to_string())
    }
}

//! [`TableError`]: why a table was refused, where, and what to do.

/// What is wrong with a table, for those who act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TableErrorKind {
    #[error("it is not a table file")]
    NotATable,
    #[error("a newer Motet wrote it")]
    NewerVersion,
    #[error("its end is missing")]
    Truncated,
    #[error("its contents do not have its checksum")]
    Corrupt,
    /// Its checksum is right, so the fault is its writer's.
    #[error("it is whole, and yet not a table")]
    Malformed,
    #[error("it is larger than any plan")]
    TooLarge,
}

impl TableErrorKind {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NotATable => "give the `table` file of a plan directory",
            Self::NewerVersion => "upgrade this Motet, or make the plan again with it",
            Self::Truncated => "copy the plan again, or make it again",
            Self::Corrupt => "copy the plan again, or make it again; tables are not edited by hand",
            Self::Malformed => "make the plan again, and report this if it stays",
            Self::TooLarge => "split the plan by network",
        }
    }
}

/// Why a table was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}; {}", line.map(|it| format!("line {it}: ")).unwrap_or_default(), kind.remedy())]
pub struct TableError {
    pub kind: TableErrorKind,
    /// Counted from 1; none for a table that was not read from text.
    pub line: Option<usize>,
    pub problem: String,
}

impl TableError {
    pub(super) const fn new(kind: TableErrorKind, line: Option<usize>, problem: String) -> Self {
        Self { kind, line, problem }
    }
}

/// The beginning of a text from a file, short enough for a message.
pub(super) fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    let start: String = text.chars().take(MOST).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

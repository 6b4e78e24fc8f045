//! [`Diagnostic`]: one thing found about a program, and [`Report`], all of them.
//!
//! The verifier, the readers of foreign programs and the limit checks of the writers all speak in
//! diagnostics, so that a user sees one list whatever the source.

use std::fmt;

use crate::program::TransferId;

/// What a finding means for the program. Only warnings leave a program right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; the program is right all the same.
    Warning,
    /// It uses something that Motet's programs cannot express; it was not judged, and so does not
    /// count as right.
    NotJudged,
    /// The program is wrong.
    Error,
}

impl Severity {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::NotJudged => "not judged",
            Self::Error => "error",
        }
    }
}

/// What kind of thing was found. The names are stable: tools match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Finding {
    /// Events wait for each other in a cycle.
    Deadlock,
    /// A wait for something that does not exist or never happens.
    BadWait,
    /// A rank, buffer, offset or count outside what there is.
    OutOfRange,
    UnmatchedSend,
    UnmatchedReceive,
    /// The receives of a connection are in another order than its sends, or differ in chunk count.
    Mismatch,
    /// An invalid lane (an event twice, or an event of another rank).
    BadLane,
    /// The turns of a link do not list exactly the transfers over it.
    BadTurns,
    /// A chunk is read before anything was put there.
    ReadsUndefined,
    /// A read that may come before or after a write of something else.
    Race,
    /// An output chunk that nothing reaches.
    MissingData,
    /// An output chunk with data that does not belong there.
    WrongData,
    /// A contribution that is in a sum more than once.
    ReducedTwice,
    /// A contribution that is not in a sum.
    NotReduced,
    /// The input of an out-of-place call is changed.
    InputOverwritten,
    /// A path with links that do not exist or do not join, or no path at all.
    NoPath,
    /// An operation that Motet's programs cannot express.
    NotJudged,
    /// Beyond what a runtime can load.
    Limit,
    /// Verifying or reading it would take more work than a program of its size is allowed.
    TooLarge,
}

impl Finding {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::BadWait => "bad-wait",
            Self::OutOfRange => "out-of-range",
            Self::UnmatchedSend => "unmatched-send",
            Self::UnmatchedReceive => "unmatched-receive",
            Self::Mismatch => "mismatch",
            Self::BadLane => "bad-lane",
            Self::BadTurns => "bad-turns",
            Self::ReadsUndefined => "reads-undefined",
            Self::Race => "race",
            Self::MissingData => "missing-data",
            Self::WrongData => "wrong-data",
            Self::ReducedTwice => "reduced-twice",
            Self::NotReduced => "not-reduced",
            Self::InputOverwritten => "input-overwritten",
            Self::NoPath => "no-path",
            Self::NotJudged => "not-judged",
            Self::Limit => "limit",
            Self::TooLarge => "too-large",
        }
    }
}

impl Finding {
    /// Whether it is about which data ends up where, and so depends on every operation.
    #[must_use]
    pub const fn is_about_data(self) -> bool {
        matches!(
            self,
            Self::ReadsUndefined
                | Self::Race
                | Self::MissingData
                | Self::WrongData
                | Self::ReducedTwice
                | Self::NotReduced
        )
    }
}

/// One thing found about a program: what kind, in words, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    pub finding: Finding,
    pub message: String,
    /// The transfer it is about, where it is about one.
    pub transfer: Option<TransferId>,
    /// Where in the file it was read from ("gpu 0, threadblock 3, step 2"), where that is known.
    pub origin: Option<String>,
}

impl Diagnostic {
    /// An error: the program is wrong.
    #[must_use]
    pub fn error(finding: Finding, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            finding,
            message: message.into(),
            transfer: None,
            origin: None,
        }
    }

    /// A warning; the program is right nevertheless.
    #[must_use]
    pub fn warning(finding: Finding, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(finding, message) }
    }

    /// A part of the file that Motet's programs cannot express, so that it was not judged.
    #[must_use]
    pub fn not_judged(message: impl Into<String>) -> Self {
        Self { severity: Severity::NotJudged, ..Self::error(Finding::NotJudged, message) }
    }

    /// Says which transfer it is about.
    #[must_use]
    pub fn of(mut self, transfer: TransferId) -> Self {
        self.transfer = Some(transfer);
        self
    }

    /// Says where in the file it was read.
    #[must_use]
    pub fn from_origin(mut self, origin: impl Into<String>) -> Self {
        self.origin = Some(origin.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity.name(), self.finding.name(), self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, " (at {origin})")?;
        }
        Ok(())
    }
}

/// Most diagnostics of one kind that a report keeps; the rest are counted.
pub const MAX_PER_FINDING: usize = 1000;

/// Everything found about a program, in the order found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    diagnostics: Vec<Diagnostic>,
    /// How many were left out beyond [`MAX_PER_FINDING`].
    left_out: usize,
    /// Whether one of those was more than a warning.
    left_out_faults: bool,
}

impl Report {
    /// Adds a finding; after [`MAX_PER_FINDING`] of one kind it is only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let same = self.diagnostics.iter().filter(|it| it.finding == diagnostic.finding);
        if same.count() >= MAX_PER_FINDING {
            self.left_out += 1;
            self.left_out_faults |= diagnostic.severity != Severity::Warning;
        } else {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Adds all findings of another report.
    pub fn extend(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.left_out_faults |= other.left_out_faults;
        for diagnostic in other.diagnostics {
            self.push(diagnostic);
        }
    }

    /// The findings that were kept.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The same, for a reader that adds places in its file to them.
    pub fn diagnostics_mut(&mut self) -> &mut [Diagnostic] {
        &mut self.diagnostics
    }

    /// How many findings were only counted.
    #[must_use]
    pub const fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether nothing but warnings was found.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let faults = self.diagnostics.iter().any(|it| it.severity != Severity::Warning);
        !faults && !self.left_out_faults
    }

    /// Whether it has this finding, at any severity.
    #[must_use]
    pub fn has(&self, finding: Finding) -> bool {
        self.diagnostics.iter().any(|it| it.finding == finding)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            writeln!(f, "{diagnostic}")?;
        }
        if self.left_out > 0 {
            writeln!(f, "and {} more", self.left_out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_alone_leave_a_program_right_however_many_they_are() {
        let mut report = Report::default();
        for _ in 0..=MAX_PER_FINDING {
            report.push(Diagnostic::warning(Finding::Limit, "long"));
        }
        assert_eq!((report.left_out(), report.is_right()), (1, true));
        report.push(Diagnostic::error(Finding::Limit, "too long"));
        assert_eq!((report.left_out(), report.is_right()), (2, false));
    }
}

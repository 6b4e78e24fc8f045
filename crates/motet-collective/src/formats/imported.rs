//! [`Imported`]: a program read from a foreign file, with what the reader found and where each
//! transfer stands in the file.
//!
//! A reader goes on after a fault, so that a user sees all of them at once. What it cannot carry
//! over into a program (a receive that nothing is sent to, say) is in its report alone:
//! [`Imported::check`] puts that together with the verifier's findings, and only
//! [`Imported::verify`] gives a [`Verified`] program, never the program by itself.

use std::fmt;

use motet_net::Network;
use motet_units::Rank;

use crate::diagnostic::{Report, Severity};
use crate::program::{Program, TransferId};
use crate::verify::{self, Rejected, Verified};

/// A place in a program file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub rank: Rank,
    /// The threadblock's id in the file.
    pub block: u32,
    /// The step's index in its threadblock.
    pub step: u32,
    /// Counted from 1, where the format's reader knows it.
    pub line: Option<u32>,
}

/// Where the two halves of a transfer come from. A one-sided operation has both in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub sent: Place,
    pub arrived: Place,
}

/// Where each transfer of a program was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    /// What the format calls a step.
    step_word: &'static str,
    /// By transfer.
    places: Vec<Origin>,
}

impl Origins {
    /// Starts empty, for a format that calls a step of a thread block `step_word` ("step",
    /// "operation").
    #[must_use]
    pub const fn new(step_word: &'static str) -> Self {
        Self { step_word, places: Vec::new() }
    }

    /// The origin of the next transfer: call it once per transfer, in the order of their ids.
    pub fn push(&mut self, origin: Origin) {
        self.places.push(origin);
    }

    #[must_use]
    pub fn get(&self, id: TransferId) -> Option<&Origin> {
        self.places.get(id.index())
    }

    /// A place in words: "gpu 0, threadblock 4, step 2 (line 17)".
    #[must_use]
    pub fn place(&self, place: Place) -> impl fmt::Display + use<> {
        PlaceText { step_word: self.step_word, place }
    }

    /// Both ends of a transfer in words.
    #[must_use]
    pub fn describe(&self, id: TransferId) -> Option<String> {
        let origin = self.get(id)?;
        let sent = self.place(origin.sent);
        Some(if origin.sent == origin.arrived {
            sent.to_string()
        } else {
            format!("{sent}, received at {}", self.place(origin.arrived))
        })
    }

    /// Adds the origin to every diagnostic that is about a transfer and has none.
    pub fn fill(&self, report: &mut Report) {
        for diagnostic in report.diagnostics_mut() {
            if diagnostic.origin.is_none() {
                diagnostic.origin = diagnostic.transfer.and_then(|it| self.describe(it));
            }
        }
    }
}

struct PlaceText {
    step_word: &'static str,
    place: Place,
}

impl fmt::Display for PlaceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { rank, block, step, line } = self.place;
        write!(f, "gpu {rank}, threadblock {block}, {} {step}", self.step_word)?;
        match line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

/// What a reader makes of a file.
#[derive(Clone, Debug)]
pub struct Imported {
    pub program: Program,
    pub origins: Origins,
    /// What the reader itself found.
    pub report: Report,
}

impl Imported {
    /// Everything there is to say about the file: the reader's findings and the verifier's, with
    /// their places in the file.
    #[must_use]
    pub fn check(&self, network: Option<&Network>) -> Report {
        self.with_findings(verify::check(&self.program, network))
    }

    /// The reader's findings and these of the verifier. Where the reader left an operation out
    /// because it could not judge it, what the verifier says about data is about another program:
    /// only its findings that hold whatever that operation does are kept.
    fn with_findings(&self, verifier: Report) -> Report {
        let mut report = self.report.clone();
        let whole = !report.diagnostics().iter().any(|it| it.severity == Severity::NotJudged);
        if whole {
            report.extend(verifier);
        } else {
            let holds = verifier.diagnostics().iter().filter(|it| !it.finding.is_about_data());
            holds.for_each(|it| report.push(it.clone()));
        }
        self.origins.fill(&mut report);
        report
    }

    /// The program, if neither the reader nor the verifier has anything against it.
    pub fn verify(self, network: Option<&Network>) -> Result<Verified<Program>, Box<Rejected>> {
        let of_reader_right = self.report.is_right();
        match Verified::new(self.program.clone(), network) {
            Ok(verified) if of_reader_right => Ok(verified),
            Ok(_) => {
                let report = self.with_findings(Report::default());
                Err(Box::new(Rejected { program: self.program, report }))
            }
            Err(rejected) => {
                let report = self.with_findings(rejected.report);
                Err(Box::new(Rejected { program: self.program, report }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_well() {
        let place = |rank, line| Place { rank: Rank(rank), block: 4, step: 2, line };
        let mut origins = Origins::new("step");
        origins.push(Origin { sent: place(0, Some(17)), arrived: place(0, Some(17)) });
        origins.push(Origin { sent: place(0, None), arrived: place(1, None) });
        let text = |it| origins.describe(TransferId(it));
        assert_eq!(text(0).as_deref(), Some("gpu 0, threadblock 4, step 2 (line 17)"));
        assert_eq!(
            text(1).as_deref(),
            Some("gpu 0, threadblock 4, step 2, received at gpu 1, threadblock 4, step 2")
        );
        assert_eq!(text(2), None);
    }
}

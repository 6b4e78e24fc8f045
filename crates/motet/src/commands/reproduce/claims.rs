//! [`Claim`]: one statement about a result, whether it came out here, and the figures that decide.
//!
//! Everything that is printed of a claim is computed from the run. Where a statement does not come
//! out, [`Claim::detail`] says where and by how much; it never guesses at causes.

use serde::Serialize;

/// The least and the most of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Span {
    pub(super) const fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// Of all values; `None` if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        values.into_iter().fold(None, |span, it| {
            Some(span.map_or(Self::new(it, it), |Self { low, high }| Self {
                low: low.min(it),
                high: high.max(it),
            }))
        })
    }

    fn text(self, unit: &str) -> String {
        if self.low == self.high {
            format!("{:.2}{unit}", self.low)
        } else {
            format!("{:.2} to {:.2}{unit}", self.low, self.high)
        }
    }
}

/// Whose statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Whose {
    /// The paper's.
    Published,
    /// What Motet holds itself to.
    Ours,
}

/// One statement, and whether it came out.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "ClaimJson")]
pub(super) struct Claim {
    pub(super) whose: Whose,
    pub(super) statement: String,
    /// The paper's figure, where it gives one.
    pub(super) published: Option<String>,
    /// The figure that decides.
    pub(super) ours: String,
    pub(super) holds: bool,
    /// Where it is otherwise: where, and what else was found there.
    pub(super) detail: Option<String>,
}

/// A claim as JSON: `found` and `why` are what `ours` and `detail` were called before 0.2 in some of
/// the experiments.
#[derive(Serialize)]
struct ClaimJson {
    whose: Whose,
    statement: String,
    published: Option<String>,
    ours: String,
    found: String,
    holds: bool,
    detail: Option<String>,
    why: Option<String>,
}

impl From<Claim> for ClaimJson {
    fn from(claim: Claim) -> Self {
        let Claim { whose, statement, published, ours, holds, detail } = claim;
        let (found, why) = (ours.clone(), detail.clone());
        Self { whose, statement, published, ours, found, holds, detail, why }
    }
}

impl Claim {
    /// A statement of the paper, decided by the caller.
    pub(super) fn published(statement: String, holds: bool, ours: String) -> Self {
        let (whose, published, detail) = (Whose::Published, None, None);
        Self { whose, statement, published, ours, holds, detail }
    }

    /// A statement of ours, decided by the caller.
    pub(super) fn ours(statement: String, holds: bool, ours: String) -> Self {
        Self { whose: Whose::Ours, ..Self::published(statement, holds, ours) }
    }

    /// The same with the paper's figure beside it.
    pub(super) fn beside(mut self, published: impl Into<String>) -> Self {
        self.published = Some(published.into());
        self
    }

    /// Whether ours lies in the published range.
    pub(super) fn within(statement: &str, ours: Option<Span>, published: Span, unit: &str) -> Self {
        let holds = ours.is_some_and(|it| published.low <= it.low && it.high <= published.high);
        Self::published(statement.to_owned(), holds, text(ours, unit)).beside(published.text(unit))
    }

    /// Whether a published figure, given without the case it is of, lies among ours, to the digits
    /// that are printed.
    pub(super) fn among(statement: &str, ours: Option<Span>, published: f64, unit: &str) -> Self {
        let ours = ours.map(|it| Span::new(printed(it.low), printed(it.high)));
        let holds = ours.is_some_and(|it| it.low <= published && published <= it.high);
        let claim = Self::published(statement.to_owned(), holds, text(ours, unit));
        claim.beside(format!("{published:.2}{unit}"))
    }

    /// Adds what was found where the statement does not come out; nothing if it does.
    pub(super) fn detail(mut self, found: impl FnOnce() -> Option<String>) -> Self {
        if !self.holds {
            self.detail = found();
        }
        self
    }
}

fn text(ours: Option<Span>, unit: &str) -> String {
    ours.map_or_else(|| "nothing that could be timed".to_owned(), |it| it.text(unit))
}

/// To two digits after the point.
fn printed(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_missed_on_either_side() {
        let claim =
            |low, high| Claim::within("s", Some(Span::new(low, high)), Span::new(2.0, 4.0), "x");
        assert!(claim(2.0, 4.0).holds);
        assert!(!claim(1.0, 3.0).holds && !claim(3.0, 5.0).holds);
        assert_eq!(claim(2.5, 3.0).ours, "2.50 to 3.00x");
        assert!(!Claim::within("s", None, Span::new(2.0, 4.0), "x").holds);
    }

    #[test]
    fn a_figure_is_among_ours_or_on_one_side() {
        let claim = |low, high| Claim::among("s", Some(Span::new(low, high)), 2.0, "x");
        assert!(claim(1.0, 3.0).holds);
        assert!(!claim(0.5, 1.5).holds && !claim(2.5, 3.0).holds);
        assert!(claim(1.0, 1.997).holds, "as printed");
    }

    #[test]
    fn details_are_for_what_does_not_come_out() {
        let claim = |holds| {
            let claim = Claim::ours("s".to_owned(), holds, "1".to_owned());
            claim.detail(|| Some("at a".to_owned())).detail
        };
        assert_eq!((claim(true), claim(false)), (None, Some("at a".to_owned())));
    }

    #[test]
    fn spans_of_values() {
        assert_eq!(Span::of([2.0, 1.0, 3.0]), Some(Span::new(1.0, 3.0)));
        assert_eq!(Span::of([]), None);
    }
}

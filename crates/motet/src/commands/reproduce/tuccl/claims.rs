//! What the paper says of a figure, what came out here, and why where that differs.

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

/// One statement of the paper, or of ours, and whether it came out.
#[derive(Debug, Serialize)]
pub(super) struct Claim {
    pub(super) statement: String,
    pub(super) published: String,
    pub(super) ours: String,
    pub(super) holds: bool,
    /// Why it is otherwise, where it is.
    pub(super) why: Option<String>,
}

impl Claim {
    /// A statement that is decided elsewhere.
    pub(super) fn new(statement: &str, published: &str, ours: String, holds: bool) -> Self {
        let (statement, published) = (statement.to_owned(), published.to_owned());
        Self { statement, published, ours, holds, why: None }
    }

    /// Whether ours lies in the published range; `below` and `above` say why if not.
    pub(super) fn within(
        statement: &str,
        ours: Option<Span>,
        published: Span,
        unit: &str,
        [below, above]: [&str; 2],
    ) -> Self {
        let Some(ours) = ours else { return Self::missing(statement, published.text(unit)) };
        let mut why = Vec::new();
        why.extend((ours.low < published.low).then_some(("below", below)));
        why.extend((ours.high > published.high).then_some(("above", above)));
        let why: Vec<String> = why.iter().map(|it| format!("{}: {}", it.0, it.1)).collect();
        Self {
            statement: statement.to_owned(),
            published: published.text(unit),
            ours: ours.text(unit),
            holds: why.is_empty(),
            why: (!why.is_empty()).then(|| why.join("; ")),
        }
    }

    /// Whether a published figure, given without the case it is of, lies among ours, to the digits
    /// that are printed.
    pub(super) fn among(
        statement: &str,
        ours: Option<Span>,
        published: f64,
        unit: &str,
        [below, above]: [&str; 2],
    ) -> Self {
        let text = format!("{published:.2}{unit}");
        let Some(ours) = ours else { return Self::missing(statement, text) };
        let ours = Span::new(printed(ours.low), printed(ours.high));
        let why = if ours.high < published {
            Some(format!("below: {below}"))
        } else {
            (ours.low > published).then(|| format!("above: {above}"))
        };
        Self {
            statement: statement.to_owned(),
            published: text,
            ours: ours.text(unit),
            holds: why.is_none(),
            why,
        }
    }

    pub(super) fn because(mut self, why: &str) -> Self {
        if !self.holds {
            self.why = Some(why.to_owned());
        }
        self
    }

    fn missing(statement: &str, published: String) -> Self {
        let none = "nothing that could be timed".to_owned();
        Self { statement: statement.to_owned(), published, ours: none, holds: false, why: None }
    }
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
        let claim = |low, high| {
            let ours = Some(Span::new(low, high));
            Claim::within("s", ours, Span::new(2.0, 4.0), "x", ["small", "large"])
        };
        assert!(claim(2.0, 4.0).holds && claim(2.0, 4.0).why.is_none());
        assert_eq!(claim(1.0, 3.0).why.as_deref(), Some("below: small"));
        assert_eq!(claim(1.0, 5.0).why.as_deref(), Some("below: small; above: large"));
        assert_eq!(claim(2.5, 3.0).ours, "2.50 to 3.00x");
        let none = Claim::within("s", None, Span::new(2.0, 4.0), "x", ["", ""]);
        assert!(!none.holds);
    }

    #[test]
    fn a_figure_is_among_ours_or_on_one_side() {
        let claim =
            |low, high| Claim::among("s", Some(Span::new(low, high)), 2.0, "x", ["small", "large"]);
        assert!(claim(1.0, 3.0).holds);
        assert_eq!(claim(0.5, 1.5).why.as_deref(), Some("below: small"));
        assert_eq!(claim(2.5, 3.0).why.as_deref(), Some("above: large"));
        assert!(claim(1.0, 1.997).holds, "as printed");
    }

    #[test]
    fn spans_of_values() {
        assert_eq!(Span::of([2.0, 1.0, 3.0]), Some(Span::new(1.0, 3.0)));
        assert_eq!(Span::of([]), None);
    }
}

//! [`Grid`]: shares in rows and columns as an SVG: which kernels ran where which would have been best, or at which tier.
//!
//! Each cell is as dark as its share of its row, and has the share in percent written on it, so that nothing is said by
//! colour alone.

use std::fmt::Write as _;

use crate::plot::{STYLE, escaped};

const LEFT: f64 = 150.0;
const TOP: f64 = 130.0;
const WIDE: f64 = 62.0;
const HIGH: f64 = 26.0;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) title: String,
    /// What rows and what columns are.
    pub(super) axes: (String, String),
    pub(super) rows: Vec<String>,
    pub(super) columns: Vec<String>,
    /// Of each row: how much falls on each column. Rows are drawn as shares of their sum.
    pub(super) cells: Vec<Vec<f64>>,
}

impl Grid {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let width = (LEFT + WIDE * self.columns.len() as f64 + 110.0).max(460.0);
        let height = TOP + HIGH * self.rows.len() as f64 + 40.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n{STYLE}\
             <rect width=\"{width}\" height=\"{height}\" class=\"g\"/>\n\
             <text x=\"12\" y=\"22\" font-size=\"15\">{}</text>\n\
             <text x=\"12\" y=\"42\">rows: {}; columns: {}; in % of a row</text>\n",
            escaped(&self.title),
            escaped(&self.axes.0),
            escaped(&self.axes.1)
        );
        // Writing to a string cannot fail.
        for (at, name) in self.columns.iter().enumerate() {
            let x = LEFT + WIDE * (at as f64 + 0.5);
            let _ = writeln!(
                out,
                "<text transform=\"translate({x:.1} {:.1}) rotate(-35)\">{}</text>",
                TOP - 8.0,
                escaped(name)
            );
        }
        for (at, (name, cells)) in self.rows.iter().zip(&self.cells).enumerate() {
            self.row(&mut out, TOP + HIGH * at as f64, name, cells);
        }
        out.push_str("</svg>\n");
        out
    }

    fn row(&self, out: &mut String, y: f64, name: &str, cells: &[f64]) {
        let sum: f64 = cells.iter().sum();
        let middle = y + HIGH / 2.0 + 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            escaped(name)
        );
        for (at, value) in cells.iter().enumerate() {
            let share = if sum > 0.0 { value / sum } else { 0.0 };
            let x = LEFT + WIDE * at as f64;
            let (column, percent) =
                (self.columns.get(at).map_or("", String::as_str), 100.0 * share);
            let _ = writeln!(
                out,
                "<g><title>{} / {}: {value:.0} calls</title>\
                 <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{WIDE}\" height=\"{HIGH}\" class=\"f a5\" fill-opacity=\"{:.3}\"/>",
                escaped(name),
                escaped(column),
                0.75 * share
            );
            if *value > 0.0 {
                let text = if percent < 0.95 { "<1".to_owned() } else { format!("{percent:.0}") };
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"middle\">{}</text>",
                    x + WIDE / 2.0,
                    escaped(&text)
                );
            }
            out.push_str("</g>\n");
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{middle:.1}\">{sum:.0} calls</text>",
            LEFT + WIDE * cells.len() as f64 + 8.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_shares_of_their_rows_and_names_are_escaped() {
        let grid = Grid {
            title: "t < u".to_owned(),
            axes: ("a & b".to_owned(), "c".to_owned()),
            rows: vec!["one".to_owned(), "none".to_owned()],
            columns: vec!["x".to_owned(), "y".to_owned(), "z".to_owned()],
            cells: vec![vec![30.0, 10.0, 0.0], vec![0.0; 3]],
        };
        let svg = grid.svg();
        assert!(svg.contains("t &lt; u") && svg.contains("a &amp; b") && !svg.contains("NaN"));
        assert!(svg.contains(">75</text>") && svg.contains(">25</text>"));
        assert!(svg.contains("one / x: 30 calls") && svg.contains(">40 calls</text>"));
        // What never happened is left blank.
        assert_eq!(svg.matches(">0</text>").count(), 0);
    }
}

//! [`Table`]: columns of numbers and words, written as CSV or as Parquet by the file's ending.
//!
//! The Parquet part is [`crate::parquet`].

use std::fmt::Write as _;

use crate::failure::Failure;
use crate::printer::Printer;
use crate::{files, parquet};

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Whole(Vec<i64>),
    /// Numbers, and the digits after the decimal point that CSV gets; Parquet gets all of them.
    Number(Vec<f64>, usize),
    Words(Vec<String>),
}

impl Values {
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Whole(it) => it.len(),
            Self::Number(it, _) => it.len(),
            Self::Words(it) => it.len(),
        }
    }
}

/// Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<(String, Values)>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a column at the right.
    pub(crate) fn with(mut self, name: &str, values: Values) -> Self {
        self.columns.push((name.to_owned(), values));
        self
    }

    /// The number of rows: that of the shortest column, should they differ.
    pub(crate) fn rows(&self) -> usize {
        self.columns.iter().map(|it| it.1.len()).min().unwrap_or(0)
    }

    /// The table as CSV with a line of headings.
    pub(crate) fn csv(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|it| quoted(&it.0)).collect();
        let mut out = names.join(",");
        out.push('\n');
        for row in 0..self.rows() {
            for (number, (_, values)) in self.columns.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                // Writing to a string cannot fail.
                let _ = match values {
                    Values::Whole(it) => write!(out, "{}", it[row]),
                    Values::Number(it, digits) => write!(out, "{:.*}", *digits, it[row]),
                    Values::Words(it) => write!(out, "{}", quoted(&it[row])),
                };
            }
            out.push('\n');
        }
        out
    }

    /// Writes the table as Parquet if the file's name ends so, and as CSV otherwise.
    pub(crate) fn write(&self, name: &str, printer: &mut Printer) -> Result<(), Failure> {
        if name.to_ascii_lowercase().ends_with(".parquet") {
            files::write_bytes(name, &parquet::encode(self))
        } else {
            files::write(name, &self.csv(), printer)
        }
    }
}

/// A field of a CSV file, in quotes where it must be.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_heading_and_quotes_what_must_be() {
        let table = Table::new()
            .with("n", Values::Whole(vec![1, -2]))
            .with("time, µs", Values::Number(vec![0.5, 2.0], 3))
            .with("what", Values::Words(vec!["a \"b\"".to_owned(), "plain".to_owned()]));
        assert_eq!(table.csv(), "n,\"time, µs\",what\n1,0.500,\"a \"\"b\"\"\"\n-2,2.000,plain\n");
    }
}

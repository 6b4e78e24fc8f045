//! [`Table`]: columns of numbers and words, printed, or written as CSV or as Parquet by the file's ending.
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
        let mut out = csv::Writer::from_writer(Vec::new());
        // Rows of one length, written to memory: nothing of this can fail, here and below.
        let _ = out.write_record(self.columns.iter().map(|it| &it.0));
        for row in 0..self.rows() {
            let _ = out.write_record(self.columns.iter().map(|(_, values)| match values {
                Values::Whole(it) => it[row].to_string(),
                Values::Number(it, digits) => format!("{:.*}", *digits, it[row]),
                Values::Words(it) => it[row].clone(),
            }));
        }
        String::from_utf8(out.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// The table in columns that are as wide as what they hold; a number that is missing is a dash.
    pub(crate) fn text(&self) -> String {
        let columns: Vec<(bool, Vec<String>)> = self
            .columns
            .iter()
            .map(|(name, values)| {
                let number = |it: &f64, digits: usize| {
                    if it.is_nan() { "-".to_owned() } else { format!("{it:.digits$}") }
                };
                let cells: Vec<String> = match values {
                    Values::Whole(it) => it.iter().map(ToString::to_string).collect(),
                    Values::Number(it, digits) => it.iter().map(|it| number(it, *digits)).collect(),
                    Values::Words(it) => it.clone(),
                };
                let words = matches!(values, Values::Words(_));
                (words, std::iter::once(name.clone()).chain(cells).collect())
            })
            .collect();
        let mut out = String::new();
        for row in 0..=self.rows() {
            let mut line = String::from(" ");
            for (words, cells) in &columns {
                let width = cells.iter().map(|it| it.chars().count()).max().unwrap_or(0);
                let _ = if *words {
                    write!(line, " {:width$}", cells[row])
                } else {
                    write!(line, " {:>width$}", cells[row])
                };
            }
            out.push_str(line.trim_end());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_they_hold() {
        let table = Table::new()
            .with("what", Values::Words(vec!["a".to_owned(), "longer".to_owned()]))
            .with("µs", Values::Number(vec![1.0, f64::NAN], 1));
        assert_eq!(table.text(), "  what    µs\n  a      1.0\n  longer   -\n");
    }

    #[test]
    fn csv_has_a_heading_and_quotes_what_must_be() {
        let table = Table::new()
            .with("n", Values::Whole(vec![1, -2]))
            .with("time, µs", Values::Number(vec![0.5, 2.0], 3))
            .with("what", Values::Words(vec!["a \"b\"".to_owned(), "line\r".to_owned()]));
        let csv = table.csv();
        assert_eq!(csv, "n,\"time, µs\",what\n1,0.500,\"a \"\"b\"\"\"\n-2,2.000,\"line\r\"\n");
    }
}

//! [`Table`]: columns of numbers and words, written as CSV or as Parquet by the file's ending.
//!
//! The Parquet part is [`crate::parquet`].

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
    fn csv_has_a_heading_and_quotes_what_must_be() {
        let table = Table::new()
            .with("n", Values::Whole(vec![1, -2]))
            .with("time, µs", Values::Number(vec![0.5, 2.0], 3))
            .with("what", Values::Words(vec!["a \"b\"".to_owned(), "line\r".to_owned()]));
        let csv = table.csv();
        assert_eq!(csv, "n,\"time, µs\",what\n1,0.500,\"a \"\"b\"\"\"\n-2,2.000,\"line\r\"\n");
    }
}

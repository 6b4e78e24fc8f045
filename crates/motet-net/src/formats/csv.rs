//! Records of a CSV text with the line each begins on, for every reader of CSV in Motet: quoted
//! fields may have commas, quotes and line breaks in them, as spreadsheets write them.

use csv::{Position, ReaderBuilder, StringRecord, Trim};

use super::ReadError;

/// The records of `text` with the line (from 1) each begins on, fields without surrounding spaces.
/// Empty lines and lines that begin with `#` are left out; how many fields a record has is for the
/// caller to check.
pub fn csv_records(text: &str) -> impl Iterator<Item = Result<(usize, StringRecord), ReadError>> {
    let reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let mut lines = Lines { text, at: 0, line: 1 };
    reader.into_records().filter_map(move |it| match it {
        Ok(record) => {
            let line = lines.of(record.position());
            // A line of spaces is one empty field.
            let blank = record.iter().all(str::is_empty);
            (!blank).then_some(Ok((line, record)))
        }
        Err(error) => {
            let line = lines.of(error.position());
            Some(Err(ReadError::new(format!("not CSV: {error}")).at_line(line)))
        }
    })
}

/// Counts lines up to where records begin. The parser's own count is of where it began to look for
/// the record, before the empty lines and comments that it then skipped.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line of a record; records come in the order of the text.
    fn of(&mut self, position: Option<&Position>) -> usize {
        let start = position.and_then(|it| usize::try_from(it.byte()).ok()).unwrap_or(self.at);
        let bytes = self.text.as_bytes();
        let passed = bytes.get(self.at..start).unwrap_or_default();
        self.line += passed.iter().filter(|it| **it == b'\n').count();
        self.at = self.at.max(start);
        while let Some(rest) = bytes.get(self.at..).filter(|it| !it.is_empty()) {
            let end = rest.iter().position(|it| *it == b'\n').map_or(rest.len(), |it| it + 1);
            let skipped = rest[0] == b'#' || rest[..end].trim_ascii().is_empty();
            if !skipped {
                break;
            }
            self.line += usize::from(rest[..end].ends_with(b"\n"));
            self.at += end;
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_comments_and_lines() {
        let text =
            "# a comment\na, b\n\n  \n\"x, y\",\"say \"\"hi\"\"\"\r\n\"two\nlines\",z\nlast\n";
        let records: Vec<(usize, Vec<String>)> = csv_records(text)
            .map(|it| it.unwrap())
            .map(|(line, it)| (line, it.iter().map(str::to_owned).collect()))
            .collect();
        let fields: Vec<Vec<&str>> =
            records.iter().map(|it| it.1.iter().map(String::as_str).collect()).collect();
        assert_eq!(
            fields,
            [vec!["a", "b"], vec!["x, y", "say \"hi\""], vec!["two\nlines", "z"], vec!["last"]]
        );
        let lines: Vec<usize> = records.iter().map(|it| it.0).collect();
        assert_eq!(lines, [2, 5, 6, 8]);
    }
}

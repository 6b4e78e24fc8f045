//! Lines of four fields as CSV, with the place of each for errors. Both of this folder's CSV formats
//! are such lines.
//!
//! By RFC 4180 a field with a comma stands in quotes, right after the comma before it:
//! `10 s,"Washington, DC",b,up`.

use motet_net::formats::ReadError;

/// What a file of such lines looks like.
pub(super) struct Shape {
    /// How the first line begins if it is a heading, which is then left out.
    pub(super) heading: &'static str,
    /// What a line should look like: the remedy that an error gives.
    pub(super) remedy: &'static str,
}

/// Calls `read` with the fields of each line and a function that makes an error at that line. Blank
/// lines are skipped.
pub(super) fn each(
    text: &str,
    shape: &Shape,
    mut read: impl FnMut([&str; 4], &dyn Fn(String) -> ReadError) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let mut first = true;
    loop {
        let before = usize::try_from(reader.position().byte()).unwrap_or(usize::MAX);
        let rest = text.get(before..).unwrap_or("");
        // Lines without anything are passed over together with the next line.
        let offset = before + (rest.len() - rest.trim_start().len());
        let wrong = |problem: String| ReadError::new(problem).at(text, offset);
        if !reader.read_record(&mut record).map_err(|it| wrong(it.to_string()))? {
            return Ok(());
        }
        let heading = std::mem::take(&mut first)
            && record.get(0).is_some_and(|it| it.starts_with(shape.heading));
        if heading || (record.len() == 1 && record.get(0) == Some("")) {
            continue;
        }
        let fields: Vec<&str> = record.iter().collect();
        let &[a, b, c, d] = fields.as_slice() else {
            return Err(wrong(format!("a line has 4 fields, not {}", fields.len()))
                .with_remedy(shape.remedy));
        };
        read([a, b, c, d], &wrong)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { heading: "time", remedy: "write a,b,c,d" };

    fn lines(text: &str) -> Result<Vec<String>, ReadError> {
        let mut found = Vec::new();
        each(text, &SHAPE, |fields, _| {
            found.push(fields.join("|"));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn quotes_hold_commas_and_blank_lines_are_left_out() {
        let text = "time,from,to,what\r\n\n 1 s ,\"Washington, DC\", b ,up\n   \n2,a,b,c";
        assert_eq!(lines(text).unwrap(), ["1 s|Washington, DC|b|up", "2|a|b|c"]);
        assert_eq!(lines("").unwrap(), [""; 0]);
    }

    #[test]
    fn an_error_says_where() {
        let error = lines("1,2,3,4\n\n1,2\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3, column 1: a line has 4 fields, not 2");
        let error = each("1,2,3,4\n5,6,7,8", &SHAPE, |fields, wrong| match fields[0] {
            "5" => Err(wrong("five".to_owned())),
            _ => Ok(()),
        });
        assert_eq!(error.unwrap_err().to_string(), "line 2, column 1: five");
    }
}

//! What all TOML files of Motet share: parsing with the place of an error, and quoting.
//!
//! The parser keeps every token and its place, which takes tens of times the size of the text. So [`toml_size`]
//! looks at a text before it is parsed: what is too large would take the machine's memory before anything could be
//! said about it.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, Error};

use super::{ReadError, toml_size};

/// Parses a text whose tables the caller goes through by hand.
pub(crate) fn parse_toml(text: &str) -> Result<Spanned<DeTable<'_>>, ReadError> {
    toml_size::check(text)?;
    DeTable::parse(text).map_err(|error| placed(&error, "not TOML: ", text))
}

/// Reads a text into a type that says itself what may stand in it.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    toml_size::check(text)?;
    toml::from_str(text).map_err(|error| placed(&error, "", text))
}

/// The parser's error on one line, with its place where the parser knows it.
fn placed(error: &Error, lead: &str, text: &str) -> ReadError {
    let read = ReadError::new(format!("{lead}{}", error.message().trim_end().replace('\n', "; ")));
    match error.span() {
        Some(span) => read.at(text, span.start),
        None => read,
    }
}

/// `text` as a basic string of TOML, in quotes: what a value is written as, and a key of any letters.
#[must_use]
pub fn toml_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_quoted_reads_back() {
        for text in ["", "plain", "a \"b\" \\ c", "line\nbreak\r\ttab", "\u{1}\u{7f}\u{85}", "ü…"]
        {
            let document = format!("{} = {}", toml_quoted(text), toml_quoted(text));
            let table: toml::Table = document.parse().unwrap();
            assert_eq!(table.get(text).and_then(toml::Value::as_str), Some(text));
        }
    }
}

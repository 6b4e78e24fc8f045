//! [`Table`]: one table of a cluster file, with its place in the text and only known keys.

use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::formats::ReadError;
use crate::nearest;

/// A table of the file.
pub(crate) struct Table<'a> {
    pub(crate) text: &'a str,
    /// What it is, as written: `[[node]]`.
    pub(crate) what: &'static str,
    pub(crate) entries: &'a DeTable<'a>,
    /// Where its header is.
    pub(crate) start: usize,
}

impl<'a> Table<'a> {
    /// An error at the place of `key`'s value, or at the header where the key is missing.
    pub(crate) fn wrong(&self, key: &str, problem: impl Into<String>) -> ReadError {
        let start = self.entries.get(key).map_or(self.start, |it| it.span().start);
        ReadError::new(problem).at(self.text, start)
    }

    /// Refuses keys that are not in `known`.
    pub(crate) fn check(&self, known: &[&str]) -> Result<(), ReadError> {
        for (key, _) in self.entries {
            let name = key.get_ref();
            if !known.contains(&name.as_ref()) {
                let problem = format!("{} has no key `{name}`", self.what);
                return Err(self.unknown(key.span(), problem, name, known));
            }
        }
        Ok(())
    }

    fn unknown(&self, at: Range<usize>, problem: String, name: &str, known: &[&str]) -> ReadError {
        let error = ReadError::new(problem).at(self.text, at.start);
        match nearest::remedy(name, known.iter().copied()) {
            Some(remedy) => error.with_remedy(remedy),
            None => error,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries.get(key)
    }

    /// A text, if the key is there.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, ReadError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text.as_ref())),
            Some(other) => {
                Err(self.wrong(key, format!("`{key}` must be text in quotes, not {}", kind(other))))
            }
        }
    }

    /// A text that must be there.
    pub(crate) fn need(&self, key: &str, example: &str) -> Result<&'a str, ReadError> {
        self.text(key)?.ok_or_else(|| {
            let error = ReadError::new(format!("{} needs `{key}`", self.what));
            error.at(self.text, self.start).with_remedy(format!("write {key} = \"{example}\""))
        })
    }

    /// A text that must be there and mean a value.
    pub(crate) fn parse<T>(&self, key: &str, example: &str) -> Result<T, ReadError>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let text = self.need(key, example)?;
        text.parse().map_err(|error: T::Err| self.wrong(key, format!("`{key}`: {error}")))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, ReadError> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::Boolean(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(key, format!("`{key}` must be true or false"))),
        }
    }

    /// A whole number in a range, if the key is there.
    pub(crate) fn number(&self, key: &str, range: Range<u32>) -> Result<Option<u32>, ReadError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = match value.get_ref() {
            DeValue::Integer(digits) => whole(digits).and_then(|it| u32::try_from(it).ok()),
            _ => None,
        };
        number.filter(|it| range.contains(it)).map(Some).ok_or_else(|| {
            let (least, most) = (range.start, range.end.saturating_sub(1));
            self.wrong(key, format!("`{key}` must be a whole number from {least} to {most}"))
        })
    }
}

/// The value of an integer in any of TOML's bases, if it fits.
pub(crate) fn whole(digits: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(digits.as_str(), digits.radix()).ok()
}

/// A value that is one word, as text.
pub(crate) fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(digits) => whole(digits).map(|it| it.to_string()),
        DeValue::Float(digits) => Some(digits.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// What a value is, in words.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

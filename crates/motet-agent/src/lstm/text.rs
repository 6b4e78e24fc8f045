//! What the files of policies and of their training have in common: a first line with a version, a checksum at the
//! end, rows of numbers as bits, and the reasons for which they are refused.

use std::fmt::Write as _;

use motet_runtime::Checksum;

/// Numbers on a line.
const PER_LINE: usize = 16;

/// The kind of problem with a policy file, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PolicyErrorKind {
    #[error("it is not a policy file")]
    NotAPolicy,
    #[error("a newer Motet wrote it")]
    NewerVersion,
    #[error("its end is missing")]
    Truncated,
    #[error("its contents do not have its checksum")]
    Corrupt,
    /// The checksum is right but the contents are not, so the program that wrote the file is at fault.
    #[error("it is whole, and yet not a policy")]
    Malformed,
    #[error("it was trained on another encoding of states")]
    OtherEncoding,
    #[error("it was trained on other actions")]
    OtherActions,
}

impl PolicyErrorKind {
    /// What to do about it.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::NotAPolicy => "give a file that `motet agent train` wrote",
            Self::NewerVersion => "upgrade this Motet, or train again with it",
            Self::Truncated | Self::Corrupt => "copy the policy again, or train it again",
            Self::Malformed => "train it again, and report this if it stays",
            Self::OtherEncoding | Self::OtherActions => "train it again with this Motet",
        }
    }
}

/// Why a policy was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}; {}", kind.remedy())]
pub struct PolicyError {
    pub kind: PolicyErrorKind,
    /// Counted from 1.
    pub line: usize,
    pub problem: String,
}

const fn error(kind: PolicyErrorKind, line: usize, problem: String) -> PolicyError {
    PolicyError { kind, line, problem }
}

/// Checks that a text begins with this name and version.
pub(crate) fn check_version(text: &str, magic: &str, version: u64) -> Result<(), PolicyError> {
    let first = text.split('\n').next().unwrap_or_default();
    let short: String = first.chars().take(60).collect();
    let Some(found) = first.strip_prefix(magic).and_then(|it| it.strip_prefix(' ')) else {
        let problem = format!("`{short}` is not `{magic} {version}`");
        return Err(error(PolicyErrorKind::NotAPolicy, 1, problem));
    };
    match number(found) {
        Some(found) if found == version => Ok(()),
        Some(newer) if newer > version => {
            let problem = format!("the file has version {newer}, and this Motet reads {version}");
            Err(error(PolicyErrorKind::NewerVersion, 1, problem))
        }
        _ => {
            let problem = format!("`{short}` has no version that this Motet knows");
            Err(error(PolicyErrorKind::NotAPolicy, 1, problem))
        }
    }
}

/// Appends the checksum line to a text.
pub(crate) fn seal(text: &mut String) {
    let checksum = Checksum::of(text.as_bytes());
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "checksum {checksum}");
}

/// Appends a line with a name and a length, and then the numbers as their bits.
pub(crate) fn put_numbers(text: &mut String, name: &str, numbers: &[f32]) {
    let _ = writeln!(text, "{name} {}", numbers.len());
    for line in numbers.chunks(PER_LINE) {
        for number in line {
            let _ = write!(text, "{:08x}", number.to_bits());
        }
        text.push('\n');
    }
}

/// A whole number as it is written: digits, without needless zeros.
fn number(text: &str) -> Option<u64> {
    let plain =
        text.bytes().all(|it| it.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// The lines that are still to be read.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    lines: std::str::SplitTerminator<'a, char>,
    line: usize,
}

impl<'a> Lines<'a> {
    /// The lines before the checksum line, when the checksum is right.
    pub(crate) fn unsealed(text: &'a str) -> Result<Self, PolicyError> {
        let lines = text.bytes().filter(|it| *it == b'\n').count().max(1);
        let last = text.strip_suffix('\n').and_then(|it| it.rsplit_once('\n'));
        let Some(given) = last.and_then(|it| it.1.strip_prefix("checksum ")) else {
            let problem = "the file does not end with its checksum line".to_owned();
            return Err(error(PolicyErrorKind::Truncated, lines, problem));
        };
        let body = &text[..text.len() - given.len() - "checksum \n".len()];
        let computed = Checksum::of(body.as_bytes());
        if Checksum::from_text(given) != Some(computed) {
            let problem =
                format!("the contents have checksum {computed}, and the file says otherwise");
            return Err(error(PolicyErrorKind::Corrupt, lines, problem));
        }
        Ok(Self { lines: body.split_terminator('\n'), line: 0 })
    }

    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, PolicyError> {
        self.line += 1;
        self.lines.next().ok_or_else(|| self.malformed(format!("{what} is missing")))
    }

    /// Checks that no line follows.
    pub(crate) fn end(&mut self) -> Result<(), PolicyError> {
        self.line += 1;
        self.lines.next().map_or(Ok(()), |it| Err(self.bad(it)))
    }

    pub(crate) const fn malformed(&self, problem: String) -> PolicyError {
        error(PolicyErrorKind::Malformed, self.line, problem)
    }

    pub(crate) fn bad(&self, found: &str) -> PolicyError {
        let found: String = found.chars().take(60).collect();
        self.malformed(format!("`{found}` is not what belongs here"))
    }

    /// Reads the next line, which must begin with `word`, and returns the rest of it.
    pub(crate) fn after(&mut self, word: &str) -> Result<&'a str, PolicyError> {
        let line = self.next(word)?;
        let rest = line.strip_prefix(word).and_then(|it| it.strip_prefix(' '));
        rest.ok_or_else(|| self.bad(line))
    }

    /// Reads the next line, which must be what this Motet would write; otherwise the error is of this `kind`.
    pub(crate) fn fits(
        &mut self,
        kind: PolicyErrorKind,
        word: &str,
        ours: impl Fn() -> String,
    ) -> Result<(), PolicyError> {
        let (found, ours) = (self.after(word)?, ours());
        if found == ours {
            return Ok(());
        }
        let found: String = found.chars().take(60).collect();
        Err(error(kind, self.line, format!("{word} `{found}`, and this Motet's is `{ours}`")))
    }

    /// Reads the next line: `word`, and then `name=number` for each of the names.
    pub(crate) fn named<const N: usize>(
        &mut self,
        word: &str,
        names: [&str; N],
    ) -> Result<[u64; N], PolicyError> {
        let found = self.after(word)?;
        let mut words = found.split(' ');
        let values = names.map(|name| {
            let word = words.next()?.strip_prefix(name)?.strip_prefix('=')?;
            number(word)
        });
        if words.next().is_some() || values.contains(&None) {
            return Err(self.bad(found));
        }
        Ok(values.map(Option::unwrap_or_default))
    }

    /// Reads what [`put_numbers`] wrote under this name; there must be `length` numbers, all finite.
    pub(crate) fn numbers(&mut self, name: &str, length: usize) -> Result<Vec<f32>, PolicyError> {
        let given = self.after(name)?;
        if given != length.to_string() {
            return Err(self.bad(given));
        }
        let mut numbers = Vec::with_capacity(length);
        while numbers.len() < length {
            let line = self.next("a line of numbers")?;
            let amount = PER_LINE.min(length - numbers.len());
            if line.len() != amount * 8 || !line.is_ascii() {
                return Err(self.bad(line));
            }
            for at in 0..amount {
                let digits = &line[at * 8..at * 8 + 8];
                let plain = digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
                let bits = u32::from_str_radix(digits, 16).ok().filter(|_| plain);
                let number = bits.map(f32::from_bits).filter(|it| it.is_finite());
                numbers.push(number.ok_or_else(|| self.bad(digits))?);
            }
        }
        Ok(numbers)
    }
}

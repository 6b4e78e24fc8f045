//! How much memory a TOML text would take, told before it is parsed.
//!
//! The parser keeps every token with its place, and every table as a map of its own, which takes a
//! thousand bytes however little is in it. So a text of a few megabytes can take gigabytes (measured:
//! 8 MiB of `{a=1},` take 1.9 GB). Bytes alone are therefore no limit: tokens and tables are counted
//! first, in one pass that keeps nothing. [`toml_text`](super::toml_text) asks for it.

use motet_units::Bytes;

use super::ReadError;

/// Most bytes of a TOML text.
pub const MAX_TOML: Bytes = Bytes::mib(16);
/// Most words, strings, marks and ends of lines: the parser takes some 50 bytes for each, and as much again for
/// a value. A written-out cluster has 25 for a link, so 150,000 nodes and links fit.
const MAX_TOKENS: usize = 1 << 22;
/// Most tables, with or without a header of their own; the parser takes some 1,100 bytes for each.
const MAX_TABLES: usize = 1 << 18;

/// Refuses a text that would take too much memory to be parsed.
pub(super) fn check(text: &str) -> Result<(), ReadError> {
    let remedy = "describe a large cluster with [[server]] and [[fabric]] tables";
    if text.len() as u64 > MAX_TOML.get() {
        let (size, most) = (text.len(), MAX_TOML);
        let problem = format!("the file has {size} bytes, and at most {most} of TOML are read");
        return Err(ReadError::new(problem).with_remedy(remedy).too_large());
    }
    let mut count = Count::new(text);
    while count.step() {
        let (most, what) = match () {
            () if count.tables > MAX_TABLES => (MAX_TABLES, "tables"),
            () if count.tokens > MAX_TOKENS => (MAX_TOKENS, "words and marks"),
            () => continue,
        };
        let problem = format!("there are more than {most} {what}, and no more are read of TOML");
        return Err(ReadError::new(problem).with_remedy(remedy).at(text, count.at).too_large());
    }
    Ok(())
}

/// A walk through a text, token by token. It need not know whether the text is TOML, only never count less than
/// the parser would keep.
struct Count<'a> {
    text: &'a [u8],
    at: usize,
    /// Nothing but blanks stands before on this line, so that `[` is a header.
    is_fresh: bool,
    tokens: usize,
    tables: usize,
}

impl<'a> Count<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, is_fresh: true, tokens: 0, tables: 0 }
    }

    /// Goes over one token; false at the end.
    fn step(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let rest = &rest[length(rest, |it| matches!(it, b' ' | b'\t' | b'\r'))..];
        self.at = self.text.len() - rest.len();
        let Some(first) = rest.first() else { return false };
        self.tokens += 1;
        // A dot makes a table of each key before it. That of a number is counted with them: no file has so many.
        let is_table = matches!(first, b'{' | b'.') || (*first == b'[' && self.is_fresh);
        self.tables += usize::from(is_table);
        self.at += match first {
            b'"' | b'\'' => string(rest, *first),
            b'#' => length(rest, |it| it != b'\n'),
            it if is_bare(*it) => length(rest, is_bare),
            _ => 1,
        };
        self.is_fresh = *first == b'\n';
        true
    }
}

/// What a key without quotes, a number or a date is made of; letters beyond ASCII are errors of which one is enough.
fn is_bare(it: u8) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-' | b'+' | b':') || !it.is_ascii()
}

/// How many bytes from the beginning of `text` on are of a sort.
fn length(text: &[u8], of: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|it| !of(*it)).unwrap_or(text.len())
}

/// The length of the string that `text` begins with. One on one line ends there, closed or not: what the parser
/// would make of the next line must be counted.
fn string(text: &[u8], quote: u8) -> usize {
    let three = [quote; 3];
    let is_long = text.starts_with(&three);
    let mut at = if is_long { 3 } else { 1 };
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' if quote == b'"' => at += 2,
            b'\n' if !is_long => return at,
            it if *it == quote && !is_long => return at + 1,
            it if *it == quote && text[at..].starts_with(&three) => return at + 3,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::super::toml_quoted;
    use super::*;
    use proptest::prelude::*;

    fn counted(text: &str) -> (usize, usize) {
        let mut count = Count::new(text);
        while count.step() {}
        (count.tokens, count.tables)
    }

    #[test]
    fn tokens_and_tables_are_counted_outside_of_strings_only() {
        for (text, tokens, tables) in [
            ("", 0, 0),
            ("a = 1", 3, 0),
            ("[[node]]\nname = \"a.b{c}\"  # {{ [x]\n", 11, 1),
            ("[a.b]\n", 6, 2),
            ("x = [{a.b = 1}, [2]]", 15, 2),
            ("x = \"\"\"\n[a]\n{\"\"\"\n[b]", 7, 1),
            ("x = '\\'\n  [b]", 7, 1),
            // Not closed: the next line counts.
            ("x = \"a\n[b]", 7, 1),
            ("x = \"a\\", 3, 0),
        ] {
            assert_eq!(counted(text), (tokens, tables), "{text:?}");
        }
    }

    #[test]
    fn small_texts_that_would_take_gigabytes_are_refused_with_a_place() {
        let line_ends = "\n".repeat(MAX_TOKENS + 1);
        let numbers = format!("a = [{}]", "1,".repeat(MAX_TOKENS / 2));
        let inline = format!("a = [\n{}]", "{a=1},".repeat(MAX_TABLES + 1));
        let headers = "[a.b]\n".repeat(MAX_TABLES / 2 + 1);
        for (text, what) in [
            (&line_ends, "words and marks"),
            (&numbers, "words and marks"),
            (&inline, "262144 tables"),
            (&headers, "262144 tables"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.problem.contains(what), "{error}");
            assert!(error.at.is_some() && error.remedy.is_some(), "{error}");
        }
        let large = check(&"#".repeat((16 << 20) + 1)).unwrap_err();
        assert!(large.problem.contains("at most 16 MiB") && large.is_too_large, "{large}");
    }

    #[test]
    fn a_cluster_of_150_000_links_fits() {
        let link = "[[link]]\nfrom = \"s4095-gpu7\"\nto = \"s4095-nvswitch3\"\n\
            bandwidth = \"450 GB/s\"\nlatency = \"500 ns\"\nclass = \"nvlink\"\n\n";
        assert_eq!(check(&link.repeat(120_000)), Ok(()));
        // The places of a text are not what is looked at here.
        let short =
            "[[link]]\nfrom = \"a\"\nto = \"b\"\nbandwidth = \"1 GB/s\"\nlatency = \"1 ns\"\n\n";
        assert_eq!(check(&short.repeat(150_000)), Ok(()));
    }

    proptest! {
        #[test]
        fn a_quoted_text_is_one_token(text in "\\PC{0,20}|[\"\\\\'\n#]{0,8}") {
            let (tokens, tables) = counted(&format!("{}\n[a]", toml_quoted(&text)));
            prop_assert_eq!((tokens, tables), (5, 1));
        }

        /// Whatever the parser takes, it finds no more tables than are counted.
        #[test]
        fn no_fewer_tables_are_counted_than_there_are(
            text in "((\\[a\\]|\\[\\[b\\]\\]|\\[c\\.d\\]|x = \\{y\\.z = 1\\}|y = \"[{]\"|z = '''\n[{]''')\n){0,6}"
        ) {
            fn tables(value: &toml::Value) -> usize {
                match value {
                    toml::Value::Table(it) => 1 + it.values().map(tables).sum::<usize>(),
                    toml::Value::Array(it) => it.iter().map(tables).sum(),
                    _ => 0,
                }
            }
            if let Ok(parsed) = text.parse::<toml::Table>() {
                let found: usize = parsed.values().map(tables).sum();
                prop_assert!(found <= counted(&text).1, "{}", text);
            }
        }
    }
}

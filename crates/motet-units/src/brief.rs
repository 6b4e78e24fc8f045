//! [`brief`]: text from a file as an error repeats it.
//!
//! A file may hold megabytes without a space, and an error that repeats what it found must not fill
//! the terminal or the log with it. Every message that quotes its input goes through here.

use std::borrow::Cow;

/// Most characters of a name or word that an error repeats.
const WORD: usize = 60;

/// A name or word from a file, cut to what an error should repeat, with `…` where it was cut.
#[must_use]
pub fn brief(text: &str) -> Cow<'_, str> {
    brief_to(text, WORD)
}

/// The same for a text of which more should be shown: at most so many characters.
#[must_use]
pub fn brief_to(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_text_is_cut_and_only_between_characters() {
        assert_eq!(brief("allreduce"), "allreduce");
        assert_eq!(brief(&"ä".repeat(60)), "ä".repeat(60));
        assert_eq!(brief(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
        assert_eq!(brief_to("abc", 0), "…");
    }
}

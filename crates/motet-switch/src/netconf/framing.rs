//! NETCONF's framing over a stream (RFC 6242): the end mark of version 1.0, the chunks of version 1.1. No IO.

use crate::wire::LONGEST;

/// How messages are separated from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `]]>]]>` after each message. The hello always has it.
    EndMark,
    /// `#` and a length before each chunk, `##` after the last.
    Chunks,
}

const END: &[u8] = b"]]>]]>";

impl Framing {
    /// The bytes that send a message.
    ///
    /// # Errors
    ///
    /// If the message contains the end mark, which would cut it off, or if it is empty, which chunks cannot
    /// express.
    pub fn write(self, message: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::EndMark if message.contains("]]>]]>") => {
                Err("the end mark inside a message".to_owned())
            }
            Self::EndMark => Ok([message.as_bytes(), END].concat()),
            Self::Chunks if message.is_empty() => Err("an empty message".to_owned()),
            Self::Chunks => Ok(format!("\n#{}\n{message}\n##\n", message.len()).into_bytes()),
        }
    }

    /// Takes the first message off the received bytes; also returns how many bytes it takes. `None` if it is
    /// not complete.
    ///
    /// # Errors
    ///
    /// If the received bytes are no frame or no text.
    pub fn cut(self, inbox: &[u8]) -> Result<Option<(String, usize)>, String> {
        match self {
            Self::EndMark => {
                let Some(end) = inbox.windows(END.len()).position(|it| it == END) else {
                    return Ok(None);
                };
                Ok(Some((text(inbox.get(..end).unwrap_or_default())?, end + END.len())))
            }
            Self::Chunks => chunks(inbox),
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|it| format!("not UTF-8: {it}"))
}

/// A header: the length of the chunk that follows, `None` if it ends the message; and the length of the
/// header itself.
type Header = (Option<usize>, usize);

/// Reads the header at the beginning: a line break, `#`, digits or another `#`, a line break.
fn header(rest: &[u8]) -> Result<Option<Header>, String> {
    let wrong = |what: &str| Err(format!("{what} where a chunk should begin"));
    match rest {
        [] | [b'\n'] => return Ok(None),
        [b'\n', b'#', ..] => {}
        _ => return wrong("something else than `\\n#`"),
    }
    let digits = rest.get(2..).unwrap_or_default();
    // RFC 6242 allows lengths up to 4294967295, that is ten digits.
    let Some(end) = digits.iter().take(11).position(|it| *it == b'\n') else {
        return if digits.len() > 10 { wrong("a number without an end") } else { Ok(None) };
    };
    let number = digits.get(..end).unwrap_or_default();
    if number == b"#" {
        return Ok(Some((None, 2 + end + 1)));
    }
    let first = number.first().is_some_and(|it| (b'1'..=b'9').contains(it));
    let length =
        std::str::from_utf8(number).ok().filter(|_| first && number.iter().all(u8::is_ascii_digit));
    match length.and_then(|it| it.parse::<usize>().ok()) {
        Some(length) if length <= LONGEST => Ok(Some((Some(length), 2 + end + 1))),
        Some(_) => wrong("a length beyond all reason"),
        None => wrong("no length"),
    }
}

fn chunks(inbox: &[u8]) -> Result<Option<(String, usize)>, String> {
    let mut message = Vec::new();
    let mut at = 0;
    loop {
        let rest = inbox.get(at..).unwrap_or_default();
        let Some((length, skip)) = header(rest)? else { return Ok(None) };
        at += skip;
        let Some(length) = length else {
            if message.is_empty() {
                return Err("a message without a chunk".to_owned());
            }
            return Ok(Some((text(&message)?, at)));
        };
        let Some(chunk) = inbox.get(at..at + length) else { return Ok(None) };
        message.extend_from_slice(chunk);
        if message.len() > LONGEST {
            return Err(format!("a message of more than {LONGEST} bytes"));
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_6242() {
        let sent = b"\n#4\n<rpc\n#18\n message-id=\"102\"\n\n#79\n     xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\">\n  <close-session/>\n</rpc>\n##\n";
        let (message, length) = Framing::Chunks.cut(sent).unwrap().unwrap();
        assert_eq!(length, sent.len());
        assert!(
            message.starts_with("<rpc message-id=\"102\"\n") && message.ends_with("</rpc>"),
            "{message}"
        );
    }

    #[test]
    fn wrong_frames_are_refused() {
        for wrong in [
            "x",
            "\nx",
            "\n#0\n",
            "\n#01\nx",
            "\n#\nx",
            "\n##\n",
            "\n#99999999999\n",
            "\n#4294967295\n",
            "\n#1\n\u{ff}",
            "\n#-1\n",
        ] {
            let cut = Framing::Chunks.cut(wrong.as_bytes());
            assert!(cut.is_err() || wrong.contains('\u{ff}') && cut.is_ok(), "{wrong:?}: {cut:?}");
        }
        assert!(Framing::Chunks.cut(b"\n#1\n\xff\n##\n").is_err());
        assert!(Framing::EndMark.write("a]]>]]>b").is_err());
    }

    proptest! {
        /// What is written is read, and never before all of it is there.
        #[test]
        fn there_and_back(message in "[a-z<>/#\n ]{1,60}", rest in "[a-z\n#]{0,9}") {
            for framing in [Framing::EndMark, Framing::Chunks] {
                let sent = framing.write(&message).unwrap();
                for at in 0..sent.len() {
                    prop_assert_eq!(framing.cut(&sent[..at]).unwrap(), None);
                }
                let all = [sent.as_slice(), rest.as_bytes()].concat();
                prop_assert_eq!(framing.cut(&all).unwrap(), Some((message.clone(), sent.len())));
            }
        }
    }
}

//! TL1's messages: writing commands, and splitting received bytes into messages and lines. No IO.

use crate::device::Seen;
use crate::driver::PortState;
use crate::layout::Cross;
use crate::wire::start_of;

/// A message from a TL1 device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The device has received the command and is working on it.
    Acknowledged,
    /// A message that no command asked for.
    Autonomous,
    /// The answer to the command of this tag.
    Answer(Answer),
}

/// An answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: String,
    /// `COMPLD`, `DENY`, `PRTL` …
    pub code: String,
    /// The quoted lines, without their quotes.
    pub lines: Vec<String>,
    /// The other lines: error codes, and remarks between `/*` and `*/`.
    pub words: String,
    /// Whether more of this answer follows (the message ended with `>`).
    pub more: bool,
}

/// Takes the first message off the received bytes; also returns how many bytes it takes. `None` if it is not
/// complete. Text between quotes may contain anything; outside, a `;` or `>` ends an answer, and a `<` an
/// acknowledgement.
///
/// # Errors
///
/// If the received bytes are no message.
pub fn cut(inbox: &[u8]) -> Result<Option<(Message, usize)>, String> {
    let mut quoted = false;
    let mut escaped = false;
    let mut end = None;
    for (at, byte) in inbox.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b';' | b'>' | b'<' if !quoted => {
                end = Some((at, *byte));
                break;
            }
            _ => {}
        }
    }
    let Some((end, by)) = end else { return Ok(None) };
    let text = String::from_utf8_lossy(inbox.get(..end).unwrap_or_default()).into_owned();
    let message = if by == b'<' { Message::Acknowledged } else { message(&text, by == b'>')? };
    Ok(Some((message, end + 1)))
}

fn message(text: &str, more: bool) -> Result<Message, String> {
    let wrong = || format!("not a TL1 message: `{}`", start_of(text));
    let mut lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
    // Devices may send the rest of a prompt and a header (name, date, time) before the line with the kind of
    // message.
    let head = lines.find(|it| it.starts_with("M ") || is_alarm(it));
    let Some(head) = head else {
        // An empty message: the `;` after an echo or a prompt.
        return if text.trim().is_empty() { Ok(Message::Acknowledged) } else { Err(wrong()) };
    };
    if is_alarm(head) {
        return Ok(Message::Autonomous);
    }
    let mut words = head.split_whitespace().skip(1);
    let (tag, code) = words.next().zip(words.next()).ok_or_else(wrong)?;
    let mut answer = Answer {
        tag: tag.to_owned(),
        code: code.to_owned(),
        lines: Vec::new(),
        words: String::new(),
        more,
    };
    for line in lines {
        match line.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
            Some(inside) => answer.lines.push(inside.replace("\\\"", "\"")),
            None => {
                let between = if answer.words.is_empty() { "" } else { " " };
                answer.words.push_str(between);
                answer.words.push_str(line);
            }
        }
    }
    Ok(Message::Answer(answer))
}

/// Whether a line begins an autonomous message: with `A`, or with its severity, `*C`, `**` or `*`.
fn is_alarm(line: &str) -> bool {
    ["A ", "*C ", "** ", "* "].iter().any(|it| line.starts_with(it))
}

/// A name or password as it is written in a command: in quotes unless it has only plain characters.
///
/// # Errors
///
/// If TL1 cannot carry it.
pub fn quote(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().any(|it| it.is_control() || matches!(it, '"' | '\\')) {
        return Err(
            "empty, or with quotes, backslashes or control characters, which TL1 cannot carry"
                .to_owned(),
        );
    }
    let plain = text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.'));
    Ok(if plain { text.to_owned() } else { format!("\"{text}\"") })
}

/// Writes a list of ports as `1&2&3`.
#[must_use]
pub fn list(ports: impl Iterator<Item = u32>) -> String {
    ports.map(|it| it.to_string()).collect::<Vec<_>>().join("&")
}

/// Reads the lines of `RTRV-PATCH`: an input and its output each. Lines of unconnected ports have no second
/// number.
///
/// # Errors
///
/// If a line is something else.
pub fn read_patches(lines: &[String]) -> Result<Vec<Seen>, String> {
    let mut seen = Vec::new();
    for line in lines {
        let wrong = || format!("not an input and an output: `{}`", start_of(line));
        let (input, output) = line.split_once(',').ok_or_else(wrong)?;
        let input: u32 = input.trim().parse().map_err(|_| wrong())?;
        match output.trim() {
            "" | "0" => {}
            output => {
                let output = output.parse().map_err(|_| wrong())?;
                seen.push(Seen { cross: Cross { input, output }, ..Seen::made(0, 0) });
            }
        }
    }
    Ok(seen)
}

/// Reads the lines of `RTRV-PORT-SHUTTER`: a port and whether light passes. Returns the ports that are not
/// up.
///
/// # Errors
///
/// If a line is something else.
pub fn read_shutters(lines: &[String]) -> Result<Vec<(u32, PortState)>, String> {
    let mut states = Vec::new();
    for line in lines {
        let wrong = || format!("not a port and its shutter: `{}`", start_of(line));
        let (port, state) = line.split_once(':').ok_or_else(wrong)?;
        let port = port.trim().parse().map_err(|_| wrong())?;
        match state.trim().to_ascii_uppercase().as_str() {
            "CLOSED" => states.push((port, PortState::Disabled)),
            "FAILED" => states.push((port, PortState::Failed)),
            // `OPEN`, or a word for a port without a shutter. Such a port is used; if it does not work,
            // reading back shows it.
            word if !word.is_empty() && word.bytes().all(|it| it.is_ascii_alphabetic()) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\r\n   OCS 26-11-16 10:00:00\r\nM  7 COMPLD\r\n   \"1,9\"\r\n   \"2,\"\r\n   \"x;\\\"y>\"\r\n;";

    #[test]
    fn messages_are_cut_at_their_ends() {
        for at in 0..ANSWER.len() {
            assert_eq!(cut(&ANSWER.as_bytes()[..at]).unwrap(), None, "{at}");
        }
        let (message, length) = cut(ANSWER.as_bytes()).unwrap().unwrap();
        assert_eq!(length, ANSWER.len());
        let Message::Answer(answer) = message else { panic!("{message:?}") };
        assert_eq!(
            (answer.tag.as_str(), answer.code.as_str(), answer.more),
            ("7", "COMPLD", false)
        );
        assert_eq!(answer.lines, ["1,9", "2,", "x;\"y>"]);
    }

    #[test]
    fn denials_acknowledgements_and_alarms() {
        let deny =
            b"\r\n   OCS 26-11-16 10:00:00\r\nM  8 DENY\r\n   IIAC\r\n   /* no such port */\r\n;";
        let Some((Message::Answer(answer), _)) = cut(deny).unwrap() else { panic!() };
        assert_eq!(
            (answer.code.as_str(), answer.words.as_str()),
            ("DENY", "IIAC /* no such port */")
        );
        assert_eq!(cut(b"IP 8\r\n<").unwrap(), Some((Message::Acknowledged, 7)));
        let alarm = b"\r\n   OCS 26-11-16 10:00:00\r\n** 12 REPT ALM OPM\r\n   \"5:MJ\"\r\n;";
        assert!(matches!(cut(alarm).unwrap(), Some((Message::Autonomous, _))));
        assert!(cut(b"login: hello;").is_err());
    }

    #[test]
    fn patches_shutters_and_quotes() {
        let lines = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert_eq!(read_patches(&lines(&["1,9", "2,", "3,0"])).unwrap(), [Seen::made(1, 9)]);
        assert!(read_patches(&lines(&["1"])).is_err());
        let states = read_shutters(&lines(&["1:OPEN", "2:CLOSED", "3:FAILED", "4:NONE"])).unwrap();
        assert_eq!(states, [(2, PortState::Disabled), (3, PortState::Failed)]);
        assert!(
            read_shutters(&lines(&["1:"])).is_err() && read_shutters(&lines(&["1,OPEN"])).is_err()
        );
        assert_eq!(quote("admin").unwrap(), "admin");
        assert_eq!(quote("a:b;c").unwrap(), "\"a:b;c\"");
        assert!(quote("a\"b").is_err() && quote("").is_err());
        assert_eq!(list([1, 2, 9].into_iter()), "1&2&9");
    }
}

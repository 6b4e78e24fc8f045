//! SCPI's texts: lists of ports, port states, errors. No IO.

use crate::device::Seen;
use crate::driver::PortState;
use crate::layout::Cross;

/// Writes cross-connections as `(@1,2),(@9,10)`: the inputs, and the output of each.
#[must_use]
pub fn write_crosses(crosses: &[Cross]) -> String {
    let list = |port: fn(&Cross) -> u32| {
        crosses.iter().map(|it| port(it).to_string()).collect::<Vec<_>>().join(",")
    };
    format!("(@{}),(@{})", list(|it| it.input), list(|it| it.output))
}

/// Reads what [`write_crosses`] writes. Spaces do not matter; ranges (`1:4`) are those of IEEE 488.2.
///
/// # Errors
///
/// If it is something else.
pub fn read_crosses(text: &str) -> Result<Vec<Seen>, String> {
    let wrong = || format!("not two lists of ports: `{}`", crate::wire::start_of(text));
    let text: String = text.chars().filter(|it| !it.is_whitespace()).collect();
    let inside = text.strip_prefix("(@").and_then(|it| it.strip_suffix(')')).ok_or_else(wrong)?;
    let (inputs, outputs) = inside.split_once("),(@").ok_or_else(wrong)?;
    let (inputs, outputs) = (read_list(inputs)?, read_list(outputs)?);
    if inputs.len() != outputs.len() {
        return Err(format!("{} inputs, but {} outputs", inputs.len(), outputs.len()));
    }
    Ok(inputs.into_iter().zip(outputs).map(|(input, output)| Seen::made(input, output)).collect())
}

/// The most ports of a device: more than the largest has, and so few that a range in a text costs little
/// memory.
const MOST: usize = 1 << 16;

fn read_list(text: &str) -> Result<Vec<u32>, String> {
    let mut list = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let number = |it: &str| it.parse::<u32>().map_err(|_| format!("`{part}` is not a port"));
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first || (last - first) as usize >= MOST || list.len() >= MOST {
            return Err(format!("`{part}` is not a range of ports"));
        }
        list.extend(first..=last);
    }
    Ok(list)
}

/// Reads `(E,D,F)`: for each port, from the first on, whether it is enabled, disabled or failed.
///
/// # Errors
///
/// If it is something else.
pub fn read_states(text: &str) -> Result<Vec<(u32, PortState)>, String> {
    let wrong = || format!("not a list of port states: `{}`", crate::wire::start_of(text));
    let inside =
        text.trim().strip_prefix('(').and_then(|it| it.strip_suffix(')')).ok_or_else(wrong)?;
    let mut states = Vec::new();
    for (port, state) in (1_u32..).zip(inside.split(',')).filter(|_| !inside.is_empty()) {
        match state.trim() {
            "D" => states.push((port, PortState::Disabled)),
            "F" => states.push((port, PortState::Failed)),
            // `E`, or a letter for a port that cannot be disabled. Such a port is used; if it does not work,
            // reading back shows it.
            letter if letter.len() == 1 && letter.bytes().all(|it| it.is_ascii_alphabetic()) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(states)
}

/// Reads an answer to `:syst:err?`, such as `-222,"Data out of range"`; `None` if there is no error.
///
/// # Errors
///
/// If it is something else.
pub fn read_error(text: &str) -> Result<Option<String>, String> {
    let wrong = || format!("not an error number and its text: `{}`", crate::wire::start_of(text));
    let (code, words) = text.trim().split_once(',').ok_or_else(wrong)?;
    let code: i32 = code.trim().parse().map_err(|_| wrong())?;
    let words =
        words.trim().strip_prefix('"').and_then(|it| it.strip_suffix('"')).ok_or_else(wrong)?;
    // A quote inside is written twice.
    Ok((code != 0).then(|| format!("{code}: {}", words.replace("\"\"", "\""))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crosses() {
        assert_eq!(read_crosses("(@),(@)").unwrap(), []);
        let read = read_crosses("(@1,2,3), (@19,18,22)\r").unwrap();
        let crosses: Vec<Cross> = read.iter().map(|it| it.cross).collect();
        assert_eq!(write_crosses(&crosses), "(@1,2,3),(@19,18,22)");
        assert_eq!(read_crosses("(@1:3),(@17:19)").unwrap().len(), 3);
        for wrong in [
            "",
            "(@1),(@)",
            "(@1)",
            "(@1,),(@2,)",
            "(@x),(@1)",
            "(@3:1),(@1:3)",
            "(@1:4294967295),(@1)",
            "<none>",
        ] {
            assert!(read_crosses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn states_and_errors() {
        assert_eq!(
            read_states("(E,D,F,U)").unwrap(),
            [(2, PortState::Disabled), (3, PortState::Failed)]
        );
        assert!(read_states("(E,1)").is_err() && read_states("E,E").is_err());
        assert_eq!(read_error("0,\"No error\"").unwrap(), None);
        assert_eq!(
            read_error("-222,\"no \"\"such\"\" port\"").unwrap().unwrap(),
            "-222: no \"such\" port"
        );
        assert!(read_error("1").is_err() && read_error("x,\"\"").is_err());
    }
}

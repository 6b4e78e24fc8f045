//! "Did you mean": the names closest to a mistyped one, and those that a part of was written.
//!
//! Used wherever a file or a command line names something from a list: keys, templates, nodes.

/// At most this many names are suggested.
const SUGGESTIONS: usize = 3;
/// Only this many characters are compared, so that a hostile name costs no more than a long one.
const COMPARED: usize = 48;

/// A part of a name says which is meant only if it is at least so long.
const PART: usize = 3;

/// The names nearest to `name`, best first, then those that have it in them (`b200` in `dgx-b200`); empty if none
/// is near enough to be a slip.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = name.chars().take(COMPARED).flat_map(char::to_lowercase).collect();
    // A slip changes about a third of a word at most; short words get one letter.
    let most = (wanted.len() / 3).max(1);
    let mut best: Vec<(usize, &'a str)> = Vec::with_capacity(SUGGESTIONS + 1);
    for candidate in known {
        let distance = distance(&wanted, candidate, most);
        let part = || is_part(&wanted, candidate).then_some(most + 1);
        let Some(distance) = distance.or_else(part) else {
            continue;
        };
        let place = best.partition_point(|it| it.0 <= distance);
        if place < SUGGESTIONS {
            best.insert(place, (distance, candidate));
            best.truncate(SUGGESTIONS);
        }
    }
    best.into_iter().map(|it| it.1).collect()
}

/// Whether what was written stands in a name.
fn is_part(wanted: &[char], candidate: &str) -> bool {
    let whole: Vec<char> = candidate.chars().take(COMPARED).flat_map(char::to_lowercase).collect();
    wanted.len() >= PART && whole.windows(wanted.len()).any(|it| it == wanted)
}

/// The remedy text: the nearest names, or all of them where there are few, or nothing.
pub(crate) fn remedy<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    const FEW: usize = 32;
    let quote = |names: &[&str]| names.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>();
    let near = nearest(name, known.clone());
    let all: Vec<&str> = known.into_iter().take(FEW + 1).collect();
    let known = (!all.is_empty() && all.len() <= FEW).then(|| format!("known: {}", all.join(", ")));
    let guess = (!near.is_empty()).then(|| format!("did you mean {}?", quote(&near).join(" or ")));
    match (guess, known) {
        (Some(guess), Some(known)) => Some(format!("{guess} ({known})")),
        (guess, known) => guess.or(known),
    }
}

/// Edit distance (with neighbours swapped counted once), if it is at most `most`.
fn distance(wanted: &[char], candidate: &str, most: usize) -> Option<usize> {
    let other: Vec<char> = candidate.chars().take(COMPARED).flat_map(char::to_lowercase).collect();
    if wanted.len().abs_diff(other.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=wanted.len() {
        let mut row = vec![i; other.len() + 1];
        for j in 1..=other.len() {
            let change = usize::from(wanted[i - 1] != other[j - 1]);
            row[j] = (last[j - 1] + change).min(last[j] + 1).min(row[j - 1] + 1);
            let swapped =
                i > 1 && j > 1 && wanted[i - 1] == other[j - 2] && wanted[i - 2] == other[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|it| *it <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_leaves_strangers() {
        let keys = ["bandwidth", "latency", "from", "to"];
        assert_eq!(nearest("bandwith", keys), ["bandwidth"]);
        assert_eq!(nearest("latnecy", keys), ["latency"]);
        assert_eq!(nearest("FORM", keys), ["from"]);
        assert!(nearest("colour", keys).is_empty());
        let templates = ["dgx-b200", "dgx-h100", "gb300-nvl72", "b100", "gh200"];
        assert_eq!(nearest("B200", templates), ["b100", "dgx-b200"]);
        assert_eq!(nearest("gb300", templates), ["gb300-nvl72"]);
        assert!(nearest("g1", ["rack-g1"]).is_empty());
        assert_eq!(nearest("g10", ["g1", "g0", "g11", "g100", "x"]), ["g1", "g0", "g11"]);
    }

    #[test]
    fn remedy_names_neighbours_and_all() {
        let text = remedy("lnk", ["node", "link"]).unwrap();
        assert_eq!(text, "did you mean `link`? (known: node, link)");
        assert_eq!(remedy("x", []), None);
    }
}

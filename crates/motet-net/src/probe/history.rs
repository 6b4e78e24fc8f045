//! How busy the ways between hosts, racks and datacenters were in the past: those that carried
//! next to nothing need no probe.
//!
//! As a table of the hosts file, or as CSV: `from,to,utilization` with a header, the utilization
//! from 0 to 1. A name may be of a host, a rack or a datacenter.

use std::collections::BTreeMap;

use super::hosts::Host;
use crate::formats::{ReadError, csv_records};

const MAX_ENTRIES: usize = 1 << 20;

/// The part of its bandwidth that was used between two named things, whichever way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    shares: BTreeMap<(String, String), f64>,
}

impl History {
    /// Of several entries for one pair the greatest counts.
    pub(super) fn add(&mut self, a: &str, b: &str, share: f64) -> Result<(), String> {
        if self.shares.len() >= MAX_ENTRIES {
            return Err(format!("there are more than {MAX_ENTRIES} entries"));
        }
        let known = self.shares.entry(key(a, b)).or_insert(share);
        *known = known.max(share);
        Ok(())
    }

    /// What is known between two names.
    #[must_use]
    pub fn between(&self, a: &str, b: &str) -> Option<f64> {
        self.shares.get(&key(a, b)).copied()
    }

    /// What is known between two hosts: of them, else of their racks, else of their datacenters.
    #[must_use]
    pub fn of_hosts(&self, a: &Host, b: &Host) -> Option<f64> {
        if self.shares.is_empty() {
            return None;
        }
        let hosts = self.between(&a.name, &b.name);
        let racks = || (a.rack != b.rack).then(|| self.between(&a.rack, &b.rack)).flatten();
        let dcs = || (a.dc != b.dc).then(|| self.between(&a.dc, &b.dc)).flatten();
        hosts.or_else(racks).or_else(dcs)
    }

    /// Takes over what another knows.
    pub fn extend(&mut self, other: Self) {
        for (pair, share) in other.shares {
            let known = self.shares.entry(pair).or_insert(share);
            *known = known.max(share);
        }
    }
}

fn key(a: &str, b: &str) -> (String, String) {
    let (first, second) = if a <= b { (a, b) } else { (b, a) };
    (first.to_owned(), second.to_owned())
}

/// A number from 0 to 1.
pub(super) fn share(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|it| (0.0..=1.0).contains(it))
}

/// Reads the CSV. Fields may be quoted, so that a name may have a comma in it.
pub fn read_csv(text: &str) -> Result<History, ReadError> {
    let mut history = History::default();
    let mut header = false;
    for record in csv_records(text) {
        let (line, fields) = record?;
        let wrong = |problem: String| {
            ReadError::new(problem)
                .at_line(line)
                .with_remedy("write `from,to,utilization` and below it lines such as `r1,r2,0.03`")
        };
        let fields: Vec<&str> = fields.iter().collect();
        let [from, to, last] = fields.as_slice() else {
            return Err(wrong(format!("the line has {} fields, not 3", fields.len())));
        };
        if !header {
            if [*from, *to, *last] != ["from", "to", "utilization"] {
                return Err(wrong("the first line is not the header".to_owned()));
            }
            header = true;
            continue;
        }
        let Some(share) = share(last) else {
            return Err(wrong(format!("`{last}` is not a number from 0 to 1")));
        };
        history.add(from, to, share).map_err(wrong)?;
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv() {
        let history =
            read_csv("# past week\nfrom,to,utilization\nr1, r2 ,0.03\n\nr2,r1,0.1\na,b,1\n")
                .unwrap();
        assert_eq!(history.between("r2", "r1"), Some(0.1));
        assert_eq!(history.between("b", "a"), Some(1.0));
        let quoted = "from,to,utilization\n\"Washington, DC\",\"Dallas, TX\",0.2\n";
        let quoted = read_csv(quoted).unwrap();
        assert_eq!(quoted.between("Dallas, TX", "Washington, DC"), Some(0.2));
        let host = |name: &str, rack: &str| Host {
            name: name.into(),
            address: String::new(),
            rack: rack.into(),
            dc: String::new(),
            gpus: 0,
        };
        assert_eq!(history.of_hosts(&host("x", "r1"), &host("y", "r2")), Some(0.1));
        assert_eq!(history.of_hosts(&host("a", "r1"), &host("b", "r2")), Some(1.0));
        assert_eq!(history.of_hosts(&host("x", "r1"), &host("y", "r1")), None);
        for (text, line) in [
            ("a,b,0.5", 1),
            ("from,to,utilization\na,b", 2),
            ("from,to,utilization\na,b,2", 2),
            ("from,to,utilization\na,b,NaN", 2),
        ] {
            assert_eq!(read_csv(text).unwrap_err().at.map(|it| it.line), Some(line), "{text}");
        }
    }
}

//! The file of hosts to probe:
//!
//! ```toml
//! [[host]]
//! name = "a"
//! address = "10.0.1.7"     # or a name; the port of the agent may follow
//! rack = "r1"              # optional: else the subnet of the address
//! dc = "north"             # optional
//! gpus = 8                 # optional: ranks that the host stands for
//!
//! [[utilization]]
//! between = ["r1", "r2"]   # hosts, racks or datacenters
//! share = 0.02             # of its bandwidth, in the past
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use toml::de::DeValue;

use super::DEFAULT_PORT;
use super::history::{self, History};
use crate::formats::cluster_toml::table::{Table, kind, scalar};
use crate::formats::cluster_toml::tables;
use crate::formats::{ReadError, parse_toml};

/// Most hosts of a file.
pub const MAX_HOSTS: usize = 1 << 16;
const MAX_GPUS: u32 = 1024;
/// The rack of hosts of which neither rack nor subnet is known.
const UNNAMED: &str = "unnamed";

/// A host with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What it is called, in the file and in the output.
    pub name: String,
    /// With the port: what the agent is reached under from everywhere.
    pub address: String,
    /// As given, or the subnet (IPv4 /24, IPv6 /64).
    pub rack: String,
    /// Empty where not given.
    pub dc: String,
    /// How many ranks it stands for.
    pub gpus: u32,
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hosts {
    /// What it is called, in the file and in the output.
    pub name: String,
    /// The hosts in the order of the file.
    pub hosts: Vec<Host>,
    /// How busy the ways between them were in the past.
    pub history: History,
}

/// Reads the file.
pub fn read(text: &str) -> Result<Hosts, ReadError> {
    let parsed = parse_toml(text)?;
    let top = Table { text, what: "a file of hosts", entries: parsed.get_ref(), start: 0 };
    top.check(&["name", "port", "host", "utilization"])?;
    let port = top.number("port", 1..u32::from(u16::MAX) + 1)?;
    let port = port.and_then(|it| u16::try_from(it).ok()).unwrap_or(DEFAULT_PORT);
    let mut found =
        Hosts { name: top.text("name")?.unwrap_or("probed").to_owned(), ..Hosts::default() };
    let mut names = BTreeSet::new();
    for table in tables(&top, "host", "[[host]]")? {
        let host = host(&table, port)?;
        if !names.insert(host.name.clone()) {
            return Err(table.wrong("name", format!("there are two hosts called `{}`", host.name)));
        }
        if found.hosts.len() >= MAX_HOSTS {
            return Err(table.wrong("name", format!("there are more than {MAX_HOSTS} hosts")));
        }
        found.hosts.push(host);
    }
    if found.hosts.is_empty() {
        return Err(
            ReadError::new("there is no host").with_remedy("write a [[host]] table for each")
        );
    }
    for table in tables(&top, "utilization", "[[utilization]]")? {
        let (a, b, share) = utilization(&table)?;
        let added = found.history.add(&a, &b, share);
        added.map_err(|problem| table.wrong("between", problem))?;
    }
    Ok(found)
}

fn host(table: &Table<'_>, port: u16) -> Result<Host, ReadError> {
    table.check(&["name", "address", "rack", "dc", "gpus"])?;
    let name = table.need("name", "a")?;
    let address = table.need("address", "10.0.0.1")?.trim();
    if address.is_empty() || address.len() > 253 || address.chars().any(char::is_whitespace) {
        return Err(table.wrong("address", format!("`{address}` is not an address")));
    }
    let ip = ip_of(address);
    let rack = match (table.text("rack")?, ip) {
        (Some(rack), _) => rack.to_owned(),
        (None, Some(ip)) => subnet(ip),
        (None, None) => UNNAMED.to_owned(),
    };
    Ok(Host {
        name: name.to_owned(),
        address: with_port(address, port),
        rack,
        dc: table.text("dc")?.unwrap_or_default().to_owned(),
        gpus: table.number("gpus", 0..MAX_GPUS + 1)?.unwrap_or(1),
    })
}

fn utilization(table: &Table<'_>) -> Result<(String, String, f64), ReadError> {
    table.check(&["between", "share"])?;
    let two = match table.get("between").map(toml::Spanned::get_ref) {
        Some(DeValue::Array(items)) => {
            let texts: Vec<String> = items.iter().filter_map(|it| scalar(it.get_ref())).collect();
            <[String; 2]>::try_from(texts).ok()
        }
        _ => None,
    };
    let Some([a, b]) = two else {
        let problem = "`between` must be two names of hosts, racks or datacenters";
        return Err(table
            .wrong("between", problem)
            .with_remedy("write between = [\"r1\", \"r2\"]"));
    };
    let value = table.get("share").map(toml::Spanned::get_ref);
    let number = match value {
        Some(it @ (DeValue::Float(_) | DeValue::Integer(_))) => scalar(it),
        Some(other) => {
            let problem = format!("`share` must be a number, not {}", kind(other));
            return Err(table.wrong("share", problem));
        }
        None => None,
    };
    let share = number.as_deref().and_then(history::share).ok_or_else(|| {
        table.wrong("share", "`share` must be a number from 0 to 1: the part of the bandwidth used")
    })?;
    Ok((a, b, share))
}

/// The IP address that `address` is or begins with, if it is no name.
fn ip_of(address: &str) -> Option<IpAddr> {
    let inside = |it: &str| it.trim_start_matches('[').trim_end_matches(']').parse().ok();
    let before_port = address.rsplit_once(':').and_then(|(host, _)| inside(host));
    inside(address).or(before_port)
}

fn with_port(address: &str, port: u16) -> String {
    let bare_v6 = address.parse::<std::net::Ipv6Addr>().is_ok();
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    match (bare_v6, has_port) {
        (true, _) => format!("[{address}]:{port}"),
        (false, true) => address.to_owned(),
        (false, false) => format!("{address}:{port}"),
    }
}

/// The prefix that usually is one rack's: 24 bits of an IPv4 address, 64 of an IPv6 address.
fn subnet(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn racks_follow_from_addresses() {
        let text = "port = 9000\n[[host]]\nname = \"a\"\naddress = \"10.0.1.7\"\n\
            [[host]]\nname = \"b\"\naddress = \"10.0.1.8:55\"\ngpus = 8\ndc = \"x\"\n\
            [[host]]\nname = \"c\"\naddress = \"fd00:0:0:1::5\"\n\
            [[host]]\nname = \"d\"\naddress = \"[fd00:0:0:1::6]:1\"\n\
            [[host]]\nname = \"e\"\naddress = \"node5.example\"\n\
            [[host]]\nname = \"f\"\naddress = \"node6:80\"\nrack = \"r\"\n\
            [[utilization]]\nbetween = [\"a\", \"b\"]\nshare = 0.5\n";
        let hosts = read(text).unwrap();
        let addresses: Vec<&str> = hosts.hosts.iter().map(|it| it.address.as_str()).collect();
        assert_eq!(
            addresses,
            [
                "10.0.1.7:9000",
                "10.0.1.8:55",
                "[fd00:0:0:1::5]:9000",
                "[fd00:0:0:1::6]:1",
                "node5.example:9000",
                "node6:80"
            ]
        );
        let racks: Vec<&str> = hosts.hosts.iter().map(|it| it.rack.as_str()).collect();
        let v6 = "fd00:0:0:1::/64";
        assert_eq!(racks, ["10.0.1.0/24", "10.0.1.0/24", v6, v6, UNNAMED, "r"]);
        assert_eq!((hosts.hosts[1].gpus, hosts.hosts[1].dc.as_str()), (8, "x"));
        assert_eq!(hosts.history.between("b", "a"), Some(0.5));
    }

    #[test]
    fn errors_have_places() {
        let host = "[[host]]\nname = \"a\"\naddress = \"b\"\n";
        for (text, line, part) in [
            (String::new(), None, "no host"),
            ("host = 1".into(), Some(1), "[[host]]"),
            (format!("{host}{host}"), Some(5), "two hosts called"),
            ("[[host]]\nname = \"a\"".into(), Some(1), "needs `address`"),
            ("[[host]]\nname = \"a\"\naddress = \"a b\"".into(), Some(3), "not an address"),
            (format!("{host}racks = \"r\""), Some(4), "no key `racks`"),
            (format!("{host}gpus = 5000"), Some(4), "from 0 to 1024"),
            (format!("port = 0\n{host}"), Some(1), "from 1 to 65535"),
            (format!("{host}[[utilization]]\nbetween = \"a\"\nshare = 1"), Some(5), "two names"),
            (
                format!("{host}[[utilization]]\nbetween = [\"a\", \"b\"]\nshare = 2"),
                Some(6),
                "0 to 1",
            ),
            (
                format!("{host}[[utilization]]\nbetween = [\"a\", \"b\"]\nshare = \"x\""),
                Some(6),
                "not text",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.problem.contains(part), "{error}\n{text}");
            assert_eq!(error.at.map(|it| it.line), line, "{error}\n{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[\\[(host|utilization)\\]\\]\n|(name|address|rack|share|between) = (\"\\PC{0,4}\"|[0-9.]{1,4}|\\[\"a\",\"b\"\\])\n){0,8}") {
            let _ = read(&text);
        }
    }
}

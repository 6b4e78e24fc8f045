//! OCP's model of an optical circuit switch, as far as a driver needs it: ports with their numbers and groups, and
//! connections with their states. No IO.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::path::{self, Leaf};
use super::proto::{Path, TypedValue, Update, Value};
use crate::device::{Readout, Seen, Status};
use crate::driver::PortState;
use crate::layout::Cross;

/// The ports of a switch and their groups, which do not change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The number that the switch has given each port, by its name.
    number: BTreeMap<String, u32>,
    name: BTreeMap<u32, String>,
    group: BTreeMap<u32, String>,
    groups: BTreeMap<String, Group>,
    /// Whether one connection carries light both ways, if the switch says so.
    pub bidirectional: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    direction: String,
    peers: BTreeSet<String>,
}

/// The rest of a leaf's path if it begins with these names.
fn after<'a>(leaf: &'a Leaf, start: &[&str]) -> Option<&'a [String]> {
    let first = leaf.get(..start.len())?;
    (first.iter().zip(start).all(|(a, b)| a == b)).then(|| leaf.get(start.len()..))?
}

fn names(rest: &[String]) -> Vec<&str> {
    rest.iter().map(String::as_str).collect()
}

impl Ports {
    /// Reads the ports from the leaves of `/components` and `/optical-switch`.
    ///
    /// # Errors
    ///
    /// If two ports have one number.
    pub fn read(leaves: &BTreeMap<Leaf, Json>) -> Result<Self, String> {
        let mut ports = Self::default();
        for (leaf, value) in leaves {
            if let Some(rest) = after(leaf, &["components", "component"]) {
                match names(rest).as_slice() {
                    [name, "ocp-ocs-port", "state", "index"] => {
                        let number = number(value)
                            .ok_or_else(|| format!("the index of `{name}` is {value}"))?;
                        if let Some(other) = ports.name.insert(number, (*name).to_owned()) {
                            return Err(format!(
                                "`{other}` and `{name}` have the same index {number}"
                            ));
                        }
                        ports.number.insert((*name).to_owned(), number);
                    }
                    _ => continue,
                }
            } else if let Some(rest) = after(leaf, &["optical-switch", "state"]) {
                match names(rest).as_slice() {
                    ["bidirectional"] => ports.bidirectional = value.as_bool(),
                    ["port-groups", group, "direction"] => {
                        ports.group_mut(group).direction =
                            value.as_str().unwrap_or_default().to_owned();
                    }
                    ["port-groups", group, "connection-groups", peer, ..] => {
                        ports.group_mut(group).peers.insert((*peer).to_owned());
                    }
                    _ => {}
                }
            }
        }
        for (leaf, value) in leaves {
            let rest = after(leaf, &["components", "component"]).unwrap_or_default();
            if let [name, "ocp-ocs-port", "state", "group"] = names(rest).as_slice()
                && let (Some(number), Some(group)) = (ports.number.get(*name), value.as_str())
            {
                ports.group.insert(*number, group.to_owned());
            }
        }
        Ok(ports)
    }

    fn group_mut(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// How many ports there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.name.len()
    }

    /// The names of the ports to use as input and output of a connection. If `either_way`, because one fibre
    /// carries both directions, the two may be exchanged if their groups allow only that.
    ///
    /// # Errors
    ///
    /// If there is no such port, or these two cannot be connected.
    pub fn names(&self, cross: Cross, either_way: bool) -> Result<(&str, &str), String> {
        let name = |it: u32| {
            let name = self.name.get(&it).map(String::as_str);
            name.ok_or_else(|| format!("the switch has no port with the index {it}"))
        };
        let (input, output) = (name(cross.input)?, name(cross.output)?);
        let back = Cross { input: cross.output, output: cross.input };
        match self.fits(cross) {
            Ok(()) => Ok((input, output)),
            Err(_) if either_way && self.fits(back).is_ok() => Ok((output, input)),
            Err(why) => Err(format!("`{input}` cannot be connected to `{output}`: {why}")),
        }
    }

    fn fits(&self, cross: Cross) -> Result<(), String> {
        let group = |it: u32| self.group.get(&it).and_then(|it| self.groups.get_key_value(it));
        let (Some((_, input)), Some((name, output))) = (group(cross.input), group(cross.output))
        else {
            return Ok(());
        };
        if input.direction == "OUTPUT-ONLY" {
            return Err("the first is an output only".to_owned());
        }
        if output.direction == "INPUT-ONLY" {
            return Err("the second is an input only".to_owned());
        }
        if input.peers.contains(name) {
            Ok(())
        } else {
            Err("their groups are not connected inside the switch".to_owned())
        }
    }

    /// Reads connections and port states from the leaves of `/connections` and `/components`.
    ///
    /// # Errors
    ///
    /// If a connection has no ports, or has ones that the switch does not have.
    pub fn readout(&self, leaves: &BTreeMap<Leaf, Json>) -> Result<Readout, String> {
        let mut readout = Readout::default();
        let mut connections: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for (leaf, value) in leaves {
            if let Some([name, part, what]) = after(leaf, &["connections", "port-connection"])
                && let Some(value) = value.as_str()
            {
                let all = connections.entry(name).or_default();
                // State takes precedence over configuration, because a connection that is being deleted is in
                // the state only.
                match part.as_str() {
                    "state" => drop(all.insert(what, value)),
                    "config" => drop(all.entry(what).or_insert(value)),
                    _ => {}
                }
            }
            let rest = after(leaf, &["components", "component"]).unwrap_or_default();
            let state = match (names(rest).as_slice(), value.as_str(), value.as_bool()) {
                ([_, "ocp-ocs-port", "state", "status"], Some("FAILED"), _) => PortState::Failed,
                ([_, "ocp-ocs-port", "state", "enabled"], _, Some(false)) => PortState::Disabled,
                _ => continue,
            };
            if let Some(number) = rest.first().and_then(|it| self.number.get(it)) {
                readout.ports.push((*number, state));
            }
        }
        for (name, all) in connections {
            readout.crosses.push(self.connection(name, &all)?);
        }
        Ok(readout)
    }

    fn connection(&self, name: &str, all: &BTreeMap<&str, &str>) -> Result<Seen, String> {
        let port = |what: &str| {
            let port =
                all.get(what).ok_or_else(|| format!("the connection `{name}` has no `{what}`"))?;
            let number = self.number.get(*port);
            number.copied().ok_or_else(|| {
                format!("the connection `{name}` has a port `{port}`, which does not exist")
            })
        };
        let cross = Cross { input: port("input-port-name")?, output: port("output-port-name")? };
        let status = match all.get("status").copied() {
            Some("CONNECTED") => Status::Made,
            // Without a status it is configured, but the switch has not processed it yet.
            None | Some("PENDING_CONNECTION" | "PENDING_DELETION") => Status::Moving,
            Some(other) => {
                let reason = all.get("status-reason").copied().unwrap_or("no reason given");
                Status::Broken(format!("{other}: {reason}"))
            }
        };
        Ok(Seen { cross, status, key: Some(name.to_owned()) })
    }
}

fn number(value: &Json) -> Option<u32> {
    // RFC 7951 has 32-bit numbers as numbers; some targets send text.
    match value {
        Json::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|it| u32::try_from(it).ok()),
    }
}

/// The path of a connection.
///
/// # Errors
///
/// Never in practice: names are quoted.
pub fn connection_path(name: &str) -> Result<Path, String> {
    let mut path = path::parse("/connections/port-connection")?;
    if let Some(last) = path.elem.last_mut() {
        last.key.insert("name".to_owned(), name.to_owned());
    }
    Ok(path)
}

/// The update that makes a connection. Its name is made from its ports, so that equal connections have equal
/// names.
///
/// # Errors
///
/// See [`connection_path`].
pub fn connection(input: &str, output: &str) -> Result<Update, String> {
    let name = format!("motet:{input}:{output}");
    let tree = json!({
        "name": name,
        "config": {"name": name, "input-port-name": input, "output-port-name": output},
    });
    let value = Value::JsonIetf(tree.to_string().into_bytes());
    Ok(Update { path: Some(connection_path(&name)?), val: Some(TypedValue { value: Some(value) }) })
}

#[cfg(test)]
mod tests {
    use super::super::proto::Notification;
    use super::*;

    fn leaves(json: &Json) -> BTreeMap<Leaf, Json> {
        let value = Some(Value::JsonIetf(json.to_string().into_bytes()));
        let update = vec![Update { path: None, val: Some(TypedValue { value }) }];
        path::flatten(&[Notification { update, ..Notification::default() }]).unwrap()
    }

    fn switch() -> Json {
        let port = |name: &str, index: u32, group: &str, status: &str| json!({"name": name, "ocp-ocs-port": {"state": {"index": index, "group": group, "status": status}}});
        json!({
            "components": {"component": [
                {"name": "fan"}, port("a1", 1, "A", "TUNED"), port("a2", 2, "A", "FAILED"), port("b1", 3, "B", "TUNED"),
            ]},
            "optical-switch": {"state": {"bidirectional": true, "port-groups": [
                {"name": "A", "direction": "INPUT-ONLY", "connection-groups": [{"peer-name": "B"}]},
                {"name": "B", "direction": "OUTPUT-ONLY", "connection-groups": [{"peer-name": "A"}]},
            ]}},
            "connections": {"port-connection": [
                {"name": "x", "config": {"name": "x", "input-port-name": "a1", "output-port-name": "b1"},
                 "state": {"status": "CONNECTED"}},
                {"name": "y", "config": {"name": "y", "input-port-name": "a2", "output-port-name": "b1"},
                 "state": {"status": "INVALID", "status-reason": "b1 is taken"}},
            ]},
        })
    }

    #[test]
    fn a_switch_is_read() {
        let leaves = leaves(&switch());
        let ports = Ports::read(&leaves).unwrap();
        assert_eq!((ports.count(), ports.bidirectional), (3, Some(true)));
        let readout = ports.readout(&leaves).unwrap();
        assert_eq!(readout.ports, [(2, PortState::Failed)]);
        assert_eq!(readout.crosses[0], Seen { key: Some("x".to_owned()), ..Seen::made(1, 3) });
        assert_eq!(readout.crosses[1].status, Status::Broken("INVALID: b1 is taken".to_owned()));
    }

    #[test]
    fn groups_say_what_can_be_connected() {
        let ports = Ports::read(&leaves(&switch())).unwrap();
        let cross = |input, output| Cross { input, output };
        assert_eq!(ports.names(cross(1, 3), false), Ok(("a1", "b1")));
        assert_eq!(ports.names(cross(3, 1), true), Ok(("a1", "b1")));
        assert!(ports.names(cross(3, 1), false).unwrap_err().contains("output only"));
        assert!(ports.names(cross(1, 2), true).is_err() && ports.names(cross(1, 9), true).is_err());
    }
}

//! The names and speeds of NICs, from `class/infiniband` and `class/net`. Each entry there is a
//! symbolic link into the PCI device tree.

use std::collections::BTreeMap;

use super::sysfs::{Sysfs, is_bus_id};
use crate::provenance::Unseen;

/// A port of a NIC, with the attributes of a `<net>` in NCCL's topology files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) attributes: Vec<(&'static str, String)>,
}

/// The ports of each PCI device. A device with InfiniBand verbs (RoCE too) goes by those names, as
/// in NCCL; others by their network interface.
pub(super) fn by_device(sysfs: &mut Sysfs) -> BTreeMap<String, Vec<Interface>> {
    let mut found = infiniband(sysfs);
    let mut virtual_ones = Vec::new();
    for name in sysfs.list("class/net").unwrap_or_default() {
        let Some(bus_id) = device_of(sysfs, "net", &name) else {
            if name != "lo" && sysfs.link(&format!("class/net/{name}")).is_some() {
                virtual_ones.push(name);
            }
            continue;
        };
        if let Some(ports) = found.get_mut(&bus_id) {
            for port in ports.iter_mut().filter(|it| it.attributes.iter().any(|it| it.0 == "state"))
            {
                if !port.attributes.iter().any(|it| it.0 == "interface") {
                    port.attributes.push(("interface", name.clone()));
                }
            }
            if ports.iter().any(|it| it.attributes.iter().any(|it| it.0 == "state")) {
                continue;
            }
        }
        let speed = sysfs.text(&format!("class/net/{name}/speed"));
        let speed = speed.and_then(|it| it.parse::<u64>().ok()).filter(|it| *it > 0);
        let mut attributes = Vec::new();
        match speed {
            Some(mbit) => attributes.push(("speed", mbit.to_string())),
            None => {
                let why = "its driver does not say, or it is down";
                sysfs.unseen.push(Unseen::new(format!("the speed of {name}"), why));
            }
        }
        found.entry(bus_id).or_default().push(Interface { name, attributes });
    }
    if !virtual_ones.is_empty() {
        let why = "virtual: which device carries them is not in sysfs; left out";
        let what = format!("network interfaces {}", virtual_ones.join(", "));
        sysfs.unseen.push(Unseen::new(what, why));
    }
    found
}

fn infiniband(sysfs: &mut Sysfs) -> BTreeMap<String, Vec<Interface>> {
    let mut found: BTreeMap<String, Vec<Interface>> = BTreeMap::new();
    for name in sysfs.list("class/infiniband").unwrap_or_default() {
        let Some(bus_id) = device_of(sysfs, "infiniband", &name) else {
            let why = "which device it belongs to is not in sysfs; left out";
            sysfs.unseen.push(Unseen::new(name, why));
            continue;
        };
        let folder = format!("class/infiniband/{name}/ports");
        for port in sysfs.list(&folder).unwrap_or_default() {
            let mut attributes = vec![("port", port.clone())];
            let state = sysfs.text(&format!("{folder}/{port}/state")).unwrap_or_default();
            // "4: ACTIVE"
            let state = state.rsplit(' ').next().unwrap_or_default().to_owned();
            let rate = sysfs.text(&format!("{folder}/{port}/rate")).unwrap_or_default();
            match mbit(&rate) {
                // What a port without a cable says of its rate is not what it can do.
                Some(mbit) if state == "ACTIVE" => attributes.push(("speed", mbit.to_string())),
                _ => {
                    let what = format!("the speed of {name} port {port}");
                    let why = if state == "ACTIVE" {
                        format!("its rate reads `{}`", rate.chars().take(24).collect::<String>())
                    } else {
                        format!("the port is {}", if state.is_empty() { "silent" } else { &state })
                    };
                    sysfs.unseen.push(Unseen::new(what, why));
                }
            }
            attributes.push(("state", state));
            if let Some(layer) = sysfs.text(&format!("{folder}/{port}/link_layer")) {
                attributes.push(("link_layer", layer));
            }
            let ports = found.entry(bus_id.clone()).or_default();
            ports.push(Interface { name: name.clone(), attributes });
        }
    }
    found
}

/// The PCI device that an entry of a class belongs to: the last one on the way to it.
fn device_of(sysfs: &Sysfs, class: &str, name: &str) -> Option<String> {
    let last = |target: String| target.split('/').rev().find(|it| is_bus_id(it)).map(str::to_owned);
    let entry = sysfs.link(&format!("class/{class}/{name}")).and_then(last);
    entry.or_else(|| sysfs.link(&format!("class/{class}/{name}/device")).and_then(last))
}

/// "200 Gb/sec (4X HDR)" in Mbit/s.
fn mbit(rate: &str) -> Option<u64> {
    let (number, rest) = rate.split_once(' ')?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let gbit = whole.parse::<u64>().ok()?.checked_mul(1000)?;
    let tenths = tenths.get(..1)?.parse::<u64>().ok()?.checked_mul(100)?;
    let mbit = gbit.checked_add(tenths)?;
    (rest.starts_with("Gb/sec") && mbit > 0).then_some(mbit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(mbit("200 Gb/sec (4X HDR)"), Some(200_000));
        assert_eq!(mbit("2.5 Gb/sec (1X SDR)"), Some(2_500));
        for bad in ["", "fast", "0 Gb/sec", "200", "99999999999999999999 Gb/sec", "1.é Gb/sec"] {
            assert_eq!(mbit(bad), None, "{bad}");
        }
    }
}

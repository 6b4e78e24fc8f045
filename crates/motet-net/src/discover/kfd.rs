//! AMD GPUs as listed by the kernel's compute driver (KFD): `class/kfd/kfd/topology/nodes/N` has a
//! node for each CPU and GPU, with the links between them.

use std::collections::BTreeMap;

use super::sysfs::Sysfs;

const FOLDER: &str = "class/kfd/kfd/topology/nodes";
/// `HSA_IOLINK_TYPE_XGMI` in the kernel's headers.
const XGMI: u64 = 11;
const MAX_LANES: u64 = 16;

/// An AMD GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    /// The architecture: `gfx942`.
    pub(super) gcn: Option<String>,
    /// xGMI links: bus id of the other end, lanes.
    pub(super) links: Vec<(String, u32)>,
}

/// The GPUs by bus id.
pub(super) fn gpus(sysfs: &mut Sysfs) -> BTreeMap<String, Gpu> {
    let mut bus_ids: BTreeMap<u64, String> = BTreeMap::new();
    let mut architectures: BTreeMap<u64, Option<String>> = BTreeMap::new();
    let mut numbers: Vec<u64> =
        sysfs.list(FOLDER).unwrap_or_default().iter().filter_map(|it| it.parse().ok()).collect();
    numbers.sort_unstable();
    for number in &numbers {
        let properties = properties(sysfs, &format!("{FOLDER}/{number}/properties"));
        if properties.get("simd_count").is_none_or(|it| *it == 0) {
            continue;
        }
        if let Some(bus_id) = bus_id(&properties) {
            bus_ids.insert(*number, bus_id);
            architectures.insert(*number, properties.get("gfx_target_version").and_then(gfx));
        }
    }
    let mut gpus = BTreeMap::new();
    for (number, bus_id) in &bus_ids {
        let folder = format!("{FOLDER}/{number}/io_links");
        let mut links = Vec::new();
        for link in sysfs.list(&folder).unwrap_or_default() {
            let link = properties(sysfs, &format!("{folder}/{link}/properties"));
            let target = link.get("node_to").and_then(|it| bus_ids.get(it));
            let is_xgmi = link.get("type") == Some(&XGMI);
            if let Some(target) = target.filter(|it| is_xgmi && *it != bus_id) {
                links.push((target.clone(), lanes(&link)));
            }
        }
        let gcn = architectures.get(number).cloned().flatten();
        gpus.insert(bus_id.clone(), Gpu { gcn, links });
    }
    gpus
}

/// "key value" lines with numbers.
fn properties(sysfs: &mut Sysfs, path: &str) -> BTreeMap<String, u64> {
    let text = sysfs.text(path).unwrap_or_default();
    let pair = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// `domain` and `location_id` (bus, device and function packed as PCI does).
fn bus_id(properties: &BTreeMap<String, u64>) -> Option<String> {
    let place = properties.get("location_id")?;
    let domain = properties.get("domain").copied().unwrap_or(0);
    if *place > 0xffff || domain > u64::from(u32::MAX) {
        return None;
    }
    let (bus, device, function) = (place >> 8, (place >> 3) & 0x1f, place & 7);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

/// 90402 is gfx942, 90010 gfx90a: two decimal digits each, the last written in hexadecimal.
fn gfx(version: &u64) -> Option<String> {
    let (major, minor, step) = (version / 10_000, version / 100 % 100, version % 100);
    (1..100).contains(&major).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

/// The driver gives the least and the greatest bandwidth of a connection: one lane and all.
fn lanes(link: &BTreeMap<String, u64>) -> u32 {
    let figure = |key: &str| link.get(key).copied().filter(|it| *it > 0);
    let lanes = match (figure("min_bandwidth"), figure("max_bandwidth")) {
        (Some(least), Some(most)) if most % least == 0 => most / least,
        _ => 1,
    };
    u32::try_from(lanes.clamp(1, MAX_LANES)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    }

    #[test]
    fn numbers_of_the_driver() {
        let place = map(&[("location_id", 0xc100), ("domain", 0)]);
        assert_eq!(bus_id(&place).as_deref(), Some("0000:c1:00.0"));
        assert_eq!(bus_id(&map(&[("location_id", 0x0f_ffff)])), None);
        assert_eq!(gfx(&90_402).as_deref(), Some("gfx942"));
        assert_eq!(gfx(&90_010).as_deref(), Some("gfx90a"));
        assert_eq!(gfx(&0), None);
        assert_eq!(lanes(&map(&[("min_bandwidth", 50_000), ("max_bandwidth", 200_000)])), 4);
        assert_eq!(lanes(&map(&[("max_bandwidth", u64::MAX)])), 1);
        assert_eq!(lanes(&map(&[("min_bandwidth", 1), ("max_bandwidth", u64::MAX)])), 16);
    }
}

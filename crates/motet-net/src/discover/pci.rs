//! The PCI devices of sysfs: what each is, where it is in the tree of bridges, and the width and
//! speed of its link.
//!
//! `bus/pci/devices/X` is a symbolic link to `devices/pci0000:16/…/X`, whose folders from the top
//! are the bridges above X. The first is the root port, which is part of the CPU; after that, each
//! PCIe switch is a pair of bridges, its upstream port and one of its downstream ports. So every
//! second bridge below the root port is a switch, and its upstream port stands for it. The port
//! type is in the configuration space, but only root may read that far, so the nesting must do, as
//! it does for NCCL.

use std::collections::{BTreeMap, BTreeSet};

use super::sysfs::{Sysfs, bus_number, is_bus_id};
use crate::provenance::Unseen;

const NVIDIA: u32 = 0x10de;
const AMD: u32 = 0x1002;
const INTEL: u32 = 0x8086;
const HABANA: u32 = 0x1da3;
/// Bridges above one device; real trees have up to six.
const MAX_DEPTH: usize = 32;

/// What a device is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gpu,
    Nic,
    Bridge,
    NvSwitch,
    /// An accelerator of a maker that we do not know.
    Accelerator,
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) bus_id: String,
    /// The bridges above, from the root port down.
    pub(super) above: Vec<String>,
    pub(super) kind: Kind,
    pub(super) class: String,
    pub(super) vendor: u32,
    pub(super) device: u32,
    /// As the kernel writes them: `vendor`, `device`, `subsystem_vendor`…
    pub(super) ids: Vec<(&'static str, String)>,
    /// `None` where the kernel does not know (−1).
    pub(super) numa: Option<u32>,
    /// What its own end of the link can do.
    pub(super) link: Link,
    /// Lanes in use now, if that is fewer than both ends of it can do.
    pub(super) current_width: Option<u32>,
    /// A virtual function of a NIC: the physical one stands for it.
    pub(super) is_virtual: bool,
}

impl Device {
    pub(super) const fn is_nvidia(&self) -> bool {
        self.vendor == NVIDIA
    }
}

/// What one end of a PCIe link can do, where it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// Tenths of GT/s.
    pub(super) speed: Option<u32>,
    pub(super) width: Option<u32>,
}

impl Link {
    /// What both can do; an end that says nothing does not count.
    fn with(self, other: Self) -> Self {
        let least = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        Self { speed: least(self.speed, other.speed), width: least(self.width, other.width) }
    }

    /// As NCCL's topology files write a speed.
    pub(super) fn speed_text(self) -> Option<String> {
        self.speed.map(|it| format!("{}.{} GT/s PCIe", it / 10, it % 10))
    }
}

/// All PCI devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    by_bus: BTreeMap<String, Device>,
}

impl Devices {
    pub(super) fn scan(sysfs: &mut Sysfs) -> Self {
        const FOLDER: &str = "bus/pci/devices";
        let Some(names) = sysfs.list(FOLDER) else {
            sysfs.unseen.push(Unseen::new("PCI devices", format!("there is no {FOLDER}")));
            return Self::default();
        };
        let mut by_bus = BTreeMap::new();
        for name in names.into_iter().filter(|it| is_bus_id(it)) {
            if let Some(device) = read(sysfs, &format!("{FOLDER}/{name}"), &name) {
                by_bus.insert(name, device);
            }
        }
        let mut devices = Self { by_bus };
        devices.compare_widths();
        devices
    }

    pub(super) fn get(&self, bus_id: &str) -> Option<&Device> {
        self.by_bus.get(bus_id)
    }

    /// Those of a kind, by bus number.
    pub(super) fn of_kind(&self, kind: Kind) -> Vec<&Device> {
        let mut found: Vec<&Device> = self.by_bus.values().filter(|it| it.kind == kind).collect();
        found.sort_by_key(|it| bus_number(&it.bus_id));
        found
    }

    /// The PCIe switches above a device, from the top. One inside a card (AMD's GPUs have them)
    /// counts as any other, as it does for RCCL.
    pub(super) fn switches(device: &Device) -> Vec<String> {
        let every_second = device.above.iter().skip(1).step_by(2);
        every_second.cloned().collect()
    }

    /// What the link between a device (or a switch, by its upstream port) and the next thing above
    /// it that counts can do: the least of all ends on the way.
    pub(super) fn link_of(&self, bus_id: &str, next_above: Option<&str>) -> Link {
        let Some(device) = self.get(bus_id) else { return Link::default() };
        let between = device.above.iter().rev().take_while(|it| Some(it.as_str()) != next_above);
        let ends = between.filter_map(|it| self.get(it)).map(|it| it.link);
        ends.fold(device.link, Link::with)
    }

    /// Only where both ends could do more is a narrow link a fault.
    fn compare_widths(&mut self) {
        let most: BTreeMap<String, Option<u32>> = self
            .by_bus
            .values()
            .map(|it| {
                let port = it.above.last().and_then(|it| self.get(it)).map(|it| it.link);
                (it.bus_id.clone(), it.link.with(port.unwrap_or_default()).width)
            })
            .collect();
        for (bus_id, device) in &mut self.by_bus {
            let most = most.get(bus_id).copied().flatten();
            device.current_width = device.current_width.filter(|it| most.is_some_and(|m| *it < m));
        }
    }

    /// Links in `bus_ids` that run on fewer lanes than they could, in words.
    pub(super) fn narrow(&self, bus_ids: &BTreeSet<String>) -> Vec<String> {
        let narrow = |it: &Device| {
            let now = it.current_width?;
            let could = it.link.width?;
            Some(format!(
                "the PCIe link of {} runs on {now} lanes of {could}: a bad contact or a shared \
                 slot; its bandwidth here is that of {could}",
                it.bus_id
            ))
        };
        bus_ids.iter().filter_map(|it| self.get(it)).filter_map(narrow).collect()
    }
}

fn read(sysfs: &mut Sysfs, path: &str, bus_id: &str) -> Option<Device> {
    let class_text = sysfs.text(&format!("{path}/class"));
    let Some(class) = class_text.as_deref().and_then(hex) else {
        let why = match class_text {
            Some(text) => format!("its class `{}` is not a number", shorten(&text)),
            None => "its class cannot be read".to_owned(),
        };
        sysfs.unseen.push(Unseen::new(bus_id, why));
        return None;
    };
    let mut ids = Vec::new();
    for key in ["vendor", "device", "subsystem_vendor", "subsystem_device"] {
        if let Some(value) = sysfs.text(&format!("{path}/{key}")).filter(|it| hex(it).is_some()) {
            ids.push((key, value));
        }
    }
    let id = |key: &str| ids.iter().find(|it| it.0 == key).and_then(|it| hex(&it.1));
    let (vendor, device) = (id("vendor").unwrap_or(0), id("device").unwrap_or(0));
    let above = above(sysfs, path, bus_id);
    let numa = sysfs.text(&format!("{path}/numa_node")).and_then(|it| it.parse().ok());
    let link = Link {
        speed: sysfs.text(&format!("{path}/max_link_speed")).as_deref().and_then(speed),
        width: sysfs.text(&format!("{path}/max_link_width")).as_deref().and_then(width),
    };
    let current_width =
        sysfs.text(&format!("{path}/current_link_width")).as_deref().and_then(width);
    Some(Device {
        bus_id: bus_id.to_owned(),
        above,
        kind: kind(class, vendor),
        class: format!("{class:#08x}"),
        vendor,
        device,
        ids,
        numa,
        link,
        current_width,
        is_virtual: sysfs.has(&format!("{path}/physfn")),
    })
}

/// The bridges that the device's place in `devices/` names.
fn above(sysfs: &mut Sysfs, path: &str, bus_id: &str) -> Vec<String> {
    let Some(target) = sysfs.link(path) else {
        let why = "it is not a link into the tree of devices; taken as next to the CPU";
        sysfs.unseen.push(Unseen::new(format!("the bridges above {bus_id}"), why));
        return Vec::new();
    };
    let parts = target.split('/').filter(|it| is_bus_id(it) && *it != bus_id);
    let above: Vec<String> = parts.take(MAX_DEPTH + 1).map(str::to_owned).collect();
    let distinct: BTreeSet<&String> = above.iter().collect();
    if above.len() > MAX_DEPTH || distinct.len() < above.len() {
        let why = format!("more than {MAX_DEPTH}, or one twice; taken as next to the CPU");
        sysfs.unseen.push(Unseen::new(format!("the bridges above {bus_id}"), why));
        return Vec::new();
    }
    above
}

/// A display controller of a server's management chip is no GPU, so the maker counts.
const fn kind(class: u32, vendor: u32) -> Kind {
    match (class >> 8, vendor) {
        (0x0302, _) | (0x0300, NVIDIA | AMD) | (0x0380, AMD | INTEL | NVIDIA) => Kind::Gpu,
        (0x1200, AMD | NVIDIA | HABANA) => Kind::Gpu,
        (0x1200, _) => Kind::Accelerator,
        (0x0200 | 0x0207, _) => Kind::Nic,
        (0x0604, _) => Kind::Bridge,
        (0x0680, NVIDIA) => Kind::NvSwitch,
        _ => Kind::Other,
    }
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// "16.0 GT/s PCIe", "16 GT/s", "2.5 GT/s" in tenths; "Unknown" is none.
fn speed(text: &str) -> Option<u32> {
    let number = text.split_whitespace().next()?;
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let tenths = if tenths.len() == 1 { tenths.parse::<u32>().ok()? } else { return None };
    let speed = whole.parse::<u32>().ok()?.checked_mul(10)?.checked_add(tenths)?;
    [25, 50, 80, 160, 320, 640, 1280].contains(&speed).then_some(speed)
}

/// Lanes; devices without a link say 0 or 255.
fn width(text: &str) -> Option<u32> {
    text.parse().ok().filter(|it| (1..=64).contains(it))
}

/// Of a text that makes no sense, enough to recognize it.
fn shorten(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(24).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_the_kernel_writes_them() {
        assert_eq!(speed("16.0 GT/s PCIe"), Some(160));
        assert_eq!(speed("8 GT/s"), Some(80));
        assert_eq!(speed("2.5 GT/s"), Some(25));
        for bad in ["Unknown", "", "7 GT/s", "99999999999 GT/s", "1.55", "-8"] {
            assert_eq!(speed(bad), None, "{bad}");
        }
        assert_eq!(
            (width("16"), width("0"), width("255"), width("x")),
            (Some(16), None, None, None)
        );
        assert_eq!((hex("0x030200"), hex("030200"), hex("0xzz")), (Some(0x3_0200), None, None));
        let fast = Link { speed: Some(320), width: Some(16) };
        let slot = Link { speed: Some(160), width: None };
        assert_eq!(fast.with(slot).speed_text().as_deref(), Some("16.0 GT/s PCIe"));
        assert_eq!(fast.with(slot).width, Some(16));
    }

    #[test]
    fn a_management_chip_is_no_gpu() {
        assert_eq!(kind(0x03_0000, 0x1a03), Kind::Other);
        assert_eq!(kind(0x03_0000, NVIDIA), Kind::Gpu);
        assert_eq!(kind(0x12_0000, AMD), Kind::Gpu);
        assert_eq!(kind(0x12_0000, INTEL), Kind::Accelerator);
        assert_eq!(kind(0x06_8000, NVIDIA), Kind::NvSwitch);
        assert_eq!(kind(0x02_0700, 0x15b3), Kind::Nic);
    }
}

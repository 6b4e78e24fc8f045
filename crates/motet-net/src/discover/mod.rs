//! Discovers the network of the machine it runs on from sysfs: GPUs, NICs, the PCIe tree, NUMA
//! nodes and the links between GPUs; each figure with its source, plus a list of what could not be
//! determined.
//!
//! Any folder can be the root, so that the recorded tree of another server can be read. A tree may
//! be incomplete or broken in any way: what cannot be read is reported and is never an error.
//!
//! - `sysfs.rs` reads files; `pci.rs`, `host.rs`, `interfaces.rs`, `kfd.rs` find devices.
//! - `nvlink.rs` finds where NVLinks lead, from `nvidia-smi`'s output, which `smi.rs` reads.
//! - `system.rs` turns everything into an NCCL `<system>`, which is converted to a network like any
//!   NCCL file; `sources.rs` says where its figures come from.
//! - [`measured`] adds what was measured on GPUs.
//!
//! The page for users is `docs/discovery.md`.

mod host;
mod interfaces;
mod kfd;
pub mod measured;
mod nvlink;
mod pci;
mod smi;
mod sources;
mod sysfs;
mod system;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use measured::{Measured, with_measured};

use crate::formats::{ReadError, nccl_xml};
use crate::gpu_model;
use crate::provenance::{Sourced, Unseen};
use pci::{Devices, Kind};
use smi::Smi;
use sysfs::Sysfs;
use system::Machine;

/// What to look at besides sysfs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// What `nvidia-smi` printed: `topo -m`, `nvlink -R`, `nvlink -s`, `--query-gpu`, or several.
    pub nvidia_smi: Option<&'a str>,
    /// What to call the network.
    pub name: &'a str,
}

/// The machine under `root` (`/sys`, or a copy). Only a root that is not there is an error.
pub fn discover(root: &Path, options: &Options<'_>) -> Result<Sourced, ReadError> {
    if !root.is_dir() {
        return Err(ReadError::new(format!("`{}` is not a folder", root.display()))
            .with_remedy("give the root of a sysfs tree, such as /sys"));
    }
    let mut sysfs = Sysfs::new(root);
    let mut machine = Machine {
        devices: Devices::scan(&mut sysfs),
        nodes: host::nodes(&mut sysfs),
        model: host::model(&mut sysfs),
        interfaces: interfaces::by_device(&mut sysfs),
        amd: kfd::gpus(&mut sysfs),
        smi: options.nvidia_smi.map(Smi::parse),
        nvlinks: None,
    };
    let mut unseen = sysfs.unseen;
    if let Some(smi) = &machine.smi {
        unseen.extend(smi.unseen.iter().cloned());
    }
    let switches = machine.devices.of_kind(Kind::NvSwitch).len();
    machine.nvlinks =
        nvlink::wiring(&machine.nvidia(), switches, machine.smi.as_ref(), &mut unseen);
    look_around(&machine, &mut unseen);
    let (system, used) = machine.system(&mut unseen);
    let (network, mut notes) = nccl_xml::network_of(&system)?;
    let network = network.renamed(options.name);
    notes.extend(machine.devices.narrow(&used));
    let links = sources::of(&network, machine.nvlinks.as_ref());
    Ok(Sourced { network, links, unseen, notes })
}

/// What a user would ask about and will not find.
fn look_around(machine: &Machine, unseen: &mut Vec<Unseen>) {
    let gpus = machine.gpus();
    if gpus.is_empty() {
        unseen.push(Unseen::new("GPUs", "no PCI device is one; there will be no ranks"));
    }
    let nics = machine.nics();
    if nics.is_empty() {
        unseen.push(Unseen::new("NICs", "no PCI device is one"));
    }
    for nic in nics.iter().filter(|it| !machine.interfaces.contains_key(&it.bus_id)) {
        let why = "it has no interface here: no driver, or it belongs to another namespace";
        unseen.push(Unseen::new(format!("the name and speed of NIC {}", nic.bus_id), why));
    }
    if !nics.is_empty() {
        let why = "sysfs ends at the port; `motet probe` measures between hosts";
        unseen.push(Unseen::new("what the NICs lead to", why));
    }
    let amd = gpus.iter().filter(|it| !it.is_nvidia());
    let silent = amd.filter(|it| !machine.amd.contains_key(&it.bus_id)).count();
    if silent > 0 {
        let what = format!("links between {silent} GPUs that are not NVIDIA's");
        unseen.push(Unseen::new(what, "class/kfd does not list them: no driver, or another maker"));
    }
    let superchip = |it: &pci::Device| {
        it.is_nvidia() && gpu_model::model(it.device).is_some_and(|it| it.superchip)
    };
    if gpus.iter().any(|it| superchip(it)) {
        let why = "sysfs does not show it; the GPUs hang from their CPUs by PCIe alone here";
        unseen.push(Unseen::new("NVLink-C2C", why));
    }
    for device in machine.devices.of_kind(Kind::Accelerator) {
        let why = "an accelerator of a maker that is not known here; left out";
        unseen.push(Unseen::new(&device.bus_id, why));
    }
}

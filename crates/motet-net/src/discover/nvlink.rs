//! Where the NVLinks of NVIDIA's GPUs lead. Sysfs does not show it, so it comes from `nvidia-smi`'s
//! output, or else from a template chosen by the GPUs' device id and count. If neither is
//! available, the report says so.

use motet_units::{NodeId, Rank};

use super::pci::Device;
use super::smi::Smi;
use crate::builders::{self, Params};
use crate::gpu_model::model;
use crate::provenance::{Provenance, Unseen};
use crate::{LinkClass, Network};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// By position among the GPUs asked about.
    Gpu(usize),
    Switch,
}

/// The NVLinks of some GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wiring {
    /// Of each GPU: where to, and how many.
    pub(super) links: Vec<Vec<(Target, u32)>>,
    pub(super) provenance: Provenance,
    pub(super) detail: String,
}

impl Wiring {
    fn new(gpus: usize, provenance: Provenance, detail: impl Into<String>) -> Self {
        Self { links: vec![Vec::new(); gpus], provenance, detail: detail.into() }
    }

    fn add(&mut self, gpu: usize, target: Target, lanes: u32) {
        let links = &mut self.links[gpu];
        match links.iter_mut().find(|it| it.0 == target) {
            Some(known) => known.1 = known.1.saturating_add(lanes),
            None => links.push((target, lanes)),
        }
    }
}

/// The NVLinks of `gpus`, in bus order, with the position that `nvidia-smi`'s numbers stand for.
pub(super) fn wiring(
    gpus: &[&Device],
    nvswitches: usize,
    smi: Option<&Smi>,
    unseen: &mut Vec<Unseen>,
) -> Option<Wiring> {
    if gpus.is_empty() {
        return None;
    }
    let said = smi.and_then(|it| targets(gpus, it, unseen).or_else(|| matrix(gpus, it, unseen)));
    said.or_else(|| match template(gpus, nvswitches, smi) {
        Ok(wiring) => wiring,
        Err(why) => {
            unseen.push(Unseen::new("NVLinks", why));
            None
        }
    })
}

/// The position of a GPU that `nvidia-smi` numbers: by its bus id, else in bus order.
pub(super) fn position(gpus: &[&Device], smi: &Smi, index: usize) -> Option<usize> {
    match smi.gpus.get(&index).and_then(|it| it.bus_id.as_deref()) {
        Some(bus_id) => gpus.iter().position(|it| it.bus_id.eq_ignore_ascii_case(bus_id)),
        None => (index < gpus.len()).then_some(index),
    }
}

/// From `nvlink -R`.
fn targets(gpus: &[&Device], smi: &Smi, unseen: &mut Vec<Unseen>) -> Option<Wiring> {
    if smi.gpus.values().all(|it| it.targets.is_empty()) {
        return None;
    }
    let mut wiring = Wiring::new(gpus.len(), Provenance::Read, "counted by nvidia-smi nvlink -R");
    for (index, said) in &smi.gpus {
        let Some(gpu) = position(gpus, smi, *index) else {
            unseen.push(stranger(*index));
            continue;
        };
        for (link, target) in &said.targets {
            if said.up.get(link) == Some(&false) {
                continue;
            }
            match gpus.iter().position(|it| it.bus_id.eq_ignore_ascii_case(target)) {
                Some(other) if other == gpu => {}
                Some(other) => wiring.add(gpu, Target::Gpu(other), 1),
                // A guest does not see the switches of its host among its own devices.
                None => wiring.add(gpu, Target::Switch, 1),
            }
        }
    }
    Some(wiring)
}

/// From `topo -m`.
fn matrix(gpus: &[&Device], smi: &Smi, unseen: &mut Vec<Unseen>) -> Option<Wiring> {
    let matrix = smi.matrix.as_ref()?;
    let mut wiring = Wiring::new(gpus.len(), Provenance::Read, "counted by nvidia-smi topo -m");
    let mut switched = vec![0; gpus.len()];
    for (a, b, lanes) in &matrix.pairs {
        let (Some(first), Some(second)) = (position(gpus, smi, *a), position(gpus, smi, *b)) else {
            let index = if position(gpus, smi, *a).is_none() { *a } else { *b };
            if !unseen.contains(&stranger(index)) {
                unseen.push(stranger(index));
            }
            continue;
        };
        if matrix.switched {
            switched[first] = *lanes;
            switched[second] = *lanes;
        } else if first != second {
            wiring.add(first, Target::Gpu(second), *lanes);
            wiring.add(second, Target::Gpu(first), *lanes);
        }
    }
    for (gpu, lanes) in switched.into_iter().enumerate().filter(|it| it.1 > 0) {
        wiring.add(gpu, Target::Switch, lanes);
    }
    Some(wiring)
}

fn stranger(index: usize) -> Unseen {
    Unseen::new(format!("GPU {index} of nvidia-smi"), "there is no such GPU in sysfs; left out")
}

/// From the GPUs' model and number. `Err` says why it does not tell.
fn template(
    gpus: &[&Device],
    nvswitches: usize,
    smi: Option<&Smi>,
) -> Result<Option<Wiring>, String> {
    const ASK: &str = "give the output of `nvidia-smi topo -m`";
    let count = gpus.len();
    let Some(model) = model(gpus[0].device) else {
        let id = gpus[0].device;
        return Err(format!("sysfs does not show them and device id {id:#06x} is unknown; {ASK}"));
    };
    if gpus.iter().any(|it| it.device != gpus[0].device) {
        return Err(format!("sysfs does not show them and the GPUs are not alike; {ASK}"));
    }
    // `nvlink -s` knows better how many are up.
    let lanes = |gpu: usize| {
        let said = smi.and_then(|smi| {
            let found = smi.gpus.iter().find(|it| position(gpus, smi, *it.0) == Some(gpu));
            found.and_then(|it| it.1.lanes())
        });
        said.unwrap_or(model.nvlinks)
    };
    if model.nvlinks == 0 {
        return Err(format!(
            "{} may be joined by bridges, which sysfs does not show; {ASK}",
            model.name
        ));
    }
    if count == 1 && nvswitches == 0 && !model.rack {
        return Ok(None);
    }
    let detail = format!("{count} {} in one server", model.name);
    let mut wiring = Wiring::new(count, Provenance::Template, detail);
    let switched =
        nvswitches > 0 || model.rack || matches!((model.sm, count), (70, 16) | (80.., 8 | 16));
    if switched {
        (0..count).for_each(|gpu| wiring.add(gpu, Target::Switch, lanes(gpu)));
        return Ok(Some(wiring));
    }
    match (model.sm, count) {
        (70, 8) => {
            for (a, b, lanes) in cube_mesh() {
                wiring.add(a, Target::Gpu(b), lanes);
                wiring.add(b, Target::Gpu(a), lanes);
            }
            Ok(Some(wiring))
        }
        // Boards of four have no switch: every pair has a third of each GPU's links.
        (80.., 4) => {
            for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|(a, b)| a != b) {
                wiring.add(a, Target::Gpu(b), lanes(a) / 3);
            }
            Ok(Some(wiring))
        }
        _ => Err(format!("how {count} {} are joined is not fixed; {ASK}", model.name)),
    }
}

/// The pairs of the DGX-1 template, so that there is one such list.
fn cube_mesh() -> Vec<(usize, usize, u32)> {
    let built = builders::find("dgx-1").and_then(|it| it.build(&Params::new()));
    let Ok(network) = built else { return Vec::new() };
    let rank = |network: &Network, id: NodeId| {
        (0..8).find(|it| network.gpu(Rank(*it)) == Some(id)).map(|it| it as usize)
    };
    let pair = |link: &crate::Link| {
        let (a, b) = (rank(&network, link.from)?, rank(&network, link.to)?);
        (a < b && link.spec.class == LinkClass::NvLink).then_some((a, b, link.spec.lanes))
    };
    network.links().iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::pci::{Kind, Link};

    fn gpu(bus: usize, device: u32) -> Device {
        Device {
            bus_id: format!("0000:{bus:02x}:00.0"),
            above: Vec::new(),
            kind: Kind::Gpu,
            class: "0x030200".to_owned(),
            vendor: 0x10de,
            device,
            ids: Vec::new(),
            numa: Some(0),
            link: Link::default(),
            current_width: None,
            is_virtual: false,
        }
    }

    fn ask(
        count: usize,
        device: u32,
        switches: usize,
        smi: Option<&str>,
    ) -> (Option<Wiring>, Vec<Unseen>) {
        let gpus: Vec<Device> = (0..count).map(|it| gpu(it, device)).collect();
        let gpus: Vec<&Device> = gpus.iter().collect();
        let mut unseen = Vec::new();
        let smi = smi.map(Smi::parse);
        let found = wiring(&gpus, switches, smi.as_ref(), &mut unseen);
        (found, unseen)
    }

    #[test]
    fn templates_by_model_and_number() {
        let eight = ask(8, 0x2330, 0, None).0.unwrap();
        assert_eq!(eight.links[7], [(Target::Switch, 18)]);
        assert_eq!(eight.provenance, Provenance::Template);
        let four = ask(4, 0x20b0, 0, None).0.unwrap();
        assert_eq!(four.links[0].len(), 3);
        assert!(four.links[0].iter().all(|it| it.1 == 4));
        let cube = ask(8, 0x1db1, 0, None).0.unwrap();
        for links in &cube.links {
            assert_eq!((links.len(), links.iter().map(|it| it.1).sum::<u32>()), (4, 6));
        }
        assert_eq!(ask(1, 0x2330, 0, None), (None, Vec::new()));
    }

    #[test]
    fn what_no_template_tells_is_unseen() {
        for (count, device) in [(2, 0x2330), (2, 0x2331), (8, 0x1234), (4, 0x1db1)] {
            let (found, unseen) = ask(count, device, 0, None);
            assert_eq!((found, unseen.len()), (None, 1), "{count} × {device:#x}");
            assert!(unseen[0].why.contains("nvidia-smi topo -m"));
        }
    }

    #[test]
    fn nvidia_smi_knows_better() {
        let text = "0, 0000:01:00.0, A, 8.0\n1, 0000:00:00.0, A, 8.0\n\
            GPU 0: A (UUID: x)\nLink 0: Remote Device 00000000:00:00.0: Link 0\n\
            Link 1: Remote Device 00000008:00:00.0: Link 0\nGPU 9: A (UUID: x)\n\
            Link 0: Remote Device 00000000:00:00.0: Link 0\n";
        let (found, unseen) = ask(2, 0x20b0, 0, Some(text));
        // GPU 0 of nvidia-smi is the second in bus order: it says so.
        let links = found.unwrap().links;
        assert_eq!(links[1], [(Target::Gpu(0), 1), (Target::Switch, 1)]);
        assert_eq!((links[0].len(), unseen), (0, vec![stranger(9)]));
        let matrix = "GPU0 GPU1\nGPU0 X NV12\nGPU1 NV12 X\n";
        let found = ask(2, 0x2331, 0, Some(matrix)).0.unwrap();
        assert_eq!(found.links, [[(Target::Gpu(1), 12)], [(Target::Gpu(0), 12)]]);
        // One link of four GPUs is down.
        let mut status = String::from("GPU 0: A (UUID: x)\n");
        for link in 0..12 {
            status +=
                &format!("Link {link}: {}\n", if link < 9 { "25 GB/s" } else { "<inactive>" });
        }
        let found = ask(8, 0x20b0, 6, Some(&status)).0.unwrap();
        assert_eq!((found.links[0][0].1, found.links[1][0].1), (9, 12));
    }
}

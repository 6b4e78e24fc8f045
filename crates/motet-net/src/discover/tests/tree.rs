//! Sysfs trees in a temporary folder, by hand or from an NCCL topology file: the folders of
//! `devices/` nest as the bridges do, and `bus` and `class` are links into them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::formats::xml::{Document, Element};

/// A tree that is deleted when dropped.
pub(super) struct Tree {
    root: TempDir,
    /// Bridges that no file names, so far.
    ports: u32,
    /// What `nvidia-smi` would print on the machine.
    pub(super) smi: String,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), ports: 0, smi: String::new() }
    }

    pub(super) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// A link at `path` to a folder of the tree, relative as in sysfs.
    pub(super) fn link(&self, path: &str, to: &str) {
        let up = "../".repeat(path.matches('/').count());
        let full = self.root().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        symlink(format!("{up}{to}"), full).unwrap();
    }

    /// A PCI device in the folder `within` of `devices/`; gives its own folder.
    pub(super) fn device(&self, within: &str, bus_id: &str, files: &[(&str, &str)]) -> String {
        let folder = format!("{within}/{bus_id}");
        for (name, text) in files {
            self.write(&format!("{folder}/{name}"), text);
        }
        self.link(&format!("bus/pci/devices/{bus_id}"), &folder);
        folder
    }

    /// A bridge with the link of what hangs from it.
    pub(super) fn port(&mut self, within: &str, link: &[(&str, &str)]) -> String {
        self.ports += 1;
        let bus_id = format!("fffe:{:02x}:{:02x}.0", self.ports >> 5, self.ports & 31);
        let files = [&[("class", "0x060400")], link].concat();
        self.device(within, &bus_id, &files)
    }

    pub(super) fn numa(&self, node: &str, cpus: &str) {
        self.write(&format!("devices/system/node/node{node}/cpulist"), cpus);
    }

    pub(super) fn interface(&self, class: &str, name: &str, device: &str) {
        let folder = format!("{device}/{class}/{name}");
        fs::create_dir_all(self.root().join(&folder)).unwrap();
        self.link(&format!("class/{class}/{name}"), &folder);
    }

    /// The machine that a topology file describes.
    pub(super) fn of(document: &Document) -> Self {
        let mut tree = Self::new();
        let mut gpus: Vec<(String, &Element)> = Vec::new();
        for (_, cpu) in document.children(document.root()) {
            let numa = cpu.get("numaid").unwrap_or("0").to_owned();
            tree.numa(&numa, "0-1");
            tree.write("devices/system/cpu/modalias", &modalias(cpu));
            let host = format!("devices/pci{:04x}:00", tree.ports);
            for (_, pci) in document.children(cpu).filter(|(_, it)| it.name == "pci") {
                tree.pci(document, &host, &numa, pci, &mut gpus);
            }
        }
        gpus.sort_by_key(|it| u64::from_str_radix(&it.0.replace([':', '.'], ""), 16).unwrap());
        tree.gpu_links(document, &gpus);
        tree
    }

    fn pci<'a>(
        &mut self,
        document: &'a Document,
        within: &str,
        numa: &str,
        pci: &'a Element,
        gpus: &mut Vec<(String, &'a Element)>,
    ) {
        let get = |key: &str, default: &'static str| pci.get(key).unwrap_or(default).to_owned();
        let bus_id = get("busid", "").to_lowercase();
        let class = get("class", "0x030200");
        let vendor = get("vendor", if class.starts_with("0x0302") { "0x10de" } else { "0x1002" });
        let link = [
            ("max_link_speed", get("link_speed", "Unknown")),
            ("max_link_width", get("link_width", "0")),
        ];
        let link = [(link[0].0, link[0].1.as_str()), (link[1].0, link[1].1.as_str())];
        let files =
            [&link[..], &[("class", &class), ("vendor", &vendor), ("numa_node", numa)]].concat();
        let port = self.port(within, &link);
        let folder = self.device(&port, &bus_id, &files);
        let children = || document.children(pci);
        for (_, below) in children().filter(|(_, it)| it.name == "pci") {
            self.pci(document, &folder, numa, below, gpus);
        }
        let gpu = children().find(|(_, it)| it.name == "gpu").map(|it| it.1);
        let is_gpu = ["0x03", "0x12"].iter().any(|it| class.starts_with(it));
        if let Some(gpu) = gpu.or(is_gpu.then_some(pci)) {
            gpus.push((bus_id, gpu));
        }
        let nics = children().filter(|(_, it)| it.name == "nic");
        for (_, net) in nics.flat_map(|(_, nic)| document.children(nic)) {
            self.net(&folder, net);
        }
    }

    /// Names with an underscore are InfiniBand's, others the network stack's.
    fn net(&self, device: &str, net: &Element) {
        let name = net.get("name").unwrap();
        let speed: u64 = net.get("speed").and_then(|it| it.parse().ok()).unwrap_or(0);
        if name.contains('_') {
            self.interface("infiniband", name, device);
            let port =
                format!("{device}/infiniband/{name}/ports/{}", net.get("port").unwrap_or("1"));
            let rate = format!("{}.{} Gb/sec (4X)", speed / 1000, speed / 100 % 10);
            for (file, text) in
                [("rate", rate.as_str()), ("state", "4: ACTIVE"), ("link_layer", "InfiniBand")]
            {
                self.write(&format!("{port}/{file}"), text);
            }
        } else {
            self.interface("net", name, device);
            self.write(&format!("{device}/net/{name}/speed"), &speed.to_string());
        }
    }

    /// NVLinks as `nvidia-smi` prints them, xGMI as the compute driver lists it.
    fn gpu_links(&mut self, document: &Document, gpus: &[(String, &Element)]) {
        let node_of = |target: &str| gpus.iter().position(|it| it.0 == target.to_lowercase());
        for (index, (bus_id, gpu)) in gpus.iter().enumerate() {
            let compute: u32 = gpu.get("sm").and_then(|it| it.parse().ok()).unwrap_or(0);
            let compute = format!("{}.{}", compute / 10, compute % 10);
            let links = || document.children(gpu);
            if links().any(|(_, it)| it.name == "nvlink") {
                self.smi +=
                    &format!("{index}, {bus_id}, GPU, {compute}\nGPU {index}: GPU (UUID: x)\n");
                let mut number = 0;
                for (_, link) in links().filter(|(_, it)| it.name == "nvlink") {
                    for _ in 0..link.get("count").unwrap().parse().unwrap() {
                        let target = link.get("target").unwrap().to_uppercase();
                        self.smi +=
                            &format!("\t Link {number}: Remote Device 0000{target}: Link 0\n");
                        number += 1;
                    }
                }
            }
            if !links().any(|(_, it)| it.name == "xgmi") && gpu.get("gcn").is_none() {
                continue;
            }
            let folder = format!("class/kfd/kfd/topology/nodes/{index}");
            let digits: Vec<u64> =
                bus_id.split([':', '.']).map(|it| u64::from_str_radix(it, 16).unwrap()).collect();
            let place = digits[1] << 8 | digits[2] << 3 | digits[3];
            let gfx = match gpu.get("gcn") {
                Some("910" | "gfx90a") => 90_010,
                Some(other) => {
                    let number: u64 = other.trim_start_matches("gfx").parse().unwrap();
                    number / 100 * 10_000 + number / 10 % 10 * 100 + number % 10
                }
                None => 0,
            };
            let text = format!(
                "simd_count 432\nlocation_id {place}\ndomain {}\ngfx_target_version {gfx}",
                digits[0]
            );
            self.write(&format!("{folder}/properties"), &text);
            for (number, (_, link)) in links().filter(|(_, it)| it.name == "xgmi").enumerate() {
                let lanes: u64 = link.get("count").unwrap().parse().unwrap();
                // A link to a GPU outside the file stays one to nowhere.
                let to = node_of(link.get("target").unwrap()).unwrap_or(999);
                let text = format!(
                    "type 11\nnode_from {index}\nnode_to {to}\nmin_bandwidth 50000\nmax_bandwidth {}",
                    lanes * 50_000
                );
                self.write(&format!("{folder}/io_links/{number}/properties"), &text);
            }
        }
    }
}

fn modalias(cpu: &Element) -> String {
    let number = |key: &str| cpu.get(key).and_then(|it| it.parse::<u32>().ok()).unwrap_or(0);
    let vendor = match (cpu.get("arch"), cpu.get("vendor")) {
        (Some("arm64"), _) => return "cpu:type:aarch64:feature:".to_owned(),
        (_, Some("GenuineIntel")) => 0,
        (_, Some("AuthenticAMD")) => 2,
        _ => 0xff,
    };
    let (family, model) = (number("familyid"), number("modelid"));
    format!("cpu:type:x86,ven{vendor:04X}fam{family:04X}mod{model:04X}:feature:,0000")
}

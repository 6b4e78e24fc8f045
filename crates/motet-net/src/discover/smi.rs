//! Reads what `nvidia-smi` prints about GPUs and NVLinks, in any order and with other text in
//! between:
//!
//! - `--query-gpu=index,pci.bus_id,name,compute_cap --format=csv,noheader`: which GPU is which;
//! - `nvlink -R`: where each NVLink leads (`Link 0: Remote Device 00000000:06:00.0: Link 1`);
//! - `nvlink -s`: which NVLinks are up (`Link 0: 25 GB/s`, `Link 1: <inactive>`);
//! - `topo -m`: how many NVLinks each pair has
//!   ([`formats::nvidia_smi`](crate::formats::nvidia_smi)).

use std::collections::BTreeMap;

use super::sysfs::is_bus_id;
use crate::formats::nvidia_smi::{self, NvLinks};
use crate::provenance::Unseen;

const MAX_GPUS: usize = 1024;
const MAX_LINKS: u32 = 64;

/// What the text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Smi {
    pub(super) gpus: BTreeMap<usize, SmiGpu>,
    pub(super) matrix: Option<NvLinks>,
    pub(super) unseen: Vec<Unseen>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SmiGpu {
    pub(super) bus_id: Option<String>,
    pub(super) sm: Option<u32>,
    /// Where each NVLink leads, by its number.
    pub(super) targets: BTreeMap<u32, String>,
    /// Whether each NVLink is up.
    pub(super) up: BTreeMap<u32, bool>,
}

impl SmiGpu {
    /// NVLinks that are up, where the text says.
    pub(super) fn lanes(&self) -> Option<u32> {
        let up = self.up.values().filter(|it| **it).count();
        (!self.up.is_empty()).then(|| u32::try_from(up).unwrap_or(u32::MAX))
    }
}

impl Smi {
    pub(super) fn parse(text: &str) -> Self {
        let mut smi = Self::default();
        let mut current = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some((index, bus_id, sm)) = query(line) {
                let gpu = smi.gpus.entry(index).or_default();
                (gpu.bus_id, gpu.sm) = (Some(bus_id), sm);
            } else if let Some(index) = header(line) {
                smi.gpus.entry(index).or_default();
                current = Some(index);
            } else if let (Some((link, said)), Some(index)) = (link(line), current) {
                let gpu = smi.gpus.entry(index).or_default();
                match said {
                    Said::Up(up) => drop(gpu.up.insert(link, up)),
                    Said::Target(bus_id) => drop(gpu.targets.insert(link, bus_id)),
                }
            }
        }
        if nvidia_smi::looks_like(text) {
            match nvidia_smi::nvlinks(text) {
                Ok(matrix) => smi.matrix = Some(matrix),
                Err(error) => {
                    let what = "the matrix of nvidia-smi topo -m";
                    smi.unseen.push(Unseen::new(what, error.to_string()));
                }
            }
        }
        if smi.gpus.is_empty() && smi.matrix.is_none() {
            let why = "nothing in it is the output of topo -m, nvlink -R, nvlink -s or --query-gpu";
            smi.unseen.push(Unseen::new("the text of nvidia-smi", why));
        }
        smi
    }
}

enum Said {
    Up(bool),
    Target(String),
}

/// "0, 00000000:18:00.0, NVIDIA H100 80GB HBM3, 9.0"
fn query(line: &str) -> Option<(usize, String, Option<u32>)> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, bus_id, _, compute] = fields.as_slice() else { return None };
    let index = index.parse().ok().filter(|it| *it < MAX_GPUS)?;
    let sm = compute.split_once('.').and_then(|(major, minor)| {
        major.parse::<u32>().ok()?.checked_mul(10)?.checked_add(minor.parse().ok()?)
    });
    Some((index, bus_id_of(bus_id)?, sm))
}

/// "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-…)"
fn header(line: &str) -> Option<usize> {
    let (index, rest) = line.strip_prefix("GPU ")?.split_once(':')?;
    index.parse().ok().filter(|it| *it < MAX_GPUS && rest.contains("UUID"))
}

/// "Link 0: …"
fn link(line: &str) -> Option<(u32, Said)> {
    let (number, rest) = line.strip_prefix("Link ")?.split_once(':')?;
    let number = number.parse().ok().filter(|it| *it < MAX_LINKS)?;
    let rest = rest.trim();
    let said = if rest.contains("inactive") {
        Said::Up(false)
    } else if rest.ends_with("GB/s") {
        Said::Up(true)
    } else {
        // With `-R` the device follows words and a link number; with `-p` it stands alone.
        let words = rest.strip_prefix("Remote Device ").unwrap_or(rest);
        Said::Target(bus_id_of(words.split(": ").next().unwrap_or_default())?)
    };
    Some((number, said))
}

/// As sysfs writes it: four digits of domain where they are enough, small letters.
fn bus_id_of(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let (domain, rest) = text.split_once(':')?;
    let digits = domain.trim_start_matches('0');
    let text = format!("{digits:0>4}:{rest}");
    is_bus_id(&text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_at_once() {
        let text = "0, 00000000:18:00.0, NVIDIA H100 80GB HBM3, 9.0\n\
            1, 00000001:2A:00.0, NVIDIA H100 80GB HBM3, 9.0\n\
            GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\
            \t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n\
            GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\
            \t Link 0: Remote Device 00000001:2A:00.0: Link 3\n\
            some other line\nLink 99: Remote Device x\n";
        let smi = Smi::parse(text);
        let gpu = &smi.gpus[&0];
        assert_eq!((gpu.bus_id.as_deref(), gpu.sm), (Some("0000:18:00.0"), Some(90)));
        assert_eq!(gpu.lanes(), Some(1));
        assert_eq!(gpu.targets[&0], "0001:2a:00.0");
        assert_eq!((smi.gpus.len(), smi.matrix, smi.unseen.len()), (2, None, 0));
    }

    #[test]
    fn text_of_something_else_is_said_so() {
        for text in ["", "GPU 9999999: x (UUID: y)", "Link 0: 25 GB/s", "a, b, c, d"] {
            assert_eq!(Smi::parse(text).unseen.len(), 1, "{text}");
        }
        // A broken matrix is reported, not taken.
        let broken = Smi::parse("GPU0 GPU1\nGPU0 X NV1\nGPU1 NV2 X\n");
        assert!(broken.unseen[0].why.contains("different things"), "{:?}", broken.unseen);
    }
}

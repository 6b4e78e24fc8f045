//! NVIDIA's GPUs by PCI device id: [`model`]. Sysfs and providers' topology files say no more of a GPU than this id;
//! [`discover`](crate::discover) and the reader of NCCL's files ask it here.

/// A GPU that is known by its device id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// Compute capability times ten.
    pub(crate) sm: u32,
    /// NVLinks of a module on a board; 0 where they depend on bridges that sysfs does not show.
    pub(crate) nvlinks: u32,
    /// Part of a rack whose switches are not in the server.
    pub(crate) rack: bool,
    /// Joined to its CPU by NVLink-C2C.
    pub(crate) superchip: bool,
}

const fn module(name: &'static str, sm: u32, nvlinks: u32) -> Model {
    Model { name, sm, nvlinks, rack: false, superchip: false }
}

/// The GPU of a device id, from the public list of PCI ids.
pub(crate) const fn model(device: u32) -> Option<Model> {
    Some(match device {
        0x15f9 => module("P100-SXM2", 60, 4),
        0x15f7 | 0x15f8 => module("P100-PCIe", 60, 0),
        0x1db0 | 0x1db1 | 0x1db3 | 0x1db5 | 0x1db8 => module("V100-SXM", 70, 6),
        0x1db4 | 0x1db6 => module("V100-PCIe", 70, 0),
        0x1eb8 => module("T4", 75, 0),
        0x20b0 | 0x20b2 | 0x20b3 | 0x20bd | 0x20f3 => module("A100-SXM4", 80, 12),
        0x20b5 | 0x20b7 | 0x20f1 => module("A100-PCIe or A30", 80, 0),
        0x2235 | 0x2236 => module("A40 or A10", 86, 0),
        0x26b5 | 0x26b9 | 0x27b8 => module("L40, L40S or L4", 89, 0),
        0x2324 | 0x2329 | 0x2330 | 0x2335 => module("H100 or H200 SXM5", 90, 18),
        0x2321 | 0x2322 | 0x2331 | 0x233b => module("H100 or H200 PCIe", 90, 0),
        0x2342 | 0x2348 => Model { superchip: true, ..module("GH200", 90, 18) },
        0x2901 => module("B200", 100, 18),
        0x2941 => Model { rack: true, superchip: true, ..module("GB200", 100, 18) },
        _ => return None,
    })
}

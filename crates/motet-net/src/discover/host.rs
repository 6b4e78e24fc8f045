//! The CPUs: NUMA nodes that have CPUs, and the CPU model, which gives the bandwidth between
//! sockets.

use super::sysfs::Sysfs;
use crate::provenance::Unseen;

/// Our conversion joins CPUs pairwise and takes no more.
const MAX_NODES: usize = 64;

/// A NUMA node with CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumaNode {
    pub(super) number: u32,
    pub(super) cpus: Option<String>,
    /// To each node, 10 being itself, as the firmware says.
    pub(super) distance: Option<String>,
}

/// As NCCL's topology files write it: `arch`, `vendor`, `familyid`, `modelid`.
pub(super) type Model = Vec<(&'static str, String)>;

/// The NUMA nodes that have CPUs; at least one.
pub(super) fn nodes(sysfs: &mut Sysfs) -> Vec<NumaNode> {
    const FOLDER: &str = "devices/system/node";
    let names = sysfs.list(FOLDER).unwrap_or_default();
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|it| it.strip_prefix("node")?.parse().ok()).collect();
    numbers.sort_unstable();
    let mut nodes = Vec::new();
    for number in numbers {
        let text = sysfs.text(&format!("{FOLDER}/node{number}/cpulist"));
        // Memory without CPUs (CXL, a GPU's own) has an empty list; a file that is missing may
        // be of a node like any other.
        if text.is_none() && sysfs.has(&format!("{FOLDER}/node{number}/cpulist")) {
            continue;
        }
        let distance = sysfs.text(&format!("{FOLDER}/node{number}/distance"));
        nodes.push(NumaNode { number, cpus: text, distance });
    }
    if nodes.len() > MAX_NODES {
        let why = format!("there are more than {MAX_NODES}; the others are left out");
        sysfs.unseen.push(Unseen::new("NUMA nodes", why));
        nodes.truncate(MAX_NODES);
    }
    if nodes.is_empty() {
        sysfs.unseen.push(Unseen::new("NUMA nodes", format!("{FOLDER} has none; taken as one")));
        nodes.push(NumaNode { number: 0, cpus: None, distance: None });
    }
    nodes
}

/// The CPU model from `cpu/modalias`, where the kernel writes it for loading modules:
/// `cpu:type:x86,ven0000fam0006mod008F:feature:…`.
pub(super) fn model(sysfs: &mut Sysfs) -> Model {
    let text = sysfs.text("devices/system/cpu/modalias").unwrap_or_default();
    let model = parse_model(&text);
    if model.is_empty() {
        let why = "devices/system/cpu/modalias does not say; the speed between sockets is a guess";
        sysfs.unseen.push(Unseen::new("the CPU model", why));
    }
    model
}

fn parse_model(modalias: &str) -> Model {
    let kind = modalias.split(":feature").next().and_then(|it| it.strip_prefix("cpu:type:"));
    let Some(kind) = kind else { return Vec::new() };
    let (arch, rest) = kind.split_once(',').unwrap_or((kind, ""));
    if arch.contains("x86") {
        let mut model = vec![("arch", "x86_64".to_owned())];
        let field = |from: &str, to: &str| {
            let after = rest.split_once(from)?.1;
            let digits = if to.is_empty() { after } else { after.split_once(to)?.0 };
            u32::from_str_radix(digits, 16).ok()
        };
        // The kernel's own numbers of makers.
        let vendor = match field("ven", "fam") {
            Some(0) => "GenuineIntel",
            Some(2) => "AuthenticAMD",
            Some(5) => "CentaurHauls",
            Some(9) => "HygonGenuine",
            Some(10) => "  Shanghai  ",
            _ => return model,
        };
        model.push(("vendor", vendor.to_owned()));
        if let (Some(family), Some(number)) = (field("fam", "mod"), field("mod", "")) {
            model.push(("familyid", family.to_string()));
            model.push(("modelid", number.to_string()));
        }
        return model;
    }
    match arch {
        "aarch64" | "arm64" => vec![("arch", "arm64".to_owned())],
        _ if arch.starts_with("ppc") || arch.starts_with("power") => {
            vec![("arch", "ppc64".to_owned())]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models() {
        let model = parse_model("cpu:type:x86,ven0000fam0006mod00CF:feature:,0000,0001");
        let pairs: Vec<(&str, &str)> = model.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let expected =
            [("arch", "x86_64"), ("vendor", "GenuineIntel"), ("familyid", "6"), ("modelid", "207")];
        assert_eq!(pairs, expected);
        assert_eq!(parse_model("cpu:type:x86,ven0002fam0019mod0001:feature:")[1].1, "AuthenticAMD");
        assert_eq!(parse_model("cpu:type:aarch64:feature:,0000"), [("arch", "arm64".to_owned())]);
        assert!(parse_model("").is_empty() && parse_model("cpu:type:riscv:feature:").is_empty());
        assert_eq!(parse_model("cpu:type:x86,venXfam").len(), 1);
    }
}

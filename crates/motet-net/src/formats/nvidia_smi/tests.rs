//! Servers of several generations, and matrices that are wrong.

use super::*;
use motet_units::Rank;

/// A server of eight GPUs on NVSwitches with a NIC beside each pair of GPUs.
fn switched(lanes: u32) -> String {
    let mut text = String::from(
        "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n",
    );
    for row in 0..12 {
        let name = if row < 8 { format!("GPU{row}") } else { format!("NIC{}", row - 8) };
        text.push_str(&name);
        let pair = |it: usize| if it < 8 { it / 2 } else { it - 8 };
        for column in 0..12 {
            let cell = if row == column {
                " X ".to_owned()
            } else if row < 8 && column < 8 {
                format!("NV{lanes}")
            } else if pair(row) == pair(column) {
                "PXB".to_owned()
            } else if pair(row) / 2 == pair(column) / 2 {
                "NODE".to_owned()
            } else {
                "SYS".to_owned()
            };
            text.push_str(&format!("\t{cell}"));
        }
        text.push_str(if row < 4 {
            "\t0-47\t0\t\tN/A\n"
        } else if row < 8 {
            "\t48-95\t1\t\tN/A\n"
        } else {
            "\n"
        });
    }
    text + "\nLegend:\n\n  X    = Self\n  NV#  = Connection\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n  NIC2: mlx5_6\n  NIC3: mlx5_9\n"
}

#[test]
fn nvswitch_servers() {
    let read = read(&switched(18), None, None).unwrap();
    let network = &read.network;
    let count = |kind| network.count(kind);
    assert_eq!((count(NodeKind::Gpu), count(NodeKind::Nic), count(NodeKind::Cpu)), (8, 4, 2));
    assert_eq!((count(NodeKind::PcieSwitch), count(NodeKind::NvSwitch)), (4, 1));
    let nvlinks: Vec<_> =
        network.links().iter().filter(|it| it.spec.class == LinkClass::NvLink).collect();
    assert_eq!((nvlinks.len(), nvlinks[0].spec.lanes), (16, 18));
    assert_eq!(nvlinks[0].spec.bandwidth.to_string(), "450 GB/s");
    let gpu = network.gpu(Rank(3)).unwrap();
    assert_eq!(network.node(gpu).properties["numa"], "0");
    assert!(network.find("mlx5_6").is_some() && network.find("cpu1").is_some());
}

/// As it looks after a chat or an issue tracker has taken the escape characters out.
#[test]
fn lost_escape_characters_do_not_matter() {
    let text = switched(18);
    let lost = text.replace('\u{1b}', "");
    let network = |text: &str| read(text, None, None).unwrap().network;
    assert_eq!(network(&lost), network(&text));
    assert!(NetworkFormat::detect(&lost, None).is_some());
}

#[test]
fn direct_nvlinks_stay_direct() {
    let text = "
$ nvidia-smi topo -m
        GPU0    GPU1    GPU2    GPU3    mlx5_0  mlx5_1  CPU Affinity    NUMA Affinity
GPU0     X      NV3     SYS     SYS     NODE    SYS     0-63            0
GPU1    NV3      X      SYS     SYS     NODE    SYS     0-63            0
GPU2    SYS     SYS      X      NV3     SYS     NODE    64-127          8
GPU3    SYS     SYS     NV3      X      SYS     NODE    64-127          8
mlx5_0  NODE    NODE    SYS     SYS      X      SYS
mlx5_1  SYS     SYS     NODE    NODE    SYS      X
";
    let read = read(text, Some(Bandwidth::gb_per_s(25)), None).unwrap();
    let network = &read.network;
    let nvlinks: Vec<_> =
        network.links().iter().filter(|it| it.spec.class == LinkClass::NvLink).collect();
    assert_eq!((nvlinks.len(), nvlinks[0].spec.bandwidth), (4, Bandwidth::gb_per_s(75)));
    assert_eq!(network.count(NodeKind::PcieSwitch), 0);
    assert!(network.find("cpu0").is_some() && network.find("cpu8").is_some());
}

#[test]
fn one_gpu_and_missing_nic_rows() {
    let text = "\tGPU0\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-19\n";
    let network = read(text, None, None).unwrap().network;
    assert_eq!((network.count(NodeKind::Nic), network.count(NodeKind::Cpu)), (2, 2));
    assert_eq!(network.count(NodeKind::PcieSwitch), 1);
}

/// Without a NUMA column the list of CPUs tells, and without that GPUs are taken together.
#[test]
fn nvlink_hides_the_sockets() {
    let text = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n\
        GPU0\t X \tNV6\tNV6\t0-23\tN/A\nGPU1\tNV6\t X \tNV6\t0-23\tN/A\n\
        GPU2\tNV6\tNV6\t X \t24-47\tN/A\n";
    assert_eq!(read(text, None, None).unwrap().network.count(NodeKind::Cpu), 2);
    let bare = text.replace("0-23", "N/A").replace("24-47", "N/A");
    assert_eq!(read(&bare, None, None).unwrap().network.count(NodeKind::Cpu), 1);
}

#[test]
fn comment_signs_and_printed_escapes_are_dropped() {
    let text: String =
        switched(12).replace('\u{1b}', "^[").lines().map(|it| format!("# {it}\n")).collect();
    let network = read(&text, None, None).unwrap().network;
    assert_eq!(network.count(NodeKind::Gpu), 8);
}

#[test]
fn says_what_is_wrong_and_where() {
    let good = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n";
    for (from, to, line, part) in [
        ("GPU1\tPIX", "GPU1\tPAX", 3, "`PAX` is not"),
        ("GPU1\tPIX", "GPU1\tSYS", 3, "say different things"),
        ("GPU1\tPIX\t X ", "GPU1\tPIX", 3, "has 1 cells for 2"),
        ("GPU1\tPIX\t X ", "GPU1\t X \tPIX", 3, "own column"),
        ("\tGPU0\tGPU1\n", "\tGPU0\tGPU0\n", 1, "twice"),
        ("GPU1\tPIX\t X ", "GPU1\tNV99999\t X ", 3, "`NV99999` is not"),
    ] {
        let error = read(&good.replace(from, to), None, None).unwrap_err();
        assert!(error.problem.contains(part), "{to}: {error}");
        assert_eq!(error.at.map(|it| it.line), Some(line), "{to}: {error}");
    }
    assert!(read("nothing here", None, None).unwrap_err().remedy.is_some());
    assert!(read("\tGPU0\tGPU1\n", None, None).unwrap_err().problem.contains("no row"));
}

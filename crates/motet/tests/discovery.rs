//! `motet net discover` on a tree made here, and `motet probe` over loopback: what they write for
//! other programs.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn motet(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_motet")).args(args).output().unwrap()
}

fn device(root: &Path, place: &str, files: &[(&str, &str)]) {
    let folder = root.join("devices/pci0000:00").join(place);
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), format!("{text}\n")).unwrap();
    }
    let bus_id = place.rsplit('/').next().unwrap();
    let devices = root.join("bus/pci/devices");
    fs::create_dir_all(&devices).unwrap();
    symlink(format!("../../../devices/pci0000:00/{place}"), devices.join(bus_id)).unwrap();
}

/// Four A100 below two PCIe switches.
fn tree(root: &Path) {
    let link = [("max_link_speed", "16.0 GT/s PCIe"), ("max_link_width", "16")];
    let bridge = [&[("class", "0x060400")][..], &link].concat();
    let gpu = [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x20b0")];
    let gpu = [&gpu[..], &[("numa_node", "0")], &link].concat();
    for switch in 1..3 {
        let port = format!("0000:00:0{switch}.0");
        let upstream = format!("{port}/0000:{switch}0:00.0");
        device(root, &port, &bridge);
        device(root, &upstream, &bridge);
        for slot in 1..3 {
            let downstream = format!("{upstream}/0000:{switch}1:0{slot}.0");
            device(root, &downstream, &bridge);
            device(root, &format!("{downstream}/0000:{switch}{}:00.0", slot + 1), &gpu);
        }
    }
}

#[test]
fn a_recorded_tree_is_read() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    let sysfs = folder.path().to_str().unwrap();
    let cluster = folder.path().join("cluster.toml");
    let output =
        motet(&["net", "discover", "--sysfs", sysfs, "-o", cluster.to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["gpus"], &json["nics"], &json["ranks"]), (&4.into(), &0.into(), &4.into()));
    let of_class = |class: &str| -> Vec<Value> {
        let figures = json["figures"].as_array().unwrap().iter();
        figures.filter(|it| it["class"] == class).cloned().collect()
    };
    let pcie = of_class("pcie");
    assert_eq!(pcie.len(), 2 * (4 + 2));
    assert!(pcie.iter().all(|it| it["bandwidth_source"]["provenance"] == "read"));
    // Four of this GPU without a switch are joined pairwise, by template.
    let nvlink = of_class("nvlink");
    assert_eq!((nvlink.len(), &nvlink[0]["lanes"]), (12, &4.into()));
    assert_eq!(nvlink[0]["bandwidth_source"]["provenance"], "template");
    assert!(json["unseen"].as_array().unwrap().iter().any(|it| it["what"] == "NICs"));
    // The file is a cluster file like any other, with comments.
    let text = fs::read_to_string(&cluster).unwrap();
    assert!(text.contains("# bandwidth read: 16.0 GT/s PCIe x16 in sysfs"), "{text}");
    let shown = motet(&["net", "show", cluster.to_str().unwrap(), "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["signature"], json["signature"]);
}

#[test]
fn this_machine_is_read_whatever_it_is() {
    let output = motet(&["net", "discover", "--json", "-q"]);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["nodes"].as_u64().unwrap() >= 1);
    assert!(json["unseen"].is_array());
}

/// An agent on any port, ended when dropped.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_motet"))
            .args(["probe", "serve", "--listen", "127.0.0.1:0", "--token", "t"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn agents_make_a_network() {
    let folder = tempfile::tempdir().unwrap();
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start()).collect();
    let mut hosts = String::new();
    for (index, agent) in agents.iter().enumerate() {
        let rack = if index < 2 { "r1" } else { "r2" };
        let address = &agent.address;
        hosts +=
            &format!("[[host]]\nname = \"h{index}\"\naddress = \"{address}\"\nrack = \"{rack}\"\n");
    }
    hosts += "[[host]]\nname = \"gone\"\naddress = \"127.0.0.1:1\"\nrack = \"r2\"\n";
    let file = folder.path().join("hosts.toml");
    fs::write(&file, hosts).unwrap();
    let file = file.to_str().unwrap();
    let cluster = folder.path().join("cluster.toml");
    let output = motet(&[
        "probe",
        "run",
        file,
        "--token",
        "t",
        "--bytes",
        "4 MiB",
        "--pings",
        "20",
        "--json",
        "-o",
        cluster.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["ranks"], &json["seed"]), (&3.into(), &1.into()));
    let probes = json["probes"].as_array().unwrap();
    // Three hosts in two racks: the pair of a rack, and both between them.
    assert!((2..=3).contains(&probes.len()), "{probes:?}");
    for probe in probes {
        for field in ["round_trip_us", "there_gbps", "back_gbps"] {
            let value = probe[field].as_f64().unwrap();
            assert!(value > 0.0 && value < 1e9, "{probe}");
        }
    }
    let unseen = json["unseen"].as_array().unwrap();
    assert!(unseen.iter().any(|it| it["what"] == "host gone"), "{unseen:?}");
    let shown = motet(&["net", "show", cluster.to_str().unwrap()]);
    assert!(shown.status.success());
    // Another token is refused by all of them: nothing is measured.
    let refused = motet(&["probe", "run", file, "--token", "x"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--token"), "{refused:?}");
}

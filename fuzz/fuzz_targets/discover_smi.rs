//! The output of nvidia-smi beside a machine's sysfs: whatever it says, the machine is found, its network
//! can be written and reads back, and what makes no sense is reported; never a panic.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use motet_net::discover::{Options, discover};
use motet_net::formats::cluster_toml;

/// A sysfs with two H100s below one root port each, made once for all inputs.
static TREE: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = std::env::temp_dir().join(format!("motet-fuzz-sysfs-{}", std::process::id()));
    for (bus, device) in [("0000:06:00.0", "0x2330"), ("0000:0f:00.0", "0x2330")] {
        let folder = root.join("devices/pci0000:00").join(format!("ffff:{}", &bus[5..])).join(bus);
        let files = [
            ("class", "0x030200"),
            ("vendor", "0x10de"),
            ("device", device),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("current_link_width", "16"),
        ];
        let all = root.join("bus/pci/devices");
        let made = fs::create_dir_all(&folder).and_then(|()| fs::create_dir_all(&all));
        made.expect("a folder for temporary files");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a temporary file");
        }
        let _ = std::os::unix::fs::symlink(&folder, all.join(bus));
    }
    root
});

fuzz_target!(|text: &str| {
    let options = Options { nvidia_smi: Some(text), name: "fuzz" };
    let Ok(found) = discover(&TREE, &options) else { panic!("the folder is there") };
    let written = cluster_toml::write(&found.network);
    let fetch = |name: &str| Err(format!("nothing names a file, and not {name}"));
    let read = cluster_toml::read(&written, &fetch);
    assert_eq!(read.map(|it| it.network.nodes().len()), Ok(found.network.nodes().len()));
});

//! The corpora of the fuzz targets, through the same checks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

#[allow(unreachable_pub, reason = "the fuzz targets use it too")]
#[path = "../../../fuzz/checks/switch.rs"]
mod checks;

fn each(name: &str, check: impl Fn(&[u8])) {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        check(&bytes);
        // And every start of it, and with one byte changed.
        for at in 0..bytes.len().min(400) {
            check(&bytes[..at]);
            let mut other = bytes.clone();
            other[at] ^= 1;
            check(&other);
        }
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

fn text(check: impl Fn(&str)) -> impl Fn(&[u8]) {
    move |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            check(text);
        }
    }
}

#[test]
fn corpora() {
    each("switch_netconf_frames", checks::netconf_frames);
    each("switch_netconf_messages", text(checks::netconf_messages));
    each("switch_scpi", text(checks::scpi_answers));
    each("switch_tl1", checks::tl1_messages);
    each("switch_gnmi", text(checks::gnmi_paths_and_trees));
    each("switch_restconf", text(checks::restconf_answers));
    each("switch_config", text(checks::config));
}

/// The corpora begin with something that means something.
#[test]
fn corpora_are_not_refused() {
    use motet_switch::gnmi::proto::{Notification, TypedValue, Update, Value};
    let tree = include_bytes!("../../../fuzz/corpus/switch_gnmi/switch.json").to_vec();
    let val = Some(TypedValue { value: Some(Value::JsonIetf(tree)) });
    let update = vec![Update { path: None, val }];
    let leaves =
        motet_switch::gnmi::path::flatten(&[Notification { update, ..Notification::default() }])
            .unwrap();
    let ports = motet_switch::gnmi::model::Ports::read(&leaves).unwrap();
    assert_eq!(ports.readout(&leaves).unwrap().crosses.len(), 2);
    for text in [
        include_str!("../../../fuzz/corpus/switch_config/netconf.json"),
        include_str!("../../../fuzz/corpus/switch_config/sim.json"),
    ] {
        serde_json::from_str::<motet_switch::SwitchConfig>(text).unwrap();
    }
}

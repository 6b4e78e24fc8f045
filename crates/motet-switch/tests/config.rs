//! `[[switch]]` in a file: what is taken, what is refused and with which words.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use motet_control::SwitchId;
use motet_switch::{Driver, SwitchConfig};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct File {
    switch: Vec<SwitchConfig>,
}

fn open(text: &str) -> Result<Box<dyn Driver>, String> {
    let file: File = toml::from_str(text).map_err(|it| it.to_string())?;
    motet_switch::open(SwitchId(0), &file.switch[0]).map_err(|it| it.to_string())
}

#[tokio::test]
async fn every_driver_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    let login = format!("user = \"admin\"\npassword_file = {:?}\n", password.display().to_string());
    for (driver, address, more) in [
        ("gnmi", "gnmi://ocs:50051", login.as_str()),
        ("netconf", "netconf://10.0.0.1:830", "user = \"admin\"\n"),
        ("netconf", "netconf://10.0.0.1:830", login.as_str()),
        ("restconf", "restconf://[::1]:8008", login.as_str()),
        ("scpi", "scpi://ocs", ""),
        ("tl1", "tl1://ocs:3082", login.as_str()),
    ] {
        let place = address.split_once("//").unwrap().1;
        let text = format!(
            "[[switch]]\nname = \"a\"\ndriver = \"{driver}\"\naddress = \"{place}\"\nports = 64\n{more}"
        );
        let opened = open(&text).unwrap();
        assert_eq!((opened.address(), opened.ports(), opened.name()), (address, 64, "a"));
        let shown = format!("{opened:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}

/// A technology of Opus' Table 3 brings its ports.
#[test]
fn a_simulated_switch_needs_no_more_than_its_technology() {
    let opened =
        open("[[switch]]\nname = \"a\"\n[switch.sim]\ntechnology = \"calient\"\n").unwrap();
    assert_eq!((opened.ports(), opened.address()), (320, "sim"));
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    for (text, words) in [
        ("name = \"a\"", "`ports` is missing"),
        ("name = \"a\"\nports = 0", "`ports` is missing"),
        ("name = \"a\"\nports = 8\ndriver = \"scpi\"", "`address` is missing"),
        ("name = \"a\"\nports = 8\ndriver = \"scpi\"\naddress = \"ocs:x\"", "not a host"),
        (
            "name = \"a\"\nports = 8\ndriver = \"scpi\"\naddress = \"ocs\"\nuser = \"x\"",
            "SCPI has no login",
        ),
        (
            "name = \"a\"\nports = 8\ndriver = \"tl1\"\naddress = \"ocs\"\nuser = \"x\"",
            "go together",
        ),
        (
            "name = \"a\"\nports = 8\ndriver = \"tl1\"\naddress = \"ocs\"\ncommand = [\"x\"]",
            "is for NETCONF only",
        ),
        (
            "name = \"a\"\nports = 8\ndriver = \"gnmi\"\naddress = \"ocs\"\ntls = {}",
            "`tls.ca` is missing",
        ),
        (
            "name = \"a\"\nports = 8\ndriver = \"gnmi\"\naddress = \"ocs\"\ntls = { ca = \"/nowhere\" }",
            "/nowhere",
        ),
        (
            "name = \"a\"\nports = 8\ndriver = \"restconf\"\naddress = \"ocs\"\ntls = { ca = \"/nowhere\" }",
            "/nowhere",
        ),
        (
            "name = \"a\"\nports = 8\ndriver = \"netconf\"\naddress = \"-oProxyCommand=x\"",
            "not a host",
        ),
        ("name = \"a\"\nports = 8\ndriver = \"magic\"", "unknown variant `magic`"),
        ("name = \"a\"\nports = 8\ncolour = \"red\"", "unknown field `colour`"),
        ("name = \"a\"\nsim = { technology = \"magic\" }", "there are PLZT, SiP"),
        ("name = \"a\"\nports = 8\nfirst_port = 4294967295", "too large"),
        (
            "name = \"a\"\nports = 8\nuser = \"x\"\ndriver = \"restconf\"\naddress = \"o\"\npassword_file = \"/nowhere\"",
            "/nowhere",
        ),
    ] {
        let error = open(&format!("[[switch]]\n{text}\n")).map(|_| ()).unwrap_err();
        assert!(error.contains(words), "{text}\n{error}");
    }
}

/// The file of the operator's page is one, and its table has every key that there is.
#[test]
fn the_page_for_operators_is_right() {
    let page = include_str!("../../../docs/switches.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let file: File = toml::from_str(example).unwrap();
    assert_eq!(file.switch.len(), 3);
    let all = serde_json::to_value(&file.switch[0]).unwrap();
    for key in all.as_object().unwrap().keys().filter(|it| *it != "sim") {
        assert!(
            page.lines().any(|it| it.starts_with("| `") && it.contains(&format!("`{key}`"))),
            "{key}"
        );
    }
    let faults = serde_json::to_value(&file.switch[2].sim.faults).unwrap();
    for key in faults.as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn files_are_beside_the_configuration() {
    let text =
        "name = 'a'\npassword_file = 'p'\ntls = { ca = '/x/ca', key = 'k' }\nsim = { state = 's' }";
    let mut config: SwitchConfig = toml::from_str(text).unwrap();
    config.files_in(std::path::Path::new("/etc/motet"));
    let tls = config.tls.unwrap();
    let path = |it: Option<std::path::PathBuf>| it.unwrap().display().to_string();
    assert_eq!(
        (path(tls.ca), path(tls.key), tls.certificate),
        ("/x/ca".to_owned(), "/etc/motet/k".to_owned(), None)
    );
    assert_eq!(path(config.password_file), "/etc/motet/p");
    assert_eq!(path(config.sim.state), "/etc/motet/s");
}

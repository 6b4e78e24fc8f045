//! The gNMI target and the gNMI driver against a client that somebody else wrote: pygnmi. What it sets, the driver reads, and the other
//! way round. Skipped where no Python with pygnmi is found, by `MOTET_PYTHON` or on the path.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

mod fake;

use std::io::Write as _;

use fake::Fake;
use motet_control::{Circuit, SwitchId};
use motet_switch::config::DriverKind;
use motet_switch::sim::{SimConfig, Switch};
use motet_switch::{Delta, SwitchConfig};

const SCRIPT: &str = r#"
import json, sys
from pygnmi.client import gNMIclient
port, what = int(sys.argv[1]), sys.argv[2]
with gNMIclient(target=("127.0.0.1", port), username="admin", password="secret", insecure=True) as client:
    if what == "read":
        can = client.capabilities()
        got = client.get(path=["/connections", "/components/component[name=port-3]"], encoding="json_ietf")
        values = [it["val"] for each in got["notification"] for it in each["update"]]
        once = client.subscribe2(subscribe={
            "subscription": [{"path": "/connections", "mode": "target_defined"}], "mode": "once", "encoding": "json_ietf"})
        seen = [it for it in once if "update" in it]
        print(json.dumps({"models": [it["name"] for it in can["supported_models"]], "values": values, "once": len(seen)}))
    elif what == "set":
        config = {"name": "by-pygnmi", "input-port-name": "port-3", "output-port-name": "port-4"}
        path = "/connections/port-connection[name=by-pygnmi]"
        answer = client.set(update=[(path, {"name": "by-pygnmi", "config": config})], encoding="json_ietf")
        print(json.dumps([it["op"] for it in answer["response"]]))
    else:
        try:
            answer = client.set(delete=["/connections/port-connection[name=" + what + "]"])
            print(json.dumps([it["op"] for it in answer["response"]]))
        except Exception as error:
            print(json.dumps("refused"))
"#;

fn python() -> Option<std::path::PathBuf> {
    let named = std::env::var_os("MOTET_PYTHON").unwrap_or("python3".into());
    let found = std::process::Command::new(&named).args(["-c", "import pygnmi"]).output();
    if found.is_ok_and(|it| it.status.success()) {
        return Some(named.into());
    }
    let why = "no Python with pygnmi: `pip install pygnmi==0.8.15`, or name one in MOTET_PYTHON";
    let _ = writeln!(std::io::stderr(), "skipped: pygnmi: {why}");
    None
}

async fn run(python: &std::path::Path, port: u16, what: &str) -> serde_json::Value {
    let output = tokio::process::Command::new(python)
        .args(["-c", SCRIPT, &port.to_string(), what])
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|it| panic!("{it}: {text}\n{errors}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_sets_the_other_reads() {
    let Some(python) = python() else { return };
    let switch = Switch::new(&SimConfig::default()).unwrap();
    let login = Some(("admin", "secret"));
    let fake = Fake { switch: switch.clone(), ports: 8, inputs: None, login };
    let address = fake::gnmi::start(fake, None).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "secret").unwrap();
    let mut config = SwitchConfig::simulated("target", 8);
    config.driver = DriverKind::Gnmi;
    config.address = Some(address.to_string());
    config.user = Some("admin".to_owned());
    config.password_file = Some(file);
    let driver = motet_switch::open(SwitchId(0), &config).unwrap();
    let circuit = |a, b| Circuit::new(SwitchId(0), a, b).unwrap();
    driver.apply(&Delta { delete: Vec::new(), create: vec![circuit(0, 1)] }).await.unwrap();

    let read = run(&python, address.port(), "read").await;
    assert!(
        read["models"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it == "ocp-ocs-optical-switch-connections"),
        "{read}"
    );
    let connection = &read["values"][0]["port-connection"][0];
    assert_eq!(connection["config"]["input-port-name"], "port-1", "{read}");
    assert_eq!(connection["config"]["output-port-name"], "port-2", "{read}");
    assert_eq!(read["values"][1]["ocp-ocs-port"]["state"]["index"], 3, "{read}");
    assert_eq!(read["once"], 1, "{read}");

    assert_eq!(run(&python, address.port(), "set").await, serde_json::json!(["UPDATE"]));
    assert_eq!(driver.read().await.unwrap().circuits, [circuit(0, 1), circuit(2, 3)]);
    // Again: the ports are taken, and pygnmi sees that it is refused. The driver deletes what pygnmi has made.
    driver
        .apply(&Delta { delete: vec![circuit(2, 3)], create: vec![circuit(3, 4)] })
        .await
        .unwrap();
    assert_eq!(
        run(&python, address.port(), "motet:port-1:port-2").await,
        serde_json::json!(["DELETE"])
    );
    assert_eq!(driver.read().await.unwrap().circuits, [circuit(3, 4)]);
}

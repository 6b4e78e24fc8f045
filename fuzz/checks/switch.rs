//! What must hold of everything that `motet-switch` reads, whatever bytes come: it is read or refused, and what is read is written as the
//! same. The fuzz targets call these, and a test of the crate does with the corpora.

use motet_switch::gnmi::model::Ports;
use motet_switch::gnmi::path;
use motet_switch::gnmi::proto::{Notification, TypedValue, Update, Value};
use motet_switch::layout::Cross;
use motet_switch::netconf::framing::Framing;
use motet_switch::netconf::message::{self, Incoming};
use motet_switch::restconf::json;
use motet_switch::{SwitchConfig, scpi, tl1};

/// NETCONF's frames. A message is the same whether its bytes come at once or one by one.
pub fn netconf_frames(bytes: &[u8]) {
    for framing in [Framing::EndMark, Framing::Chunks] {
        let Ok(Some((text, length))) = framing.cut(bytes) else { continue };
        assert!(length <= bytes.len());
        assert_eq!(framing.cut(&bytes[..length]), Ok(Some((text.clone(), length))));
        if bytes.len() < 200 {
            for at in 0..length {
                assert!(
                    !matches!(framing.cut(&bytes[..at]), Ok(Some(_))),
                    "a message before its end"
                );
            }
        }
        if let Ok(again) = framing.write(&text) {
            assert_eq!(framing.cut(&again), Ok(Some((text, again.len()))));
        }
    }
}

/// NETCONF's messages.
pub fn netconf_messages(text: &str) {
    let _ = message::read_hello(text);
    if let Ok(Incoming::Reply { answer: Ok(document), .. }) = message::read(text) {
        let _ = message::read_data(&document);
    }
}

/// SCPI's answers.
pub fn scpi_answers(text: &str) {
    let _ = scpi::text::read_states(text);
    let _ = scpi::text::read_error(text);
    if let Ok(seen) = scpi::text::read_crosses(text) {
        let crosses: Vec<Cross> = seen.iter().map(|it| it.cross).collect();
        let again = scpi::text::read_crosses(&scpi::text::write_crosses(&crosses)).unwrap();
        assert_eq!(again, seen);
    }
}

/// TL1's messages, all that are in the bytes.
pub fn tl1_messages(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((message, length))) = tl1::text::cut(rest) {
        assert!(length > 0 && length <= rest.len());
        if let tl1::text::Message::Answer(answer) = message {
            let _ = tl1::text::read_patches(&answer.lines);
            let _ = tl1::text::read_shutters(&answer.lines);
        }
        rest = &rest[length..];
    }
    if let Ok(quoted) = std::str::from_utf8(bytes)
        .map_err(|_| ())
        .and_then(|it| tl1::text::quote(it).map_err(|_| ()))
    {
        assert!(
            !quoted.contains(['\r', '\n'])
                && (quoted.starts_with('"') || !quoted.contains([';', ':', ',']))
        );
    }
}

/// gNMI's paths: a text that begins with `/`; and otherwise a tree in JSON as a target may send it.
pub fn gnmi_paths_and_trees(text: &str) {
    if let Ok(read) = path::parse(text) {
        assert_eq!(path::parse(&path::text(&read)), Ok(read));
    }
    let value = Some(Value::JsonIetf(text.as_bytes().to_vec()));
    let update = vec![Update { path: None, val: Some(TypedValue { value }) }];
    let Ok(leaves) = path::flatten(&[Notification { update, ..Notification::default() }]) else {
        return;
    };
    let Ok(ports) = Ports::read(&leaves) else { return };
    let _ = ports.readout(&leaves);
    for input in 0..4 {
        let _ = ports.names(Cross { input, output: input + 1 }, true);
    }
}

/// RESTCONF's answers.
pub fn restconf_answers(text: &str) {
    let _ = json::read_crosses(text);
    let _ = json::read_ports(text);
    assert!(json::read_error(text).len() <= 1000);
}

/// A `[[switch]]` as JSON, which has the same members as in TOML. What is read is written and read again as the same.
pub fn config(text: &str) {
    let Ok(config) = serde_json::from_str::<SwitchConfig>(text) else { return };
    let again = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<SwitchConfig>(&again).unwrap(), config);
}

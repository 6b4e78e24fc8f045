//! NETCONF's messages (RFC 6241) with the contents of Polatis' model. No IO.

use std::fmt::Write;

use motet_net::formats::xml::{self, Document, Element};

use crate::device::{Readout, Seen};
use crate::driver::PortState;
use crate::layout::Cross;
use crate::wire::start_of;

const BASE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
/// Polatis' model of cross-connections and ports.
const SWITCH: &str = "http://www.polatis.com/yang/optical-switch";

/// The capability of version 1.1 of the protocol, which has chunks.
pub const CHUNKS: &str = "urn:ietf:params:netconf:base:1.1";
/// The capability of sending notifications.
pub const NOTIFICATION: &str = "urn:ietf:params:netconf:capability:notification:1.0";

/// Our first message of a session.
#[must_use]
pub fn hello() -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><hello xmlns=\"{BASE}\"><capabilities>\
         <capability>urn:ietf:params:netconf:base:1.0</capability><capability>{CHUNKS}</capability>\
         </capabilities></hello>"
    )
}

/// The capabilities of a switch, from its hello.
///
/// # Errors
///
/// If the message is no hello.
pub fn read_hello(text: &str) -> Result<Vec<String>, String> {
    let document = parse(text)?;
    if document.root().name != "hello" {
        return Err(format!("a `{}` where a hello should be", document.root().name));
    }
    let all = document.elements.iter().filter(|it| it.name == "capability");
    Ok(all.map(|it| it.text.trim().to_owned()).collect())
}

fn parse(text: &str) -> Result<Document, String> {
    xml::parse(text.trim_start()).map_err(|it| format!("{it}: `{}`", start_of(text)))
}

/// A request, with its number.
#[must_use]
pub fn rpc(number: u64, inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><rpc message-id=\"{number}\" xmlns=\"{BASE}\">{inside}</rpc>"
    )
}

/// The request for cross-connections and states of ports.
#[must_use]
pub fn get() -> String {
    format!(
        "<get><filter type=\"subtree\"><cross-connects xmlns=\"{SWITCH}\"/>\
         <port-config xmlns=\"{SWITCH}\"><port><port-id/><status/></port></port-config></filter></get>"
    )
}

/// The request that deletes or creates cross-connections; `operation` is `delete` or `create`.
#[must_use]
pub fn edit(operation: &str, crosses: &[Cross]) -> String {
    let mut pairs = String::new();
    for cross in crosses {
        let (input, output) = (cross.input, cross.output);
        let egress = if operation == "delete" {
            String::new()
        } else {
            format!("<egress>{output}</egress>")
        };
        let _ = write!(
            pairs,
            "<pair nc:operation=\"{operation}\"><ingress>{input}</ingress>{egress}</pair>"
        );
    }
    format!(
        "<edit-config><target><running/></target><default-operation>merge</default-operation><config>\
         <cross-connects xmlns=\"{SWITCH}\" xmlns:nc=\"{BASE}\">{pairs}</cross-connects></config></edit-config>"
    )
}

/// The request for the lock on the running configuration, or its release; `what` is `lock` or `unlock`.
#[must_use]
pub fn lock(what: &str) -> String {
    format!("<{what}><target><running/></target></{what}>")
}

/// The request for notifications.
#[must_use]
pub fn subscribe(stream: Option<&str>) -> String {
    let stream = stream.map_or(String::new(), |it| format!("<stream>{}</stream>", xml::escape(it)));
    format!(
        "<create-subscription xmlns=\"urn:ietf:params:xml:ns:netconf:notification:1.0\">{stream}</create-subscription>"
    )
}

/// A received message.
#[derive(Debug)]
pub enum Incoming {
    /// A notification.
    Notification,
    Reply {
        /// The number of the request that it answers.
        number: Option<u64>,
        answer: Result<Document, RpcError>,
    },
}

/// A refusal by the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub tag: String,
    pub words: String,
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.tag, self.words)
    }
}

/// Reads a message.
///
/// # Errors
///
/// If it is neither a reply nor a notification.
pub fn read(text: &str) -> Result<Incoming, String> {
    let document = parse(text)?;
    match document.root().name.as_str() {
        "notification" => Ok(Incoming::Notification),
        "rpc-reply" => {
            let number = document.root().get("message-id").and_then(|it| it.parse().ok());
            let errors: Vec<RpcError> = document
                .children(document.root())
                .filter(|it| it.1.name == "rpc-error")
                .filter_map(|it| rpc_error(&document, it.1))
                .collect();
            let answer = match errors.into_iter().next() {
                Some(error) => Err(error),
                None => Ok(document),
            };
            Ok(Incoming::Reply { number, answer })
        }
        other => Err(format!("a `{other}` where a reply should be")),
    }
}

/// An error of a reply; `None` for warnings.
fn rpc_error(document: &Document, element: &Element) -> Option<RpcError> {
    let child = |name: &str| {
        let found = document.children(element).find(|it| it.1.name == name);
        found.map(|it| it.1.text.trim().to_owned()).filter(|it| !it.is_empty())
    };
    if child("error-severity").as_deref() == Some("warning") {
        return None;
    }
    let tag = child("error-tag").unwrap_or_else(|| "error".to_owned());
    let mut words = child("error-message").unwrap_or_default();
    if let Some(place) = child("error-path") {
        let _ = write!(words, " (at {place})");
    }
    Some(RpcError { tag, words: start_of(&words) })
}

/// Reads the answer to [`get`].
///
/// # Errors
///
/// If a pair or a port makes no sense.
pub fn read_data(document: &Document) -> Result<Readout, String> {
    let mut readout = Readout::default();
    let number = |element: &Element, name: &str| -> Result<u32, String> {
        let found = document.children(element).find(|it| it.1.name == name);
        let text = found
            .map(|it| it.1.text.trim())
            .ok_or_else(|| format!("a `{}` without `{name}`", element.name))?;
        text.parse().map_err(|_| format!("`{name}` is `{}`, which is no port", start_of(text)))
    };
    for element in &document.elements {
        let within =
            element.parent.and_then(|it| document.elements.get(it)).map(|it| it.name.as_str());
        match (within, element.name.as_str()) {
            (Some("cross-connects"), "pair") => {
                readout
                    .crosses
                    .push(Seen::made(number(element, "ingress")?, number(element, "egress")?));
            }
            (Some("port-config"), "port") => {
                let status = document.children(element).find(|it| it.1.name == "status");
                let state = match status.map(|it| it.1.text.trim()) {
                    Some("DISABLED") => PortState::Disabled,
                    Some("FAILED") => PortState::Failed,
                    _ => continue,
                };
                readout.ports.push((number(element, "port-id")?, state));
            }
            _ => {}
        }
    }
    Ok(readout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_says_what_a_switch_can_do() {
        let all = read_hello(&hello()).unwrap();
        assert!(all.contains(&CHUNKS.to_owned()));
        assert!(read_hello("<rpc/>").is_err() && read_hello("<hello>").is_err());
    }

    #[test]
    fn data_and_errors_are_read() {
        let reply = format!(
            "<nc:rpc-reply message-id=\"7\" xmlns:nc=\"{BASE}\"><nc:data><x:cross-connects xmlns:x=\"{SWITCH}\">\
             <x:pair><x:ingress>1</x:ingress><x:egress>9</x:egress></x:pair></x:cross-connects>\
             <port-config><port><port-id>2</port-id><status>FAILED</status></port>\
             <port><port-id>3</port-id><status>ENABLED</status></port></port-config></nc:data></nc:rpc-reply>"
        );
        let Incoming::Reply { number: Some(7), answer: Ok(document) } = read(&reply).unwrap()
        else {
            panic!()
        };
        let readout = read_data(&document).unwrap();
        assert_eq!(
            readout,
            Readout { crosses: vec![Seen::made(1, 9)], ports: vec![(2, PortState::Failed)] }
        );
        let refused = "<rpc-reply message-id=\"8\"><rpc-error><error-severity>error</error-severity>\
            <error-tag>lock-denied</error-tag><error-message>held by 4</error-message></rpc-error></rpc-reply>";
        let Incoming::Reply { answer: Err(error), .. } = read(refused).unwrap() else { panic!() };
        assert_eq!(error.to_string(), "lock-denied: held by 4");
        let warned = refused.replace("<error-severity>error", "<error-severity>warning");
        assert!(matches!(read(&warned).unwrap(), Incoming::Reply { answer: Ok(_), .. }));
        assert!(matches!(read("<notification/>").unwrap(), Incoming::Notification));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "<data><cross-connects><pair><ingress>1</ingress></pair></cross-connects></data>",
            "<data><cross-connects><pair><ingress>-1</ingress><egress>2</egress></pair></cross-connects></data>",
        ] {
            assert!(read_data(&parse(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}

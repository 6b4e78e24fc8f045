//! Polatis' model as RESTCONF has it in JSON (RFC 7951, RFC 8040). No IO.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::device::Seen;
use crate::driver::PortState;
use crate::layout::Cross;
use crate::wire::start_of;

#[derive(Deserialize)]
struct CrossConnects {
    #[serde(default)]
    pair: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    ingress: u32,
    egress: u32,
}

#[derive(Deserialize)]
struct PortConfig {
    #[serde(default)]
    port: Vec<Port>,
}

#[derive(Deserialize)]
struct Port {
    #[serde(rename = "port-id")]
    id: u32,
    status: Option<String>,
}

/// The contents of a document's one member, whose name may be prefixed with its module.
fn inside<T: for<'de> Deserialize<'de>>(text: &str, name: &str) -> Result<T, String> {
    let wrong = |it: &dyn std::fmt::Display| format!("{it}: `{}`", start_of(text));
    let document: Value = serde_json::from_str(text).map_err(|it| wrong(&it))?;
    let members = document.as_object().ok_or_else(|| wrong(&"not an object"))?;
    let found = members.iter().find(|it| it.0.rsplit(':').next() == Some(name));
    let (_, value) = found.ok_or_else(|| wrong(&format!("no `{name}` in it")))?;
    T::deserialize(value).map_err(|it| wrong(&it))
}

/// Reads `cross-connects`.
///
/// # Errors
///
/// If it is something else.
pub fn read_crosses(text: &str) -> Result<Vec<Seen>, String> {
    let read: CrossConnects = inside(text, "cross-connects")?;
    Ok(read.pair.into_iter().map(|it| Seen::made(it.ingress, it.egress)).collect())
}

/// Reads `port-config`: ports that are not up.
///
/// # Errors
///
/// If it is something else.
pub fn read_ports(text: &str) -> Result<Vec<(u32, PortState)>, String> {
    let read: PortConfig = inside(text, "port-config")?;
    let state = |it: Port| match it.status.as_deref() {
        Some("DISABLED") => Some((it.id, PortState::Disabled)),
        Some("FAILED") => Some((it.id, PortState::Failed)),
        _ => None,
    };
    Ok(read.port.into_iter().filter_map(state).collect())
}

/// The body of a request that puts a pair.
#[must_use]
pub fn write_pair(cross: Cross) -> String {
    json!({"optical-switch:pair": [{"ingress": cross.input, "egress": cross.output}]}).to_string()
}

/// The message of a refusal: its `errors`, or else the beginning of its text.
#[must_use]
pub fn read_error(text: &str) -> String {
    #[derive(Deserialize)]
    struct Errors {
        error: Vec<Error>,
    }
    #[derive(Deserialize)]
    struct Error {
        #[serde(rename = "error-tag")]
        tag: Option<String>,
        #[serde(rename = "error-message")]
        message: Option<String>,
    }
    let words = inside::<Errors>(text, "errors").ok().and_then(|it| it.error.into_iter().next());
    match words.map(|it| (it.tag, it.message)) {
        Some((Some(tag), Some(message))) => start_of(&format!("{tag}: {message}")),
        Some((Some(one), None) | (None, Some(one))) => start_of(&one),
        _ => start_of(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read() {
        let text = r#"{"optical-switch:cross-connects":{"pair":[{"ingress":1,"egress":9}]}}"#;
        assert_eq!(read_crosses(text).unwrap(), [Seen::made(1, 9)]);
        assert_eq!(read_crosses(r#"{"cross-connects":{}}"#).unwrap(), []);
        let ports = r#"{"optical-switch:port-config":{"port":[{"port-id":2,"status":"FAILED"},{"port-id":3,"label":"x"}]}}"#;
        assert_eq!(read_ports(ports).unwrap(), [(2, PortState::Failed)]);
        for wrong in ["", "[]", "{}", r#"{"cross-connects":{"pair":[{"ingress":1}]}}"#] {
            assert!(read_crosses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_refusal_says() {
        let text = r#"{"ietf-restconf:errors":{"error":[{"error-type":"application","error-tag":"in-use","error-message":"egress 9"}]}}"#;
        assert_eq!(read_error(text), "in-use: egress 9");
        assert_eq!(read_error("<html>"), "<html>");
    }
}

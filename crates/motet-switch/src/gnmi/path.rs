//! gNMI's paths as text (`/a/b[name=x]/c`), and trees of values flattened to one value per path. No IO.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::proto::{Notification, Path, PathElem, Update, Value};
use crate::wire::start_of;

/// The greatest depth of paths and trees: more than the model has, and little enough for any stack.
const DEEPEST: usize = 32;

/// Reads a path. In a key's value, `]` and `\` are written with a `\` before them.
///
/// # Errors
///
/// If the text is not a path.
pub fn parse(text: &str) -> Result<Path, String> {
    let wrong = |what: &str| format!("{what} in the path `{}`", start_of(text));
    let mut elems = Vec::new();
    let mut rest = text.strip_prefix('/').ok_or_else(|| wrong("no `/` at the start"))?;
    while !rest.is_empty() {
        let end = rest.find(['/', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() || name.contains([']', '=', '\\']) {
            return Err(wrong("a wrong name"));
        }
        let mut elem = PathElem { name: name.to_owned(), key: BTreeMap::new() };
        rest = after;
        while let Some(inside) = rest.strip_prefix('[') {
            let (key, after) =
                inside.split_once('=').ok_or_else(|| wrong("a key without a value"))?;
            let (value, after) =
                value_of_key(after).ok_or_else(|| wrong("a key without an end"))?;
            if key.is_empty() || key.contains(['[', ']', '/', '\\']) || elem.key.contains_key(key) {
                return Err(wrong("a wrong key"));
            }
            elem.key.insert(key.to_owned(), value);
            rest = after;
        }
        elems.push(elem);
        match rest.strip_prefix('/') {
            Some("") => return Err(wrong("a `/` at the end")),
            Some(after) => rest = after,
            None if rest.is_empty() => {}
            None => return Err(wrong("something behind a key")),
        }
        if elems.len() > DEEPEST {
            return Err(wrong("too many names"));
        }
    }
    Ok(Path { elem: elems, ..Path::default() })
}

fn value_of_key(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => {
                value.push(letter);
                escaped = false;
            }
            '\\' => escaped = true,
            ']' => return Some((value, text.get(at + 1..)?)),
            _ => value.push(letter),
        }
    }
    None
}

/// A path as text.
#[must_use]
pub fn text(path: &Path) -> String {
    let mut all = String::new();
    for elem in &path.elem {
        all.push('/');
        all.push_str(&elem.name);
        for (key, value) in &elem.key {
            let value = value.replace('\\', "\\\\").replace(']', "\\]");
            all.push_str(&format!("[{key}={value}]"));
        }
    }
    if all.is_empty() { "/".to_owned() } else { all }
}

/// The path of a leaf: names, and after the name of a list the key of the entry. Names of modules are left
/// out.
pub type Leaf = Vec<String>;

/// The name of a list's key, for the model's lists that have one.
fn key_of(list: &str) -> Option<&'static str> {
    match list {
        "port-connection" | "component" | "port-groups" => Some("name"),
        "connection-groups" => Some("peer-name"),
        _ => None,
    }
}

fn bare(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// All leaves of a target's answer. Targets may answer with a value per leaf or with trees in JSON.
///
/// # Errors
///
/// If a value is no JSON, or an entry of a list has no key.
pub fn flatten(notifications: &[Notification]) -> Result<BTreeMap<Leaf, Json>, String> {
    let mut leaves = BTreeMap::new();
    for notification in notifications {
        for Update { path, val } in &notification.update {
            let mut at = Vec::new();
            let prefix = notification.prefix.iter().flat_map(|it| &it.elem);
            for elem in prefix.chain(path.iter().flat_map(|it| &it.elem)) {
                at.push(bare(&elem.name).to_owned());
                at.extend(elem.key.values().cloned());
            }
            let json = match val.as_ref().and_then(|it| it.value.as_ref()) {
                None => continue,
                Some(Value::Json(bytes) | Value::JsonIetf(bytes)) => serde_json::from_slice(bytes)
                    .map_err(|it| {
                        format!("{it}: `{}`", start_of(&String::from_utf8_lossy(bytes)))
                    })?,
                Some(Value::String(it) | Value::Ascii(it)) => Json::from(it.as_str()),
                Some(Value::Int(it)) => Json::from(*it),
                Some(Value::Uint(it)) => Json::from(*it),
                Some(Value::Bool(it)) => Json::from(*it),
                Some(Value::Double(it)) => Json::from(*it),
            };
            walk(&mut at, json, &mut leaves)?;
        }
    }
    Ok(leaves)
}

fn walk(at: &mut Leaf, json: Json, leaves: &mut BTreeMap<Leaf, Json>) -> Result<(), String> {
    if at.len() > DEEPEST {
        return Err("a tree that is too deep".to_owned());
    }
    match json {
        Json::Object(members) => {
            for (name, inside) in members {
                at.push(bare(&name).to_owned());
                walk(at, inside, leaves)?;
                at.pop();
            }
        }
        Json::Array(entries) => {
            let list = at.last().cloned().unwrap_or_default();
            let Some(key) = key_of(&list) else {
                leaves.insert(at.clone(), Json::Array(entries));
                return Ok(());
            };
            for entry in entries {
                let members = entry.as_object().into_iter().flatten();
                let value =
                    members.clone().find(|it| bare(it.0) == key).and_then(|it| it.1.as_str());
                let name = value
                    .ok_or_else(|| format!("an entry of `{list}` without `{key}`"))?
                    .to_owned();
                at.push(name);
                walk(at, entry, leaves)?;
                at.pop();
            }
        }
        leaf => {
            leaves.insert(at.clone(), leaf);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::proto::TypedValue;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        let path = parse("/connections/port-connection[name=a/b\\]c]/state").unwrap();
        assert_eq!(path.elem.len(), 3);
        assert_eq!(path.elem[1].key["name"], "a/b]c");
        assert_eq!(text(&path), "/connections/port-connection[name=a/b\\]c]/state");
        assert_eq!(parse("/").unwrap().elem, []);
        for wrong in [
            "",
            "a",
            "//",
            "/a/",
            "/a[",
            "/a[b",
            "/a[b=c",
            "/a[=c]",
            "/a[b=c]x",
            "/a[b=c][b=d]",
            "/]",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn there_and_back(names in proptest::collection::vec("[a-z-]{1,5}", 0..5), value in "[ -~]{0,9}") {
            let mut path = Path::default();
            for name in names {
                let key = BTreeMap::from([("k".to_owned(), value.clone())]);
                path.elem.push(PathElem { name, key });
            }
            prop_assert_eq!(parse(&text(&path)).unwrap(), path);
        }
    }

    /// A tree, or a value for each leaf: it is the same.
    #[test]
    fn trees_and_leaves_come_to_the_same() {
        let update = |path: &str, value| Update {
            path: Some(parse(path).unwrap()),
            val: Some(TypedValue { value: Some(value) }),
        };
        let json = br#"{"ocp:port-connection":[{"name":"x","config":{"name":"x","input-port-name":"1"}}]}"#;
        let tree = vec![update("/connections", Value::JsonIetf(json.to_vec()))];
        let string = |it: &str| Value::String(it.to_owned());
        let leaves = vec![
            update("/connections/port-connection[name=x]/name", string("x")),
            update("/connections/port-connection[name=x]/config/name", string("x")),
            update("/connections/port-connection[name=x]/config/input-port-name", string("1")),
        ];
        let of = |update| flatten(&[Notification { update, ..Notification::default() }]).unwrap();
        assert_eq!(of(tree), of(leaves));
        let bad =
            vec![update("/connections", Value::JsonIetf(br#"{"port-connection":[{}]}"#.to_vec()))];
        assert!(flatten(&[Notification { update: bad, ..Notification::default() }]).is_err());
    }
}

//! What the JSON readers share: text to an object with positions in errors, and plain values.

use serde_json::{Map, Value};

use super::{Position, ReadError};

/// The object that a JSON text is. serde_json itself refuses nesting beyond 128 levels.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, ReadError> {
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let full = error.to_string();
        // Its message ends in the place, which ours begins with.
        let problem = full.rsplit_once(" at line ").map_or(full.as_str(), |(it, _)| it);
        let mut wrong = ReadError::new(format!("the JSON is broken: {problem}"));
        wrong.at = Some(Position { line: error.line(), column: error.column().max(1) });
        wrong
    })?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ReadError::new("the JSON is not an object { … }")),
    }
}

/// A text, number or truth value as text; `None` for lists, objects and null.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

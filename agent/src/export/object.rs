//! JSON objects without unknown values (RFC 8259).

use serde_json::Value;

/// Removes what has no value, at every depth: null, an empty or blank text, and an empty list or object mean that
/// nothing is known.
pub(crate) fn known(value: Value) -> Value {
    match value {
        Value::Array(elements) => elements.into_iter().map(known).filter(is_known).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, known(value)));
            fields.filter(|(_, value)| is_known(value)).collect()
        }
        other => other,
    }
}

fn is_known(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_without_a_value_are_absent() {
        let made = known(json!({
            "absent": null, "blank": " ", "empty": [null, {}], "false": false, "zero": 0, "text": "x",
        }));
        assert_eq!(made, json!({"false": false, "zero": 0, "text": "x"}));
    }
}

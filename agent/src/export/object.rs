//! JSON objects without unknown values (RFC 8259).

use serde_json::{Map, Value};

/// An object of the fields that have a value: null, an empty or blank text, and an empty list or object mean that
/// nothing is known.
pub(crate) fn object<const N: usize>(mut fields: [(&str, Value); N]) -> Value {
    Value::Object(known(&mut fields))
}

/// A list without elements that have no value.
pub(crate) fn list(elements: impl Iterator<Item = Value>) -> Value {
    Value::Array(elements.filter(is_known).collect())
}

fn known(fields: &mut [(&str, Value)]) -> Map<String, Value> {
    let known = fields.iter_mut().filter(|(_, value)| is_known(value));
    known.map(|(key, value)| ((*key).to_owned(), value.take())).collect()
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
        let made = object([
            ("absent", Value::Null),
            ("blank", " ".into()),
            ("empty", list([Value::Null, object([])].into_iter())),
            ("false", false.into()),
            ("zero", 0.into()),
            ("text", "x".into()),
        ]);
        assert_eq!(made, json!({"false": false, "zero": 0, "text": "x"}));
    }
}

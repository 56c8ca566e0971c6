//! JSON (RFC 8259) without what readers disagree about or what costs memory: a key may occur once in an object, and
//! depth and number of values are limited.

use std::cell::{Cell, RefCell};
use std::fmt;

use formats::text::is_key_name;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The deepest nesting; an instruction needs five levels.
const MAX_DEPTH: usize = 32;
/// The largest number of values: each takes more than 50 times the memory of its shortest text, `1,`.
const MAX_VALUES: usize = 20_000;

/// Parses a JSON text.
///
/// # Errors
/// In words that follow the name of the document: it is not JSON, has a key twice, is nested too deeply or contains too
/// many values.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let found = Found::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Reader { found: &found, depth: 0 }.deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| found.complaint.take().unwrap_or_else(|| not_json(&error)))
}

fn not_json(error: &serde_json::Error) -> String {
    let end = if error.is_eof() { "it ends too early, " } else { "" };
    format!("is not JSON: {end}line {}, column {}", error.line(), error.column())
}

/// What is known while a text is read.
#[derive(Default)]
struct Found {
    n_values: Cell<usize>,
    /// The keys that lead to the current value.
    path: RefCell<Vec<String>>,
    /// Why the text is refused though it is JSON.
    complaint: RefCell<Option<String>>,
}

impl Found {
    fn refuse<E: serde::de::Error>(&self, complaint: String) -> E {
        self.complaint.replace(Some(complaint));
        E::custom("refused")
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    found: &'a Found,
    depth: usize,
}

impl Reader<'_> {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(self.found.refuse(format!("is nested more than {MAX_DEPTH} levels deep")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        let n_values = self.found.n_values.get() + 1;
        self.found.n_values.set(n_values);
        if n_values > MAX_VALUES {
            return Err(self.found.refuse(format!("contains more than {MAX_VALUES} values")));
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.found.path.borrow_mut().push(key.clone());
            if values.contains_key(&key) {
                let path = self.found.path.borrow();
                let shown = path.iter().map(|key| if is_key_name(key) { key } else { "…" });
                let path: String = shown.collect::<Vec<_>>().join(".").chars().take(200).collect();
                return Err(self.found.refuse(format!("has the key {path:?} twice")));
            }
            let value = map.next_value_seed(inner)?;
            self.found.path.borrow_mut().pop();
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_the_same_as_that_of_an_ordinary_parser() {
        let text =
            r#"{"a": [1, -2, 0.5, "x\n", null, true], "b": {"a": {}}, "": 18446744073709551615}"#;
        assert_eq!(parse(text.as_bytes()), Ok(serde_json::from_str(text).unwrap()));
    }

    #[test]
    fn duplicate_key_is_refused_with_its_path() {
        let complaint = parse(br#"{"a": {"b": {"c": 1, "d": 2, "c": 1}}}"#).unwrap_err();
        assert_eq!(complaint, "has the key \"a.b.c\" twice");
        let escaped = parse(br#"{"disk": 1, "d\u0069sk": 2}"#).unwrap_err();
        assert_eq!(escaped, "has the key \"disk\" twice");
        let secret = parse(br#"{"a": {"$6$hunter2": 1, "$6$hunter2": 2}}"#).unwrap_err();
        assert_eq!(secret, "has the key \"a.…\" twice");
    }

    #[test]
    fn depth_and_number_of_values_are_limited() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        let complaint = parse(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err();
        assert_eq!(complaint, "is nested more than 32 levels deep");
        let complaint = parse("[".repeat(1 << 20).as_bytes()).unwrap_err();
        assert_eq!(complaint, "is nested more than 32 levels deep");
        let many = format!("[{}1]", "1,".repeat(MAX_VALUES));
        assert_eq!(parse(many.as_bytes()).unwrap_err(), "contains more than 20000 values");
    }

    #[test]
    fn text_that_is_not_json_is_refused_with_the_place() {
        for (text, complaint) in [
            ("", "is not JSON: it ends too early, line 1, column 0"),
            ("<html>", "is not JSON: line 1, column 1"),
            ("{} {}", "is not JSON: line 1, column 4"),
            ("[1", "is not JSON: it ends too early, line 1, column 2"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), complaint, "{text}");
        }
    }
}

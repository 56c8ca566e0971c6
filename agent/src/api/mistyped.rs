//! Describes what is wrong with the form of a document without its values: any may be a secret in the wrong place.
//!
//! serde quotes what it found. Only those parts of its messages are used that do not depend on the document.

use formats::text::{is_key_name, nearest};
use serde_json::Value;

/// How serde begins to name a type of JSON, found or expected, and the name for people.
const TYPES: [(&str, &str); 12] = [
    ("string", "text"),
    ("enum", "text"),
    ("map with a single key", "text"),
    ("map", "an object"),
    ("struct", "an object"),
    ("sequence", "a list"),
    ("boolean", "true or false"),
    ("integer", "a whole number"),
    ("u64", "a whole number from 0"),
    ("floating point", "a number with a fraction"),
    ("null", "null"),
    ("unit", "null"),
];

/// The type of a value.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Describes the fault at `path`, where `value` is; `complaint` is serde's message.
pub(crate) fn fault(path: &[String], value: &Value, complaint: &str) -> String {
    // A value may contain the same words, but the expected type comes last.
    let (found, expected) = complaint.rsplit_once(", expected ").unwrap_or((complaint, ""));
    let known = || expected.split('`').skip(1).step_by(2);
    let place = place(path);
    if let Some(name) = found.strip_prefix("unknown field `") {
        return unknown_key(path, name.trim_end_matches('`'), known());
    }
    if let Some(key) = complaint.strip_prefix("missing field ") {
        return format!("{place} has no {}", key.replace('`', "\""));
    }
    if found.starts_with("unknown variant `") {
        let near = near_word(complaint);
        return format!("{place} is not one of {}{near}", known().collect::<Vec<_>>().join(", "));
    }
    let expected = of_serde(expected);
    let found = match found.split_once(": ").unwrap_or_default() {
        ("invalid value", integer) if integer.starts_with("integer") => "a number out of range",
        // The API has no list of objects.
        _ if value.is_array() && expected == "an object" => "a list",
        (_, found) => of_serde(found),
    };
    let item = if value.is_array() && found != "a list" { "an item of " } else { "" };
    format!("{item}{place} holds {found}, expected {expected}")
}

/// Names the word that is nearest to an unknown one; empty if none is near, or if the complaint is about something else.
pub(crate) fn near_word(complaint: &str) -> String {
    let (found, expected) = complaint.rsplit_once(", expected ").unwrap_or((complaint, ""));
    let word = found.strip_prefix("unknown variant `").unwrap_or_default();
    let near = nearest(word.trim_end_matches('`'), expected.split('`').skip(1).step_by(2));
    near.map_or_else(String::new, |near| format!(", did you mean {near:?}?"))
}

fn of_serde(text: &str) -> &'static str {
    let text = text.strip_prefix("a ").unwrap_or(text);
    let known = TYPES.iter().find(|(start, _)| text.starts_with(start));
    known.map_or("a value of another type", |(_, name)| name)
}

/// The path as text. A key in the place of a value is a part of it, and not shown.
fn place(path: &[String]) -> String {
    let shown = path.iter().map(|key| if is_key_name(key) { key } else { "…" });
    if path.is_empty() { "it".to_owned() } else { shown.collect::<Vec<_>>().join(".") }
}

/// `path` may end with the unknown key, `name`.
fn unknown_key<'a>(path: &[String], name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let parents = path.strip_suffix(&[name.to_owned()]).unwrap_or(path);
    let full = |name: &str| match parents {
        [] => name.to_owned(),
        _ => format!("{}.{name}", place(parents)),
    };
    let near = nearest(name, known);
    let hint = near.map_or_else(String::new, |near| format!(", did you mean {:?}?", full(near)));
    if near.is_some() || is_key_name(name) {
        return format!("{:?} is not a key of it{hint}", full(name));
    }
    let (parent, n_chars) = (place(parents), name.chars().count());
    format!("{parent} has an unknown key of {n_chars} characters, which is not shown{hint}")
}

/// The complaint about an expectation without the values that it quotes.
pub(super) fn without_values(complaint: &str) -> String {
    let complaint = complaint.replace(r"\\", "").replace("\\\"", "");
    let parts: Vec<&str> = complaint.split('"').collect();
    let shown = parts.iter().enumerate().map(|(at, part)| {
        let next = parts.get(at + 1).copied().unwrap_or_default();
        let is_hint = at > 0 && parts[at - 1].ends_with("did you mean ");
        let is_key = next.starts_with(" is not a known key") && is_key_name(part);
        match at % 2 {
            0 => (*part).to_owned(),
            _ if is_hint || is_key => format!("\"{part}\""),
            _ => "…".to_owned(),
        }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_that_imitates_the_complaint_is_not_shown() {
        let path = ["install".to_owned(), "verify".to_owned()];
        let value = json!("`, expected `hunter2`");
        let found =
            format!("unknown variant `{}`, expected `sample` or `full`", value.as_str().unwrap());
        assert_eq!(fault(&path, &value, &found), "install.verify is not one of sample, full");
        let found = format!("invalid type: string {value}, expected a boolean");
        let expected = "install.verify holds text, expected true or false";
        assert_eq!(fault(&path, &value, &found), expected);
    }

    #[test]
    fn item_of_a_list_is_not_the_list() {
        let path = ["install".to_owned()];
        let says = |found: &str| fault(&path, &json!([1, 2]), found);
        let expected = "an item of install holds a whole number, expected text";
        assert_eq!(says("invalid type: integer `1`, expected a string"), expected);
        let expected = "install holds a list, expected an object";
        assert_eq!(says("invalid type: integer `1`, expected struct IgnitionSource"), expected);
        assert_eq!(says("invalid length 2, expected struct Install with 18 elements"), expected);
    }

    #[test]
    fn expectation_keeps_its_keys_and_loses_its_values() {
        for (complaint, shown) in [
            (
                r#"dimm: "sise" is not a known key, did you mean "size"?"#,
                r#"dimm: "sise" is not a known key, did you mean "size"?"#,
            ),
            (r#"dimm: "$6$x" is not a known key"#, "dimm: … is not a known key"),
            (r#"size is "a\"b\\", expected a size"#, "size is …, expected a size"),
            (r#"size is "cut off"#, "size is …"),
        ] {
            assert_eq!(without_values(complaint), shown);
        }
    }
}

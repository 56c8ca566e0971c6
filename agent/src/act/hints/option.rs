//! The option `--hints` of several commands: root device hints as a JSON object or as pairs.

use serde_json::{Map, Value};

use crate::clean::quoted;
use crate::strict_json;

/// Combines the hints from all values of the option.
///
/// A source that cannot repeat an option gives several pairs in one value, separated by commas. A comma that no
/// `KEY=` follows is a part of the value, as in `model=a,b`.
///
/// # Errors
/// A message if a text is neither a pair nor a JSON object, or if a key occurs twice.
pub fn from_option(texts: &[String]) -> Result<Map<String, Value>, String> {
    let mut hints = Map::new();
    for text in texts {
        let is_json = text.trim_start().starts_with('{');
        let more = if is_json { object(text)?.into_iter().collect() } else { pairs(text)? };
        for (key, value) in more {
            let shown = quoted(&key, 100);
            if hints.insert(key, value).is_some() {
                return Err(format!("--hints contains {shown} twice"));
            }
        }
    }
    Ok(hints)
}

/// A text that begins like JSON. A key may occur once: the second one would replace the first, and name another disk.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    let complaint = match strict_json::parse(text.as_bytes()) {
        Ok(Value::Object(hints)) => return Ok(hints),
        Ok(_) => "is not a JSON object".to_owned(),
        Err(complaint) => complaint,
    };
    Err(format!(
        "--hints {text} {complaint}; expected e.g. {{\"serial\": \"S1\", \"size\": \">= 200\"}}, or serial=S1",
        text = quoted(text, 100)
    ))
}

fn pairs(text: &str) -> Result<Vec<(String, Value)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        match (part.split_once('=').filter(|(key, _)| is_key(key)), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key.trim().to_owned(), value.to_owned())),
            // A comma belongs to the value before it, but a hint's name alone is a hint without its value.
            (None, Some(_)) if super::attribute(part.trim()).is_some() => {
                let (text, key) = (quoted(text, 100), part.trim());
                return Err(format!("--hints {text}: {key} has no value, expected {key}=VALUE"));
            }
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(part);
            }
            (None, None) => {
                let text = quoted(text, 100);
                return Err(format!(
                    "--hints {text}: expected KEY=VALUE or a JSON object, e.g. serial=S1"
                ));
            }
        }
    }
    Ok(pairs.into_iter().map(|(key, value)| (key, Value::String(value))).collect())
}

fn is_key(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Result<String, String> {
        from_option(&crate::act::testing::texts(texts))
            .map(|hints| serde_json::to_string(&hints).unwrap())
    }

    #[test]
    fn hints_are_pairs_or_json_in_one_value_or_several() {
        for (texts, expected) in [
            (&["serial=S1"][..], r#"{"serial":"S1"}"#),
            (
                &["size=>= 200", r#"{"rotational": false}"#],
                r#"{"size":">= 200","rotational":false}"#,
            ),
            (&["serial=S1, size=>= 10"], r#"{"serial":"S1","size":">= 10"}"#),
            (&["model=a,b,tran=sas"], r#"{"model":"a,b","tran":"sas"}"#),
            (&["model=s== x"], r#"{"model":"s== x"}"#),
        ] {
            let found: Value = serde_json::from_str(&of(texts).unwrap()).unwrap();
            assert_eq!(found, serde_json::from_str::<Value>(expected).unwrap(), "{texts:?}");
        }
    }

    #[test]
    fn broken_json_is_refused_with_its_place_and_an_example() {
        let expected = "--hints \"{\\\"serial\\\": S1}\" is not JSON: line 1, column 12; expected e.g. {\"serial\": \"S1\", \"size\": \">= 200\"}, or serial=S1";
        assert_eq!(of(&["{\"serial\": S1}"]), Err(expected.to_owned()));
    }

    #[test]
    fn malformed_and_repeated_hints_are_refused() {
        for bad in [
            &["serial"][..],
            &["=x"],
            &["{"],
            &["a=1", "a=2"],
            &["a=1,a=2"],
            &[",a=1"],
            &[""],
            &["serial=A,wwn"],
            // The second one names another disk.
            &["{\"serial\": \"A\", \"serial\": \"B\"}"],
        ] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }
}

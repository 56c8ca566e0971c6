//! Finds the JSON path of a position given by line and column, as in errors of `serde_json`.
//!
//! A deserializer that tracks paths would enlarge the program by 1.3 MB, since it instantiates every type of the seven
//! versions of the spec again. Scanning the text once more, up to the error, costs nothing.

/// The path, e.g. `$.storage.files.0.mode`, of the value that ends at or encloses `line` and `column` (counted from 1,
/// columns in bytes) of the JSON text `bytes`.
pub(super) fn path_at(bytes: &[u8], line: usize, column: usize) -> String {
    let before: usize =
        bytes.split_inclusive(|b| *b == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    let end = before.saturating_add(column).min(bytes.len());
    let mut text = bytes[..end].iter().copied();
    let mut levels: Vec<Level> = Vec::new();
    while let Some(byte) = text.next() {
        match byte {
            b'{' => levels.push(Level::Object { key: None, is_key_next: true }),
            b'[' => levels.push(Level::List { index: 0 }),
            b'}' | b']' => drop(levels.pop()),
            b',' => match levels.last_mut() {
                Some(Level::List { index }) => *index += 1,
                Some(Level::Object { is_key_next, .. }) => *is_key_next = true,
                None => {}
            },
            b'"' => {
                let string = string(&mut text);
                if let Some(Level::Object { key, is_key_next: is_key_next @ true }) =
                    levels.last_mut()
                {
                    *key = Some(String::from_utf8_lossy(&string).into_owned());
                    *is_key_next = false;
                }
            }
            _ => {}
        }
    }
    let parts = levels.into_iter().filter_map(|level| match level {
        Level::Object { key, .. } => key,
        Level::List { index } => Some(index.to_string()),
    });
    std::iter::once("$".to_owned()).chain(parts).collect::<Vec<_>>().join(".")
}

/// An object or list that is open at the current position.
enum Level {
    Object { key: Option<String>, is_key_next: bool },
    List { index: usize },
}

/// Reads to the end of a string, and keeps its escapes.
fn string(text: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut is_escaped = false;
    let is_inside = |byte: &u8| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_end
    };
    text.take_while(is_inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_value_is_found_by_its_end() {
        let text = br#"{"a": {"b": [1, {"c": "x,{"}, 3]}, "d": 4}"#;
        let at = |what: &str| {
            let end = String::from_utf8_lossy(text).find(what).unwrap() + what.len();
            path_at(text, 1, end)
        };
        assert_eq!(at(r#""x,{""#), "$.a.b.1.c");
        assert_eq!(at("[1"), "$.a.b.0");
        assert_eq!(at("3"), "$.a.b.2");
        assert_eq!(at("3]}"), "$.a");
        assert_eq!(at(r#""d": 4"#), "$.d");
    }

    #[test]
    fn lines_are_counted_and_any_position_has_a_path() {
        assert_eq!(path_at(b"{\n\"a\":\n5", 3, 1), "$.a");
        assert_eq!(path_at(b"{\"a\\", 1, 1000), "$.a\\");
        assert_eq!(path_at(b"", 7, usize::MAX), "$");
        assert_eq!(path_at(b"]]}}", 1, 4), "$");
    }
}

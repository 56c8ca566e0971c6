//! Text made from a machine's data: bytes that are not UTF-8 (RFC 3629), and quotations for messages.

use std::ops::Range;

/// Quotes text from a file, cut to a length that a console line can hold.
pub fn quote(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_debug())
}

/// Least similarity of two names for one to be suggested for the other: `disc` for `disk`, `vmi` for `vim`.
const LEAST_SIMILARITY: f64 = 0.5;

/// The known name that is most similar to `name`, whatever its case; the first in the alphabet of several, and `None`
/// if none is similar.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    // Not Jaro's measure, as clap: it finds no similarity between `vmi` and `vim`.
    let similarity =
        |known: &str| strsim::normalized_damerau_levenshtein(&name, &known.to_ascii_lowercase());
    let similar = known.into_iter().map(|known| (similarity(known), known));
    let near = similar.filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY);
    near.max_by(|(a, x), (b, y)| a.total_cmp(b).then_with(|| y.cmp(x))).map(|(_, known)| known)
}

/// The longest name of a key that [`is_key_name`] accepts; the API's longest has 18 characters.
const MAX_KEY_NAME_BYTES: usize = 24;

/// True if a message may show `name`, the name of an unknown key. Another text may be a secret in the wrong place.
pub fn is_key_name(name: &str) -> bool {
    (1..=MAX_KEY_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte))
}

/// True if a reader sees the character, and a YAML file can have it as it is.
pub fn is_visible(character: char) -> bool {
    // Marks that turn the direction of text, or have no width; line ends; what no file of YAML may contain.
    let is_hidden = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !character.is_control() && !is_hidden
}

/// Wraps `paragraph` into lines of at most `width` characters, each after `margin`; a longer word gets its own line.
pub fn wrapped(paragraph: &str, margin: &str, width: usize) -> String {
    let indent = margin.chars().count();
    let (mut text, mut line) = (String::new(), String::new());
    for word in paragraph.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > width {
            text.push_str(&[margin, &line, "\n"].concat());
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    text + &format!("{margin}{line}\n")
}

/// True if `word` is in `text` with no letter or digit next to it.
pub fn contains_word(text: &str, word: &str) -> bool {
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let after = text.get(at + word.len()..).and_then(|text| text.chars().next());
            ![before, after].into_iter().flatten().any(char::is_alphanumeric)
        })
}

/// The line at which YAML that cannot be parsed is wrong, and the likely cause. `at` is the offset at which the parser
/// stopped.
///
/// Only keys are quoted: a value, or a line without a key, may be a secret.
pub fn wrong_line(text: &str, at: Option<usize>) -> Option<(usize, String)> {
    // The parser reports an unclosed bracket on the empty line after the last one.
    let lines = text.lines().zip(1..).take(at.unwrap_or(usize::MAX));
    let is_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines: Vec<(&str, usize)> = lines.filter(|(line, _)| is_text(line)).collect();
    let ((last, last_line), before) = lines.split_last()?;
    // The parser notices what is not closed lines later, and what lies between is no key.
    let open = lines.iter().enumerate().find(|(at, _)| is_open(&lines[*at..]));
    let (found, line) = open.map_or((*last, *last_line), |(_, (found, line))| (*found, *line));
    let key = key(found);
    let subject = key.map_or_else(String::new, |(key, _)| format!("{}: ", quote(key)));
    let cause = match open {
        Some(_) => NOT_CLOSED.to_owned(),
        None => cause(found, key.map(|(_, value)| value), before.last().map(|(line, _)| *line)),
    };
    Some((line, format!("{subject}{cause}")))
}

/// True if the value of the first line begins with a quotation mark or bracket that no line closes.
fn is_open(lines: &[(&str, usize)]) -> bool {
    let value = lines.first().and_then(|(line, _)| key(line)).map(|(_, value)| value);
    let close = match value.and_then(|value| value.chars().next()) {
        Some('[') => ']',
        Some('{') => '}',
        Some(mark @ ('"' | '\'')) => mark,
        _ => return false,
    };
    let later = lines.iter().skip(1).map(|(line, _)| *line);
    let mut texts = value.and_then(|value| value.get(1..)).into_iter().chain(later);
    !texts.any(|text| text.contains(close))
}

/// The key of a line of YAML and its value; `None` if the line has none that is certain to be a key.
fn key(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().trim_start_matches("- ").trim_start();
    let (key, value) = line.split_once(": ").or_else(|| Some((line.strip_suffix(':')?, "")))?;
    let name = key.trim_end().trim_matches(['"', '\'']);
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    (!name.is_empty() && name.bytes().all(is_name)).then(|| (name, value.trim()))
}

const NOT_CLOSED: &str =
    "a quotation mark or bracket of its value is not closed, or text follows it";

/// Likely fault in a line of YAML, by the line, its value if it has a key, and the line before it.
fn cause(line: &str, value: Option<&str>, before: Option<&str>) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    if line.trim_start_matches(' ').starts_with('\t') {
        return "it is indented with a tab, which YAML does not allow".to_owned();
    }
    let Some(value) = value else {
        let has_colon = line.contains(": ") || line.trim_end().ends_with(':');
        let missing = "it has no key with a colon and a blank after it";
        return if has_colon { "its key is not plain text" } else { missing }.to_owned();
    };
    let first = value.chars().next();
    if let Some(mark) = first.filter(|first| ">|@`%*&!".contains(*first)) {
        return format!("its value begins with {mark}, so it needs quotes");
    }
    if first.is_some_and(|mark| "\"'[{".contains(mark)) {
        return NOT_CLOSED.to_owned();
    }
    if value.contains(": ") {
        return "its value contains a colon and a blank, so it needs quotes".to_owned();
    }
    if before.is_some_and(|before| indent(before) != indent(line)) {
        return "its indentation does not fit that of the line before".to_owned();
    }
    "it, or a line before it, is malformed".to_owned()
}

/// The key that a YAML parser found twice, quoted, with the path of its mapping where the parser names it; from its
/// message, as `dimm[0]: duplicate entry with key "size" at line 1 column 2`. `None` for another message.
pub fn repeated_key(message: &str) -> Option<String> {
    let (path, rest) = message.split_once("duplicate entry")?;
    let place = path.trim_end().trim_end_matches(':');
    let place = if place.is_empty() { String::new() } else { format!(" in {place}") };
    // The parser does not print keys that are null, lists or mappings.
    let key = rest.strip_prefix(" with ").filter(|key| key.starts_with("key ")).unwrap_or("a key");
    let key = key.split(" at line ").next().unwrap_or_default();
    Some(format!("{key}{place}"))
}

/// Makes text from bytes: those that are not UTF-8 become `\xNN`.
pub fn escape_non_utf8(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    // Four characters for a byte: room at once, for the text of a damaged file can be large.
    let n_invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let mut text = String::with_capacity(bytes.len() + 3 * n_invalid);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            use std::fmt::Write as _;
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}

/// Text up to the first NUL, without surrounding blanks; `None` if it is empty.
pub fn to_nul(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = escape_non_utf8(&bytes[..end]).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Text without the blanks and NULs around it; `None` if nothing is left.
pub fn padded(bytes: &[u8]) -> Option<String> {
    let text = escape_non_utf8(bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    (!text.is_empty()).then(|| text.to_owned())
}

/// True if the text consists of digits.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Place of `part` in `whole`, from which it was cut; an empty range if it was not.
pub fn span_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    let is_within = start.checked_add(part.len()).is_some_and(|end| end <= whole.len());
    if is_within { start..start + part.len() } else { 0..0 }
}

/// Maximum depth to which the brackets and braces of JSON or YAML are nested. Those within quotes and comments do not
/// count, nor does a closing one end one that was opened outside. In doubt a bracket counts: a quotation that goes on
/// in the next line may be a mark in a block of text, so brackets that open there do.
///
/// A text with more than `MAX_OPENING` brackets counts as nested so deep: quotation marks in plain text and in blocks
/// could be arranged to hide the real depth.
///
/// libyaml needs time in the square of the depth, before any limit of its caller applies.
pub fn nesting(text: &str) -> usize {
    let n_opening = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    let mut deepest = if n_opening > MAX_OPENING { n_opening } else { 0 };
    let mut depth = 0_usize;
    // The open quotation mark, the one that the last byte closed, and whether the next byte is escaped.
    let (mut quote, mut closed, mut is_escaped) = (None, None, false);
    let (mut is_comment, mut is_later_line) = (false, false);
    // The byte before this one, and the last one that was no blank: a quotation begins only where a value can.
    let (mut before, mut solid) = (b'\n', b'\n');
    for byte in text.bytes() {
        let last_closed = closed.take();
        match (quote, byte) {
            _ if is_comment => is_comment = byte != b'\n',
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(b'"'), b'\\') => is_escaped = true,
            (Some(open), _) if byte == open => (quote, closed) = (None, Some(byte)),
            (Some(_), b'\n') => is_later_line = true,
            (Some(_), b'[' | b'{') if is_later_line => depth += 1,
            // Two single quotes within a quotation mean one.
            (None, b'\'') if last_closed == Some(byte) => quote = Some(byte),
            (None, b'#') => is_comment = before.is_ascii_whitespace(),
            (None, b'"' | b'\'') if begins_value(before, solid) => {
                (quote, is_later_line) = (Some(byte), false);
            }
            (None, b'[' | b'{') => depth += 1,
            (None, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        before = byte;
        if byte == b'\n' || !byte.is_ascii_whitespace() {
            solid = byte;
        }
    }
    deepest
}

/// True if a quotation mark opens a quotation after these bytes. Elsewhere it is part of a plain text, such as `it's`.
fn begins_value(before: u8, solid: u8) -> bool {
    let is_after_bracket = matches!(before, b'[' | b'{' | b',' | b':');
    is_after_bracket || (before.is_ascii_whitespace() && b"[{,:-?\n".contains(&solid))
}

/// The most brackets of a text whose quotations are counted: libyaml needs about a second for as many, nested.
const MAX_OPENING: usize = 20_000;

/// The deepest nesting that YAML from a user may have.
pub const MAX_NESTING: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped_and_the_rest_stays() {
        assert_eq!(escape_non_utf8("Müller".as_bytes()), "Müller");
        assert_eq!(escape_non_utf8(b"M\xfcller\xff"), "M\\xfcller\\xff");
    }

    #[test]
    fn a_quoted_finding_has_no_control_characters_and_a_bounded_length() {
        assert_eq!(quote("a\x1b[31m"), "\"a\\u{1b}[31m\"");
        assert!(quote(&"x".repeat(1000)).len() < 100);
    }

    #[test]
    fn nesting_is_that_of_the_deepest_bracket() {
        assert_eq!(nesting("a: [{b: []}]\nc: ]]] []"), 3);
        assert_eq!(nesting("a"), 0);
    }

    #[test]
    fn brackets_in_quotes_and_comments_do_not_count() {
        assert_eq!(nesting(&r#"["]","#.repeat(1000)), 1000, "closing ones in quotes");
        assert_eq!(nesting(&"['}', ".repeat(1000)), 1000);
        assert_eq!(nesting(&"[ # ]\n".repeat(1000)), 1000);
        assert_eq!(nesting(&r#""[", '{', "#.repeat(1000)), 0, "opening ones in quotes");
        assert_eq!(nesting("a: \"\\\"[[[\"\nb: 'it''s [['\n# [[[[\nc: [1]"), 1);
        assert_eq!(nesting("a: it's\nb: x \"y\nc: [[[[]]]] # isn't\nd: [[[[[]]]]]"), 5);
        assert_eq!(nesting("a: |\n  \"\nb: [[[["), 4, "no quotation");
        assert_eq!(nesting("kargs: a#[\nb: c=\"[[[\"\n"), 4, "plain text may count");
    }

    #[test]
    fn quotation_marks_in_plain_text_do_not_hide_a_depth_that_costs_time() {
        // For YAML the mark is part of the plain text `x- "`, so these brackets are nested.
        let hidden = "[x- \", ".repeat(30_000);
        assert!(nesting(&hidden) > MAX_NESTING, "{}", nesting(&hidden));
        assert!(nesting(&"[1], ".repeat(10_000)) < MAX_NESTING);
    }

    #[test]
    fn nearest_name_is_suggested_and_a_name_like_none_is_not() {
        for (name, near) in [
            ("dryrun", Some("dry-run")),
            ("DRYRUN", Some("dry-run")),
            ("log-levle", Some("log-level")),
            ("vmi", Some("vim")),
            ("log", None),
            ("loglevel", Some("log-level")),
            ("zzz", None),
            ("", None),
        ] {
            let known = ["dry-run", "vim", "vim-name", "log-level"];
            assert_eq!(nearest(name, known), near, "{name}");
        }
    }

    #[test]
    fn wrong_line_is_the_last_that_is_not_blank_before_the_parser_stopped() {
        let (line, found) = wrong_line("a: b\nc: [1\n# d\n\n", Some(4)).unwrap();
        assert_eq!((line, &found[..4]), (2, "\"c\":"), "{found}");
        assert_eq!(wrong_line("a: b\nc\nd", Some(2)).unwrap().0, 2);
        assert_eq!(wrong_line("\n", None), None);
    }

    #[test]
    fn line_whose_value_is_not_closed_is_the_wrong_one_and_what_follows_is_not_quoted() {
        for (text, line) in [
            ("vim: \"http://h\ntoken: abc\nproxy: p", 1),
            ("a: 1\nvim: [a, b\ntoken: abc", 2),
            ("vim: [http://h\n  # the lab VIM", 1),
            ("token: \"abc\n  SECRET: hunter2", 1),
            ("dimm: {count: 2\nnic:\n  name: x", 1),
        ] {
            let (found_line, found) = wrong_line(text, None).unwrap();
            assert_eq!(found_line, line, "{text}");
            assert!(found.contains("is not closed") && !found.contains("SECRET"), "{found}");
        }
        let closed = wrong_line("a: [1,\n  2]\nb: \"x\n  y\"\nc: d: e", None).unwrap();
        assert_eq!(closed.0, 5, "{closed:?}");
    }

    #[test]
    fn wrong_line_has_its_likely_cause_and_no_value() {
        for (text, expected) in [
            ("proxy: http://u:SEC/RET@h: x", "\"proxy\": its value contains a colon and a blank,"),
            ("password: \"SECRET", "\"password\": a quotation mark or bracket"),
            ("- http://u:SECRET@h: x", "its key is not plain text"),
            ("\tpassword:SECRET", "it is indented with a tab"),
            ("a: 1\n  \tx: SECRET", "\"x\": it is indented with a tab"),
            ("a: 1\n\tsize: 2", "\"size\": it is indented with a tab"),
            ("size: >= 200", "\"size\": its value begins with >, so it needs quotes"),
            ("- 'size': @SECRET", "\"size\": its value begins with @,"),
            ("size: %SECRET", "\"size\": its value begins with %,"),
            ("vim: x\n  disk: SECRET", "\"disk\": its indentation does not fit"),
            ("SECRET", "it has no key"),
            ("vim: a\nSECRET:b", "it has no key"),
        ] {
            let (_, found) = wrong_line(text, None).unwrap();
            assert!(found.starts_with(expected), "{text}: {found}");
            assert!(!found.contains("SEC"), "{text}: {found}");
        }
    }

    #[test]
    fn repeated_key_is_named_with_its_mapping() {
        for (message, expected) in [
            ("duplicate entry with key \"dimm\" at line 1 column 1", Some("key \"dimm\"")),
            (
                "dimm[0]: duplicate entry with key \"size\" at line 1 column 3",
                Some("key \"size\" in dimm[0]"),
            ),
            ("duplicate entry in YAML map at line 1 column 1", Some("a key")),
            ("did not find expected key", None),
        ] {
            assert_eq!(repeated_key(message).as_deref(), expected, "{message}");
        }
    }

    #[test]
    fn a_part_is_found_where_it_was_cut_out() {
        let whole = b"a=b, a=c";
        assert_eq!(span_in(whole, &whole[5..]), 5..8);
        assert_eq!(span_in(whole, b"elsewhere"), 0..0);
    }
}

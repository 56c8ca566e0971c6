//! The secret parts of an Ignition config. A program that reads the config may quote any piece of it in an error, so
//! every long word of a text that occurs in one of these parts is removed.

use serde_json::Value;

/// Shorter words occur by chance.
const MIN_WORD_BYTES: usize = 16;
/// Keys whose values, with all that they contain, are secret or may be (Ignition's specification 3.6).
const SECRET_KEYS: &str =
    "passwordHash sshAuthorizedKeys source contents contentsLocal inline httpHeaders pin";
/// What ends a word, in addition to blanks: quotes, brackets, and the backslash of an escape.
const SEPARATORS: &str = "'\"`<>()[]{},;\\";

/// The secret parts of a config, one a line; all of it if it is no JSON.
pub(super) fn secrets(config: &[u8]) -> String {
    let mut found = String::new();
    match serde_json::from_slice::<Value>(config) {
        Ok(value) => collect(&value, false, &mut found),
        Err(_) => found.push_str(&String::from_utf8_lossy(config)),
    }
    found
}

fn collect(value: &Value, is_secret: bool, found: &mut String) {
    match value {
        Value::String(text) if is_secret && text.len() >= MIN_WORD_BYTES => {
            found.push_str(text);
            found.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_secret, found)),
        Value::Object(members) => {
            for (key, value) in members {
                let is_secret = is_secret || SECRET_KEYS.split(' ').any(|known| known == key);
                collect(value, is_secret, found);
            }
        }
        _ => {}
    }
}

/// Removes every long word that occurs in `secrets`.
pub(super) fn hide(line: &str, secrets: &str) -> String {
    if secrets.is_empty() {
        return line.to_owned();
    }
    let is_end = |c: char| c.is_whitespace() || SEPARATORS.contains(c);
    let mut shown = String::with_capacity(line.len());
    for piece in line.split_inclusive(is_end) {
        let word = piece.trim_end_matches(is_end);
        // Paths of devices are in configs too, and no secrets.
        let is_secret = word.len() >= MIN_WORD_BYTES
            && !word.starts_with("/dev/")
            && secrets.contains(word.trim_end_matches(['.', ':', '…']));
        if is_secret {
            shown.push('…');
            shown.push_str(&piece[word.len()..]);
        } else {
            shown.push_str(piece);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"ignition":{"version":"3.4.0"},
        "passwd":{"users":[{"name":"a-user-with-a-long-name","passwordHash":"$6$salt$0123456789abcdef",
        "sshAuthorizedKeys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI core@node"]}]},
        "storage":{"files":[{"path":"/etc/a-file-with-a-long-name","contents":{
        "source":"data:text/plain;base64,c2VjcmV0IG9mIHRoaXMgdGVzdA=="}}]},
        "systemd":{"units":[{"name":"x.service","contents":"Environment=TOKEN=abcdefghijklmnop\nOn=/dev/disk/by-id/ata-x"}]}}"#;

    #[test]
    fn quoted_parts_of_a_config_are_removed_and_its_names_are_kept() {
        let secrets = secrets(CONFIG.as_bytes());
        for (quoted, expected) in [
            ("bad hash \"$6$salt$0123456789abcdef\"", "bad hash \"…\""),
            ("key AAAAC3NzaC1lZDI1NTE5AAAAI: no", "key … no"),
            ("at base64,c2VjcmV0IG9mIHRoaXMg", "at base64,…"),
            ("unit 'Environment=TOKEN=abcdefghijklmnop\\nOn'", "unit '…\\nOn'"),
            ("user a-user-with-a-long-name", "user a-user-with-a-long-name"),
            ("/etc/a-file-with-a-long-name", "/etc/a-file-with-a-long-name"),
            ("/dev/disk/by-id/ata-x is busy", "/dev/disk/by-id/ata-x is busy"),
        ] {
            assert_eq!(hide(quoted, &secrets), expected);
        }
        assert_eq!(hide("any text of any length", ""), "any text of any length");
        let broken = super::secrets(b"{\"passwordHash\": \"0123456789abcdefgh\"");
        assert_eq!(hide("found 0123456789abcdefgh", &broken), "found …");
    }
}

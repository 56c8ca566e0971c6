//! Public SSH keys as sshd reads them from `authorized_keys`.
//!
//! Sources: sshd(8), on `authorized_keys`; RFC 4253 §6.6, RFC 5656 §3.1, RFC 8709 §4 and OpenSSH's
//! PROTOCOL.u2f for the fields within the base64 text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The types of keys that CoreOS accepts, and how many fields follow the type in the base64 text.
const TYPES: [(&str, usize); 7] = [
    ("ssh-ed25519", 1),
    ("ssh-rsa", 2),
    ("ecdsa-sha2-nistp256", 2),
    ("ecdsa-sha2-nistp384", 2),
    ("ecdsa-sha2-nistp521", 2),
    ("sk-ssh-ed25519@openssh.com", 2),
    ("sk-ecdsa-sha2-nistp256@openssh.com", 3),
];

/// Checks one line of `authorized_keys`.
///
/// # Errors
/// A description of the fault. It never quotes the text, which could be a private key.
pub(super) fn check(line: &str) -> Result<(), &'static str> {
    if line.contains("PRIVATE KEY") {
        return Err("a private key");
    }
    if line.contains(|c: char| c.is_control() && c != '\t') {
        return Err("text of several lines");
    }
    let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let type_of = |word: &str| TYPES.into_iter().find(|(name, _)| *name == word);
    let named = words.iter().enumerate().filter_map(|(at, word)| Some((at + 1, type_of(word)?)));
    // Options may precede the type, and a quoted one may contain blanks and the name of a type.
    let mut checked = named.map(|(at, of)| check_key(of, words.get(at).copied()));
    let Some(first) = checked.next() else {
        let is_path = line.starts_with(['/', '~', '.']);
        let without = "text without the type of a key that sshd on CoreOS accepts";
        return Err(if is_path { "the path of a file" } else { without });
    };
    first.or_else(|why| checked.find(Result::is_ok).unwrap_or(Err(why)))
}

/// Checks the text after a type with this number of fields.
fn check_key((name, n_fields): (&str, usize), encoded: Option<&str>) -> Result<(), &'static str> {
    let Some(encoded) = encoded else { return Err("a type without a key") };
    let bytes = STANDARD.decode(encoded).map_err(|_| "a key that is truncated or not base64")?;
    let fields = fields(&bytes).ok_or("a key that is truncated")?;
    match fields.split_first() {
        Some((inner, _)) if *inner != name.as_bytes() => {
            Err("a key whose base64 text names another type than the word before it")
        }
        Some((_, rest)) if rest.len() == n_fields && is_whole(name, rest) => Ok(()),
        _ => Err("a key that is truncated"),
    }
}

/// The fields of the decoded text, each after its length of four bytes; `None` if it ends within one.
fn fields(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut fields, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let (field, after) =
            after.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        fields.push(field);
        rest = after;
    }
    Some(fields)
}

/// An Ed25519 key has 32 bytes; the fields of the others are not empty.
fn is_whole(name: &str, fields: &[&[u8]]) -> bool {
    let is_ed25519 = name.contains("ed25519");
    fields.iter().all(|field| !field.is_empty()) && (!is_ed25519 || fields[0].len() == 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(fields: &[&[u8]]) -> String {
        let length = |field: &[u8]| u32::try_from(field.len()).unwrap().to_be_bytes();
        STANDARD
            .encode(fields.iter().flat_map(|f| [&length(f)[..], f].concat()).collect::<Vec<u8>>())
    }

    #[test]
    fn keys_of_every_type_are_accepted_with_options_and_comment() {
        for (name, n_fields) in TYPES {
            let field = [7_u8; 32];
            let fields = [&[name.as_bytes()][..], &vec![&field[..]; n_fields]].concat();
            let key = format!("{name} {}", encoded(&fields));
            let with_options =
                format!("restrict,command=\"keygen -t ssh-rsa x\"\t {key}\tme@example  home");
            assert_eq!((check(&key), check(&with_options)), (Ok(()), Ok(())), "{key}");
        }
    }

    #[test]
    fn keys_that_sshd_would_ignore_are_refused_without_being_quoted() {
        let whole = encoded(&[b"ssh-ed25519", &[7; 32]]);
        let rsa = encoded(&[b"ssh-rsa", &[1, 0, 1], &[9; 256]]);
        for (line, found) in [
            (format!("ssh-ed25519 {}", &whole[..40]), "a key that is truncated"),
            (format!("ssh-ed25519 {}", &whole[..41]), "a key that is truncated or not base64"),
            (format!("ssh-rsa {}", &rsa[..20]), "a key that is truncated"),
            ("ssh-ed25519 AAAA me".to_owned(), "a key that is truncated"),
            ("ssh-ed25519 !!!! me".to_owned(), "a key that is truncated or not base64"),
            ("ssh-ed25519".to_owned(), "a type without a key"),
            (
                format!("ssh-rsa {whole} me"),
                "a key whose base64 text names another type than the word before it",
            ),
            (
                format!("ssh-ed25518 {whole}"),
                "text without the type of a key that sshd on CoreOS accepts",
            ),
            (
                "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=".to_owned(),
                "text without the type of a key that sshd on CoreOS accepts",
            ),
            ("-----BEGIN OPENSSH PRIVATE KEY-----\nsecret".to_owned(), "a private key"),
            (format!("ssh-ed25519 {whole}\nssh-ed25519 {whole}"), "text of several lines"),
            ("~/.ssh/id_ed25519.pub".to_owned(), "the path of a file"),
        ] {
            assert_eq!(check(&line), Err(found), "{line}");
        }
    }
}

//! Values that must not be shown: tokens, keys, passwords in addresses.

mod config;

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, ensure};

/// Largest token file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 16 * 1024;

/// The shortest text that is hidden wherever it occurs; shorter ones occur by chance.
const MIN_HIDDEN_BYTES: usize = 6;
/// How many texts are hidden besides the agent's own secrets; the oldest are forgotten.
const MAX_HIDDEN: usize = 256;

/// The texts that [`hide`] removes from the log and from all that is shown or sent. One for the process, as is the log: a text
/// that some value lacked would be shown where that value is used.
static HIDDEN: Mutex<Hidden> =
    Mutex::new(Hidden { own: Vec::new(), others: Vec::new(), config: String::new() });

/// Texts that [`hide`] removes.
struct Hidden {
    /// The agent's own secrets, which are never forgotten: an instruction with many addresses must not uncover them.
    own: Vec<String>,
    /// Parts of addresses.
    others: Vec<String>,
    /// The secret parts of the Ignition config.
    config: String,
}

impl Hidden {
    fn contains(&self, text: &str) -> bool {
        self.all().any(|known| known == text)
    }

    fn all(&self) -> impl Iterator<Item = &String> {
        self.own.iter().chain(&self.others)
    }
}

/// Text that cannot be printed: it has no `Display`, and `Debug` hides it.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text. From now on [`hide`] removes it from other texts.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let mut hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
        if text.len() >= MIN_HIDDEN_BYTES && !hidden.own.contains(&text) {
            hidden.own.push(text.clone());
        }
        Self(text)
    }

    /// Reads a token from a file and removes surrounding whitespace.
    ///
    /// # Errors
    /// The file cannot be read, is larger than 16 KiB, is empty, or contains anything but visible ASCII characters.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let bytes = crate::bounded::read_file(path, MAX_TOKEN_FILE_BYTES)?;
        let path = path.display();
        let text = String::from_utf8(bytes).ok();
        let text = text.with_context(|| {
            format!("{path} contains bytes that are not UTF-8, expected a token")
        })?;
        let text = text.trim();
        ensure!(!text.is_empty(), "{path} is empty, expected a token");
        ensure!(
            !text.chars().any(char::is_control),
            "{path} contains more than one line, expected a token"
        );
        ensure!(
            text.bytes().all(|byte| byte.is_ascii_graphic()),
            "{path} contains a blank or a character outside of ASCII, expected a token alone, without the word Bearer"
        );
        Ok(Self::new(text))
    }

    /// The text itself, for the code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A secret as text, for a file that only root may read: `#[serde(with = "exposed")]`.
pub(crate) mod exposed {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Secret;

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        String::deserialize(from).map(Secret::new)
    }
}

/// From now on [`hide`] removes `text`, e.g. where a server repeats it.
pub fn conceal(text: &str) {
    if text.len() < MIN_HIDDEN_BYTES {
        return;
    }
    let mut hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    if hidden.contains(text) {
        return;
    }
    if hidden.others.len() >= MAX_HIDDEN {
        hidden.others.remove(0);
    }
    hidden.others.push(text.to_owned());
}

/// Conceals the secret parts of an Ignition config, in place of those of the one before.
pub fn conceal_config(config: &[u8]) {
    let secrets = config::secrets(config);
    HIDDEN.lock().unwrap_or_else(PoisonError::into_inner).config = secrets;
}

/// Conceals user, password and query of an address.
pub fn conceal_address(address: &str) {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = host_start(rest);
    if let Some(user) = rest[..host].strip_suffix('@') {
        user.split(':').for_each(conceal);
        // A password may contain a colon.
        user.split_once(':').into_iter().for_each(|(_, password)| conceal(password));
    }
    let query = rest.split_once('?').map(|(_, query)| query.split('#').next().unwrap_or_default());
    for part in query.into_iter().flat_map(|query| query.split('&')) {
        conceal(part.split_once('=').map_or(part, |(_, value)| value));
    }
}

/// Removes every concealed text, and user, password and query of every address.
pub fn hide(line: &str) -> String {
    let mut line = redact(line);
    let hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found: Vec<&String> =
        hidden.all().filter(|text| line.contains(text.as_str())).collect();
    // A text that is a part of another one would leave the rest of that.
    found.sort_by_key(|text| std::cmp::Reverse(text.len()));
    for text in found {
        line = line.replace(text.as_str(), "…");
    }
    config::hide(&line, &hidden.config)
}

/// Removes user, password and query from every address in a line.
pub fn redact(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end =
            after.find(|c: char| c.is_whitespace() || "'\"<>)".contains(c)).unwrap_or(after.len());
        let (address, tail) = after.split_at(end);
        out.push_str(&public(address));
        rest = tail;
    }
    out.push_str(rest);
    out
}

/// An address without its scheme, user, password and query.
fn public(address: &str) -> String {
    let shown = &address[host_start(address)..];
    match shown.split_once('?') {
        Some((path, _)) => without_doubtful(path) + "?…",
        None => without_doubtful(shown),
    }
}

/// Where the host begins in an address without its scheme: after a user and a password.
///
/// A password may contain what ends a host, as long as nobody has encoded it. So an `@` in a path or query is treated as
/// the end of a password, unless a host precedes the path: text without a colon, an IPv6 address, or text with a port.
fn host_start(address: &str) -> usize {
    let Some(at) = address.rfind('@') else { return 0 };
    let authority = authority(address);
    let is_host = authority.starts_with('[') || !authority.contains(':') || has_port(authority);
    if at > authority.len() && is_host {
        return authority.rfind('@').map_or(0, |at| at + 1);
    }
    at + 1
}

/// What precedes the path.
fn authority(address: &str) -> &str {
    address.split(['/', '?', '#']).next().unwrap_or_default()
}

fn has_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// An address whose host and port could be a user and the beginning of a password, without what follows it up to the last
/// `@`.
fn without_doubtful(address: &str) -> String {
    let host = authority(address);
    match address.rsplit_once('@') {
        Some((_, after)) if has_port(host) && !host.starts_with('[') => {
            format!("{host}/…@{after}")
        }
        _ => address.to_owned(),
    }
}

/// As [`redact`], also for addresses without a scheme, such as the `user:password@host` of a proxy, and for passwords with
/// blanks and quotes.
pub fn redact_setting(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else {
        return without_credentials(value);
    };
    if !rest.contains("://") && !scheme.contains(char::is_whitespace) {
        return format!("{scheme}://{}", public(rest));
    }
    let value = redact(value);
    let is_address = |word: &str| word.contains("://");
    let shown = |word| if is_address(word) { word.to_owned() } else { without_credentials(word) };
    value.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

/// `user:password@host` or `name=user:password@host` without user and password. A word may precede it.
fn without_credentials(text: &str) -> String {
    let parts = text.rsplit_once('@').filter(|(before, _)| before.contains(':'));
    let Some((before, host)) = parts else { return text.to_owned() };
    // What follows the first colon is a part of the password, whatever it contains.
    let user = before.split(':').next().unwrap_or_default();
    let name = user.rfind(['=', ' ']).and_then(|end| user.get(..=end)).unwrap_or_default();
    format!("{name}{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_a_secret() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn token_file_contains_a_token_that_a_header_can_carry() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (content, expected) in [
            (" a-token-of-a-file\n", None),
            ("tökén", Some("outside of ASCII")),
            ("\u{feff}token", Some("outside of ASCII")),
            ("Bearer token", Some("without the word Bearer")),
            ("a\nb", Some("more than one line")),
            (" ", Some("is empty")),
        ] {
            std::fs::write(&file, content).unwrap();
            let error = Secret::from_file(file.path()).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), expected.is_some(), "{content}");
            assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{content}");
        }
    }

    #[test]
    fn setting_without_a_scheme_loses_user_and_password_too() {
        for (value, expected) in [
            ("user:hunter2@vim.example:3128", "vim.example:3128"),
            ("proxy=user:hunt=er@2@vim.example", "proxy=vim.example"),
            ("a=b user:hunter2@[fd02::1]:80 c", "a=b [fd02::1]:80 c"),
            ("https://user:hunter2@vim.example", "https://vim.example"),
            ("ssh-ed25519 AAAA core@node", "ssh-ed25519 AAAA core@node"),
            ("fd02::1", "fd02::1"),
            ("http://joe:hunt er\"2'/?#@@p.example:3128", "http://p.example:3128"),
            ("joe:hunter/2?#@p.example:3128", "p.example:3128"),
            ("joe:hunt er\"2'@p.example:3128", "p.example:3128"),
            ("http://joe:9999/my pass@p.example:3128", "http://joe:9999/…@p.example:3128"),
            ("http://joe:99999/my'pass@p.example:3128", "http://joe:99999/…@p.example:3128"),
            ("to http://u:p@a u:p@b https://u:p@c?d", "to http://a b https://c?…"),
        ] {
            assert_eq!(redact_setting(value), expected);
        }
    }

    #[test]
    fn concealed_text_is_hidden_wherever_it_occurs() {
        let token = Secret::new("tok3n-of-this-test");
        conceal_address("https://joe:passw0rd-x@h.example/a?sig=q-secret-1&n=1#f");
        let echoed = format!("401: {} joe passw0rd-x sig q-secret-1 n", token.expose());
        assert_eq!(hide(&echoed), "401: … joe … sig … n");
        conceal_address("http://joe:hunt/er-x:2@p.example:3128");
        let echoed = "for hunt/er-x:2: no address for p.example";
        assert_eq!(hide(echoed), "for …: no address for p.example");
        conceal_address("https://mirror.example:9000/os@4.16?sig=q-secret-2");
        assert_eq!(hide("mirror.example: q-secret-2"), "mirror.example: …");
        conceal("short");
        assert_eq!(hide("short"), "short");
    }

    #[test]
    fn longer_text_is_hidden_before_a_shorter_one_in_it() {
        conceal("inner-secret");
        conceal("outer-inner-secret-outer");
        assert_eq!(hide("is outer-inner-secret-outer"), "is …");
    }

    #[test]
    fn token_stays_hidden_however_many_other_texts_are_concealed() {
        let token = Secret::new("long-lived-tok3n");
        let query: Vec<String> = (0..2 * MAX_HIDDEN).map(|n| format!("k=value-{n:06}")).collect();
        conceal_address(&format!("https://h.example/a?{}", query.join("&")));
        assert_eq!(hide(&format!("echo {}", token.expose())), "echo …");
        assert_eq!(hide("echo value-000511"), "echo …");
    }

    #[test]
    fn redact_removes_user_password_and_query() {
        for (line, expected) in [
            ("plain text", "plain text"),
            (
                "fetching 'https://u:p@h.example/a?sig=1' and http://b",
                "fetching 'https://h.example/a?…' and http://b",
            ),
            ("http://[fd02::1]:80/x", "http://[fd02::1]:80/x"),
            ("to http://joe:hun/ter@p.example:1 x", "to http://p.example:1 x"),
            ("http://joe:hun?ter@p.example", "http://p.example"),
            ("http://joe:hun#te@r/2@p.example", "http://p.example"),
            ("https://quay.io/coreos@sha256:12", "https://quay.io/coreos@sha256:12"),
            ("http://[fd02::1]:80/a@b", "http://[fd02::1]:80/a@b"),
            ("https://h.example:9000/a?user=me@corp&sig=S", "https://h.example:9000/a?…"),
            ("https://joe:p@h.example:9000/a?user=me@corp", "https://h.example:9000/a?…"),
            ("http://h.example:80/a@4.16/b", "http://h.example:80/…@4.16/b"),
            ("http://joe:12345/6@p.example", "http://joe:12345/…@p.example"),
            ("http://joe@h.example/a@b", "http://h.example/a@b"),
            ("odd ://", "odd ://"),
        ] {
            assert_eq!(redact(line), expected);
        }
    }
}

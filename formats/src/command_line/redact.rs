//! The command line without its secrets: `dracut.cmdline(7)`.
//!
//! The report travels, perhaps over plain HTTP, while the command line carries what installers are
//! given: `inst.sshpw=`, `rd.iscsi.password=`, `rd.luks.key=` (`dracut.cmdline(7)`), URLs with a user
//! or a token in them. One harmless value too many is removed rather than one password too few.

use std::ops::Range;

use super::end_of_word;

/// Placeholder for removed text.
const REDACTED: &str = "<redacted>";
/// A kernel's whole line is shorter (`COMMAND_LINE_SIZE`: 2048 bytes on x86 and Arm, 4096 on s390). A longer word
/// is removed unread, since the search for URLs is quadratic in its length.
const LIMIT_WORD_BYTES: usize = 8 << 10;

/// Removes values of secret names, users of URLs and their queries; the rest stays as given.
pub fn without_secrets(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(end_of_word(rest));
        match word.len() {
            ..=LIMIT_WORD_BYTES => text.push_str(&word_without_secrets(word)),
            _ => text.push_str(REDACTED),
        }
        let blanks = after.len() - after.trim_start().len();
        let (blank, after) = after.split_at(blanks);
        text.push_str(blank);
        rest = after;
    }
    text
}

fn word_without_secrets(word: &str) -> String {
    let word = url_without_secrets(word);
    let close = if word.len() > 1 && word.ends_with('"') { "\"" } else { "" };
    if let Some(at) = secret_value(&word) {
        let (before, value) = word.split_at(at);
        let open = if value.starts_with('"') { "\"" } else { "" };
        return format!("{before}{open}{REDACTED}{close}");
    }
    let (mut text, mut at) = (String::new(), 0);
    for token in tokens(&word) {
        text.push_str(&word[at..token.start]);
        text.push_str(REDACTED);
        at = token.end;
    }
    text + &word[at..]
}

/// Finds the start of a secret name's value in an argument: it goes up to the end. A value may hold names itself, as
/// mount options do: `rootflags=username=a,password=b`.
pub(super) fn secret_value(word: &str) -> Option<usize> {
    let separators = [',', ';', '&', '?', '=', '"', ' '];
    word.match_indices('=').map(|(at, _)| at).find_map(|at| {
        let name = word[..at].rsplit(separators).next().unwrap_or_default();
        let is_empty = word[at + 1..].trim_matches('"').is_empty();
        (is_secret_name(name) && !is_empty).then_some(at + 1)
    })
}

/// True if the value of the argument `name` is not for others, by the name alone.
pub fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 4] = ["auth", "cred", "bearer", "jwt"];
    const ENDS: [&str; 10] =
        ["key", "pass", "psk", "pw", "pwd", "pin", "cookie", "otp", "community", "session"];
    // `usbcore.authorized_default=` is no secret but says why a device is missing.
    let name = name.to_ascii_lowercase().replace("authorize", "");
    // Only the last part counts: a word in the middle may mean something different: `pwm-fan`, `keymap`.
    let end = name.rsplit(['.', '_', '-']).next().unwrap_or_default();
    is_password_name(&name)
        || PARTS.iter().any(|part| name.contains(part))
        || (ENDS.iter().any(|known| end.ends_with(known)) && !end.ends_with("bypass"))
}

/// True if the value of anything that is called `name`, not only of an argument, is a password or the like.
pub fn is_password_name(name: &str) -> bool {
    const PARTS: [&str; 5] = ["passw", "passphrase", "token", "secret", "pwhash"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

/// Finds the parts of an argument and its value that look drawn at random, whatever the argument is called: signed
/// names, an interface's keys.
pub(super) fn tokens(word: &str) -> Vec<Range<usize>> {
    const SEPARATORS: [char; 11] = [',', ';', ':', '/', '?', '&', '=', '"', ' ', '@', '#'];
    let (name, value) = word.trim_matches('"').split_once('=').unwrap_or(("", word));
    if value.contains("/dev/") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = 0;
    for piece in word.split_inclusive(SEPARATORS) {
        let part = piece.trim_end_matches(SEPARATORS);
        if is_token(name, part) {
            found.push(at..at + part.len());
        }
        at += piece.len();
    }
    found
}

/// True for base64 with letters of both cases and digits, or many hexadecimal digits that do not identify the system or
/// its disks.
fn is_token(name: &str, part: &str) -> bool {
    const LEAST_MIXED: usize = 20;
    const LEAST_HEX: usize = 32;
    if part.len() < LEAST_MIXED || is_dashed_uuid(part) {
        return false;
    }
    let runs = part.split(|c: char| !c.is_ascii_alphanumeric() && c != '+');
    runs.filter(|run| run.len() >= LEAST_MIXED).any(|run| {
        let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
        let is_hex = run.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_mixed =
            has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
        if is_hex { run.len() >= LEAST_HEX && !is_public_number(name) } else { is_mixed }
    })
}

fn is_dashed_uuid(part: &str) -> bool {
    let part = part.strip_prefix("luks-").unwrap_or(part);
    part.len() == 36 && part.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

/// True if many digits in the argument are the digest of the booted system, or name a disk or machine: `ostree=`,
/// `roothash=`, `systemd.machine_id=`, `root=/dev/disk/by-id/…`.
fn is_public_number(name: &str) -> bool {
    const PARTS: [&str; 12] = [
        "ostree", "hash", "digest", "sha", "uuid", "wwid", "wwn", "_id", "root", "resume", "boot",
        "dm-mod",
    ];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part)) || name.starts_with("rd.")
}

/// Removes user and password of every URL, and its query or fragment.
fn url_without_secrets(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some((before, after)) = split_at_authority(rest) {
        text.push_str(before);
        let end = after.find(['/', '?', '#', '"']).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            None => after,
            Some(at) => {
                text.push_str(REDACTED);
                &after[at..]
            }
        };
        if let Some(at) = rest.find(['?', '#']) {
            let (path, query) = rest.split_at(at);
            let quote = if query.ends_with('"') { "\"" } else { "" };
            let path = url_without_secrets(path);
            return format!("{text}{path}{}{REDACTED}{quote}", &query[..1]);
        }
    }
    text.push_str(&without_user(rest));
    text
}

/// Removes `user:password` from `name=user:password@host`.
fn without_user(text: &str) -> String {
    match user(text) {
        Some(at) => format!("{}{REDACTED}{}", &text[..at.start], &text[at.end..]),
        None => text.to_owned(),
    }
}

/// Finds `user:password` in `user:password@host`, as proxies are given. Memory is also written as
/// `<range>:<size>@<start>`: the text after its `@` begins with a digit and is not an address.
pub(super) fn user(text: &str) -> Option<Range<usize>> {
    let (before, after) = text.rsplit_once('@')?;
    let host = after.split([':', '/', ',', '"']).next().unwrap_or_default();
    let is_host = host.starts_with(|c: char| c.is_ascii_alphabetic() || c == '[')
        || host.parse::<std::net::IpAddr>().is_ok();
    let start = before.rfind(['=', ',', ';', '"', ' ']).map_or(0, |at| at + 1);
    let start = match before[start..].rfind('/') {
        Some(at) if !has_slash_in_password(&before[start..]) => start + at + 1,
        _ => start,
    };
    let is_user = before[start..].contains(':') && !before[start..].starts_with(REDACTED);
    (is_host && is_user).then_some(start..before.len())
}

/// True if the slash in `name:text/text` belongs to a password and not to a path: that follows a port or nothing.
fn has_slash_in_password(text: &str) -> bool {
    let Some((name, rest)) = text.split_once(':') else { return false };
    let port = rest.split('/').next().unwrap_or_default();
    !name.contains(['/', '[']) && !port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits after a prefix that a user may follow: `scheme://`, and dracut's `netroot=iscsi:user:password@…`.
fn split_at_authority(text: &str) -> Option<(&str, &str)> {
    let url = text.find("://").map(|at| at + "://".len());
    let iscsi = text.find("=iscsi:").map(|at| at + "=iscsi:".len());
    let iscsi = iscsi.filter(|at| !text[*at..].starts_with("//"));
    text.split_at_checked(url.into_iter().chain(iscsi).min()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_names_are_removed() {
        for (given, expected) in [
            ("a inst.sshpw=geheim b", "a inst.sshpw=<redacted> b"),
            ("rd.iscsi.password=geheim", "rd.iscsi.password=<redacted>"),
            ("rd.luks.key=/geheim:LABEL=x", "rd.luks.key=<redacted>"),
            ("rci.TOKEN=geheim  quiet", "rci.TOKEN=<redacted>  quiet"),
            ("inst.rootpw=\"ge heim\" quiet", "inst.rootpw=\"<redacted>\" quiet"),
            ("\"x.secret=ge heim\" quiet", "\"x.secret=<redacted>\" quiet"),
            ("rootflags=username=a,password=ge,heim", "rootflags=username=a,password=<redacted>"),
            ("systemd.set_credential=a:geheim", "systemd.set_credential=<redacted>"),
            ("cifspass=geheim", "cifspass=<redacted>"),
            ("bmc.pin=4711", "bmc.pin=<redacted>"),
            ("x.session-cookie=geheim", "x.session-cookie=<redacted>"),
            ("inst.vncpw=geheim", "inst.vncpw=<redacted>"),
        ] {
            assert_eq!(without_secrets(given), expected);
        }
    }

    #[test]
    fn users_and_queries_of_urls_are_removed() {
        for (given, expected) in [
            ("u=https://me:geheim@h:1/a/b c", "u=https://<redacted>@h:1/a/b c"),
            ("u=http://h/a?sig=geheim&b=1#c d", "u=http://h/a?<redacted> d"),
            ("u=http://h/a?token=geheim", "u=http://h/a?<redacted>"),
            (
                "u=http://a:ge@heim@h/,ftp://b:geheim@i/",
                "u=http://<redacted>@h/,ftp://<redacted>@i/",
            ),
            (
                "netroot=iscsi:me:geheim@192.0.2.1::::iqn.x",
                "netroot=iscsi:<redacted>@192.0.2.1::::iqn.x",
            ),
            ("u=https://h/a@b", "u=https://h/a@b"),
            ("u=https://me:ge/heim@h/a b", "u=https://<redacted>@h/a b"),
            ("proxy=me:ge/heim@proxy:3128", "proxy=<redacted>@proxy:3128"),
            ("x=quay.io:5000/a/b@sha256:1", "x=quay.io:5000/a/b@sha256:1"),
            ("x=[fd02::9]/a@b u=nfs:/a@b", "x=[fd02::9]/a@b u=nfs:/a@b"),
        ] {
            assert_eq!(without_secrets(given), expected);
        }
    }

    #[test]
    fn a_word_longer_than_any_command_line_is_removed_unread() {
        for part in ["=iscsi:", "a://b", "://@", "a:@"] {
            let line = format!("{} quiet", part.repeat(1 << 18));
            assert_eq!(without_secrets(&line), "<redacted> quiet");
        }
        let long = format!("x={}", "a/".repeat(2000));
        assert_eq!(without_secrets(&long), long);
    }

    #[test]
    fn a_secret_under_a_harmless_name_is_removed() {
        const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w";
        const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c";
        for (given, expected) in [
            (format!("site.id={JWT} quiet"), "site.id=<redacted> quiet"),
            (format!("u=https://h/boot/{JWT}/x"), "u=https://h/boot/<redacted>/x"),
            (format!("vim.node={HEX}"), "vim.node=<redacted>"),
            (format!("{HEX} quiet"), "<redacted> quiet"),
            ("proxy=me:geheim@proxy:3128".into(), "proxy=<redacted>@proxy:3128"),
            ("proxy=x,me:geheim@192.0.2.1".into(), "proxy=x,<redacted>@192.0.2.1"),
            (
                "ignition.config.url=https://h/x?token=geheim".into(),
                "ignition.config.url=https://h/x?<redacted>",
            ),
            ("u=https://h/x#geheim".into(), "u=https://h/x#<redacted>"),
        ] {
            assert_eq!(without_secrets(&given), expected);
        }
    }

    #[test]
    fn numbers_of_the_system_and_of_disks_stay() {
        const HEX: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c";
        for line in [
            format!("ostree=/ostree/boot.1/fedora-coreos/{HEX}/0 roothash={HEX}"),
            "systemd.machine_id=0123456789abcdef0123456789abcdef".into(),
            "root=UUID=11112222-3333-4444-8555-666677778888 x=11112222-3333-4444-8555-666677778888".into(),
            "rd.luks.uuid=luks-11112222-3333-4444-8555-666677778888".into(),
            "resume=/dev/disk/by-id/dm-uuid-LVM-Ab3dEf6hIj9lMn2pQr5tUv8xYz1bCd4f".into(),
            "BOOT_IMAGE=(hd0,gpt3)/ostree/fedora-coreos-9f86d081884c7d659a2feaa0c55ad015/vmlinuz-6.17.1-300.fc43.x86_64".into(),
            "crashkernel=512M-2G:64M@16M memmap=4G@1G hpwdt.soft_margin=30 pwm-fan.state=1 x.bypass=1".into(),
            "coreos.live.rootfs_url=http://h/fedora-coreos-43.20251024.3.0-live-rootfs.x86_64.img".into(),
        ] {
            assert_eq!(without_secrets(&line), line);
        }
    }

    #[test]
    fn everything_else_stays_as_it_was_given() {
        for line in [
            "",
            "BOOT_IMAGE=/vmlinuz rw  root=UUID=1 console=ttyS0,115200n8 iommu.passthrough=1",
            "vconsole.keymap=us spec_store_bypass_disable=on usbcore.authorized_default=1 token=",
            "ip=192.0.2.1::192.0.2.254:24:node:eno1:none é=\"a b",
            "coreos.live.rootfs_url=http://h/a dyndbg=\"file x +p\" netroot=iscsi:192.0.2.1::::iqn.x",
        ] {
            assert_eq!(without_secrets(line), line);
        }
    }
}

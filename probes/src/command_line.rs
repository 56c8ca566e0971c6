//! The kernel's command line without its secrets: `Documentation/admin-guide/kernel-parameters.rst`.
//!
//! The report travels, perhaps over plain HTTP, while the command line carries what installers are
//! given: `inst.sshpw=`, `rd.iscsi.password=`, `rd.luks.key=` (`dracut.cmdline(7)`), URLs with a user
//! or a token in them. Better one harmless value too many is taken out than one password too few.

/// Stands where something was taken out.
const REDACTED: &str = "<redacted>";

/// Takes values of secret names, users of URLs and their queries out; the rest stays as it was given.
pub(crate) fn without_secrets(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(end_of_word(rest));
        text.push_str(&word_without_secrets(word));
        let blanks = after.len() - after.trim_start().len();
        let (blank, after) = after.split_at(blanks);
        text.push_str(blank);
        rest = after;
    }
    text
}

/// Where the first word ends: double quotes hold blanks together (`next_arg` in `lib/cmdline.c`).
fn end_of_word(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

fn word_without_secrets(word: &str) -> String {
    let word = url_without_secrets(word);
    let close = if word.len() > 1 && word.ends_with('"') { "\"" } else { "" };
    // A value may hold names itself, as mount options do: `rootflags=username=a,password=b`.
    for (at, _) in word.match_indices('=') {
        let (before, value) = word.split_at(at + 1);
        let separators = [',', ';', '&', '?', '=', '"', ' '];
        let name = before[..at].rsplit(separators).next().unwrap_or_default();
        if is_secret(name) && !value.trim_matches('"').is_empty() {
            let open = if value.starts_with('"') { "\"" } else { "" };
            return format!("{before}{open}{REDACTED}{close}");
        }
    }
    word
}

fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 7] = ["passw", "passphrase", "token", "secret", "pw", "auth", "cred"];
    const ENDS: [&str; 3] = ["key", "pass", "psk"];
    let name = name.to_ascii_lowercase();
    // `usbcore.authorized_default=` is no secret but says why a device is missing.
    let name = name.replace("authorize", "");
    PARTS.iter().any(|part| name.contains(part)) || ENDS.iter().any(|end| name.ends_with(end))
}

/// Takes user and password of every URL out, and the query that follows one.
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
        if let Some((path, query)) = rest.split_once('?') {
            let quote = if query.ends_with('"') { "\"" } else { "" };
            return format!("{text}{}?{REDACTED}{quote}", url_without_secrets(path));
        }
    }
    text.push_str(rest);
    text
}

/// Splits behind what a user may stand: `scheme://`, and dracut's `netroot=iscsi:user:password@…`.
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
    fn values_of_secret_names_are_taken_out() {
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
        ] {
            assert_eq!(without_secrets(given), expected);
        }
    }

    #[test]
    fn users_and_queries_of_urls_are_taken_out() {
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
        ] {
            assert_eq!(without_secrets(given), expected);
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

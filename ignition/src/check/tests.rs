//! Valid and invalid configs, and the result of the check.

use std::io::Write as _;

use base64::Engine as _;

use super::*;

fn accepted(text: &str) -> Checked {
    check(text.as_bytes()).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

fn refused(text: &str) -> Refusal {
    match check(text.as_bytes()) {
        Ok(checked) => panic!("{text} was accepted: {checked:?}"),
        Err(refusal) => refusal,
    }
}

/// A config of the given spec version with these sections.
fn config(version: &str, sections: &str) -> String {
    let comma = if sections.is_empty() { "" } else { "," };
    format!(r#"{{"ignition":{{"version":"{version}"}}{comma}{sections}}}"#)
}

#[test]
fn other_versions_are_refused_by_name() {
    const VERSIONS: &str = "2.2.0 2.4.0-experimental 3.7.0-experimental 3.7.0 3.0 3 x 4.0.0 3.3.1 03.3.0 3.3.0+a \
        1.0.0 3.6.0-rc";
    for version in VERSIONS.split(' ').chain([""]) {
        let refusal = refused(&config(version, ""));
        assert_eq!(refusal.code, Code::Version, "{version}");
        assert_eq!(refusal.problems[0].path, "$.ignition.version");
        // A text that is no version may be a secret.
        let is_other = ["x", "3.3.0+a", "3.6.0-rc"].contains(&version);
        let named = if is_other { "another text".to_owned() } else { format!("{version:?}") };
        assert!(refusal.to_string().contains(&named), "{refusal}");
        assert!(refusal.to_string().contains("3.6.0"), "{refusal}");
    }
}

#[test]
fn missing_version_is_refused_as_missing() {
    for text in ["{}", r#"{"ignition":{}}"#, r#"{"ignition":null}"#, r#"{"ignitionVersion":1}"#] {
        let refusal = refused(text);
        assert_eq!(refusal.code, Code::Version, "{text}");
        assert!(refusal.to_string().contains("is missing, expected one of 3.0.0"), "{refusal}");
    }
    assert_eq!(refused(r#"{"ignition":{"version":3}}"#).problems[0].path, "$.ignition.version");
}

#[test]
fn other_documents_are_refused_by_kind() {
    let cases: [(&[u8], &str); 10] = [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"variant: fcos\nversion: 1.4.0\n", "Butane"),
        (b"#cloud-config\n", "cloud-init"),
        (b"<html>", "HTML"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"[]", "a list"),
        (b"password: s3cret", "$ is not a JSON object, expected"),
        (b"{\"ignition\":", "malformed at line 1 column 12: an early end"),
        (b"{\"ignition\":{\"version\":\"3.3.0\"}} x", "text after its end"),
    ];
    for (bytes, word) in cases {
        let refusal = check(bytes).unwrap_err();
        assert_eq!(refusal.code, Code::Invalid);
        assert!(refusal.to_string().contains(word), "{refusal}");
    }
}

#[test]
fn wrong_missing_and_repeated_values_are_named_with_their_path_and_never_quoted() {
    let mode = |found: &str| {
        format!(r#""storage":{{"files":[{{"path":"/a"}},{{"path":"/b","mode":{found}}}]}}"#)
    };
    let whole = "storage.files.1.mode is {}, expected a whole number";
    let text = |sections: &str, expected: &str| (sections.to_owned(), expected.to_owned());
    for (sections, expected) in [
        (mode(r#""0644""#), whole.replace("{}", "text")),
        (mode(r#""geheim, expected geheim""#), whole.replace("{}", "text")),
        (mode(r#"{"a":"geheim"}"#), whole.replace("{}", "an object")),
        (mode("4711.5"), whole.replace("{}", "a number with a fraction")),
        (mode("true"), whole.replace("{}", "true or false")),
        text(
            r#""storage":{"files":[{"path":"/a","contents":"TopSecretPassw0rd"}]}"#,
            "storage.files.0.contents is text, expected an object",
        ),
        text(
            r#""storage":{"links":[{"path":"/a"}]}"#,
            "storage.links.0.target is missing, expected the target of the link",
        ),
        text(
            r#""storage":{"files":[{"mode":420}]}"#,
            "storage.files.0.path is missing, expected a value",
        ),
        text(r#""storage":{},"storage":{}"#, "storage is repeated, expected it once"),
        text(r#""ignition":{"version":"3.3.0"}"#, "ignition is repeated, expected it once"),
    ] {
        let refusal = refused(&config("3.4.0", &sections));
        assert_eq!(refusal.to_string(), format!("the Ignition config is refused: $.{expected}"));
        assert_eq!(refusal.code, Code::Invalid);
    }
    let refusal = check(b"TopSecretPassw0rd").unwrap_err().to_string();
    assert!(!refusal.contains("Secret"), "{refusal}");
}

#[test]
fn unknown_keys_are_warnings_with_their_path() {
    let text = config(
        "3.2.0",
        r#""kernelArguments":{},"systemd":{"units":[{"name":"a.service","enable":true}]}"#,
    );
    let paths: Vec<String> = accepted(&text).warnings.into_iter().map(|w| w.path).collect();
    assert_eq!(paths, ["$.kernelArguments", "$.systemd.units.0.enable"]);
}

#[test]
fn paths_where_coreos_keeps_no_file_are_warnings() {
    let storage = r#""storage":{"files":[{"path":"/etc/a"},{"path":"/usr/bin/a"},{"path":"/run/a"}],"links":[{"path":"/data","target":"/b"}],
        "filesystems":[{"device":"/dev/a","format":"xfs","path":"/srv/a"},{"device":"/dev/b","format":"xfs","path":"/mnt2"}]}"#;
    let warnings = accepted(&config("3.3.0", storage)).warnings;
    let mut paths: Vec<String> = warnings.into_iter().map(|warning| warning.path).collect();
    paths.sort();
    let expected = ["files.1", "files.2", "filesystems.1", "links.0"];
    assert_eq!(paths, expected.map(|place| format!("$.storage.{place}.path")));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for text in [
            deep.clone(),
            config("3.3.0", &format!(r#""unknown":{deep}"#)),
            config("3.3.0", &format!(r#""storage":{deep}"#)),
            format!(r#"{{"ignition":{{"version":{deep}}}}}"#),
            format!(r#"{{"ignition":{deep}}}"#),
        ] {
            assert!(check(text.as_bytes()).is_err(), "{}", &text[..40]);
        }
    }
}

#[test]
fn oversized_config_is_refused_before_parsing() {
    let refusal = check(&vec![b' '; MAX_CONFIG_BYTES + 1]).unwrap_err();
    assert!(refusal.to_string().contains("8388609 bytes"), "{refusal}");
}

#[test]
fn problems_beyond_the_limit_are_only_counted() {
    let files = vec![r#"{"path":"relative"}"#; 1000].join(",");
    let refusal = refused(&config("3.3.0", &format!(r#""storage":{{"files":[{files}]}}"#)));
    assert_eq!(refusal.problems.len(), Refusal::MAX_PROBLEMS);
    assert_eq!(refusal.n_more, 1000 + 999 - Refusal::MAX_PROBLEMS);
}

#[test]
fn long_paths_and_many_links_are_checked_in_reasonable_time() {
    let long = "/a".repeat(2_000_000);
    let links: Vec<String> =
        (0..50_000).map(|i| format!(r#"{{"path":"/l{i}","target":"/t"}}"#)).collect();
    let files: Vec<String> = (0..50_000).map(|i| format!(r#"{{"path":"/f/{i}"}}"#)).collect();
    let storage = format!(
        r#""storage":{{"links":[{}],"files":[{},{{"path":"{long}"}}]}}"#,
        links.join(","),
        files.join(",")
    );
    let started = std::time::Instant::now();
    let refusal = refused(&config("3.3.0", &storage));
    assert_eq!(refusal.problems.len(), 1, "{refusal}");
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn refusal_quotes_no_password_and_no_inline_data() {
    let text = config(
        "3.3.0",
        r#""storage":{"files":[{"path":"/a","contents":{"source":"ftp://me:geheim@h/?t=geheim"}},
           {"path":"/b","contents":{"source":"data:,geheim geheim"}}]}"#,
    );
    let refusal = refused(&text);
    assert_eq!(refusal.problems.len(), 2);
    assert!(!refusal.to_string().contains("geheim"), "{refusal}");
}

/// A small generator of reproducible noise (Marsaglia, xorshift64).
fn noise(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 33).unwrap()
}

#[test]
fn check_never_panics_on_damaged_configs() {
    let mut state = 0x5eed_cafe_f00d_0001;
    let bytes: &[u8] = b"\"\\{}[],:0-9e.%~\x00\xff\xc3 \n/=;";
    for config in include_str!("cases.txt").lines().filter_map(|line| line.split('\t').nth(2)) {
        for _ in 0..20 {
            let mut damaged = config.as_bytes().to_vec();
            for _ in 0..=noise(&mut state) % 3 {
                let at = noise(&mut state) % (damaged.len() + 1);
                let byte = bytes[noise(&mut state) % bytes.len()];
                match noise(&mut state) % 3 {
                    0 => damaged.insert(at, byte),
                    1 if at < damaged.len() => damaged[at] = byte,
                    _ => damaged.truncate(damaged.len().saturating_sub(at % 8)),
                }
            }
            if let Err(refusal) = check(&damaged) {
                assert!(!refusal.problems.is_empty() && refusal.to_string().len() < 10_000);
            }
        }
    }
}

#[test]
fn config_may_fetch_if_it_has_a_source_other_than_inline_data() {
    let file = |source: &str| {
        let contents = format!(r#""contents":{{"source":"{source}"}}"#);
        config("3.4.0", &format!(r#""storage":{{"files":[{{"path":"/a",{contents}}}]}}"#))
    };
    let with = |ignition: &str| format!(r#"{{"ignition":{{"version":"3.4.0",{ignition}}}}}"#);
    let data = "data:,%7B%22ignition%22%3A%7B%22version%22%3A%223.4.0%22%7D%7D";
    for text in [
        file("https://h/a"),
        with(r#""config":{"merge":[{"source":"https://h/worker"}]}"#),
        with(&format!(r#""config":{{"merge":[{{"source":"{data}"}}]}}"#)),
        with(&format!(r#""config":{{"replace":{{"source":"{data}"}}}}"#)),
        config(
            "3.4.0",
            r#""storage":{"luks":[{"name":"a","device":"/dev/a","clevis":{"tang":[{"url":"http://t","thumbprint":"x"}]}}]}"#,
        ),
    ] {
        assert!(accepted(&text).may_fetch, "{text}");
    }
    for text in [config("3.4.0", ""), file("data:,a"), with(r#""config":{"merge":[]}"#)] {
        assert!(!accepted(&text).may_fetch, "{text}");
    }
}

#[test]
fn each_key_that_destroys_content_is_listed_with_its_device() {
    let sections = r#""storage":{
        "disks":[{"device":"/dev/a","wipeTable":true},
                 {"device":"/dev/b","partitions":[{"number":1},{"number":2,"wipePartitionEntry":true}]},
                 {"device":"/dev/c","partitions":[{"number":1,"shouldExist":false}]},
                 {"device":"/dev/kept","partitions":[{"number":1,"label":"x"}]}],
        "filesystems":[{"device":"/dev/d","format":"xfs","wipeFilesystem":true},{"device":"/dev/kept2","format":"xfs"}],
        "luks":[{"name":"l","device":"/dev/e","wipeVolume":true,"clevis":{"tpm2":true}}],
        "raid":[{"name":"r","level":"raid1","devices":["/dev/f","/dev/g"]}]}"#;
    let mut found = accepted(&config("3.4.0", sections)).erased;
    found.sort_by(|a, b| a.device.cmp(&b.device));
    let devices: String = found.iter().filter_map(|erased| erased.device.as_deref()).collect();
    assert_eq!(devices, "/dev/a/dev/b/dev/c/dev/d/dev/e/dev/f/dev/g");
    assert_eq!(found[1].key, "$.storage.disks.1.partitions.1");
    assert_eq!(found.iter().filter(|erased| erased.is_table).count(), 1);
}

#[test]
fn contained_configs_erase_what_ignition_merges_or_replaces_and_a_fetched_one_is_unknown() {
    let disk = |device: &str, wipe: bool| {
        config(
            "3.4.0",
            &format!(r#""storage":{{"disks":[{{"device":"{device}","wipeTable":{wipe}}}]}}"#),
        )
    };
    let plain = |text: &str| {
        let marks = [('"', "%22"), ('{', "%7B"), ('}', "%7d"), ('[', "%5b"), (']', "%5D")];
        let text =
            marks.iter().fold(text.to_owned(), |text, (mark, code)| text.replace(*mark, code));
        format!(r#"{{"source":"data:,{text}"}}"#)
    };
    let packed = |text: &str| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        let text = base64::prelude::BASE64_STANDARD.encode(packer.finish().unwrap());
        format!(r#"{{"compression":"gzip","source":"data:text/plain;base64,{text}"}}"#)
    };
    let with = |outer: &str, key: &str, value: &str| {
        outer.replacen(r#""version""#, &format!(r#""config":{{"{key}":{value}}},"version""#), 1)
    };
    let merged = |outer: &str, inner: &str| with(outer, "merge", &format!("[{inner}]"));
    let found = |text: &str| -> Vec<String> {
        let erased = accepted(text).erased.into_iter();
        erased.map(|erased| erased.device.unwrap_or(erased.key)).collect()
    };
    let (a, b, c) = (disk("/dev/a", true), disk("/dev/b", true), disk("/dev/c", true));
    let fetched = r#"{"source":"https://h/c"}"#;
    assert_eq!(found(&merged(&a, &plain(&b))), ["/dev/a", "/dev/b"]);
    assert_eq!(found(&merged(&a, &plain(&disk("/dev/a", false)))), [] as [&str; 0]);
    assert_eq!(found(&with(&a, "replace", &packed(&b))), ["/dev/b"]);
    let nested = merged(&a, &packed(&merged(&b, &plain(&c))));
    assert_eq!(found(&nested), ["/dev/a", "/dev/b", "/dev/c"]);
    let large = packed(&" ".repeat(MAX_CONFIG_BYTES));
    for unread in [fetched, &large] {
        assert_eq!(found(&merged(&a, unread)), ["$.ignition.config.merge.0", "/dev/a"]);
    }
    let other = r#"[{"source":"data:,x","verification":{"hash":"sha256-0000000000000000000000000000000000000000000000000000000000000000"}}]"#;
    for (inner, place) in [
        (
            merged(&a, r#"{"source":"data:,x"}"#),
            "$.ignition.config.merge.0 → $ is not a JSON object",
        ),
        (merged(&a, &plain(&config("2.2.0", ""))), "merge.0 → $.ignition.version is"),
        (with(&a, "merge", other), "$.ignition.config.merge.0 → $ is sha256-"),
    ] {
        let refusal = check(inner.as_bytes()).unwrap_err();
        assert!(refusal.to_string().contains(place) && refusal.is_within(), "{refusal}");
    }
    assert_eq!(found(&with(&a, "replace", fetched)), ["$.ignition.config.replace"]);
    // Their number is bounded.
    let many: Vec<String> = (0..200).map(|n| plain(&disk(&format!("/dev/{n}"), true))).collect();
    let unread = found(&merged(&a, &many.join(","))).into_iter().filter(|at| at.starts_with('$'));
    assert_eq!(unread.count(), 200 - 127);
}

#[test]
fn config_without_a_login_is_named_unless_someone_may_log_in() {
    let lock_out =
        |sections: &str| accepted(&config("3.4.0", sections)).lock_out.unwrap_or_default();
    let users = |keys: &str| format!(r#""passwd":{{"users":[{{"name":"core"{keys}}}]}}"#);
    let (key, password) =
        (r#","sshAuthorizedKeys":["ssh-ed25519 A"]"#, r#","passwordHash":"$6$x""#);
    let masked = |user: &str| {
        format!(r#"{},"systemd":{{"units":[{{"name":"sshd.service","mask":true}}]}}"#, users(user))
    };
    assert!(lock_out("").starts_with("no user gets an SSH key or a password"));
    assert!(lock_out(&users("")).starts_with("no user gets"));
    assert!(lock_out(&masked(key)).starts_with("sshd.service is off and no user gets a password"));
    assert!(lock_out(&masked(password)).ends_with("on the console only"));
    for free in [
        users(key),
        users(password),
        r#""storage":{"files":[{"path":"/etc/ssh/sshd_config.d/x.conf"}]}"#.into(),
        r#""systemd":{"units":[{"name":"a.service","contents":"[Service]\nExecStart=agetty --autologin core"}]}"#.into(),
    ] {
        assert_eq!(lock_out(&free), "", "{free}");
    }
    let merged =
        r#"{"ignition":{"version":"3.4.0","config":{"merge":[{"source":"https://h/c"}]}}}"#;
    assert_eq!(accepted(merged).lock_out, None);
}

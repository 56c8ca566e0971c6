//! Which source wins, and what is refused.

use super::*;
use crate::cli::{Backend, Command};

fn words(line: &str) -> Vec<OsString> {
    std::iter::once("run-coreos-installer").chain(line.split_whitespace()).map(Into::into).collect()
}

fn sources(file: &str, kernel: &str, environment: &[(&str, &str)]) -> Sources {
    let pair = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    Sources {
        file: parse_file(file, "test.yaml").unwrap(),
        file_name: "test.yaml".to_owned(),
        file_text: file.to_owned(),
        kernel: kernel_arguments(kernel),
        environment: environment.iter().map(pair).collect(),
        ramdisk: Vec::new(),
    }
}

#[test]
fn address_of_the_inspector_comes_from_the_director_unless_another_source_has_one() {
    let url = "http://192.0.2.1:5050/v1/continue";
    let line = format!("ipa-inspection-callback-url={url} BOOTIF=02:00:00:00:00:01");
    let of = |file: &str, kernel: &str| {
        let sources = sources(file, kernel, &[]).with_ramdisk(&format!("{line} {kernel}"));
        vim_of("report", &sources)
    };
    let by_director = (Some(url.into()), Origin::KernelArgument(CALLBACK_URL.into()));
    assert_eq!(of("backend: inspector", ""), by_director);
    assert_eq!(of("", "rci.backend=inspector"), by_director);
    assert_eq!(of("backend: inspector\nvim: file", "").0.as_deref(), Some("file"));
    for backend in ["backend: ironic", "backend: ironic-agent"] {
        assert_eq!(of(backend, ""), by_director, "{backend}");
    }
    for other in ["", "backend: assisted"] {
        assert_eq!(of(other, ""), (None, Origin::Default), "{other}");
    }
    let unit = sources("backend: inspector", "", &[]).with_ramdisk(&line);
    let configuration = configure(&words(""), &unit, true).unwrap();
    assert!(matches!(configuration.cli.command, Some(Command::Install(_))));
}

#[test]
fn kernel_command_line_of_a_stock_ironic_ramdisk_makes_this_program_the_agent_of_the_node() {
    let line = "ipa-api-url=http://192.0.2.1:6385 ipa-inspection-callback-url=http://192.0.2.1:5050/v1/continue \
                ipa-insecure=1 ipa-listen-port=9998 ipa-agent-token=SECRET nofb systemd.journald.forward_to_console=yes";
    let install = |file: &str, kernel: &str| {
        let sources = sources(file, kernel, &[]).with_ramdisk(&format!("{line} {kernel}"));
        let configuration = configure(&words(""), &sources, true).unwrap();
        let Some(Command::Install(options)) = configuration.cli.command else { panic!("{file}") };
        let ironic = &options.ironic;
        let url = options.vim.vim.clone().unwrap_or_default();
        (ironic.backend, url, options.vim.allow_plain_http, ironic.agent_port)
    };
    let api = "http://192.0.2.1:6385".to_owned();
    assert_eq!(install("", ""), (Backend::IronicAgent, api.clone(), true, 9998));
    let callback = "http://192.0.2.1:5050/v1/continue".to_owned();
    assert_eq!(install("backend: inspector", ""), (Backend::Inspector, callback, true, 9998));
    // Our own arguments are stronger.
    let kernel = "rci.vim=https://h rci.allow-plain-http=false rci.agent-port=1";
    let own = install("backend: ironic-agent", kernel);
    assert_eq!(own, (Backend::IronicAgent, "https://h".to_owned(), false, 1));
    // Another fleet, or an install that the configuration orders.
    let other = (Backend::Vim, "https://vim".to_owned(), false, 9999);
    assert_eq!(install("vim: https://vim", ""), other);
    assert_eq!(install("ignition: /a", ""), (Backend::Vim, String::new(), false, 9999));
    // What is typed is another matter.
    let sources = sources("", "", &[]).with_ramdisk(line);
    for (typed, backend) in [
        ("install --vim https://vim", Backend::Vim),
        ("install --ignition /x", Backend::Vim),
        ("install --backend inspector --vim https://i", Backend::Inspector),
    ] {
        let configuration = configure(&words(typed), &sources, true).unwrap();
        let Some(Command::Install(options)) = configuration.cli.command else { panic!("{typed}") };
        assert_eq!(options.ironic.backend, backend, "{typed}");
        assert!(!options.vim.allow_plain_http, "{typed}");
    }
    assert_eq!(ramdisk_argument(line, AGENT_TOKEN).as_deref(), Some("SECRET"));
    for (word, is_allowed) in
        [("", false), ("maybe", false), ("n", false), ("Y", true), ("t", true)]
    {
        let line = format!("ipa-api-url=HTTP://192.0.2.1:6385 ipa-insecure={word}");
        let sources = Sources::default().with_ramdisk(&line);
        assert!(sources.names("vim"), "{line}");
        assert_eq!(sources.names("allow-plain-http"), is_allowed && !word.is_empty(), "{line}");
    }
    for odd in ["ipa-api-url=mdns", "ipa-api-url", "ipa-insecure=1"] {
        assert!(Sources::default().with_ramdisk(odd).is_empty(), "{odd}");
    }
}

fn vim_of(line: &str, sources: &Sources) -> (Option<String>, Origin) {
    let configuration = configure(&words(line), sources, true).unwrap();
    let Some(Command::Report(options)) = configuration.cli.command else { panic!() };
    let setting = configuration.settings.iter().find(|s| s.name == "vim").unwrap();
    (options.vim.vim, setting.origin.clone())
}

#[test]
fn stronger_source_overrides_weaker_one() {
    let of_line = ("report --vim line", "rci.vim=kernel", &[("RCI_VIM", "environment")][..]);
    for ((line, kernel, environment), value, origin) in [
        (of_line, "line", Origin::CommandLine),
        (("report", of_line.1, of_line.2), "environment", Origin::Environment("RCI_VIM".into())),
        (("report", of_line.1, &[]), "kernel", Origin::KernelArgument("rci.vim".into())),
        (("report", "", &[]), "file", Origin::File("test.yaml".into())),
    ] {
        let sources = sources("vim: file", &format!("quiet {kernel}"), environment);
        assert_eq!(vim_of(line, &sources), (Some(value.to_owned()), origin));
    }
    assert_eq!(vim_of("report", &Sources::default()), (None, Origin::Default));
}

#[test]
fn disk_that_one_source_protects_stays_protected_whatever_another_adds() {
    let all =
        sources("protect: [S1, S2]", "rci.protect=S3 rci.protect=S4", &[("RCI_PROTECT", "S5")]);
    for (line, expected) in [
        ("install --protect S6,S7", vec!["S6", "S7", "S5", "S4", "S3", "S1", "S2"]),
        ("disks", vec!["S5", "S4", "S3", "S1", "S2"]),
    ] {
        let configuration = configure(&words(line), &all, true).unwrap();
        let protect = match configuration.cli.command {
            Some(Command::Install(options)) => options.protect,
            Some(Command::Disks(options)) => options.protect,
            other => panic!("{other:?}"),
        };
        assert_eq!(protect, expected, "{line}");
        let shown = configuration.settings.iter().filter(|setting| setting.name == "protect");
        let shown: Vec<String> = shown.map(|setting| setting.origin.to_string()).collect();
        assert_eq!(shown.len(), if line == "disks" { 4 } else { 5 }, "{shown:?}");
    }
    let none = configure(&words("disks"), &Sources::default(), true).unwrap();
    let shown: Vec<&Setting> = none.settings.iter().filter(|s| s.name == "protect").collect();
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].values.len(), &shown[0].origin), (0, &Origin::Default));
}

#[test]
fn every_source_can_set_a_flag() {
    for (kernel, expected) in
        [("rci.allow_plain_http", true), ("rci.allow-plain-http=0", false), ("", false)]
    {
        let sources = sources("", kernel, &[]);
        let configuration = configure(&words("report"), &sources, true).unwrap();
        let Some(Command::Report(options)) = configuration.cli.command else { panic!() };
        assert_eq!(options.vim.allow_plain_http, expected, "{kernel}");
    }
}

/// The error for a value from a source other than the command line.
fn refused(line: &str, file: &str, kernel: &str, environment: &[(&str, &str)]) -> String {
    let failure = configure(&words(line), &sources(file, kernel, environment), true).unwrap_err();
    let Failure::Source(error) = failure else { panic!("{failure:?}") };
    error.to_string()
}

#[test]
fn misspelt_flag_is_refused_so_that_no_dry_run_becomes_an_install() {
    let install = "install --vim https://v";
    for (error, says) in [
        (refused(install, "", "rci.dry-run=ture", &[]), "kernel argument rci.dry-run"),
        (refused(install, "dry_run: ture", "", &[]), "test.yaml"),
        (refused(install, "", "", &[("RCI_DRY_RUN", "ture")]), "RCI_DRY_RUN"),
    ] {
        assert!(error.contains(says), "{error}");
        assert!(error.ends_with("holds \"ture\" for dry-run, expected true or false"), "{error}");
    }
    for word in ["0", "False", "no", "off"] {
        let sources = sources("", &format!("rci.dry-run={word}"), &[]);
        configure(&words(install), &sources, true).unwrap();
    }
}

#[test]
fn non_utf8_kernel_argument_does_not_hide_the_others() {
    let root = std::env::temp_dir().join(format!("rci-cmdline-{}", std::process::id()));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::write(root.join("proc/cmdline"), b"label=\xfc rci.vim=http://[fd02::1]\n").unwrap();
    let source = Arc::new(Source::captured(&root).unwrap());
    let found = kernel_arguments(&command_line(&Machine::new(source, "config")));
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(found, [("vim".to_owned(), "http://[fd02::1]".to_owned())]);
}

#[test]
fn default_command_needs_a_vim_and_no_terminal() {
    let with_vim = sources("", "rci.vim=http://[fd02::1]", &[]);
    let command = |sources: &Sources, may_install| {
        configure(&words(""), sources, may_install).unwrap().cli.command
    };
    assert!(matches!(command(&with_vim, true), Some(Command::Install(_))));
    assert!(command(&with_vim, false).is_none());
    assert!(command(&Sources::default(), true).is_none());
}

#[test]
fn unknown_setting_is_refused_by_every_command_with_the_nearest_option() {
    let of_variable =
        "the environment variable RCI_DRYRUN is not an option, did you mean \"RCI_DRY_RUN\"?";
    let of_kernel =
        "rci.dryrun on the kernel command line is not an option, did you mean \"rci.dry-run\"?";
    let file = "vim: https://v\n# typo\nallow_plain_htpp: true";
    let of_file = "line 3 of the configuration file test.yaml holds the key \"allow-plain-htpp\", did you mean \
                   \"allow-plain-http\"?";
    for command in
        ["install", "report", "inspect", "check", "schema", "live-config", "--print-config"]
    {
        assert_eq!(refused(command, "", "", &[("RCI_DRYRUN", "1")]), of_variable);
        assert_eq!(refused(command, "", "rci.dryrun", &[]), of_kernel);
        assert_eq!(refused(command, file, "", &[]), of_file);
    }
    configure(&words("inspect"), &sources("", "", &[("RCI_CONFIG", "x.yaml")]), true).unwrap();
}

#[test]
fn wrong_setting_or_malformed_file_is_refused_with_what_it_holds_and_what_is_expected() {
    for case in include_str!("cases.txt").split("\n\n").skip(1) {
        let of = |start: &str| {
            let line = case.lines().find_map(|line| line.strip_prefix(start));
            line.unwrap_or_default().replace("\\n", "\n")
        };
        let [command, file, kernel, variable, expected] = ["$ ", "f ", "k ", "e ", "- "].map(of);
        if command.is_empty() {
            assert_eq!(parse_file(&file, "test.yaml").unwrap_err().to_string(), expected);
            continue;
        }
        let environment: Vec<(&str, &str)> = variable.split_once('=').into_iter().collect();
        let error = refused(&command, &file, &kernel, &environment);
        assert!(error.contains(&expected), "{error}");
    }
    assert!(parse_file("\u{0}", "test.yaml").unwrap_err().to_string().contains("is not YAML"));
    for empty in ["", "  \n", "# a comment\n"] {
        assert!(parse_file(empty, "test.yaml").unwrap().is_empty());
    }
}

#[test]
fn list_in_the_file_sets_several_values() {
    let file = "append-karg: [console=tty0, \"console=ttyS0,115200n8\"]\nvim-name: [a, b]";
    let configuration = configure(&words("live-config"), &sources(file, "", &[]), true).unwrap();
    let Some(Command::LiveConfig(options)) = configuration.cli.command else { panic!() };
    assert_eq!(options.append_karg, ["console=tty0", "console=ttyS0,115200n8"]);
    assert_eq!(options.vim_name, ["a", "b"]);
}

#[test]
fn quoted_kernel_argument_may_contain_spaces() {
    let found = kernel_arguments("a rci.x=\"1 2\" rci.y");
    assert_eq!(found, [("x".to_owned(), "1 2".to_owned()), ("y".to_owned(), "true".to_owned())]);
}

#[test]
fn rejected_vim_key_is_not_shown_and_a_private_one_is_recognised() {
    let secret = "MC4CAQAwBQYDK2VwBCIEIDyuHunter2Hunter2Hunter2Hunter2Hunter2Hun";
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----");
    for key in [secret, &pem] {
        let typed: Vec<OsString> =
            ["x", "install", "--vim-key", key].iter().map(OsString::from).collect();
        let Err(Failure::Usage(error)) = configure(&typed, &Sources::default(), true) else {
            panic!("{key}")
        };
        let of_kernel =
            Sources { kernel: vec![("vim-key".to_owned(), key.to_owned())], ..Sources::default() };
        let Err(Failure::Source(of_kernel)) = configure(&words("install"), &of_kernel, true) else {
            panic!("{key}")
        };
        for said in [error.to_string(), of_kernel.to_string()] {
            assert!(said.contains("this is the VIM's private key"), "{said}");
            assert!(!said.contains("unter2") && !said.contains("BEGIN"), "{said}");
        }
    }
}

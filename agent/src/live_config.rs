//! `live-config`: turns the options into settings of a live image and prints the chosen format.

pub(crate) mod additions;
mod job;
mod names;
mod warnings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum as _;
use clap::builder::PossibleValue;
use ignition::live::{
    AgentBinary, Boot, Secret, Settings, butane_yaml, grub_entry, gzip, ignition_json, ipxe_script,
    kernel_arguments, pxelinux_config,
};

use crate::cli::{LiveConfigOptions, LiveFormat};
use crate::config::{Failure, Setting, Sources, configure};
use crate::{bounded, secret};

/// Largest certificate or hash, in bytes.
const MAX_TEXT_BYTES: u64 = 8 << 20;

/// The output of `live-config`.
#[derive(Debug)]
pub struct LiveConfig {
    /// The chosen format, for standard output.
    pub text: String,
    /// Settings that would leave a node without an agent or without access for a person, each with its remedy.
    pub warnings: Vec<String>,
}

/// Makes the output of `live-config`. `written` are the options with their sources, for error messages.
///
/// # Errors
/// If a file cannot be read or written, or a setting is invalid.
pub fn live_config(options: &LiveConfigOptions, written: &[Setting]) -> anyhow::Result<LiveConfig> {
    refuse_dropped(options, written)?;
    let settings = settings(options, written)?;
    job::check_expectations(&settings)?;
    let text = match options.format {
        LiveFormat::Ignition => ignition_json(&settings),
        LiveFormat::Butane => butane_yaml(&settings),
        LiveFormat::Kargs => kernel_arguments(&settings).map(|line| line + "\n"),
        LiveFormat::Ipxe => ipxe_script(&settings),
        LiveFormat::Pxelinux => pxelinux_config(&settings),
        LiveFormat::Grub => grub_entry(&settings),
    };
    let text = text
        .map_err(|error| {
            let remedy = warnings::remedy(&error, &settings);
            anyhow!("{}{remedy}", names::in_options(&error, written))
        })
        .context("making the live image's configuration")?;
    additions::write_network(options, &settings.network)?;
    let warnings = warnings::warnings(options, &settings, &text);
    Ok(LiveConfig { text, warnings })
}

/// Returns true if the format is or becomes an Ignition config.
fn is_config(format: LiveFormat) -> bool {
    matches!(format, LiveFormat::Ignition | LiveFormat::Butane)
}

/// Refuses options that the format would drop silently.
fn refuse_dropped(options: &LiveConfigOptions, written: &[Setting]) -> anyhow::Result<()> {
    let format = options.format.to_possible_value();
    let format = format.as_ref().map_or("", PossibleValue::get_name);
    if is_config(options.format) {
        if let Some(dropped) = names::set_among(names::OF_BOOT_LOADER, written) {
            bail!(
                "--format {format} writes an Ignition config, which cannot carry {dropped}; use \
                 --format ipxe, pxelinux, grub or kargs for the boot loader, or \
                 `coreos-installer iso kargs modify` for an ISO"
            );
        }
    } else if let Some(dropped) = names::set_among(names::OF_IGNITION, written) {
        bail!(
            "--format {format} writes only kernel arguments, which cannot carry {dropped}; put them in the \
             Ignition config (--format ignition), and name its address with --config-url"
        );
    }
    Ok(())
}

fn settings(options: &LiveConfigOptions, written: &[Setting]) -> anyhow::Result<Settings> {
    job::check_combination(options, written)?;
    let mut agent_options: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for option in &options.agent_option {
        let (name, value) = pair(option)?;
        agent_options.entry(name).or_default().push(value);
    }
    for (name, values) in job::agent_options(&options.vim) {
        agent_options.entry(name.to_owned()).or_default().extend(values);
    }
    check_agent_options(&agent_options, options)?;
    refuse_dry_run(options)?;
    let token = |file: &Path| {
        let token = secret::Secret::from_file(file).context("reading --token-file")?;
        Ok::<_, anyhow::Error>(Secret::new(token.expose()))
    };
    let secret = |name: &str, file: &Option<PathBuf>| {
        let text = text(name, file.as_deref())?;
        Ok::<_, anyhow::Error>(text.map(|text| Secret::new(text.trim())))
    };
    let boot = options.kernel_url.clone().zip(options.initramfs_url.clone());
    // Each by itself: joined, one that is wrong would be blamed on the other, or missed.
    let mirror_ca = certificates("mirror-ca", options.mirror_ca.as_deref(), written)?;
    let ca = certificates("ca-file", options.vim.ca_file.as_deref(), written)?;
    // The agent and Ignition do not use the live system's own store, or are started before it is updated.
    let ca = [&ca, &mirror_ca].into_iter().flatten().map(|pem| format!("{}\n", pem.trim_end()));
    let ca = ca.reduce(|all, pem| all + &pem);
    Ok(Settings {
        vim: options.vim.vim.clone(),
        install: options.install.as_deref().map(job::target).transpose()?,
        vim_addresses: options.vim_address.clone(),
        vim_names: options.vim_name.clone(),
        agent: agent(options)?,
        ca,
        mirror_ca,
        token: options.vim.token_file.as_deref().map(token).transpose()?,
        client_cert: text("client-cert-file", options.vim.client_cert_file.as_deref())?,
        client_key: secret("client-key-file", &options.vim.client_key_file)?,
        allow_plain_http: options.vim.allow_plain_http,
        agent_options,
        ssh_keys: options.ssh_key.clone(),
        password_hash: secret("password-hash-file", &options.password_hash_file)?,
        autologin: options.autologin,
        hostname: options.hostname.clone(),
        spec: additions::spec(&options.spec)?,
        files: options.file.iter().map(|file| additions::file(file)).collect::<Result<_, _>>()?,
        units: options.unit.iter().map(|file| additions::unit(file)).collect::<Result<_, _>>()?,
        network: additions::network(&options.network)?,
        network_metadata: options.network_metadata.clone(),
        proxy: options.vim.proxy.as_deref().map(job::ignition_proxy).transpose()?,
        no_proxy: job::ignition_no_proxy(&options.vim.no_proxy),
        platform: options.platform.clone(),
        config_url: options.config_url.clone(),
        kernel_arguments: options.append_karg.clone(),
        rootfs_url: options.rootfs_url.clone(),
        boot: boot.map(|(kernel_url, initramfs_url)| Boot { kernel_url, initramfs_url }),
    })
}

/// Reads the certificates in this option's file.
fn certificates(
    name: &str,
    file: Option<&Path>,
    written: &[Setting],
) -> anyhow::Result<Option<String>> {
    let pem = text(name, file)?;
    if pem.as_ref().is_some_and(|pem| !pem.contains("-----BEGIN CERTIFICATE-----")) {
        bail!(
            "{} is text without a certificate, expected PEM, which contains -----BEGIN CERTIFICATE-----",
            names::written(name, written)
        );
    }
    Ok(pem)
}

/// Returns the agent's source in the live image. Writes the compressed agent if asked to.
fn agent(options: &LiveConfigOptions) -> anyhow::Result<AgentBinary> {
    if let Some(path) = &options.binary_on_iso {
        return Ok(AgentBinary::OnIso(path.clone()));
    }
    let Some(file) = &options.binary else { return Ok(AgentBinary::InImage) };
    let bytes = fs::read(file).with_context(|| format!("reading --binary {}", file.display()))?;
    if !bytes.starts_with(b"\x7fELF") {
        let found =
            if bytes.starts_with(b"\x1f\x8b") { "a gzip file" } else { "not an ELF program" };
        bail!("--binary {} is {found}, expected the uncompressed program (ELF)", file.display());
    }
    if let Some(packed) = &options.binary_gz {
        fs::write(packed, gzip(&bytes))
            .with_context(|| format!("writing --binary-gz {}", packed.display()))?;
    }
    Ok(match &options.binary_url {
        Some(url) => AgentBinary::fetched(url, &bytes),
        None => AgentBinary::Embedded(bytes),
    })
}

/// Reads the file that the option `name` names.
fn text(name: &str, file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let Some(file) = file else { return Ok(None) };
    let read = || {
        String::from_utf8(bounded::read_file(file, MAX_TEXT_BYTES)?).map_err(|_| {
            anyhow!("{} contains bytes that are not UTF-8, expected text", file.display())
        })
    };
    read().map(Some).with_context(|| format!("reading --{name}"))
}

fn pair(option: &str) -> anyhow::Result<(String, String)> {
    match option.split_once('=') {
        Some((name, value)) => Ok((name.replace('-', "_"), value.to_owned())),
        None => bail!("--agent-option is \"{}\", expected NAME=VALUE", option.escape_debug()),
    }
}

/// Parses the options as the agent in the live image will. Options that it would refuse on a node, which could not
/// report them, are refused here.
fn check_agent_options(
    agent_options: &BTreeMap<String, Vec<String>>,
    options: &LiveConfigOptions,
) -> anyhow::Result<()> {
    let file = agent_options
        .iter()
        .map(|(name, values)| (name.replace('_', "-"), values.clone()))
        .collect();
    let kernel =
        options.append_karg.iter().flat_map(|a| crate::config::kernel_arguments(a)).collect();
    let file_name = "made from --agent-option".to_owned();
    let sources = Sources { file, file_name, kernel, ..Sources::default() };
    let words = ["run-coreos-installer".into(), "install".into()];
    match configure(&words, &sources, false) {
        Ok(configuration) => job::check(&configuration, options.install.is_some()),
        Err(Failure::Source(error)) => Err(error),
        Err(Failure::Usage(error)) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            bail!(
                "--agent-option or --append-karg: {}",
                first.strip_prefix("error: ").unwrap_or(first)
            );
        }
    }
}

/// Refuses a dry run: such a live image would leave every node at an emergency shell with nothing installed.
fn refuse_dry_run(options: &LiveConfigOptions) -> anyhow::Result<()> {
    let is_dry_run = |name: &str| name.replace('_', "-") == "dry-run";
    let name_of = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
    let pairs = options.agent_option.iter().map(|option| name_of(option));
    let arguments = options
        .append_karg
        .iter()
        .flat_map(|line| formats::command_line::arguments(line))
        .filter_map(|argument| argument.name.strip_prefix("rci.").map(name_of));
    if pairs.chain(arguments).any(|name| is_dry_run(&name)) {
        bail!(
            "dry-run cannot be used in a live image, which runs unattended; try it on a running \
             machine with: run-coreos-installer install --dry-run"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};

    fn made(options: &[&str]) -> Result<String, String> {
        let words = ["run-coreos-installer", "live-config", "--vim", "https://vim.example"];
        let words: Vec<_> = words.iter().chain(options).map(Into::into).collect();
        of(&words, &Sources::default())
    }

    fn of(words: &[std::ffi::OsString], sources: &Sources) -> Result<String, String> {
        let configuration = configure(words, sources, false).unwrap();
        let Cli { command: Some(Command::LiveConfig(options)), .. } = configuration.cli else {
            panic!()
        };
        live_config(&options, &configuration.settings)
            .map(|live| live.text)
            .map_err(|error| format!("{error:#}"))
    }

    fn warnings(options: &str) -> Vec<String> {
        let words = ["run-coreos-installer live-config", options].join(" ");
        let words: Vec<std::ffi::OsString> = words.split_whitespace().map(Into::into).collect();
        let configuration = configure(&words, &Sources::default(), false).unwrap();
        let Cli { command: Some(Command::LiveConfig(options)), .. } = configuration.cli else {
            panic!()
        };
        live_config(&options, &configuration.settings).unwrap().warnings
    }

    /// Makes a test file with this content, and `name` in its name.
    fn file(name: &str, content: &[u8]) -> String {
        let path = std::env::temp_dir().join(format!("rci-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn image_that_would_do_nothing_is_warned_of() {
        let target = file("target.ign", b"{\"ignition\":{\"version\":\"3.3.0\"}}");
        let agent = file("agent", &[&b"\x7fELF"[..], &[0; 60]].concat());
        let mut dynamic =
            [&b"\x7fELF\x02\x01"[..], &[0; 58], &3_u32.to_le_bytes(), &[0; 52]].concat();
        // One program header, of 56 bytes, after the 64 bytes of the file's own.
        (dynamic[0x20], dynamic[0x36], dynamic[0x38]) = (64, 56, 1);
        let dynamic = file("dynamic", &dynamic);
        let random: Vec<u8> = (0_u32..100_000)
            .flat_map(|i| i.wrapping_mul(2_654_435_761).rotate_left(i % 31).to_le_bytes())
            .collect();
        let tool = file("tool", &random);
        let profile = file("eth0.nmconnection", b"[connection]\nid=eth0\ntype=ethernet\n");
        let ca = file("ca.pem", b"-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n");
        let vim = "--vim https://v";
        let fetched = format!("--binary {agent} --binary-url https://v/a.gz");
        for (options, expected) in [
            (vim.to_owned(), "the config does not contain the agent"),
            (format!("{vim} --binary {dynamic}"), "the program of --binary needs"),
            (format!("--install {target} --agent-in-image"), "without a VIM and without a login"),
            (format!("{vim} --agent-in-image --file /opt/x={tool}"), "the config has 4"),
            (format!("{vim} {fetched} --network {profile}"), "Ignition fetches files before"),
            (
                format!("{vim} --agent-in-image --ca-file {ca} --config-url https://v/i"),
                "Ignition fetches --config-url",
            ),
            (
                format!("{vim} {fetched} --proxy http://p:1 --spec 3.0"),
                "Ignition fetches files without --proxy",
            ),
            (format!("{vim} --format kargs"), "these kernel arguments name no Ignition config"),
            (
                format!("{vim} --format kargs --agent-in-image --platform paket"),
                "platform is \"paket\", expected one that Ignition supports",
            ),
        ] {
            let found = warnings(&options);
            assert!(found.len() == 1 && found[0].starts_with(expected), "{options}: {found:?}");
        }
        for options in [
            format!("{vim} --agent-in-image --network {profile}"),
            format!("{vim} {fetched}"),
            format!("{vim} --agent-in-image --file /opt/x={tool} --config-url http://v/i"),
            format!(
                "{vim} --format grub --kernel-url http://v/k --initramfs-url http://v/i --config-url http://v/c"
            ),
            format!("{vim} {fetched} --proxy http://p:1 --spec 3.1"),
            format!("{vim} --agent-in-image --proxy http://p:1 --spec 3.0"),
            format!("{vim} --format kargs --agent-in-image --platform packet"),
            format!("--install {target} --agent-in-image --autologin"),
        ] {
            assert_eq!(warnings(&options), Vec::<String>::new(), "{options}");
        }
    }

    #[test]
    fn agent_option_that_cannot_work_on_the_node_is_warned_of() {
        for (options, expected) in [
            (
                "expect=/etc/nothing",
                "the agent reads /etc/nothing (--agent-option expect), but no --file adds it",
            ),
            (
                "protect=S1,sda",
                "--agent-option protect contains \"sda\", the kernel's name of a disk",
            ),
        ] {
            let found =
                warnings(&format!("--vim https://v --agent-in-image --agent-option {options}"));
            assert!(found.len() == 1 && found[0].starts_with(expected), "{options}: {found:?}");
        }
        for options in
            ["expect=/etc/x --file /etc/x=https://v/x", "protect=data,/dev/disk/by-id/ata-1"]
        {
            let options = format!("--vim https://v --agent-in-image --agent-option {options}");
            assert_eq!(warnings(&options), Vec::<String>::new(), "{options}");
        }
    }

    #[test]
    fn config_to_install_that_is_ignored_in_part_or_never_boots_is_warned_of() {
        let target = file("packet.ign", b"{\"ignition\":{\"version\":\"3.3.0\"}}");
        let misspelt =
            file("misspelt.ign", b"{\"ignition\":{\"version\":\"3.3.0\"},\"storge\":{}}");
        let of = |options: &str| warnings(&format!("--agent-in-image --autologin {options}"));
        let ignored = "the config of --install: $.storge: unknown key, which Ignition ignores unless only its case is wrong";
        assert_eq!(of(&format!("--install {misspelt}")), [ignored]);
        let packet = format!("--install {target} --agent-option platform=packet");
        let found = of(&packet);
        assert!(found.len() == 1 && found[0].starts_with("platform is packet, on which"));
        for options in
            [format!("--install {target}"), packet + " --agent-option firstboot_args=ip=dhcp"]
        {
            assert_eq!(of(&options), Vec::<String>::new(), "{options}");
        }
    }

    #[test]
    fn agent_that_is_too_large_for_any_config_is_refused_with_the_option_that_fetches_it() {
        // Random bytes, which cannot be compressed.
        let mut state = 1_u64;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        });
        let large: Vec<u8> = b"\x7fELF".iter().copied().chain(random.take(6_600_000)).collect();
        let agent = file("large-agent", &large);
        let error = made(&["--binary", &agent]).unwrap_err();
        assert!(error.contains("expected at most 8388608 bytes"), "{error}");
        assert!(error.ends_with("; let Ignition fetch the agent with --binary-url"), "{error}");
        made(&["--binary", &agent, "--binary-url", "https://v/a.gz"]).unwrap();
    }

    #[test]
    fn mirror_ca_is_trusted_by_ignition_the_agent_and_the_system() {
        let pem = |name: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
        };
        let (ca, mirror) =
            (file("vim-ca", pem("VIM").as_bytes()), file("mirror-ca", pem("MIRROR").as_bytes()));
        let text = made(&["--ca-file", &ca, "--mirror-ca", &mirror, "--format", "butane"]).unwrap();
        let n_times = |word: &str| text.matches(word).count();
        assert_eq!((n_times("VIM\n"), n_times("MIRROR\n")), (2, 3), "{text}");
        assert!(text.contains("/etc/pki/ca-trust/source/anchors/"), "{text}");
    }

    #[test]
    fn network_profiles_are_written_for_the_initramfs_too() {
        let folder = std::env::temp_dir().join(format!("rci-network-{}", std::process::id()));
        let yaml = file("net.yaml", b"interfaces: [{name: eth0, ipv4: {dhcp: true}}]");
        let folder_name = folder.to_str().unwrap();
        let text = made(&["--network", &yaml, "--network-dir", folder_name]).unwrap();
        assert!(
            text.contains("/etc/NetworkManager/system-connections/eth0.nmconnection"),
            "{text}"
        );
        let written = fs::read_to_string(folder.join("eth0.nmconnection")).unwrap();
        assert!(written.contains("[ipv4]\nmethod=auto\n"), "{written}");
        fs::remove_dir_all(&folder).unwrap();
        let keyfile = file("eth0", b"[connection]\nid=eth0\n");
        let error = made(&["--network", &keyfile]).unwrap_err();
        assert!(error.ends_with("expected a name that ends in .nmconnection"), "{error}");
        let error = made(&["--network", &yaml, "--network", &yaml]).unwrap_err();
        assert!(error.ends_with("two profiles have the name eth0.nmconnection"), "{error}");
    }

    /// Checks that each of these options is refused with the text next to it. A bar is a blank in a value.
    fn refused(cases: &[(String, String)]) {
        for (options, expected) in cases {
            let words: Vec<String> =
                options.split(' ').map(|word| word.replace('|', " ")).collect();
            let error = made(&words.iter().map(String::as_str).collect::<Vec<&str>>()).unwrap_err();
            assert!(error.contains(expected), "{options}: {error}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_by_the_option_as_the_user_wrote_it() {
        let good =
            file("good.pem", b"-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n");
        let (bad, empty) = (file("bad.pem", b"no certificate"), file("empty", b"\n"));
        let making = |end: &str| format!("making the live image's configuration: {end}");
        let carry = |format: &str, options: &str| {
            format!(
                "--format {format} writes only kernel arguments, which cannot carry {options}; "
            )
        };
        let many = "--ssh-key=ssh-ed25519|AAAA|x --binary=/bin/sh --autologin";
        refused(&[
            ("--ssh-key x".to_owned(), making("--ssh-key is text without the type of a key")),
            (
                "--format ipxe".into(),
                making("this --format needs --kernel-url and --initramfs-url"),
            ),
            (
                "--file /opt/x=http://h/x".into(),
                making("--file is \"http://h/x\" without one, expected a digest"),
            ),
            (
                "--network-metadata http://h/m".into(),
                making("--network-metadata is \"http://h/m\", expected https"),
            ),
            ("--hostname=-x".into(), making("--hostname is \"-x\", expected a host name")),
            ("--append-karg a\"b --format kargs".into(), making("--append-karg is ")),
            ("--config-url x|y --format kargs".into(), making("--config-url is ")),
            ("--format ignition --platform packet".into(), "cannot carry --platform; ".into()),
            ("--format butane --append-karg quiet".into(), "cannot carry --append-karg; ".into()),
            (
                "--format ignition --rootfs-url http://h/r".into(),
                "cannot carry --rootfs-url; ".into(),
            ),
            (format!("--format kargs {many}"), carry("kargs", "--binary, --ssh-key, --autologin")),
            (format!("--format ipxe {many}"), carry("ipxe", "--binary, --ssh-key, --autologin")),
            (
                format!("--format pxelinux {many}"),
                carry("pxelinux", "--binary, --ssh-key, --autologin"),
            ),
            (format!("--format grub {many}"), carry("grub", "--binary, --ssh-key, --autologin")),
            (
                format!("--token-file {empty}"),
                format!("reading --token-file: {empty} is empty, expected a token"),
            ),
            ("--ca-file /nonexistent/x".into(), "reading --ca-file".into()),
            ("--password-hash-file /nonexistent/x".into(), "reading --password-hash-file".into()),
            ("--binary /nonexistent/x".into(), "reading --binary".into()),
            ("--token-file /nonexistent/x".into(), "reading --token-file".into()),
            // A file without a certificate is blamed on its own option.
            (format!("--mirror-ca {bad}"), "--mirror-ca is text without".into()),
            (format!("--mirror-ca {bad} --ca-file {good}"), "--mirror-ca is text without".into()),
            (format!("--ca-file {bad}"), "--ca-file is text without".into()),
            (format!("--ca-file {bad} --mirror-ca {good}"), "--ca-file is text without".into()),
        ]);
        made(&["--format", "kargs", "--config-url", "https://v/x.ign"]).unwrap();
    }

    #[test]
    fn what_the_agent_would_refuse_or_only_try_is_refused() {
        let expectations = file("expect-bad.yaml", b"dimm: {sise: 1 GiB}\n");
        let no_dry_run = "dry-run cannot be used in a live image";
        let kargs = "--format kargs --append-karg";
        let of_expect = format!("expect=/etc/e.yaml --file /etc/e.yaml={expectations}");
        for (option, expected) in [
            ("log_levle=debug", "holds the key \"log-levle\", did you mean \"log-level\"?"),
            ("budget=many", "holds \"many\" for budget, expected a whole number of seconds"),
            ("bring-links-up=perhaps", "bring-links-up"),
            ("block-also=memory.lots", "the nearest is memory.lost"),
            (of_expect.as_str(), "/etc/e.yaml: dimm: \"sise\" is not a known key"),
            ("dry-run=true", no_dry_run),
            ("dry_run=true", no_dry_run),
        ] {
            refused(&[(format!("--agent-option={option}"), expected.to_owned())]);
        }
        for (karg, expected) in [
            ("rci.log-levle=debug", "is not an option, did you mean \"rci.log-level\"?"),
            ("rci.dry-run=true", no_dry_run),
            ("quiet|rci.dry_run", no_dry_run),
        ] {
            refused(&[(format!("{kargs} {karg}"), expected.to_owned())]);
        }
        let expectations = file("expect-good.yaml", b"bios: {version: a}\n");
        let expect = format!("/etc/expect.yaml={expectations}");
        for options in [
            &["--agent-option", "log-level=debug"][..],
            &["--agent-option", "give_up_after=86400"],
            &["--agent-option", "bring_links_up=false"],
            &["--agent-option", "expect=/etc/expect.yaml", "--file", &expect],
        ] {
            made(options).unwrap();
        }
    }

    #[test]
    fn vim_without_https_is_refused_by_the_source_that_names_it() {
        let making = "making the live image's configuration: ";
        let words = ["run-coreos-installer", "live-config", "--vim", "http://v"].map(Into::into);
        let expected =
            "--vim is \"http://v\", expected https, or plain HTTP with --allow-plain-http";
        let error = of(&words, &Sources::default()).unwrap_err();
        assert!(error.starts_with(&format!("{making}{expected}")), "{error}");
        let words = ["run-coreos-installer".into(), "live-config".into()];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let sources = Sources {
            environment: [pair("RCI_VIM", "http://v")].into(),
            file: [("allow-plain-http".to_owned(), vec!["false".to_owned()])].into(),
            file_name: "my.yaml".to_owned(),
            ..Sources::default()
        };
        let error = of(&words, &sources).unwrap_err();
        let expected = "RCI_VIM is \"http://v\", expected https, or plain HTTP with allow-plain-http in my.yaml";
        assert_eq!(error, format!("{making}{expected}"));
    }

    #[test]
    fn hint_without_a_value_is_refused() {
        let words = "run-coreos-installer live-config --install https://h/i --agent-option hints=serial=A,wwn";
        let words: Vec<_> = words.split(' ').map(Into::into).collect();
        let error = of(&words, &Sources::default()).unwrap_err();
        assert!(error.contains("wwn has no value, expected wwn=VALUE"), "{error}");
    }

    #[test]
    fn agent_in_the_live_image_gets_proxy_and_time_limit() {
        let options =
            ["--proxy", "http://p.example:1", "--no-proxy", "a,b", "--give-up-after", "7200"];
        let text = made(&[&options[..], &["--format", "butane"]].concat()).unwrap();
        for line in [r#"proxy: "http://p.example:1""#, "no_proxy:", "give_up_after: "] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains("7200"), "{text}");
        let json = made(&["--proxy", "p.example:1", "--no-proxy", "a, b,a,"]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "httpProxy": "http://p.example:1", "httpsProxy": "http://p.example:1", "noProxy": ["a", "b"]
        });
        assert_eq!(json["ignition"]["proxy"], expected, "Ignition has the proxy too");
        let error = made(&["--proxy", "socks5://me:secret@p"]).unwrap_err();
        assert!(error.contains("--proxy is text of another form"), "{error}");
        let error = made(&[&options[..], &["--format", "kargs"]].concat()).unwrap_err();
        assert!(error.contains("cannot carry --proxy, --no-proxy, --give-up-after"), "{error}");
        let error = made(&["--proxy", "http://me:sec/ret@p"]).unwrap_err();
        assert!(error.contains("contains /, expected it percent-encoded: %2F"), "{error}");
        assert!(!error.contains("sec/ret"), "{error}");
        let error = made(&["--proxy", "http://p", "--agent-option", "proxy=http://q"]).unwrap_err();
        assert!(error.contains("2 values for proxy"), "{error}");
    }
}

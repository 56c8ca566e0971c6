//! `live-config`: turns the options into settings of a live image and prints the chosen format.

pub(crate) mod additions;
mod job;
mod names;
mod tree;
mod warnings;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum as _;
use clap::builder::PossibleValue;
use ignition::live::{
    AgentBinary, Boot, ExtraFile, Secret, Settings, butane_yaml, grub_entry, gzip, ignition_json,
    ipxe_script, kernel_arguments, pxelinux_config,
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
    additions::write_network(options.network_dir.as_deref(), &settings.network)?;
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
        let Some((name, value)) = option.split_once('=') else {
            bail!("--agent-option is \"{}\", expected NAME=VALUE", option.escape_debug());
        };
        agent_options.entry(name.replace('-', "_")).or_default().push(value.to_owned());
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
        files: files(options)?,
        hold_logins: options.hold_logins,
        merge: text("merge", options.merge.as_deref())?.map(Secret::new),
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

/// Reads the files of --file and --tree.
fn files(options: &LiveConfigOptions) -> anyhow::Result<Vec<ExtraFile>> {
    let files = options.file.iter().map(|file| additions::file(file));
    let mut files: Vec<ExtraFile> = files.collect::<Result<_, _>>()?;
    for tree in &options.tree {
        files.extend(tree::tree(tree)?);
    }
    Ok(files)
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

/// Parses the options as the agent in the live image will. Options that it would refuse on a node, which could not
/// report them, are refused here.
fn check_agent_options(
    agent_options: &BTreeMap<String, Vec<String>>,
    options: &LiveConfigOptions,
) -> anyhow::Result<()> {
    let dashed = |(name, of): (&String, &Vec<String>)| (name.replace('_', "-"), of.clone());
    let file = agent_options.iter().map(dashed).collect();
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
    let lines = options.append_karg.iter();
    let arguments = lines.flat_map(|line| formats::command_line::arguments(line));
    let arguments = arguments.filter_map(|found| found.name.strip_prefix("rci.").map(name_of));
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

    fn of(words: &[std::ffi::OsString], sources: &Sources) -> Result<LiveConfig, String> {
        let configuration = configure(words, sources, false).unwrap();
        let Cli { command: Some(Command::LiveConfig(options)), .. } = configuration.cli else {
            panic!()
        };
        live_config(&options, &configuration.settings).map_err(|error| format!("{error:#}"))
    }

    fn made(options: &[&str]) -> Result<LiveConfig, String> {
        let words = ["run-coreos-installer", "live-config"];
        let words: Vec<_> = words.iter().chain(options).map(Into::into).collect();
        of(&words, &Sources::default())
    }

    fn text(options: &[&str]) -> String {
        made(&[&["--vim", "https://vim.example"][..], options].concat()).unwrap().text
    }

    /// Makes a test file with this content, and `name` in its name.
    fn file(name: &str, content: &[u8]) -> String {
        let path = std::env::temp_dir().join(format!("rci-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The files that the cases name.
    fn files() -> Vec<(&'static str, String)> {
        let mut dynamic =
            [&b"\x7fELF\x02\x01"[..], &[0; 58], &3_u32.to_le_bytes(), &[0; 52]].concat();
        // One program header, of 56 bytes, after the 64 bytes of the file's own.
        (dynamic[0x20], dynamic[0x36], dynamic[0x38]) = (64, 56, 1);
        let random: Vec<u8> = (0_u32..100_000)
            .flat_map(|i| i.wrapping_mul(2_654_435_761).rotate_left(i % 31).to_le_bytes())
            .collect();
        let target = "{\"ignition\":{\"version\":\"3.3.0\"}}";
        let misspelt = target.replace("}}", "},\"storge\":{}}");
        let files: [(&str, &str, &[u8]); 12] = [
            ("AGENT", "agent", &[&b"\x7fELF"[..], &[0; 60]].concat()),
            ("DYNAMIC", "dynamic", &dynamic),
            ("TOOL", "tool", &random),
            ("TARGET", "target.ign", target.as_bytes()),
            ("MISSPELT", "misspelt.ign", misspelt.as_bytes()),
            ("PROFILE", "eth0.nmconnection", b"[connection]\nid=eth0\ntype=ethernet\n"),
            ("KEYFILE", "eth0", b"[connection]\nid=eth0\n"),
            ("YAML", "net.yaml", b"interfaces: [{name: eth0, ipv4: {dhcp: true}}]"),
            ("EMPTY", "empty", b"\n"),
            ("BAD_EXPECTATIONS", "expect-bad.yaml", b"dimm: {sise: 1 GiB}\n"),
            ("EXPECTATIONS", "expect-good.yaml", b"bios: {version: a}\n"),
            ("CA", "ca.pem", b"-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"),
        ];
        let tree = std::env::temp_dir().join(format!("rci-{}-tree", std::process::id()));
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("hosts"), "x").unwrap();
        let tree = ("TREE", tree.to_str().unwrap().to_owned());
        let files = files.map(|(word, name, content)| (word, file(name, content)));
        files.into_iter().chain([tree]).collect()
    }

    #[test]
    fn what_cannot_work_is_refused_as_the_user_wrote_it_and_a_useless_image_is_warned_of() {
        let files = files();
        for case in include_str!("live_config/cases.txt").split("\n\n") {
            let case =
                files.iter().fold(case.to_owned(), |case, (word, file)| case.replace(word, file));
            let mut lines = case.lines().filter(|line| !line.starts_with('#'));
            let Some(options) = lines.next() else { continue };
            let mut words: Vec<String> =
                options.split(' ').map(|word| word.replace('|', " ")).collect();
            if !words.iter().any(|word| word == "--vim" || word == "--install") {
                words.push("--vim=https://v".to_owned());
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let expected = lines.next().unwrap_or_default();
            let found = made(&words).map(|live| live.warnings);
            let is_as_expected = match (expected.get(..2), &found) {
                (Some("- "), Err(error)) => {
                    error.contains(&expected[2..]) && !error.contains("sec/ret")
                }
                (Some("? "), Ok(warnings)) => {
                    matches!(&warnings[..], [warning] if warning.starts_with(&expected[2..]))
                }
                (None, Ok(warnings)) => warnings.is_empty(),
                _ => false,
            };
            assert!(is_as_expected, "{options}: {found:?}");
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
        let vim = "--vim=https://v";
        let error = made(&[vim, "--binary", &agent]).unwrap_err();
        assert!(error.contains("expected at most 8388608 bytes"), "{error}");
        assert!(error.ends_with("; let Ignition fetch the agent with --binary-url"), "{error}");
        made(&[vim, "--binary", &agent, "--binary-url", "https://v/a.gz"]).unwrap();
    }

    #[test]
    fn mirror_ca_is_trusted_by_ignition_the_agent_and_the_system() {
        let pem = |name: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
        };
        let (ca, mirror) =
            (file("vim-ca", pem("VIM").as_bytes()), file("mirror-ca", pem("MIRROR").as_bytes()));
        let text = text(&["--ca-file", &ca, "--mirror-ca", &mirror, "--format", "butane"]);
        let n_times = |word: &str| text.matches(word).count();
        assert_eq!((n_times("VIM\n"), n_times("MIRROR\n")), (2, 3), "{text}");
        assert!(text.contains("/etc/pki/ca-trust/source/anchors/"), "{text}");
    }

    #[test]
    fn vim_has_every_name_in_the_hosts_of_the_live_image() {
        let options =
            "--vim-address fd02:9a04::1 --vim-name vim.lab.example --vim-name vim --format butane";
        let butane = text(&options.split(' ').collect::<Vec<_>>());
        assert!(butane.contains("          fd02:9a04::1 vim.lab.example vim\n"), "{butane}");
    }

    #[test]
    fn network_profiles_are_written_for_the_initramfs_too() {
        let folder = std::env::temp_dir().join(format!("rci-network-{}", std::process::id()));
        let yaml = file("net.yaml", b"interfaces: [{name: eth0, ipv4: {dhcp: true}}]");
        let folder_name = folder.to_str().unwrap();
        let text = text(&["--network", &yaml, "--network-dir", folder_name]);
        let profile = "/etc/NetworkManager/system-connections/eth0.nmconnection";
        assert!(text.contains(profile), "{text}");
        let written = fs::read_to_string(folder.join("eth0.nmconnection")).unwrap();
        assert!(written.contains("[ipv4]\nmethod=auto\n"), "{written}");
        fs::remove_dir_all(&folder).unwrap();
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
    fn agent_in_the_live_image_gets_proxy_time_limit_and_key() {
        const KEY: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        let options = format!(
            "--proxy http://p.example:1 --no-proxy a,b --give-up-after 7200 --vim-key {KEY} --format butane"
        );
        let butane = text(&options.split(' ').collect::<Vec<_>>());
        for line in [r#"proxy: "http://p.example:1""#, "no_proxy:", "give_up_after: "] {
            assert!(butane.contains(line), "{line}: {butane}");
        }
        assert!(butane.contains("7200") && butane.contains(KEY), "{butane}");
        let json = text(&["--proxy", "p.example:1", "--no-proxy", "a, b,a,"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "httpProxy": "http://p.example:1", "httpsProxy": "http://p.example:1", "noProxy": ["a", "b"]
        });
        assert_eq!(json["ignition"]["proxy"], expected, "Ignition has the proxy too");
    }
}

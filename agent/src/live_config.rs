//! `live-config`: turns the options into settings of a live image and prints the chosen format.

mod job;
mod names;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use ignition::live::{
    AgentBinary, Boot, Secret, Settings, butane_yaml, gzip, ignition_json, ipxe_script,
    kernel_arguments,
};

use crate::cli::{LiveConfigOptions, LiveFormat};
use crate::config::{Failure, Setting, Sources, configure};
use crate::{bounded, secret};

/// Largest certificate or hash, in bytes.
const MAX_TEXT_BYTES: u64 = 8 << 20;

/// What `live-config` prints. `written` are the options with their sources, to name those that are at fault.
///
/// # Errors
/// If a file cannot be read or written, or a setting is invalid.
pub fn live_config(options: &LiveConfigOptions, written: &[Setting]) -> anyhow::Result<String> {
    refuse_dropped(options, written)?;
    let settings = settings(options, written)?;
    let text = match options.format {
        LiveFormat::Ignition => ignition_json(&settings),
        LiveFormat::Butane => butane_yaml(&settings),
        LiveFormat::Kargs => kernel_arguments(&settings).map(|line| line + "\n"),
        LiveFormat::Ipxe => ipxe_script(&settings),
    };
    text.map_err(|error| anyhow!("{}", names::in_options(&error, written)))
        .context("making the live image's configuration")
}

/// Refuses options that only an Ignition config can carry, for a format that would drop them silently.
fn refuse_dropped(options: &LiveConfigOptions, written: &[Setting]) -> anyhow::Result<()> {
    let format = match options.format {
        LiveFormat::Ignition | LiveFormat::Butane => return Ok(()),
        LiveFormat::Kargs => "kargs",
        LiveFormat::Ipxe => "ipxe",
    };
    let dropped: Vec<String> =
        names::of_ignition(options).into_iter().map(|name| names::written(name, written)).collect();
    if !dropped.is_empty() {
        bail!(
            "--format {format} writes only kernel arguments, which cannot carry {}; put them in the \
             Ignition config (--format ignition), and name its address with --config-url",
            dropped.join(", ")
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
    Ok(Settings {
        vim: options.vim.vim.clone(),
        install: options.install.as_deref().map(job::target).transpose()?,
        vim_addresses: options.vim_address.clone(),
        vim_names: options.vim_name.clone(),
        agent: agent(options)?,
        ca: text("ca-file", options.vim.ca_file.as_deref())?,
        token: options.vim.token_file.as_deref().map(token).transpose()?,
        client_cert: text("client-cert-file", options.vim.client_cert_file.as_deref())?,
        client_key: secret("client-key-file", &options.vim.client_key_file)?,
        vim_key: None,
        allow_plain_http: options.vim.allow_plain_http,
        agent_options,
        ssh_keys: options.ssh_key.clone(),
        password_hash: secret("password-hash-file", &options.password_hash_file)?,
        autologin: options.autologin,
        hostname: options.hostname.clone(),
        downloads: Vec::new(),
        config_url: options.config_url.clone(),
        kernel_arguments: options.append_karg.clone(),
        boot: boot.map(|(kernel_url, initramfs_url)| Boot {
            kernel_url,
            initramfs_url,
            rootfs_url: options.rootfs_url.clone(),
        }),
    })
}

/// Where the live image gets the agent from. Writes the compressed agent if asked to.
fn agent(options: &LiveConfigOptions) -> anyhow::Result<AgentBinary> {
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

/// The text of the file that the option `name` names.
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

/// Parses the options as the agent in the live image will. What it would refuse there, on a node that cannot report
/// it, is refused here.
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
        live_config(&options, &configuration.settings).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn error_names_the_option_as_the_user_wrote_it() {
        let making = "making the live image's configuration: ";
        for (options, expected) in [
            (&["--ssh-key", "x"][..], "--ssh-key is \"x\", expected a public key on one line"),
            (
                &["--vim", "http://v"],
                "--vim is \"http://v\", expected https, or plain HTTP with --allow-plain-http",
            ),
            (&["--format", "ipxe"], "--format ipxe needs --kernel-url and --initramfs-url"),
            (&["--hostname", "-x"], "--hostname is \"-x\", expected a host name"),
            (&["--append-karg", "a\"b", "--format", "kargs"], "--append-karg is "),
            (&["--config-url", "x y", "--format", "kargs"], "--config-url is "),
        ] {
            let words = ["run-coreos-installer", "live-config"];
            let vim = if options.contains(&"--vim") { &[][..] } else { &["--vim=https://v"] };
            // A value that begins with a dash needs the form with `=`.
            let options: Vec<String> = options.chunks(2).map(|pair| pair.join("=")).collect();
            let words = words.iter().chain(vim).map(Into::into);
            let words: Vec<_> = words.chain(options.iter().map(Into::into)).collect();
            let error = of(&words, &Sources::default()).unwrap_err();
            assert!(error.starts_with(&format!("{making}{expected}")), "{error}");
        }
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
    fn file_errors_name_the_option_and_an_empty_token_is_refused() {
        let empty = std::env::temp_dir().join(format!("rci-live-empty-{}", std::process::id()));
        fs::write(&empty, "\n").unwrap();
        let path = empty.to_str().unwrap();
        let error = made(&["--token-file", path]).unwrap_err();
        assert_eq!(error, format!("reading --token-file: {path} is empty, expected a token"));
        fs::remove_file(&empty).unwrap();
        for option in ["--ca-file", "--password-hash-file", "--binary", "--token-file"] {
            let error = made(&[option, "/nonexistent/x"]).unwrap_err();
            assert!(error.starts_with(&format!("reading {option}")), "{error}");
        }
    }

    #[test]
    fn options_that_the_format_cannot_carry_are_refused_by_name() {
        let more = ["--ssh-key", "ssh-ed25519 AAAA x", "--binary", "/bin/sh", "--autologin"];
        for format in ["kargs", "ipxe"] {
            let options = [&["--format", format][..], &more].concat();
            let error = made(&options).unwrap_err();
            let expected = format!(
                "--format {format} writes only kernel arguments, which cannot carry --binary, \
                 --ssh-key, --autologin; "
            );
            assert!(error.starts_with(&expected), "{error}");
        }
        made(&["--format", "kargs", "--config-url", "https://v/x.ign"]).unwrap();
    }

    #[test]
    fn option_that_the_agent_would_refuse_is_refused() {
        for (option, words) in [
            ("log_levle=debug", "holds the key \"log-levle\", did you mean \"log-level\"?"),
            ("budget=many", "holds \"many\" for budget, expected a whole number of seconds"),
            ("bring-links-up=perhaps", "bring-links-up"),
        ] {
            let error = made(&["--agent-option", option]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let error = made(&["--append-karg", "rci.log-levle=debug"]).unwrap_err();
        assert!(error.ends_with("is not an option, did you mean \"rci.log-level\"?"), "{error}");
        for option in ["log-level=debug", "give_up_after=86400", "bring_links_up=false"] {
            made(&["--agent-option", option]).unwrap();
        }
    }

    #[test]
    fn dry_run_in_a_live_image_is_refused() {
        for options in [
            ["--agent-option", "dry-run=true"],
            ["--agent-option", "dry_run=true"],
            ["--append-karg", "rci.dry-run=true"],
            ["--append-karg", "quiet rci.dry_run"],
        ] {
            let error = made(&options).unwrap_err();
            assert!(error.starts_with("dry-run cannot be used in a live image"), "{error}");
        }
    }
}

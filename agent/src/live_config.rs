//! `live-config`: turns the options into settings of a live image and prints the chosen format.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use ignition::live::{
    AgentBinary, Boot, Secret, Settings, butane_yaml, gzip, ignition_json, ipxe_script,
    kernel_arguments,
};

use crate::cli::{LiveConfigOptions, LiveFormat};
use crate::config::{Failure, Sources, configure};

/// What `live-config` prints.
///
/// # Errors
/// If a file cannot be read or written, or a setting is invalid.
pub fn live_config(options: &LiveConfigOptions) -> anyhow::Result<String> {
    let settings = settings(options)?;
    let text = match options.format {
        LiveFormat::Ignition => ignition_json(&settings),
        LiveFormat::Butane => butane_yaml(&settings),
        LiveFormat::Kargs => kernel_arguments(&settings).map(|line| line + "\n"),
        LiveFormat::Ipxe => ipxe_script(&settings),
    };
    text.context("making the live image's configuration")
}

fn settings(options: &LiveConfigOptions) -> anyhow::Result<Settings> {
    let Some(vim) = options.vim.vim.clone() else {
        bail!("no VIM is configured; give its address with --vim, e.g. --vim https://vim.example");
    };
    let agent_options: BTreeMap<String, String> =
        options.agent_option.iter().map(|o| pair(o)).collect::<Result<_, _>>()?;
    check_agent_options(&agent_options, &options.append_karg)?;
    refuse_dry_run(options)?;
    let secret = |file: &Path| Ok::<_, anyhow::Error>(Secret::new(text(file)?.trim()));
    let boot = options.kernel_url.clone().zip(options.initramfs_url.clone());
    Ok(Settings {
        vim,
        vim_addresses: options.vim_address.clone(),
        vim_names: options.vim_name.clone(),
        agent: agent(options)?,
        ca: options.vim.ca_file.as_deref().map(text).transpose()?,
        token: options.vim.token_file.as_deref().map(secret).transpose()?,
        client_cert: options.vim.client_cert_file.as_deref().map(text).transpose()?,
        client_key: options.vim.client_key_file.as_deref().map(secret).transpose()?,
        vim_key: None,
        allow_plain_http: options.vim.allow_plain_http,
        agent_options,
        ssh_keys: options.ssh_key.clone(),
        password_hash: options.password_hash_file.as_deref().map(secret).transpose()?,
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
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    if !bytes.starts_with(b"\x7fELF") {
        let found =
            if bytes.starts_with(b"\x1f\x8b") { "a gzip file" } else { "not an ELF program" };
        bail!("{} is {found}, expected the uncompressed program (ELF)", file.display());
    }
    if let Some(packed) = &options.binary_gz {
        fs::write(packed, gzip(&bytes)).with_context(|| format!("writing {}", packed.display()))?;
    }
    Ok(match &options.binary_url {
        Some(url) => AgentBinary::fetched(url, &bytes),
        None => AgentBinary::Embedded(bytes),
    })
}

fn text(file: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    String::from_utf8(bytes)
        .map_err(|_| anyhow!("{} contains bytes that are not UTF-8, expected text", file.display()))
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
    options: &BTreeMap<String, String>,
    kernel_arguments: &[String],
) -> anyhow::Result<()> {
    let file =
        options.iter().map(|(name, value)| (name.replace('_', "-"), vec![value.clone()])).collect();
    let kernel = kernel_arguments.iter().flat_map(|a| crate::config::kernel_arguments(a)).collect();
    let file_name = "made from --agent-option".to_owned();
    let sources = Sources { file, file_name, kernel, ..Sources::default() };
    let words = ["run-coreos-installer".into(), "install".into()];
    match configure(&words, &sources, false) {
        Ok(_) => Ok(()),
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
        let cli = configure(&words, &Sources::default(), false).unwrap().cli;
        let Cli { command: Some(Command::LiveConfig(options)), .. } = cli else { panic!() };
        live_config(&options).map_err(|error| format!("{error:#}"))
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

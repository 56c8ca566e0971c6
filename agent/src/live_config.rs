//! `live-config`: the options as settings of a live image, and the form that is asked for.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use ignition::live::{
    AgentBinary, Boot, Secret, Settings, butane_yaml, gzip, ignition_json, ipxe_script,
    kernel_arguments,
};

use crate::cli::{LiveConfigOptions, LiveFormat};

/// What `live-config` prints.
///
/// # Errors
/// If a file cannot be read or written, or a setting cannot work.
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
        bail!("no VIM is named; give its address with --vim, e.g. --vim https://vim.example");
    };
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
        agent_options: options.agent_option.iter().map(|o| pair(o)).collect::<Result<_, _>>()?,
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

/// Where the live image has the agent from; writes the compressed file if that is asked for.
fn agent(options: &LiveConfigOptions) -> anyhow::Result<AgentBinary> {
    let Some(file) = &options.binary else { return Ok(AgentBinary::InImage) };
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    if !bytes.starts_with(b"\x7fELF") {
        let found = if bytes.starts_with(b"\x1f\x8b") { "a gzip file" } else { "another file" };
        bail!("{} is {found}, expected the program itself, not compressed", file.display());
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
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

fn pair(option: &str) -> anyhow::Result<(String, String)> {
    match option.split_once('=') {
        Some((name, value)) => Ok((name.replace('-', "_"), value.to_owned())),
        None => bail!("--agent-option holds \"{}\", expected NAME=VALUE", option.escape_debug()),
    }
}

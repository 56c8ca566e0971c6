//! The job of the agent in the live image: it asks a VIM, or installs a config that the image names or contains.

use std::path::Path;

use anyhow::{Context as _, bail};
use ignition::live::{FileSource, Secret, Settings, Target};

use super::names;
use crate::cli::{Command, LiveConfigOptions, VimOptions};
use crate::config::{Configuration, Origin, Setting};
use crate::engines::offline;
use crate::expect;
use crate::http::url::check_proxy;

/// Checks that the options name either a VIM or a config to install.
///
/// # Errors
/// Names the options to drop or to add.
pub(super) fn check_combination(
    options: &LiveConfigOptions,
    settings: &[Setting],
) -> anyhow::Result<()> {
    let written = |name| names::written(name, settings);
    match (&options.vim.vim, &options.install) {
        (Some(_), Some(_)) => bail!(
            "{} and {} are both set: drop {0} for a live image that installs this config without a VIM, or {1} \
             for one that installs what the VIM asks for",
            written("vim"),
            written("install")
        ),
        (None, None) => bail!(
            "no VIM is configured; give its address with --vim, e.g. --vim https://vim.example, or a config to \
             install without one with --install"
        ),
        (Some(_), None) => Ok(()),
        (None, Some(_)) => {
            let of_a_vim = ["vim-key", "token-file", "give-up-after", "vim-address", "vim-name"];
            let set = of_a_vim.iter().find_map(|name| names::set_among(name, settings));
            match set {
                Some(name) => {
                    bail!(
                        "{name} is for a VIM: drop it, or set --vim instead of {}",
                        written("install")
                    )
                }
                None => Ok(()),
            }
        }
    }
}

/// The options that the agent in the live image gets unchanged from `live-config`.
pub(super) fn agent_options(vim: &VimOptions) -> Vec<(&'static str, Vec<String>)> {
    let give_up_after = vim.give_up_after.map(|seconds| seconds.to_string());
    let all = [
        ("vim_key", vim.vim_key.iter().map(ToString::to_string).collect()),
        ("proxy", vim.proxy.iter().cloned().collect()),
        ("no_proxy", vim.no_proxy.clone()),
        ("give_up_after", give_up_after.into_iter().collect()),
    ];
    all.into_iter().filter(|(_, values): &(_, Vec<String>)| !values.is_empty()).collect()
}

/// The proxy for Ignition, which needs the scheme that curl and the agent add.
pub(super) fn ignition_proxy(url: &str) -> anyhow::Result<Secret> {
    let url = url.trim();
    check_proxy(url)?;
    Ok(Secret::new(if url.contains("://") { url.to_owned() } else { format!("http://{url}") }))
}

/// The hosts that Ignition reaches without the proxy; it refuses one that is listed twice.
pub(super) fn ignition_no_proxy(hosts: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for host in hosts.iter().map(|host| host.trim()).filter(|host| !host.is_empty()) {
        if !unique.iter().any(|known| known == host) {
            unique.push(host.to_owned());
        }
    }
    unique
}

/// Checks the options that the agent in the live image will have.
///
/// # Errors
/// Names an option that the agent would refuse.
pub(super) fn check(configuration: &Configuration, has_install: bool) -> anyhow::Result<()> {
    let Some(Command::Install(options)) = &configuration.cli.command else { return Ok(()) };
    let misplaced = if has_install {
        offline::option_of_a_vim(&configuration.settings)
    } else {
        offline::option_without_a_vim(&configuration.settings)
    };
    let name = misplaced.map(|setting| match &setting.origin {
        Origin::KernelArgument(name) => name.clone(),
        _ => format!("--agent-option {}", setting.name),
    });
    match name {
        Some(name) if has_install => {
            bail!("{name} is for a VIM: drop it, or set --vim instead of --install")
        }
        Some(name) => bail!(
            "{name} is for an install without a VIM: drop it, or set --install instead of --vim"
        ),
        None => offline::disk(options.offline.disk.as_deref(), &options.offline.hints)
            .and_then(|_| offline::check_patterns(&options.block))
            .context("--agent-option"),
    }
}

/// Checks the expectations file, if the live image gets it with --file.
///
/// # Errors
/// If the agent would refuse it.
pub(super) fn check_expectations(settings: &Settings) -> anyhow::Result<()> {
    let added = |path: &String| settings.files.iter().find(|file| file.path == *path);
    let Some(file) = expect_file(settings).and_then(added) else { return Ok(()) };
    match &file.source {
        FileSource::Content(bytes) => {
            expect::parse(bytes, Path::new(&file.path)).map(|_| ()).context("--agent-option expect")
        }
        FileSource::Url { .. } | FileSource::Link(_) | FileSource::Folder => Ok(()),
    }
}

/// Returns the expectations file that the agent reads in the live image.
pub(super) fn expect_file(settings: &Settings) -> Option<&String> {
    settings.agent_options.get("expect")?.first()
}

/// Returns the config to install. If it comes from a file, it goes into the live image.
pub(super) fn target(install: &str) -> anyhow::Result<Target> {
    if offline::is_url(install) {
        return Ok(Target::Url(install.to_owned()));
    }
    let text = offline::ignition_text(install).context("reading --install")?;
    Ok(Target::Embedded(Secret::new(text)))
}

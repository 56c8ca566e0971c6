//! `install` without a VIM: the options become the instruction that a VIM would send.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use clap::Args as _;
use serde_json::{Map, Value, json};

use crate::api::API_VERSION;
use crate::bounded;
use crate::clean;
use crate::cli::{Backend, InstallOptions, OfflineOptions};
use crate::config::{Origin, Setting};
use crate::http::client::MAX_IGNITION_BYTES;
use crate::install::blocking::check_pattern;
use crate::install::hints::{Hints, from_option};
use crate::job::Offline;
use crate::job::offline::{REQUEST_ID, WORDS};
use crate::secret::redact;

/// Options that only mean something with a VIM.
const OF_A_VIM: [&str; 8] = [
    "vim",
    "token-file",
    "give-up-after",
    "on-refusal",
    "backend",
    "callback-url",
    "agent-port",
    "clean-disk",
];

/// What to install without a VIM; `None` if there is a VIM. `settings` are the options with their sources.
///
/// # Errors
/// If options contradict each other, or the Ignition config cannot be read.
pub(crate) fn offline(
    options: &InstallOptions,
    settings: &[Setting],
) -> anyhow::Result<Option<Offline>> {
    check_backend(options, settings)?;
    check_combination(options, settings)?;
    check_patterns(options)?;
    let Some(ignition) = &options.offline.ignition else { return Ok(None) };
    Ok(Some(Offline {
        instruction: instruction(ignition, options)?,
        result: options.offline.result.clone(),
        after: options.offline.after,
        words: &WORDS,
    }))
}

/// Checks the codes of findings that prevent an install, or do not.
///
/// # Errors
/// If one matches no finding.
pub(crate) fn check_patterns(options: &InstallOptions) -> anyhow::Result<()> {
    options.block.block_also.iter().chain(&options.block.block_except).try_for_each(|pattern| {
        check_pattern(pattern).map_err(|error| anyhow!("block-also or block-except: {error}"))
    })
}

/// Checks the options that depend on the kind of server.
fn check_backend(options: &InstallOptions, settings: &[Setting]) -> anyhow::Result<()> {
    let (backend, infra_env_id) = (options.ironic.backend, &options.assisted.infra_env_id);
    let written =
        |name: &str| set(settings, name).map_or_else(|| format!("--{name}"), Setting::written);
    match (backend, infra_env_id) {
        (Backend::Vim | Backend::Ironic | Backend::IronicAgent, Some(_)) => {
            bail!("{} needs {} assisted", written("infra-env-id"), written("backend"))
        }
        (Backend::Vim | Backend::Ironic | Backend::IronicAgent, None) => Ok(()),
        (Backend::Assisted, _) if options.vim.vim.is_none() => bail!(
            "{} is assisted, but the address of assisted-service is missing; give it with --vim, rci.vim= or RCI_VIM=",
            written("backend")
        ),
        (Backend::Assisted, _) if options.dry_run => bail!(
            "{} is not possible with assisted-service, which would wait for an install that never comes",
            written("dry-run")
        ),
        (Backend::Assisted, Some(id)) if formats::guid::parse(id).is_some() => Ok(()),
        (Backend::Assisted, id) => bail!(
            "{} is {}, expected the UUID of the infra-env",
            written("infra-env-id"),
            clean::quoted(id.as_deref().unwrap_or_default(), 64)
        ),
    }
}

/// Refuses options of an install with a VIM together with those of an install without one.
fn check_combination(options: &InstallOptions, settings: &[Setting]) -> anyhow::Result<()> {
    let written =
        |name: &str| set(settings, name).map_or_else(|| format!("--{name}"), Setting::written);
    match (&options.vim.vim, &options.offline.ignition) {
        (Some(_), Some(_)) => bail!(
            "{} and {} are both set: drop {0} to install this config without a VIM, or {1} to install what the VIM asks for",
            written("vim"),
            written("ignition")
        ),
        (None, None) => bail!(
            "no VIM is configured; give its address with --vim, rci.vim= or RCI_VIM=, or install without \
             one with --ignition"
        ),
        (Some(_), None) => match option_without_a_vim(settings) {
            Some(first) => bail!(
                "{} is for an install without a VIM: drop it, as the VIM decides that, or set --ignition instead of {}",
                first.written(),
                written("vim")
            ),
            None => Ok(()),
        },
        (None, Some(_)) => match option_of_a_vim(settings) {
            Some(first) => bail!(
                "{} is for an install with a VIM: drop it, or set --vim instead of {}",
                first.written(),
                written("ignition")
            ),
            None => Ok(()),
        },
    }
}

/// The first option that is set and only means something without a VIM.
pub(crate) fn option_without_a_vim(settings: &[Setting]) -> Option<&Setting> {
    let command = OfflineOptions::augment_args(clap::Command::new(""));
    let mut names = command.get_arguments().filter_map(clap::Arg::get_long);
    names.find_map(|name| set(settings, name))
}

/// The first option that is set and only means something with a VIM.
pub(crate) fn option_of_a_vim(settings: &[Setting]) -> Option<&Setting> {
    OF_A_VIM.into_iter().find_map(|name| set(settings, name))
}

fn set<'a>(settings: &'a [Setting], name: &str) -> Option<&'a Setting> {
    settings.iter().find(|setting| setting.name == name && setting.origin != Origin::Default)
}

/// The instruction that the options amount to.
fn instruction(ignition: &str, options: &InstallOptions) -> anyhow::Result<Vec<u8>> {
    let offline = &options.offline;
    let mut install = Map::new();
    let mut set = |key: &str, value: Value| {
        let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            install.insert(key.to_owned(), value);
        }
    };
    check_url("--ignition", ignition, options)?;
    check_url("--image", offline.image.as_deref().unwrap_or_default(), options)?;
    set("ignition", ignition_source(ignition, offline.ignition_hash.as_deref())?);
    set("image", image(options)?);
    set("disk", disk(offline)?);
    set("existing_data", json!(offline.existing_data));
    set("save_partlabel", json!(offline.save_partlabel));
    set("save_partindex", json!(offline.save_partindex));
    set("append_kargs", json!(words(&offline.append_karg)));
    set("delete_kargs", json!(words(&offline.delete_karg)));
    set("firstboot_args", json!(offline.firstboot_args));
    set("platform", json!(offline.platform));
    set("console", json!(offline.console));
    set("copy_network", json!(offline.copy_network.then_some(true)));
    set("verify", json!(offline.verify));
    set("on_unproved", json!(offline.on_unproved));
    let instruction = json!({
        "api_version": API_VERSION,
        "request_id": REQUEST_ID,
        "action": "install",
        "reason": "as configured, without a VIM",
        "install": install,
    });
    serde_json::to_vec(&instruction).context("writing the instruction as JSON")
}

/// Checks that the configuration allows this address, before anything is read.
fn check_url(option: &str, address: &str, options: &InstallOptions) -> anyhow::Result<()> {
    if options.vim.allow_plain_http || !address.starts_with("http://") {
        return Ok(());
    }
    let shown = redact(address);
    bail!("{option} is {shown:?}, expected https, or plain HTTP with --allow-plain-http")
}

fn ignition_source(ignition: &str, hash: Option<&str>) -> anyhow::Result<Value> {
    let (key, value) = if is_url(ignition) {
        ("url", ignition.to_owned())
    } else {
        let text = ignition_text(ignition).context("reading --ignition")?;
        // Preflight checks it again, but only once the hardware has been read.
        ignition::check(text.as_bytes())
            .map_err(|refusal| anyhow!("--ignition {ignition}: {refusal}"))?;
        ("inline", text)
    };
    let mut source = json!({key: value});
    if let Some(hash) = hash {
        source["hash"] = hash.into();
    }
    Ok(source)
}

/// The text of the file.
pub(crate) fn ignition_text(file: &str) -> anyhow::Result<String> {
    let bytes = bounded::read_file(Path::new(file), MAX_IGNITION_BYTES)?;
    String::from_utf8(bytes)
        .map_err(|_| anyhow!("{file} contains bytes that are not UTF-8, expected JSON"))
}

fn image(options: &InstallOptions) -> anyhow::Result<Value> {
    let Some(image) = &options.offline.image else { return Ok(Value::Null) };
    let mut source = if is_url(image) && is_metadata(image) {
        json!({"stream": {"url": image}})
    } else if is_url(image) {
        json!({"url": image})
    } else {
        // The installer may run in another directory.
        let path = std::path::absolute(image).with_context(|| format!("--image {image}"))?;
        json!({"file": path.to_str().with_context(|| format!("--image {image} is not UTF-8"))?})
    };
    if let Some(hash) = &options.offline.image_hash {
        source["hash"] = hash.as_str().into();
    }
    if options.allow_insecure_image {
        source["insecure"] = true.into();
    }
    Ok(source)
}

/// Whether an address is that of stream metadata, as `…/streams/stable.json`.
fn is_metadata(address: &str) -> bool {
    let path = address.split(['?', '#']).next().map(Path::new);
    path.and_then(Path::extension).is_some_and(|extension| extension == "json")
}

/// The disk of `--disk` or `--hints`; null without them.
///
/// # Errors
/// If the agent would not understand it.
pub(crate) fn disk(offline: &OfflineOptions) -> anyhow::Result<Value> {
    if let Some(device) = &offline.disk {
        check_device(device)?;
        return Ok(json!({"device": device}));
    }
    let hints = hints(offline)?;
    Ok(if hints.is_empty() { Value::Null } else { json!({"hints": hints}) })
}

/// Checks the value of `--disk` before anything is read.
///
/// # Errors
/// If it is no path of a device.
pub(crate) fn check_device(device: &str) -> anyhow::Result<()> {
    if device.starts_with("/dev/") {
        return Ok(());
    }
    bail!(
        "--disk is {device}, expected a path below /dev, e.g. /dev/disk/by-id/…",
        device = clean::quoted(device, 100)
    )
}

/// The hints of all values together.
///
/// # Errors
/// If the agent would not understand one.
fn hints(offline: &OfflineOptions) -> anyhow::Result<Map<String, Value>> {
    let hints = from_option(&offline.hints).map_err(|error| anyhow!(error))?;
    if !offline.hints.is_empty() {
        Hints::parse(&hints).map_err(|error| anyhow!("--hints: {error}"))?;
    }
    Ok(hints)
}

/// Kernel arguments; a source that cannot repeat an option gives several in one text.
fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().flat_map(|arguments| arguments.split_whitespace()).collect()
}

pub(crate) fn is_url(text: &str) -> bool {
    text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use crate::config::{Sources, configure};

    fn instruction_of(kernel: &[(&str, &str)]) -> Value {
        let kernel = kernel.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let sources = Sources { kernel, ..Sources::default() };
        let configuration = configure(&["run-coreos-installer".into()], &sources, true).unwrap();
        let Some(Command::Install(options)) = &configuration.cli.command else { panic!() };
        let offline = offline(options, &configuration.settings).unwrap().unwrap();
        crate::api::parse_instruction(&offline.instruction).unwrap();
        serde_json::from_slice(&offline.instruction).unwrap()
    }

    #[test]
    fn options_become_an_instruction_that_the_agent_accepts() {
        let instruction = instruction_of(&[
            ("ignition", "https://h/node.ign"),
            ("ignition_hash", "sha256-0"),
            ("hints", "serial=S1, size=>= 10"),
            ("image", "https://h/image.raw.xz"),
            ("image_hash", "sha256-1"),
            ("save_partlabel", "data*,var"),
            ("append_karg", "a=1 console=ttyS0,115200n8"),
            ("firstboot_args", "rd.neednet=1 ip=dhcp"),
            ("copy_network", "true"),
            ("verify", "full"),
            ("on_unproved", "keep"),
        ]);
        let expected = json!({
            "ignition": {"url": "https://h/node.ign", "hash": "sha256-0"},
            "disk": {"hints": {"serial": "S1", "size": ">= 10"}},
            "image": {"url": "https://h/image.raw.xz", "hash": "sha256-1"},
            "save_partlabel": ["data*", "var"],
            "append_kargs": ["a=1", "console=ttyS0,115200n8"],
            "firstboot_args": "rd.neednet=1 ip=dhcp",
            "copy_network": true,
            "verify": "full",
            "on_unproved": "keep",
        });
        assert_eq!(instruction["install"], expected);
    }

    #[test]
    fn malformed_ignition_file_is_refused_at_the_start_by_name_and_place() {
        let path = std::env::temp_dir().join(format!("rci-{}-cut.ign", std::process::id()));
        std::fs::write(&path, "{\"ignition\": {\n  \"version\" \"3.3.0\"}}").unwrap();
        let error = ignition_source(path.to_str().unwrap(), None).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        let start = format!("--ignition {}: the Ignition config is refused: ", path.display());
        assert!(error.starts_with(&start) && error.contains("line 2 column 13"), "{error}");
    }

    #[test]
    fn image_is_an_address_stream_metadata_or_a_file() {
        for (image, expected) in [
            ("https://h/image.raw.xz", json!({"url": "https://h/image.raw.xz"})),
            ("https://h/a.json.xz", json!({"url": "https://h/a.json.xz"})),
            ("https://h/stable.json?x=1", json!({"stream": {"url": "https://h/stable.json?x=1"}})),
            ("/images/a.json", json!({"file": "/images/a.json"})),
        ] {
            let found = instruction_of(&[("ignition", "https://h/i"), ("image", image)]);
            assert_eq!(found["install"]["image"], expected);
        }
    }

    #[test]
    fn hints_are_a_json_object_too_and_a_disk_is_a_device() {
        let json =
            [("ignition", "https://h/i"), ("hints", r#"{"serial":"a,b","rotational":false}"#)];
        let expected = json!({"hints": {"serial": "a,b", "rotational": false}});
        assert_eq!(instruction_of(&json)["install"]["disk"], expected);
        let device = [("ignition", "https://h/i"), ("disk", "/dev/sda")];
        assert_eq!(instruction_of(&device)["install"]["disk"], json!({"device": "/dev/sda"}));
    }

    #[test]
    fn assisted_service_needs_an_address_and_an_infra_env_and_no_dry_run() {
        let outcome = |kernel: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let kernel = kernel.iter().map(pair).collect();
            let sources = Sources { kernel, ..Sources::default() };
            let words = ["run-coreos-installer".into(), "install".into()];
            let configuration = configure(&words, &sources, true).unwrap();
            let Some(Command::Install(options)) = &configuration.cli.command else { panic!() };
            offline(options, &configuration.settings).map_err(|error| error.to_string())
        };
        let (backend, vim) = (("backend", "assisted"), ("vim", "https://assisted.example"));
        let env = ("infra-env-id", "11111111-2222-4333-8444-555555555555");
        assert_eq!(outcome(&[backend, vim, env, ("block-on", "never")]), Ok(None));
        let blocked = [vim, ("block-on", "warning"), ("block-also", "disk.*,memory.lost@A1")];
        assert_eq!(outcome(&blocked), Ok(None));
        let misspelt = outcome(&[vim, ("block-except", "memory.lots")]).unwrap_err();
        assert!(misspelt.ends_with("the nearest is memory.lost"), "{misspelt}");
        for (kernel, words) in [
            (&[backend, env][..], "the address of assisted-service is missing"),
            (&[backend, vim][..], "expected the UUID of the infra-env"),
            (
                &[backend, vim, ("infra_env_id", "x")][..],
                "rci.infra_env_id is \"x\", expected the UUID",
            ),
            (
                &[backend, vim, env, ("dry-run", "true")][..],
                "is not possible with assisted-service",
            ),
            (&[vim, env][..], "needs --backend assisted"),
            (&[backend, vim, env, ("disk", "/dev/sda")][..], "is for an install without a VIM"),
        ] {
            let error = outcome(kernel).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}

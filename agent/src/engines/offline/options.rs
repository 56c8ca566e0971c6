//! `install` without a VIM: the options become an order.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args as _;
use formats::command_line;
use serde::de::DeserializeOwned;

use super::{Settings, words};
use crate::act::blocking::check_pattern;
use crate::act::hints::{Hints, from_option};
use crate::act::{DiskChoice, IgnitionSource, ImageSource, Order, Override, StreamSource};
use crate::bounded;
use crate::clean;
use crate::cli::{Backend, BlockOptions, DataOptions, InstallOptions, OfflineOptions};
use crate::config::{Origin, Setting};
use crate::engines::vim::ResultFile;
use crate::http::client::MAX_IGNITION_BYTES;
use crate::secret::redact;

/// Options that only mean something with a VIM.
const OF_A_VIM: [&str; 9] = [
    "vim",
    "vim-key",
    "token-file",
    "give-up-after",
    "on-refusal",
    "backend",
    "callback-url",
    "agent-port",
    "clean-disk",
];

/// Returns the install without a VIM; `None` if there is a VIM. `settings` are the options with their sources.
///
/// # Errors
/// If options contradict each other, or the Ignition config cannot be read.
pub(crate) fn offline(
    options: &InstallOptions,
    settings: &[Setting],
) -> anyhow::Result<Option<Settings>> {
    check_backend(options, settings)?;
    check_combination(options, settings)?;
    check_patterns(&options.block)?;
    let Some(ignition) = &options.offline.ignition else { return Ok(None) };
    let order = order(ignition, options)?;
    let asked = asked(settings, order.ignition.inline.as_deref().unwrap_or_default());
    Ok(Some(Settings {
        order,
        asked,
        result: ResultFile(options.offline.result.clone()),
        after: options.offline.after,
    }))
}

/// The options that are set and the config, as text: a new version of the agent must know them again.
fn asked(settings: &[Setting], config: &str) -> String {
    let command = OfflineOptions::augment_args(clap::Command::new(""));
    let mut names: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    names.retain(|name| !["again", "reinstall", "after", "result"].contains(name));
    names.sort_unstable();
    let asked = names.into_iter().filter_map(|name| set(settings, name));
    let lines = asked.map(|setting| format!("{}={}\n", setting.name, setting.values.join(",")));
    lines.chain([config.to_owned()]).collect()
}

/// Checks the codes of findings that prevent an install, or do not.
///
/// # Errors
/// If one matches no finding.
pub(crate) fn check_patterns(options: &BlockOptions) -> anyhow::Result<()> {
    options.block_also.iter().chain(&options.block_except).try_for_each(|pattern| {
        check_pattern(pattern).map_err(|error| anyhow!("block-also or block-except: {error}"))
    })
}

/// Checks the options that depend on the kind of server.
fn check_backend(options: &InstallOptions, settings: &[Setting]) -> anyhow::Result<()> {
    let [vim_key, backend, infra_env_id, dry_run] =
        ["vim-key", "backend", "infra-env-id", "dry-run"].map(|name| written(settings, name));
    ensure!(
        options.vim.vim_key.is_none() || options.ironic.backend == Backend::Vim,
        "{vim_key} is for a VIM, as no other back end signs its answers: drop it or {backend}"
    );
    let id = options.assisted.infra_env_id.as_deref();
    if options.ironic.backend != Backend::Assisted {
        ensure!(id.is_none(), "{infra_env_id} needs {backend} assisted");
        return Ok(());
    }
    ensure!(
        options.vim.vim.is_some(),
        "{backend} is assisted, but the address of assisted-service is missing; give it with --vim, rci.vim= or RCI_VIM="
    );
    ensure!(
        !options.dry_run,
        "{dry_run} is not possible with assisted-service, which would wait for an install that never comes"
    );
    ensure!(
        id.is_some_and(|id| formats::guid::parse(id).is_some()),
        "{infra_env_id} is {}, expected the UUID of the infra-env",
        clean::quoted(id.unwrap_or_default(), 64)
    );
    Ok(())
}

/// Refuses options of an install with a VIM together with those of an install without one.
fn check_combination(options: &InstallOptions, settings: &[Setting]) -> anyhow::Result<()> {
    let (vim, ignition) = (written(settings, "vim"), written(settings, "ignition"));
    match (&options.vim.vim, &options.offline.ignition) {
        (Some(_), Some(_)) => bail!(
            "{vim} and {ignition} are both set: drop {vim} to install this config without a VIM, or {ignition} to install \
             what the VIM asks for"
        ),
        (None, None) => bail!(
            "no VIM is configured; give its address with --vim, rci.vim= or RCI_VIM=, or install without \
             one with --ignition"
        ),
        (Some(_), None) => option_without_a_vim(settings).map_or(Ok(()), |first| {
            bail!(
                "{} is for an install without a VIM: drop it, as the VIM decides that, or set --ignition instead of {vim}",
                first.written()
            )
        }),
        (None, Some(_)) => option_of_a_vim(settings).map_or(Ok(()), |first| {
            bail!(
                "{} is for an install with a VIM: drop it, or set --vim instead of {ignition}",
                first.written()
            )
        }),
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

fn written(settings: &[Setting], name: &str) -> String {
    set(settings, name).map_or_else(|| format!("--{name}"), Setting::written)
}

/// The order that the options amount to.
fn order(ignition: &str, options: &InstallOptions) -> anyhow::Result<Order> {
    let offline = &options.offline;
    check_url("--ignition", ignition, options)?;
    check_url("--image", offline.image.as_deref().unwrap_or_default(), options)?;
    Ok(Order {
        ignition: IgnitionSource {
            skip_pointers: offline.skip_pointers,
            ..ignition_source(ignition, offline.ignition_hash.clone())?
        },
        image: image(options)?,
        disk: disk(offline.disk.as_deref(), &offline.hints)?,
        existing_data: known(offline.data.existing_data.as_deref()),
        overrides: overrides(&offline.data),
        save_partlabel: offline.save_partlabel.clone(),
        save_partindex: offline.save_partindex.clone(),
        append_kargs: arguments(&offline.append_karg),
        delete_kargs: arguments(&offline.delete_karg),
        firstboot_args: offline.firstboot_args.clone(),
        platform: offline.platform.clone(),
        console: offline.console.clone(),
        copy_network: offline.copy_network,
        verify: known(offline.verify.as_deref()).unwrap_or_default(),
        on_unproved: known(offline.on_unproved.as_deref()).unwrap_or_default(),
        boot_order: known(offline.boot_order.as_deref()).unwrap_or_default(),
        again: known(offline.again.as_deref()).unwrap_or_default(),
        reinstall: offline.reinstall,
        ..Order::default()
    })
}

/// The overrides of `--override`.
pub(crate) fn overrides(data: &DataOptions) -> Vec<Override> {
    data.overrides.iter().filter_map(|word| known(Some(word))).collect()
}

/// The value of an option that the command line limits to the API's words.
pub(crate) fn known<T: DeserializeOwned>(value: Option<&str>) -> Option<T> {
    value.and_then(|text| serde_json::from_value(text.into()).ok())
}

/// Checks that the configuration allows this address, before anything is read.
fn check_url(option: &str, address: &str, options: &InstallOptions) -> anyhow::Result<()> {
    ensure!(
        options.vim.allow_plain_http || !address.starts_with("http://"),
        "{option} is {:?}, expected https, or plain HTTP with --allow-plain-http",
        redact(address)
    );
    Ok(())
}

/// The config at an address, or in a file.
///
/// # Errors
/// The file cannot be read, or contains no valid config.
pub(crate) fn ignition_source(
    ignition: &str,
    hash: Option<String>,
) -> anyhow::Result<IgnitionSource> {
    if is_url(ignition) {
        let url = Some(ignition.to_owned());
        return Ok(IgnitionSource { url, hash, ..IgnitionSource::default() });
    }
    let text = ignition_text(ignition).context("reading --ignition")?;
    // Preflight checks it again, but only once the hardware has been read.
    ignition::check(text.as_bytes())
        .map_err(|refusal| anyhow!("--ignition {ignition}: {refusal}"))?;
    Ok(IgnitionSource { inline: Some(text), hash, ..IgnitionSource::default() })
}

/// The text of the file.
pub(crate) fn ignition_text(file: &str) -> anyhow::Result<String> {
    let bytes = bounded::read_file(Path::new(file), MAX_IGNITION_BYTES)?;
    String::from_utf8(bytes)
        .map_err(|_| anyhow!("{file} contains bytes that are not UTF-8, expected JSON"))
}

fn image(options: &InstallOptions) -> anyhow::Result<Option<ImageSource>> {
    let Some(image) = &options.offline.image else { return Ok(None) };
    let mut source = ImageSource {
        hash: options.offline.image_hash.clone(),
        insecure: options.allow_insecure_image,
        ..ImageSource::default()
    };
    if is_url(image) && is_metadata(image) {
        source.stream = Some(StreamSource { url: image.clone(), ..StreamSource::default() });
    } else if is_url(image) {
        source.url = Some(image.clone());
    } else {
        // The installer may run in another directory.
        let path = std::path::absolute(image).with_context(|| format!("--image {image}"))?;
        let path = path.to_str().with_context(|| format!("--image {image} is not UTF-8"))?;
        source.file = Some(path.to_owned());
    }
    Ok(Some(source))
}

/// True if an address is that of stream metadata, as `…/streams/stable.json`.
fn is_metadata(address: &str) -> bool {
    let path = address.split(['?', '#']).next().map(Path::new);
    path.and_then(Path::extension).is_some_and(|extension| extension == "json")
}

/// The disk of `--disk` or `--hints`.
///
/// # Errors
/// If the agent would not understand it.
pub(crate) fn disk(device: Option<&str>, hints: &[String]) -> anyhow::Result<Option<DiskChoice>> {
    if let Some(device) = device {
        check_device(device)?;
        return Ok(Some(DiskChoice { device: Some(device.to_owned()), ..DiskChoice::default() }));
    }
    if hints.is_empty() {
        return Ok(None);
    }
    let hints = from_option(hints).map_err(|error| anyhow!(error))?;
    Hints::parse(&hints).map_err(|error| anyhow!("--hints: {}", error.in_words(words)))?;
    Ok(Some(DiskChoice { hints: Some(hints), ..DiskChoice::default() }))
}

/// Checks the value of `--disk` before anything is read.
///
/// # Errors
/// If it is not the path of a device.
pub(crate) fn check_device(device: &str) -> anyhow::Result<()> {
    ensure!(
        device.starts_with("/dev/"),
        "--disk is {}, expected a path below /dev, e.g. /dev/disk/by-id/…",
        clean::quoted(device, 100)
    );
    Ok(())
}

/// Kernel arguments; a source that cannot repeat an option gives several in one text.
pub(crate) fn arguments(arguments: &[String]) -> Vec<String> {
    let split =
        |arguments| command_line::arguments(arguments).map(|found| found.written.to_owned());
    arguments.iter().flat_map(|arguments| split(arguments)).collect()
}

pub(crate) fn is_url(text: &str) -> bool {
    text.contains("://")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::cli::Command;
    use crate::config::{Sources, configure};
    use crate::engines::vim::order::tests::of;

    /// The settings that follow from the parameters of the kernel.
    fn outcome(kernel: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let kernel = kernel.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let sources = Sources { kernel, ..Sources::default() };
        let words = ["run-coreos-installer".into(), "install".into()];
        let configuration = configure(&words, &sources, true).unwrap();
        let Some(Command::Install(options)) = &configuration.cli.command else { panic!() };
        offline(options, &configuration.settings).map_err(|error| error.to_string())
    }

    fn order_of(kernel: &[(&str, &str)]) -> Order {
        outcome(kernel).unwrap().unwrap().order
    }

    #[test]
    fn options_become_an_order() {
        let order = order_of(&[
            ("ignition", "https://h/node.ign"),
            ("ignition_hash", "sha256-0"),
            ("skip_pointers", "true"),
            ("hints", "serial=S1, size=>= 10"),
            ("image", "https://h/image.raw.xz"),
            ("image_hash", "sha256-1"),
            ("save_partlabel", "data*,var"),
            ("append_karg", "a=1 console=ttyS0,115200n8 dyndbg=\"file x +p\""),
            ("firstboot_args", "rd.neednet=1 ip=dhcp"),
            ("copy_network", "true"),
            ("verify", "full"),
            ("on_unproved", "keep"),
            ("boot_order", "network"),
        ]);
        let expected = json!({
            "ignition": {"url": "https://h/node.ign", "hash": "sha256-0"},
            "check_pointers": false,
            "disk": {"hints": {"serial": "S1", "size": ">= 10"}},
            "image": {"url": "https://h/image.raw.xz", "hash": "sha256-1"},
            "save_partlabel": ["data*", "var"],
            "append_kargs": ["a=1", "console=ttyS0,115200n8", "dyndbg=\"file x +p\""],
            "firstboot_args": "rd.neednet=1 ip=dhcp",
            "copy_network": true,
            "verify": "full",
            "on_unproved": "keep",
            "boot_order": "network",
        });
        assert_eq!(order, of(&expected));
    }

    #[test]
    fn options_ask_for_the_same_whatever_follows_once_it_is_done() {
        let asked = |more: &[(&str, &str)]| {
            let settings = outcome(&[&[("ignition", "https://h/a.ign")], more].concat());
            settings.unwrap().unwrap().asked
        };
        assert_eq!(asked(&[]), "ignition=https://h/a.ign\n");
        for after in [("again", "install"), ("reinstall", "true"), ("after", "stay")] {
            assert_eq!(asked(&[after]), asked(&[]), "{after:?}");
        }
        let other = "disk=/dev/sda\nignition=https://h/a.ign\n";
        assert_eq!(asked(&[("disk", "/dev/sda")]), other);
    }

    #[test]
    fn malformed_ignition_file_is_refused_at_the_start_by_name_and_place() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{\"ignition\": {\n  \"version\" \"3.3.0\"}}").unwrap();
        let path = file.path().to_str().unwrap();
        let error = ignition_source(path, None).unwrap_err().to_string();
        let start = format!("--ignition {path}: the Ignition config is refused: ");
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
            let found = order_of(&[("ignition", "https://h/i"), ("image", image)]);
            assert_eq!(found.image, of(&json!({"image": expected})).image);
        }
    }

    #[test]
    fn hints_are_a_json_object_too_and_a_disk_is_a_device() {
        let json =
            [("ignition", "https://h/i"), ("hints", r#"{"serial":"a,b","rotational":false}"#)];
        let disk = |choice: Value| of(&json!({"disk": choice})).disk;
        let expected = json!({"hints": {"serial": "a,b", "rotational": false}});
        assert_eq!(order_of(&json).disk, disk(expected));
        let device = [("ignition", "https://h/i"), ("disk", "/dev/sda")];
        assert_eq!(order_of(&device).disk, disk(json!({"device": "/dev/sda"})));
    }

    #[test]
    fn assisted_service_needs_an_address_and_an_infra_env_and_no_dry_run() {
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
        ] {
            let error = outcome(kernel).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}

//! The option names in `live-config` errors: [`ignition::live`] names its settings, the user wrote options.

use formats::data;
use ignition::live::LiveError;

use crate::config::Setting;
use crate::engines::offline;

/// Settings whose option is not their own name in the singular, without `boot.` and with hyphens.
const OPTIONS: &str = include_str!("names.txt");

/// Returns the option `name` as the user wrote it; as on the command line if no source sets it.
pub(super) fn written(name: &str, settings: &[Setting]) -> String {
    let setting = settings.iter().find(|setting| setting.name == name);
    setting.map_or_else(|| format!("--{name}"), Setting::written)
}

/// Returns the text of `error` with option names in place of settings.
pub(super) fn in_options(error: &LiveError, settings: &[Setting]) -> String {
    let LiveError::Setting { setting, found, expected } = error else { return error.to_string() };
    if *setting == "boot" {
        return "this --format needs --kernel-url and --initramfs-url".to_owned();
    }
    let own = setting.trim_start_matches("boot.").trim_end_matches('s').replace('_', "-");
    let names = data::lookup(OPTIONS, setting).unwrap_or(&own).split(' ');
    let names: Vec<String> = names.map(|name| written(name, settings)).collect();
    let expected = expected.replace("allow_plain_http", &written("allow-plain-http", settings));
    format!("{} is {found}, expected {expected}", names.join(" or "))
}

/// Options that only an Ignition config can carry, in help order; `install` counts if it names a file.
pub(super) const OF_IGNITION: &str = "vim-key ca-file token-file client-cert-file client-key-file proxy no-proxy give-up-after \
     install vim-address vim-name binary binary-on-iso binary-url binary-gz agent-option ssh-key password-hash-file \
     autologin hold-logins hostname file tree merge unit network network-metadata mirror-ca";
/// Options that only kernel arguments can carry, in help order.
pub(super) const OF_BOOT_LOADER: &str = "platform append-karg kernel-url initramfs-url rootfs-url";

/// Returns those of the options `names` that a source sets, as the user wrote them; `None` if none is set.
pub(super) fn set_among(names: &str, settings: &[Setting]) -> Option<String> {
    let is_file = |s: &Setting| s.values.iter().any(|install| !offline::is_url(install));
    let set = names.split(' ').filter(|name| {
        let mut settings = settings.iter().filter(|setting| setting.name == *name);
        settings.any(|setting| setting.is_set() && (*name != "install" || is_file(setting)))
    });
    let set: Vec<String> = set.map(|name| written(name, settings)).collect();
    (!set.is_empty()).then(|| set.join(", "))
}

//! The option names in `live-config` errors: [`ignition::live`] names its settings, the user wrote options.

use ignition::live::LiveError;

use crate::config::Setting;
use crate::engines::offline;

/// Settings whose option is not their own name in the singular, without `boot.` and with hyphens.
const OPTIONS: [(&str, &[&str]); 12] = [
    ("vim_addresses", &["vim-address"]),
    ("ca", &["ca-file"]),
    ("client_cert or client_key", &["client-cert-file", "client-key-file"]),
    ("client_cert and client_key", &["client-cert-file", "client-key-file"]),
    ("token", &["token-file"]),
    ("agent.url", &["binary-url"]),
    ("agent.iso_path", &["binary-on-iso"]),
    ("agent.hash", &["binary"]),
    ("password_hash", &["password-hash-file"]),
    ("kernel_arguments", &["append-karg"]),
    ("files.url", &["file"]),
    ("files.hash", &["file"]),
];

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
    let known = OPTIONS.iter().find(|(name, _)| name == setting);
    let own = setting.trim_start_matches("boot.").trim_end_matches('s').replace('_', "-");
    let names = known.map_or_else(|| vec![own.as_str()], |(_, options)| options.to_vec());
    let names: Vec<String> = names.into_iter().map(|name| written(name, settings)).collect();
    let expected = expected.replace("allow_plain_http", &written("allow-plain-http", settings));
    format!("{} is {found}, expected {expected}", names.join(" or "))
}

/// Options that only an Ignition config can carry, in help order; `install` counts if it names a file.
pub(super) const OF_IGNITION: &str = "vim-key ca-file token-file client-cert-file client-key-file proxy no-proxy give-up-after \
     install vim-address vim-name binary binary-on-iso binary-url binary-gz agent-option ssh-key password-hash-file \
     autologin hostname file unit network network-metadata mirror-ca";
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

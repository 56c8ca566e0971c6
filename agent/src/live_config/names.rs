//! The option names in `live-config` errors: [`ignition::live`] names its settings, the user wrote options.

use ignition::live::LiveError;

use crate::cli::LiveConfigOptions;
use crate::config::Setting;
use crate::engines::offline;

/// Settings whose names differ from the options that set them.
const OPTIONS: [(&str, &[&str]); 22] = [
    ("vim_addresses", &["vim-address"]),
    ("vim_names", &["vim-name"]),
    ("ca", &["ca-file"]),
    ("client_cert or client_key", &["client-cert-file", "client-key-file"]),
    ("client_cert and client_key", &["client-cert-file", "client-key-file"]),
    ("token", &["token-file"]),
    ("agent.url", &["binary-url"]),
    ("agent.iso_path", &["binary-on-iso"]),
    ("agent.hash", &["binary"]),
    ("agent_options", &["agent-option"]),
    ("ssh_keys", &["ssh-key"]),
    ("password_hash", &["password-hash-file"]),
    ("config_url", &["config-url"]),
    ("kernel_arguments", &["append-karg"]),
    ("boot.kernel_url", &["kernel-url"]),
    ("boot.initramfs_url", &["initramfs-url"]),
    ("rootfs_url", &["rootfs-url"]),
    ("files", &["file"]),
    ("files.url", &["file"]),
    ("files.hash", &["file"]),
    ("units", &["unit"]),
    ("network_metadata", &["network-metadata"]),
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
    let names = known.map_or_else(|| vec![*setting], |(_, options)| options.to_vec());
    let names: Vec<String> = names.into_iter().map(|name| written(name, settings)).collect();
    let expected = expected.replace("allow_plain_http", &written("allow-plain-http", settings));
    format!("{} is {found}, expected {expected}", names.join(" or "))
}

/// Returns the set options that only an Ignition config can carry, in help order.
pub(super) fn of_ignition(options: &LiveConfigOptions) -> Vec<&'static str> {
    let all = [
        ("ca-file", options.vim.ca_file.is_some()),
        ("token-file", options.vim.token_file.is_some()),
        ("client-cert-file", options.vim.client_cert_file.is_some()),
        ("client-key-file", options.vim.client_key_file.is_some()),
        ("proxy", options.vim.proxy.is_some()),
        ("no-proxy", !options.vim.no_proxy.is_empty()),
        ("give-up-after", options.vim.give_up_after.is_some()),
        ("install", options.install.as_deref().is_some_and(|install| !offline::is_url(install))),
        ("vim-address", !options.vim_address.is_empty()),
        ("vim-name", !options.vim_name.is_empty()),
        ("binary", options.binary.is_some()),
        ("binary-on-iso", options.binary_on_iso.is_some()),
        ("binary-url", options.binary_url.is_some()),
        ("binary-gz", options.binary_gz.is_some()),
        ("agent-option", !options.agent_option.is_empty()),
        ("ssh-key", !options.ssh_key.is_empty()),
        ("password-hash-file", options.password_hash_file.is_some()),
        ("autologin", options.autologin),
        ("hostname", options.hostname.is_some()),
        ("file", !options.file.is_empty()),
        ("unit", !options.unit.is_empty()),
        ("network", !options.network.is_empty()),
        ("network-metadata", options.network_metadata.is_some()),
        ("mirror-ca", options.mirror_ca.is_some()),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

/// Returns the set options that only kernel arguments can carry, in help order.
pub(super) fn of_boot_loader(options: &LiveConfigOptions) -> Vec<&'static str> {
    let all = [
        ("platform", options.platform.is_some()),
        ("append-karg", !options.append_karg.is_empty()),
        ("kernel-url", options.kernel_url.is_some()),
        ("initramfs-url", options.initramfs_url.is_some()),
        ("rootfs-url", options.rootfs_url.is_some()),
    ];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

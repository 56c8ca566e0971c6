//! The running system: `/proc/sys/kernel/`, `/proc/cmdline`, `os-release(5)`.
//!
//! Boot and machine id are left out: the same machine shall give the same bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, clock};
use crate::confidential::{ConfidentialComputing, confidential_computing};
use crate::cpu;
use crate::iommu::{Iommu, iommu};
use crate::kernel_log::{KernelMessages, kernel_log};
use crate::machine::Machine;
use crate::sys::pstore::Crashes;
use crate::virtualization;
use formats::command_line::{last_value, without_secrets};

/// The running system.
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Os {
    /// Host name now.
    pub hostname: Option<String>,
    /// Release of the kernel, e.g. `6.17.4-200.fc42.x86_64`.
    pub kernel: Option<String>,
    /// Name of the distribution, e.g. `Fedora CoreOS 42.20251012.3.0`.
    pub distribution: Option<String>,
    /// `ID` of os-release, e.g. `fedora`.
    pub distribution_id: Option<String>,
    /// `VERSION_ID` of os-release, e.g. `42`.
    pub distribution_version: Option<String>,
    /// `VARIANT_ID` of os-release, e.g. `coreos`.
    pub variant_id: Option<String>,
    /// Version of the image, e.g. `42.20251012.3.0` (`OSTREE_VERSION`, `IMAGE_VERSION`).
    pub image_version: Option<String>,
    /// Kernel arguments without secrets (`/proc/cmdline`). `<redacted>` replaces the values of arguments
    /// that are named like secrets (`inst.sshpw=`, `rd.luks.key=`, …), and users, passwords and queries
    /// in URLs.
    pub command_line: Option<String>,
    /// Machine type as `uname -m` prints it, e.g. `x86_64`, `aarch64`.
    pub architecture: Option<String>,
    /// The hypervisor that runs the machine as a guest, e.g. `kvm`, `vmware`; `none` on bare metal;
    /// `vm-other` for an unknown hypervisor; `None` without evidence either way.
    pub virtualization: Option<String>,
    /// The container that the system runs in, e.g. `podman`, `lxc`; `None` outside of one.
    pub container: Option<String>,
    /// The protection of guest memory from the host; `None` if unknown.
    pub confidential_computing: Option<ConfidentialComputing>,
    /// The IOMMU; `None` without a sign of one.
    pub iommu: Option<Iommu>,
    /// State of the clocks.
    pub clock: Option<Clock>,
    /// Taint of the kernel, as the bits of `/proc/sys/kernel/tainted`
    /// (`Documentation/admin-guide/tainted-kernels.rst`); 0 means none.
    pub kernel_taint: Option<u64>,
    /// Access that the kernel denies even root: `none`, `integrity` or `confidentiality`
    /// (`/sys/kernel/security/lockdown`).
    pub lockdown: Option<String>,
    /// True if only approved cryptography is used (`/proc/sys/crypto/fips_enabled`).
    pub is_fips_enabled: Option<bool>,
    /// Messages of the kernel about hardware faults since boot. Other messages are not read.
    pub kernel_log: Vec<KernelMessages>,
    /// Crashes of an earlier kernel that it stored for the next boot (`/sys/fs/pstore`).
    pub earlier_crashes: Vec<EarlierCrash>,
    /// The booted live image; `None` on an installed system.
    pub live_image: Option<LiveImage>,
}

/// One record of a crash; a crash can have several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EarlierCrash {
    /// Name of the record, e.g. `dmesg-efi-165243210901001`.
    pub record: String,
    /// The message of the crash, if the record contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The boot of the live image.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LiveImage {
    /// `iso` or `pxe`.
    pub kind: String,
    /// Label of the ISO that the live system runs from (`coreos.liveiso=`).
    pub iso_label: Option<String>,
    /// Address from which the root file system was fetched (`coreos.live.rootfs_url=`); `<redacted>` replaces a
    /// user, password or query in it.
    pub rootfs_url: Option<String>,
}

/// Reads the running system.
pub fn os(machine: &Machine) -> Os {
    let releases = ["etc/os-release", "usr/lib/os-release", "etc/initrd-release"];
    let release = releases.iter().find_map(|path| machine.text(path)).unwrap_or_default();
    let field = |name: &str| os_release_field(&release, name);
    let command_line = machine.text("proc/cmdline");
    let shown = command_line.as_deref().map(without_secrets);
    let live_image = live_image(machine, shown.as_deref().unwrap_or_default());
    let hostname =
        machine.text("proc/sys/kernel/hostname").or_else(|| machine.text("etc/hostname"));
    Os {
        hostname: hostname.filter(|name| name != "(none)"),
        kernel: cpu::kernel_release(machine),
        distribution: field("PRETTY_NAME").or_else(|| field("NAME")),
        distribution_id: field("ID"),
        distribution_version: field("VERSION_ID"),
        variant_id: field("VARIANT_ID"),
        image_version: field("OSTREE_VERSION").or_else(|| field("IMAGE_VERSION")),
        kernel_log: kernel_log(machine),
        earlier_crashes: earlier_crashes(machine, live_image.is_some()),
        live_image,
        confidential_computing: confidential_computing(machine),
        iommu: iommu(machine, command_line.as_deref().unwrap_or_default()),
        clock: clock(machine),
        kernel_taint: machine.number("proc/sys/kernel/tainted"),
        lockdown: machine.text("sys/kernel/security/lockdown").and_then(|t| chosen(&t)),
        is_fips_enabled: machine.flag("proc/sys/crypto/fips_enabled"),
        command_line: shown,
        architecture: cpu::architecture(machine),
        virtualization: virtualization::hypervisor(machine),
        container: virtualization::container(machine),
    }
}

fn earlier_crashes(machine: &Machine, is_live: bool) -> Vec<EarlierCrash> {
    let answer = machine.ask(&Crashes { is_live }).unwrap_or_default();
    let records = String::from_utf8_lossy(&answer);
    let crash = |line: &str| {
        let (record, message) = line.split_once('\t').unzip();
        let record = record.unwrap_or(line).to_owned();
        EarlierCrash { record, message: message.map(str::to_owned) }
    };
    records.lines().map(crash).collect()
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    let (word, _) = text.split_once('[')?.1.split_once(']')?;
    Some(word.to_owned())
}

/// A value of os-release, without the quotes and escapes of the shell.
fn os_release_field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
    let value = value.trim();
    let inner = |quote: char| value.strip_prefix(quote).map(|v| v.strip_suffix(quote).unwrap_or(v));
    let plain = match (inner('\''), inner('"')) {
        (Some(literal), _) => literal.to_owned(),
        (None, quoted) => unescape(quoted.unwrap_or(value)),
    };
    Some(plain).filter(|plain| !plain.is_empty())
}

fn unescape(text: &str) -> String {
    let mut is_escaped = false;
    let is_kept = |c: &char| {
        is_escaped = *c == '\\' && !is_escaped;
        !is_escaped
    };
    text.chars().filter(is_kept).collect()
}

/// True if the running system is a live image, whose root is in memory.
pub fn is_live_image(machine: &Machine) -> bool {
    let command_line = machine.text("proc/cmdline").unwrap_or_default();
    live_image(machine, &command_line).is_some()
}

/// `coreos.liveiso=LABEL`, `coreos.live.rootfs_url=URL`; a PXE image with its root file system
/// appended has neither, but creates `/run/ostree-live` like the ISO.
fn live_image(machine: &Machine, command_line: &str) -> Option<LiveImage> {
    let argument = |name: &str| last_value(command_line, name).map(str::to_owned);
    let (iso_label, rootfs_url) = (argument("coreos.liveiso"), argument("coreos.live.rootfs_url"));
    let is_live = iso_label.is_some()
        || rootfs_url.is_some()
        || machine.bytes("run/ostree-live").is_some()
        || machine.is_dir("run/ostree-live");
    let kind = if iso_label.is_some() { "iso" } else { "pxe" }.to_owned();
    is_live.then_some(LiveImage { kind, iso_label, rootfs_url })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{has, tree};

    #[test]
    fn live_system_is_recognised() {
        let machine = tree(&[
            ("proc/sys/kernel/hostname", "node-01\n"),
            ("proc/version", "Linux version 6.17.4-200.fc42.x86_64 (x@y) (gcc) #1\n"),
            ("proc/cmdline", "rw coreos.liveiso=fedora-coreos-42 ignition.firstboot\n"),
            ("etc/os-release", "-> ../usr/lib/os-release"),
            (
                "usr/lib/os-release",
                "NAME=\"Fedora Linux\"\nID=fedora\nVERSION_ID=42\nVARIANT_ID=coreos\nPRETTY_NAME=\"Fedora \\\"CoreOS\\\" 42\"\nOSTREE_VERSION='42.20251012.3.0'\nBUG=\"\n",
            ),
            ("proc/cpuinfo", "flags\t\t: fpu lm\n"),
            ("proc/sys/kernel/tainted", "16\n"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ]);
        let expected = json!({
            "hostname": "node-01",
            "kernel": "6.17.4-200.fc42.x86_64",
            "distribution": "Fedora \"CoreOS\" 42",
            "distribution_version": "42",
            "image_version": "42.20251012.3.0",
            "architecture": "x86_64",
            "kernel_taint": 16,
            "lockdown": "integrity",
            "live_image": {"kind": "iso", "iso_label": "fedora-coreos-42"},
        });
        has(&os(&machine), &expected);
    }

    #[test]
    fn command_line_and_root_file_system_url_have_no_secrets() {
        let line = "coreos.live.rootfs_url=http://me:geheim@h/r.img?token=geheim inst.sshpw=geheim";
        let os = os(&tree(&[("proc/cmdline", line)]));
        let url = "http://<redacted>@h/r.img?<redacted>";
        let shown = format!("coreos.live.rootfs_url={url} inst.sshpw=<redacted>");
        assert_eq!(os.command_line, Some(shown));
        assert_eq!(os.live_image.unwrap().rootfs_url.as_deref(), Some(url));
    }

    #[test]
    fn installed_system_is_no_live_image_and_an_empty_tree_has_no_facts() {
        let machine = tree(&[("proc/cmdline", "root=UUID=1 coreos.liveisox=1\n")]);
        assert_eq!(os(&machine).live_image, None);
        assert_eq!(os(&tree(&[("sys/x", "")])), Os::default());
    }
}

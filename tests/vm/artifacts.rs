//! The kernel, images and initramfs that the guests boot, built by `tests/vm/setup` and kept in the cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

/// A file that `tests/vm/setup` makes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Artifact {
    /// The kernel's ELF file. QEMU enters it through its PVH note, which is the fastest start.
    Vmlinux,
    /// The kernel as the distribution packs it, for guests with a TPM: `SeaBIOS` hides ACPI from an ELF kernel there.
    Vmlinuz,
    /// UEFI firmware: its code.
    OvmfCode,
    /// Its store of variables, which each guest copies.
    OvmfVariables,
    /// The live system's root file system, attached as a CD.
    LiveSquashfs,
    /// The live system as an ISO.
    LiveIso,
    /// iPXE, in the form of a kernel.
    IpxeLkrn,
    /// iPXE, as a UEFI program that uses the firmware's network driver.
    SnponlyEfi,
    /// The real coreos-installer, for what it does with ISOs and initramfs files.
    CoreosInstaller,
    /// The live system's initramfs, to which a test appends `/config.ign`.
    LiveInitrd,
    /// The image to install on disks with 512-byte sectors (zstd).
    Image512,
    /// A small image for 512-byte sectors, with an empty root file system (gzip).
    ImageSmall,
    /// The same for 4096-byte sectors.
    Image4096,
    /// The tiny system's initramfs, to which a test appends `/test`.
    TinyInitrd,
}

impl Artifact {
    /// Its name in the output of `tests/vm/setup`.
    fn name(self) -> &'static str {
        match self {
            Self::Vmlinux => "VMLINUX",
            Self::Vmlinuz => "VMLINUZ",
            Self::OvmfCode => "OVMF_CODE",
            Self::OvmfVariables => "OVMF_VARIABLES",
            Self::LiveSquashfs => "LIVE_SQUASHFS",
            Self::LiveIso => "LIVE_ISO",
            Self::IpxeLkrn => "IPXE_LKRN",
            Self::SnponlyEfi => "SNPONLY_EFI",
            Self::CoreosInstaller => "COREOS_INSTALLER",
            Self::LiveInitrd => "LIVE_INITRD",
            Self::Image512 => "IMAGE_512",
            Self::ImageSmall => "IMAGE_SMALL",
            Self::Image4096 => "IMAGE_4096",
            Self::TinyInitrd => "TINY_INITRD",
        }
    }
}

/// The path of an artifact, checked against its digest in this run.
///
/// The first call builds what is missing, unless `RCI_VM_ARTIFACTS` names a file with the output of `tests/vm/setup`.
pub(crate) fn artifact(artifact: Artifact) -> Result<&'static Path> {
    static PATHS: OnceLock<Result<HashMap<String, PathBuf>, String>> = OnceLock::new();
    let paths = PATHS.get_or_init(|| paths().map_err(|err| format!("{err:#}")));
    let paths = paths.as_ref().map_err(|err| anyhow!("{err}"))?;
    let path = paths.get(artifact.name()).map(PathBuf::as_path);
    path.with_context(|| format!("tests/vm/setup printed no line {}=PATH", artifact.name()))
}

/// Reads the `NAME=PATH` lines of the setup script.
fn paths() -> Result<HashMap<String, PathBuf>> {
    let text = match std::env::var_os("RCI_VM_ARTIFACTS").map(PathBuf::from) {
        Some(file) => {
            std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?
        }
        None => run_setup()?,
    };
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, path)| (name.to_owned(), PathBuf::from(path))).collect())
}

/// Runs the setup script; its progress goes to this program's standard error.
fn run_setup() -> Result<String> {
    let script = repository().join("tests/vm/setup");
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{}: {}", script.display(), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The root of the repository. The package with this file is `agent` for the tests and `tests/vm` for the demo.
pub(crate) fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap_or(package)
}

/// An empty folder `target/vm/<test>/` for the logs, reports and disks of a test.
pub(crate) fn test_folder(test: &str) -> Result<PathBuf> {
    let folder = repository().join("target/vm").join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("emptying {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

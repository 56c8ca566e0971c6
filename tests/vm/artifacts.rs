//! The kernel, images and initramfs that the guests boot, built by `tests/vm/setup` and kept in the cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

/// A file that `tests/vm/setup` makes, by its name in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Artifact(&'static str);

impl Artifact {
    /// The kernel's ELF file. QEMU enters it through its PVH note, which is the fastest start.
    pub(crate) const VMLINUX: Self = Self("VMLINUX");
    /// The kernel as the distribution packs it, for guests with a TPM: `SeaBIOS` hides ACPI from an ELF kernel there.
    pub(crate) const VMLINUZ: Self = Self("VMLINUZ");
    /// UEFI firmware: its code.
    pub(crate) const OVMF_CODE: Self = Self("OVMF_CODE");
    /// Its store of variables, which each guest copies.
    pub(crate) const OVMF_VARIABLES: Self = Self("OVMF_VARIABLES");
    /// The live system's root file system, attached as a CD.
    pub(crate) const LIVE_SQUASHFS: Self = Self("LIVE_SQUASHFS");
    /// The live system as an ISO.
    pub(crate) const LIVE_ISO: Self = Self("LIVE_ISO");
    /// iPXE, in the form of a kernel.
    pub(crate) const IPXE_LKRN: Self = Self("IPXE_LKRN");
    /// iPXE, as a UEFI program that uses the firmware's network driver.
    pub(crate) const SNPONLY_EFI: Self = Self("SNPONLY_EFI");
    /// The real coreos-installer, for what it does with ISOs and initramfs files.
    pub(crate) const COREOS_INSTALLER: Self = Self("COREOS_INSTALLER");
    /// The live system's initramfs, to which a test appends `/config.ign`.
    pub(crate) const LIVE_INITRD: Self = Self("LIVE_INITRD");
    /// The image to install on disks with 512-byte sectors (zstd).
    pub(crate) const IMAGE_512: Self = Self("IMAGE_512");
    /// A small image for 512-byte sectors, with an empty root file system (gzip).
    pub(crate) const IMAGE_SMALL: Self = Self("IMAGE_SMALL");
    /// The same for 4096-byte sectors.
    pub(crate) const IMAGE_4096: Self = Self("IMAGE_4096");
    /// The tiny system's initramfs, to which a test appends `/test`.
    pub(crate) const TINY_INITRD: Self = Self("TINY_INITRD");

    /// The name of the file, under which the lab VIM serves an image.
    pub(crate) fn file_name(self) -> Result<String> {
        let name = artifact(self)?.file_name().context("the artifact has no name")?;
        Ok(name.to_string_lossy().into_owned())
    }
}

/// The path of an artifact, checked against its digest in this run.
///
/// The first call builds what is missing, unless `RCI_VM_ARTIFACTS` names a file with the output of `tests/vm/setup`.
pub(crate) fn artifact(artifact: Artifact) -> Result<&'static Path> {
    static PATHS: OnceLock<Result<HashMap<String, PathBuf>, String>> = OnceLock::new();
    let paths = PATHS.get_or_init(|| paths().map_err(|err| format!("{err:#}")));
    let paths = paths.as_ref().map_err(|err| anyhow!("{err}"))?;
    let path = paths.get(artifact.0).map(PathBuf::as_path);
    path.with_context(|| format!("tests/vm/setup printed no line {}=PATH", artifact.0))
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

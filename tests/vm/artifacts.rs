//! What the tests boot, as `tests/vm/setup` left it in the cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

/// Kernel, images and initramfs, each checked against its digest in this run.
#[derive(Debug)]
pub(crate) struct Artifacts {
    /// The kernel's ELF file, entered through its PVH note: the fastest start.
    pub(crate) vmlinux: PathBuf,
    /// The kernel as the distribution packs it; for guests with a TPM, which lose ACPI when `SeaBIOS` starts an ELF file.
    pub(crate) vmlinuz: PathBuf,
    /// The live system's root, as it lies on its CD.
    pub(crate) live_squashfs: PathBuf,
    /// The live system's initramfs, to which a test appends `/config.ign`.
    pub(crate) live_initrd: PathBuf,
    /// The image that gets installed, for disks with 512-byte sectors (zstd).
    pub(crate) image_512: PathBuf,
    /// The same shape for 4096-byte sectors, small and without a system in it (gzip).
    pub(crate) image_4096: PathBuf,
    /// The tiny system's initramfs, to which a test appends `/test`.
    pub(crate) tiny_initrd: PathBuf,
}

/// The artifacts; the first call builds what is missing, which can take half an hour on a machine that has nothing.
pub(crate) fn artifacts() -> Result<&'static Artifacts> {
    static ARTIFACTS: OnceLock<Result<Artifacts, String>> = OnceLock::new();
    let made = ARTIFACTS.get_or_init(|| prepare().map_err(|err| format!("{err:#}")));
    made.as_ref().map_err(|err| anyhow!("{err}"))
}

/// Runs the setup script and reads its `NAME=PATH` lines.
fn prepare() -> Result<Artifacts> {
    let script = repository().join("tests/vm/setup");
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{}: {}", script.display(), output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let paths: HashMap<_, _> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let path = |name: &str| {
        paths
            .get(name)
            .map(PathBuf::from)
            .with_context(|| format!("{} named no {name}", script.display()))
    };
    Ok(Artifacts {
        vmlinux: path("VMLINUX")?,
        vmlinuz: path("VMLINUZ")?,
        live_squashfs: path("LIVE_SQUASHFS")?,
        live_initrd: path("LIVE_INITRD")?,
        image_512: path("IMAGE_512")?,
        image_4096: path("IMAGE_4096")?,
        tiny_initrd: path("TINY_INITRD")?,
    })
}

/// The repository's root.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new("."))
}

/// An empty folder `target/vm/<test>/` for everything that a test leaves: logs, reports, disks.
pub(crate) fn test_folder(test: &str) -> Result<PathBuf> {
    let folder = repository().join("target/vm").join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("emptying {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

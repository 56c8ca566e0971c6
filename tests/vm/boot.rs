//! The three ways to start a guest: the tiny system, the live system, and the system on a disk.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ext4_view::{Ext4, Ext4Read};

use crate::agent::agent_file;
use crate::artifacts::{Artifact, artifact};
use crate::cpio::{GuestFile, append};
use crate::guest::{Boot, Guest, KernelBoot};
use crate::machine::Machine;

/// Time limit of the tiny system; many times what an idle machine needs.
const TINY: Duration = Duration::from_mins(8);

/// Arguments for a fast start and a certain end; `quiet` keeps the kernel's log off the slow console. On a busy host the kernel
/// concludes from too few interrupts that the timer does not work, and panics. The kernel's own tests of ciphers, `AppArmor` and audit
/// cost seconds.
const COMMON: &str = "console=ttyS0 panic=-1 mitigations=off no_timer_check cryptomgr.notests apparmor=0 audit=0 quiet net.ifnames=0";

/// Starts the tiny system, which runs `script` next to the agent and powers off; files in /results are returned.
pub(crate) fn start_tiny(folder: &Path, machine: &Machine, script: &str) -> Result<Guest> {
    let files = [agent_file()?, GuestFile::new("test", 0o755, script)];
    let initrd = folder.join("guest.initrd");
    std::fs::write(&initrd, append(read(artifact(Artifact::TINY_INITRD)?)?, &files))?;
    let (kernel, more) = kernel(machine)?;
    let boot = KernelBoot { kernel, initrd, command_line: format!("{COMMON}{more}"), cd: None };
    Guest::start("guest", folder, machine, &Boot::Kernel(boot), TINY)
}

/// The kernel for a machine, and the arguments that it needs there.
fn kernel(machine: &Machine) -> Result<(PathBuf, &'static str)> {
    // Occasionally the kernel waits for ever for an interrupt of the emulated TPM; without interrupts it polls.
    let (kernel, more) = match (machine.has_tpm, machine.has_uefi) {
        (true, _) => (Artifact::VMLINUZ, " tpm_tis.interrupts=0"),
        // OVMF starts no ELF file.
        (false, true) => (Artifact::VMLINUZ, ""),
        (false, false) => (Artifact::VMLINUX, ""),
    };
    Ok((artifact(kernel)?.to_owned(), more))
}

/// The live system with an Ignition config appended to its initramfs, as for a `CoreOS` live image.
pub(crate) fn live(
    name: &str,
    folder: &Path,
    machine: &Machine,
    ignition: &[u8],
) -> Result<KernelBoot> {
    let initrd = folder.join(format!("{name}.initrd"));
    let config = GuestFile::new("config.ign", 0o600, ignition);
    std::fs::write(&initrd, append(read(artifact(Artifact::LIVE_INITRD)?)?, &[config]))?;
    let (kernel, more) = kernel(machine)?;
    let command_line = format!(
        "{}{more} systemd.show_status=1 ignition.firstboot ignition.platform.id=metal",
        COMMON.replace(" net.ifnames=0", "")
    );
    let cd = Some(artifact(Artifact::LIVE_SQUASHFS)?.to_owned());
    Ok(KernelBoot { kernel, initrd, command_line, cd })
}

/// Does what the boot loader of `CoreOS` does: uses the last BLS entry of the file system `boot` and, while the stamp
/// exists, requests Ignition's first boot.
pub(crate) fn installed(name: &str, folder: &Path) -> Result<KernelBoot> {
    let disk = &folder.join("target.raw");
    let boot = boot_file_system(disk)?;
    let entries = boot
        .read_dir("/loader/entries")
        .context("reading /loader/entries of the boot file system")?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.path().display().to_string());
    }
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "conf"));
    let Some(last) = names.iter().max() else {
        bail!("the boot file system of {} has no BLS entry", disk.display())
    };
    let text = boot.read_to_string(last.as_str())?;
    let value = |key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        found.map(str::trim).with_context(|| format!("{last} has no line \"{key}\""))
    };
    let (kernel, initrd) =
        (folder.join(format!("{name}.linux")), folder.join(format!("{name}.initrd")));
    std::fs::write(&kernel, boot.read(value("linux")?)?)?;
    std::fs::write(&initrd, boot.read(value("initrd")?)?)?;
    let mut command_line = format!(
        "{} panic=-1 no_timer_check cryptomgr.notests apparmor=0 audit=0 console=ttyS0 mitigations=off",
        value("options")?
    );
    if boot.exists("/ignition.firstboot")? {
        command_line += " ignition.firstboot";
        let stamp = boot.read_to_string("/ignition.firstboot")?;
        // coreos-installer --firstboot-args leaves a shell assignment in the stamp.
        if let Some(arguments) = stamp.split("ignition_network_kcmdline=").nth(1) {
            command_line = format!("{command_line} {}", arguments.trim().trim_matches(['"', '\'']));
        }
    }
    Ok(KernelBoot { kernel, initrd, command_line, cd: None })
}

/// A file of a disk's boot file system, or `None` if it does not exist.
pub(crate) fn boot_file(disk: &Path, path: &str) -> Result<Option<Vec<u8>>> {
    let boot = boot_file_system(disk)?;
    if boot.exists(path)? { Ok(Some(boot.read(path)?)) } else { Ok(None) }
}

/// Writes a file of a disk's boot file system, as its owner would from the running system.
pub(crate) fn write_boot_file(disk: &Path, path: &str, content: &[u8]) -> Result<()> {
    let start_bytes = partition_start_bytes(&mut File::open(disk)?, "boot")?;
    let source = disk.with_extension("boot-file");
    std::fs::write(&source, content)?;
    let (folder, name) = path.rsplit_once('/').context("a path without a folder")?;
    let commands = disk.with_extension("debugfs");
    // debugfs writes into its current folder only, and over no file. It goes on if there is none to remove.
    let folder = if folder.is_empty() { "/" } else { folder };
    std::fs::write(
        &commands,
        format!("cd {folder}\nrm {name}\nwrite {} {name}\n", source.display()),
    )?;
    // The image of a partition within a file, as libext2fs names it.
    let output = Command::new("debugfs")
        .arg("-w")
        .arg("-f")
        .arg(&commands)
        .arg(format!("{}?offset={start_bytes}", disk.display()))
        .output()
        .context("running debugfs")?;
    let written = boot_file(disk, path)?;
    if written.as_deref() != Some(content) {
        bail!("debugfs wrote no {path}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Opens the file system in the GPT partition named `boot`.
fn boot_file_system(disk: &Path) -> Result<Ext4> {
    let mut file = File::open(disk).with_context(|| format!("opening {}", disk.display()))?;
    let start_bytes = partition_start_bytes(&mut file, "boot")?;
    let part = Part { file, start_bytes };
    Ext4::load(Box::new(part))
        .with_context(|| format!("the boot file system of {}", disk.display()))
}

/// Start of the partition with this name in the GPT (UEFI 2.10 §5.3), for 512-byte and 4096-byte sectors.
fn partition_start_bytes(file: &mut File, name: &str) -> Result<u64> {
    for sector_bytes in [512, 4096] {
        let mut signature = [0; 8];
        file.seek(SeekFrom::Start(sector_bytes))?;
        file.read_exact(&mut signature)?;
        if &signature != b"EFI PART" {
            continue;
        }
        file.seek(SeekFrom::Start(2 * sector_bytes))?;
        let mut entries = vec![0; 128 * 128];
        file.read_exact(&mut entries)?;
        let wanted: Vec<u8> = name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
        if let Some(entry) =
            entries.chunks_exact(128).find(|entry| entry[56..].starts_with(&wanted))
        {
            let first = <[u8; 8]>::try_from(&entry[32..40])?;
            return Ok(u64::from_le_bytes(first) * sector_bytes);
        }
    }
    bail!("the disk has no GPT with a partition \"{name}\"")
}

/// A partition of a disk image, read by offset.
struct Part {
    file: File,
    start_bytes: u64,
}

impl Ext4Read for Part {
    fn read(
        &mut self,
        start_byte: u64,
        into: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync + 'static>> {
        self.file.seek(SeekFrom::Start(self.start_bytes + start_byte))?;
        Ok(self.file.read_exact(into)?)
    }
}

/// Reads a whole file.
fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

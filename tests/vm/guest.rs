//! A running guest: QEMU with a deadline, its console, its virtio ports for results and for files, its QMP socket. Dropping it ends it.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::arguments::{option, words};
use crate::console::{Console, Line, tail};
use crate::machine::Machine;
use crate::qmp::Qmp;

/// What systemd prints when a boot fails.
pub(crate) const EMERGENCY: &str = "You are in emergency mode";

/// How a guest starts.
#[derive(Debug, Clone)]
pub(crate) enum Boot {
    /// A kernel that QEMU starts.
    Kernel(KernelBoot),
    /// The firmware starts this CD.
    Cd(PathBuf),
    /// The firmware asks the network first, by the first port's own ROM, or with UEFI by its own network stack: DHCP names a file
    /// in this TFTP folder.
    Network { tftp: PathBuf, file: &'static str },
    /// The firmware boots what its boot entries say.
    Entries,
}

/// What a boot loader would have chosen.
#[derive(Debug, Clone)]
pub(crate) struct KernelBoot {
    /// An ELF kernel (PVH) or a bzImage.
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    pub(crate) command_line: String,
    /// A read-only image in the CD drive.
    pub(crate) cd: Option<PathBuf>,
}

/// A guest; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Guest {
    qemu: Child,
    args: Vec<String>,
    /// QEMU was started a second time.
    started_again: bool,
    tpm: Option<Child>,
    /// The serial console.
    pub(crate) console: Console,
    folder: PathBuf,
    sockets: PathBuf,
    /// A connection that the guest still reads from.
    files: Option<UnixStream>,
    name: String,
    t0: Instant,
    deadline: Instant,
}

impl Guest {
    /// Starts `machine`; every file of the run is `folder/NAME.*`, and after `deadline` every wait fails.
    pub(crate) fn start(
        name: &str,
        folder: &Path,
        machine: &Machine,
        boot: &Boot,
        deadline: Duration,
    ) -> Result<Self> {
        let sockets = socket_folder()?;
        let tpm = if machine.has_tpm { Some(start_tpm(folder, &sockets)?) } else { None };
        let mut args: Vec<String> = fixed_arguments(name, folder, &sockets);
        args.extend(machine.arguments(folder)?);
        boot.add_arguments(&mut args, machine.has_uefi);
        if machine.has_tpm {
            let socket = sockets.join("tpm");
            option(&mut args, "-chardev", &format!("socket,id=tpm,path={}", socket.display()));
            args.extend(words("-tpmdev emulator,id=tpm0,chardev=tpm -device tpm-crb,tpmdev=tpm0"));
        }
        std::fs::write(folder.join(format!("{name}.arguments")), args.join("\n"))?;
        let t0 = Instant::now();
        let (qemu, console) = start_qemu(name, folder, &args, t0)?;
        Ok(Self {
            qemu,
            args,
            started_again: false,
            tpm,
            console,
            folder: folder.to_owned(),
            sockets,
            files: None,
            name: name.to_owned(),
            t0,
            deadline: t0 + deadline,
        })
    }

    /// Waits for a console line with `marker` until the guest's deadline.
    pub(crate) fn wait_for(&mut self, marker: &str) -> Result<Line> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.console.wait_for(marker, left) {
                Ok(line) => return Ok(line),
                Err(_) if self.start_again_after_silence()? => {}
                Err(error) => {
                    let end = self.how_it_ended();
                    let guest = format!("guest {} ({}){end}", self.name, self.folder.display());
                    return Err(error.context(guest));
                }
            }
        }
    }

    /// Starts QEMU once more if it ended before the guest's kernel wrote its first line: the emulation, not what is tested, has failed
    /// (seen with eight emulated sockets on a busy machine), and the guest has done nothing yet.
    #[expect(
        clippy::print_stderr,
        reason = "a person who reads the output of the tests needs to know"
    )]
    fn start_again_after_silence(&mut self) -> Result<bool> {
        // swtpm serves a single connection, and a restored guest needs more than its start.
        let is_restored = self.args.iter().any(|arg| arg == "-incoming");
        let may = !self.started_again && self.tpm.is_none() && !is_restored;
        if !may || !self.console.ended_in_silence() {
            return Ok(false);
        }
        // A guest that has powered off did what it was asked for.
        if self.qemu.wait()?.success() {
            return Ok(false);
        }
        eprintln!("QEMU ended without a line, and is started again{}", self.how_it_ended());
        self.started_again = true;
        (self.qemu, self.console) = start_qemu(&self.name, &self.folder, &self.args, self.t0)?;
        Ok(true)
    }

    /// QEMU's exit status and messages, if it has ended.
    fn how_it_ended(&mut self) -> String {
        let Ok(Some(status)) = self.qemu.try_wait() else { return String::new() };
        let log = self.folder.join(format!("{}.qemu", self.name));
        let messages = std::fs::read_to_string(log).unwrap_or_default();
        format!(": QEMU for guest {} ended with {status}: {messages}", self.name)
    }

    /// Waits until QEMU has ended: the guest powered off, or rebooted, which ends QEMU here.
    pub(crate) fn wait_for_end(&mut self) -> Result<()> {
        loop {
            if let Some(status) = self.qemu.try_wait()? {
                self.console.finish();
                if self.start_again_after_silence()? {
                    continue;
                }
                ensure!(status.success(), "a guest failed{}", self.how_it_ended());
                return Ok(());
            }
            self.check_on_its_way()?;
        }
    }

    /// Fails in emergency mode and after the deadline; else waits a moment.
    fn check_on_its_way(&self) -> Result<()> {
        if self.console.has(EMERGENCY) {
            // The message of the failed unit follows at once.
            std::thread::sleep(Duration::from_secs(2));
            bail!(
                "guest {} ended in emergency mode; its last lines:\n{}",
                self.name,
                tail(&self.console.lines())
            );
        }
        if Instant::now() > self.deadline {
            bail!(
                "guest {} had not ended after {:?}; its last lines:\n{}",
                self.name,
                self.t0.elapsed(),
                tail(&self.console.lines())
            );
        }
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }

    /// Waits until systemd has begun to reboot the guest, and ends it there: the shutdown itself would cost 4 CPU seconds.
    pub(crate) fn wait_for_reboot(mut self) -> Result<()> {
        while !self.console.has("Stopped run-coreos-install") {
            ensure!(self.qemu.try_wait()?.is_none(), "the guest ended{}", self.how_it_ended());
            self.check_on_its_way()?;
        }
        Ok(())
    }

    /// The files that the guest sent through its port `results`, unpacked into `folder/NAME.results`; to be called after its end.
    pub(crate) fn results(&self) -> Result<PathBuf> {
        let folder = self.folder.join(format!("{}.results", self.name));
        let archive = self.folder.join(format!("{}.tar", self.name));
        std::fs::create_dir_all(&folder)?;
        let status =
            Command::new("tar").arg("-C").arg(&folder).arg("-xf").arg(&archive).status()?;
        if !status.success() {
            bail!("{} is not a complete tar: {status}", archive.display());
        }
        Ok(folder)
    }

    /// A connection to QEMU's machine protocol.
    pub(crate) fn qmp(&self) -> Result<Qmp> {
        Qmp::connect(&self.sockets.join("qmp"))
    }

    /// Sends these bytes to the port `config`, where a restored guest waits for them.
    pub(crate) fn send_files(&mut self, bytes: &[u8]) -> Result<()> {
        let path = self.sockets.join("config");
        let mut port = UnixStream::connect(&path)
            .with_context(|| format!("connecting to {}", path.display()))?;
        port.write_all(bytes)?;
        // What QEMU has not read would be lost with the connection.
        self.files = Some(port);
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.qemu).chain(self.tpm.as_mut()) {
            child.kill().ok();
            child.wait().ok();
        }
        std::fs::remove_dir_all(&self.sockets).ok();
    }
}

impl Boot {
    /// Adds QEMU's arguments for this boot to those of the machine.
    fn add_arguments(&self, args: &mut Vec<String>, has_uefi: bool) {
        match self {
            Self::Kernel(boot) => {
                option(args, "-kernel", &boot.kernel.display().to_string());
                option(args, "-initrd", &boot.initrd.display().to_string());
                option(args, "-append", &boot.command_line);
                if let Some(cd) = &boot.cd {
                    add_cd(args, cd, "");
                }
            }
            Self::Cd(cd) => add_cd(args, cd, ",bootindex=1"),
            Self::Network { tftp, file } => {
                let first = if has_uefi { ",romfile=,bootindex=1" } else { ",bootindex=1" };
                for arg in args.iter_mut() {
                    if arg.starts_with("user,id=net0") {
                        *arg = format!("{arg},tftp={},bootfile={file}", tftp.display());
                    }
                    if arg.contains(",netdev=net0,") {
                        *arg = arg.replace(",romfile=", first);
                    }
                    // OVMF drops devices without an index from its boot order once another one has an index.
                    if has_uefi && arg.contains("-blk-pci,drive=target,") {
                        arg.push_str(",bootindex=2");
                    }
                }
            }
            Self::Entries => {}
        }
        // SeaBIOS, and what it starts, prints to the serial console only without graphics.
        if !matches!(self, Self::Kernel(_)) {
            option(args, "-machine", "graphics=off");
        }
    }
}

fn add_cd(args: &mut Vec<String>, image: &Path, more: &str) {
    let file = image.display();
    let drive = format!("if=none,id=cd,file={file},format=raw,readonly=on,media=cdrom");
    option(args, "-drive", &drive);
    option(args, "-device", &format!("ide-cd,drive=cd,bus=ide.0{more}"));
}

/// Arguments of every guest. Always TCG: an existing /dev/kvm may be far slower than no KVM.
fn fixed_arguments(name: &str, folder: &Path, sockets: &Path) -> Vec<String> {
    let results = folder.join(format!("{name}.tar"));
    let socket = |name: &str| format!("{},server=on,wait=off", sockets.join(name).display());
    let mut args = words(
        "-nodefaults -display none -no-reboot -machine q35 -accel tcg,thread=multi,tb-size=512 \
         -chardev stdio,id=console,signal=off -serial chardev:console -device virtio-serial-pci",
    );
    option(&mut args, "-chardev", &format!("file,id=results,path={}", results.display()));
    option(&mut args, "-device", "virtserialport,chardev=results,name=results");
    option(&mut args, "-chardev", &format!("socket,id=config,path={}", socket("config")));
    option(&mut args, "-device", "virtserialport,chardev=config,name=config");
    option(&mut args, "-qmp", &format!("unix:{}", socket("qmp")));
    args
}

/// Starts QEMU, which ends with the test binary, even if that is killed.
fn start_qemu(name: &str, folder: &Path, args: &[String], t0: Instant) -> Result<(Child, Console)> {
    let mut qemu = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(folder.join(format!("{name}.qemu")))?)
        .spawn()
        .context("starting qemu-system-x86_64")?;
    let output = qemu.stdout.take().context("QEMU has no standard output")?;
    let console = Console::start(output, &folder.join(format!("{name}.console")), t0)?;
    Ok((qemu, console))
}

/// A short-named folder for sockets, whose names have a limit of 107 bytes.
fn socket_folder() -> Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("rci-vm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// Starts a TPM 2 and waits for its socket.
fn start_tpm(folder: &Path, sockets: &Path) -> Result<Child> {
    let state = folder.join("tpm");
    std::fs::create_dir_all(&state)?;
    let socket = sockets.join("tpm");
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "swtpm", "socket", "--tpm2", "--tpmstate"])
        .arg(format!("dir={}", state.display()))
        .arg("--ctrl")
        .arg(format!("type=unixio,path={}", socket.display()))
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("swtpm.log"))?)
        .spawn()
        .context("starting swtpm")?;
    for _ in 0..100 {
        // swtpm accepts a single connection, so a test connection would use it up.
        if socket.exists() {
            return Ok(child);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("swtpm made no socket {} within 5 s", socket.display())
}

//! QEMU's debugger, by the remote protocol of GDB (GDB manual, appendix E): stops the guest, reads and writes registers
//! of one CPU, and writes physical memory.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Time limit of an answer; stopping a busy guest takes a while.
const ANSWER: Duration = Duration::from_secs(30);
/// The numbers of the registers `cs` and `cr3` in QEMU (`target/i386/gdbstub.c`).
const CS: u32 = 18;
const CR3: u32 = 29;

/// The debugger of one guest, which runs when this is made.
#[derive(Debug)]
pub(crate) struct Debugger {
    stream: UnixStream,
}

/// The folder with the socket of a debugger; removed when dropped.
#[derive(Debug)]
pub(crate) struct Socket(PathBuf);

impl Socket {
    /// A folder for the guest with this name.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("rci-vm-gdb-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// QEMU's arguments.
    pub(crate) fn arguments(&self) -> Vec<String> {
        vec!["-gdb".to_owned(), format!("unix:{},server=on,wait=off", self.path().display())]
    }

    fn path(&self) -> PathBuf {
        self.0.join("gdb")
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Debugger {
    /// Connects, which stops the guest, and lets it run on.
    pub(crate) fn connect(socket: &Socket) -> Result<Self> {
        let path: &Path = &socket.path();
        let stream = UnixStream::connect(path)
            .with_context(|| format!("connecting to {}", path.display()))?;
        stream.set_read_timeout(Some(ANSWER))?;
        let mut debugger = Self { stream };
        // The reply says why the guest is stopped.
        debugger.ask("?")?;
        debugger.send("c")?;
        Ok(debugger)
    }

    /// Stops the guest and, if `cpu` runs a program and not the kernel, flips bit 1 of each of its `registers`: 0 to 15
    /// are the general ones from rax on, 49 to 64 are xmm0 to xmm15. Returns whether it did. `process`, as [`Self::process`]
    /// returns it, spares all other programs.
    pub(crate) fn flip(
        &mut self,
        cpu: u32,
        registers: &[u32],
        process: Option<&str>,
    ) -> Result<bool> {
        self.stop()?;
        let running = self.running(cpu)?;
        let is_wanted = running.is_some() && (process.is_none() || process == running.as_deref());
        for register in registers.iter().filter(|_| is_wanted) {
            let (digits, first) = self.first_byte(*register)?;
            let rest = digits.get(2..).unwrap_or_default();
            let written = self.ask(&format!("P{register:x}={:02x}{rest}", first ^ 2))?;
            ensure!(written == "OK", "the debugger wrote no register: {written:?}");
        }
        self.resume()?;
        Ok(is_wanted)
    }

    /// The process whose program `cpu` runs, by its page table; `None` while it runs the kernel.
    pub(crate) fn process(&mut self, cpu: u32) -> Result<Option<String>> {
        self.stop()?;
        let running = self.running(cpu)?;
        self.resume()?;
        Ok(running)
    }

    /// The same of a stopped guest, whose `cpu` the next commands are about.
    fn running(&mut self, cpu: u32) -> Result<Option<String>> {
        // Threads are the CPUs, counted from 1.
        let selected = self.ask(&format!("Hg{:x}", cpu + 1))?;
        ensure!(selected == "OK", "the debugger has no CPU {cpu}: {selected:?}");
        let is_program = self.first_byte(CS)?.1 & 3 == 3;
        if is_program { Ok(Some(self.first_byte(CR3)?.0)) } else { Ok(None) }
    }

    /// Stops the guest.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.stream.write_all(&[3])?;
        let stopped = self.reply()?;
        ensure!(stopped.starts_with(['T', 'S']), "the debugger said {stopped:?}");
        Ok(())
    }

    /// Lets the guest run on.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.send("c")
    }

    /// Writes a byte of physical memory of the stopped guest.
    pub(crate) fn write_physical(&mut self, address: u64, byte: u8) -> Result<()> {
        let write = format!("M{address:x},1:{byte:02x}");
        // Addresses are virtual ones otherwise (QEMU: docs/system/gdb.rst).
        for command in ["Qqemu.PhyMemMode:1", write.as_str(), "Qqemu.PhyMemMode:0"] {
            let reply = self.ask(command)?;
            ensure!(reply == "OK", "the debugger answered {command} with {reply:?}");
        }
        Ok(())
    }

    /// A register in hexadecimal digits, the lowest byte first, and this byte.
    fn first_byte(&mut self, register: u32) -> Result<(String, u8)> {
        let digits = self.ask(&format!("p{register:x}"))?;
        let first = digits.get(..2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        // Other versions of QEMU may number the registers differently.
        let n_bytes = match register {
            0..16 | CR3 => 8,
            CS => 4,
            _ => 16,
        };
        let first = first.filter(|_| digits.len() == 2 * n_bytes);
        let first = first.with_context(|| format!("register {register} is {digits:?}"))?;
        Ok((digits, first))
    }

    /// Sends a command and returns the reply.
    fn ask(&mut self, command: &str) -> Result<String> {
        self.send(command)?;
        self.reply()
    }

    /// Sends `$command#checksum`.
    fn send(&mut self, command: &str) -> Result<()> {
        let sum = command.bytes().fold(0_u8, u8::wrapping_add);
        Ok(self.stream.write_all(format!("${command}#{sum:02x}").as_bytes())?)
    }

    /// The next packet, which is acknowledged; the other side's acknowledgements are skipped.
    fn reply(&mut self) -> Result<String> {
        let until = Instant::now() + ANSWER;
        let mut packet: Option<String> = None;
        loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).context("reading from the debugger")?;
            match (byte[0], &mut packet) {
                (b'$', _) => packet = Some(String::new()),
                (b'#', Some(text)) => {
                    self.stream.read_exact(&mut [0; 2])?;
                    self.stream.write_all(b"+")?;
                    return Ok(std::mem::take(text));
                }
                (other, Some(text)) => text.push(char::from(other)),
                (_, None) => {}
            }
            if Instant::now() > until {
                bail!("the debugger gave no reply within {ANSWER:?}");
            }
        }
    }
}

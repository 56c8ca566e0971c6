//! The live system, booted once and saved just before the agent starts. A test whose subject is not the boot restores a private
//! copy, which gets the test's disks, files and time: 4 CPU seconds to the report instead of 39.
//!
//! A copy has other random numbers (QEMU's generation ID makes the kernel reseed), another machine id and the present time. It
//! shares with the others what firmware and Ignition set up, and `/proc/sys/kernel/random/boot_id`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use formats::hex::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::agent::agent_binary;
use crate::arguments::{option, words};
use crate::artifacts::{Artifact, artifact, test_folder};
use crate::boot;
use crate::disk::Disk;
use crate::guest::{Boot, Guest};
use crate::install::{LIVE, live_config, live_config_of, nonce, percent};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::qmp::Qmp;

/// Its memory. Machines with another size boot.
const MEMORY_MIB: u64 = 2048;
/// Empty slots for a copy's disks.
const N_SLOTS: usize = 8;
/// Waits for a copy's first line: length of the archive with its files, time, drives, MAC address, units to start.
const HOLD: &str = r#"#!/bin/sh -e
modprobe -a raid1 dm-mod nvme virtio_scsi sd_mod e1000e
# What every test runs is in the page cache of every copy.
cat /usr/bin/coreos-installer /usr/bin/lsblk /usr/bin/tar /usr/sbin/blkid /usr/bin/systemctl >/dev/null
udevadm settle
sleep 2
echo TEMPLATE-IS-READY >/dev/console
exec 3</dev/virtio-ports/config
until read -r bytes now drives mac units <&3; do sleep 0.1; done
date -s "@$now" >/dev/null
head -c "$bytes" <&3 | tar -x -C /
if ! grep -qx "$mac" /sys/class/net/*/address; then
  driver=/sys/bus/virtio/drivers/virtio_net
  port=$(basename "$driver"/virtio*)
  echo "$port" >$driver/unbind
  echo "$port" >$driver/bind
  udevadm settle
  nm-online -q -t 60
fi
n() { ls /sys/block | grep -cE '^(vd|sd|nvme)' || :; }
tries=0
until [ "$(n)" -ge "$drives" ]; do
  tries=$((tries + 1))
  [ $tries -lt 300 ] || { echo "$(n) of $drives drives have appeared" >/dev/console; exit 1; }
  sleep 0.1
done
udevadm settle
if [ -e /usr/local/bin/prepare ]; then /usr/local/bin/prepare; fi
if [ -n "$units" ]; then
  systemctl daemon-reload
  systemctl start --no-block $units
fi
"#;

/// Options of `live-config` without an agent.
const PLAIN: &str = "--vim https://10.0.2.2 --agent-in-image";

const HOLD_UNIT: &str = "[Unit]\nDescription=Hold the agent back until a test goes on\n\
                         Wants=network-online.target\nAfter=network-online.target\n\
                         Before=run-coreos-installer.service\n\n\
                         [Service]\nType=oneshot\nRemainAfterExit=yes\nTimeoutStartSec=infinity\n\
                         ExecStart=/usr/local/bin/hold\nStandardOutput=journal+console\nStandardError=journal+console\n\n\
                         [Install]\nRequiredBy=run-coreos-installer.service\n";

/// Starts a copy of the live system on `machine` with the output of `live-config` for this lab VIM, and a shell script that runs
/// before the agent.
pub(crate) fn restore_live(lab: &Lab, machine: &Machine, script: &str) -> Result<Guest> {
    restore("live", &lab.folder, machine, &live_config_of(lab, "")?, script)
}

/// Starts a copy that has the files and units of this Ignition config; its files are `folder/NAME.*`.
pub(crate) fn restore(
    name: &str,
    folder: &Path,
    machine: &Machine,
    config: &[u8],
    script: &str,
) -> Result<Guest> {
    ensure!(machine.memory_mib() == MEMORY_MIB, "the template has {MEMORY_MIB} MiB of memory");
    let template = Template::get()?;
    let config = Config::of(config, &template.units)?;
    let mut bare = template.hardware(machine, "off");
    bare.more.extend(words("-S -incoming defer"));
    let mut guest = template.start(name, folder, &bare)?;
    let mut qmp = guest.qmp()?;
    ignore_memory(&mut qmp)?;
    let state = template.folder.join("state");
    qmp.execute("migrate-incoming", &json!({"uri": format!("file:{}", state.display())}))?;
    wait_for_status(&mut qmp, "query-status", "paused")?;
    let n_drives = plug_in(&mut qmp, machine, folder)?;
    qmp.execute("cont", &json!({}))?;
    let archive = config.archive(script)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    let mac = machine.ports[0].mac;
    let units = config.started.join(" ");
    let mut sent = format!("{} {now:.3} {n_drives} {mac} {units}\n", archive.len()).into_bytes();
    sent.extend(archive);
    guest.send_files(&sent)?;
    Ok(guest)
}

/// The saved system.
#[derive(Debug, Clone)]
struct Template {
    folder: PathBuf,
    config: Vec<u8>,
    units: Vec<Value>,
}

impl Template {
    /// The one of this run, from the cache or booted now.
    fn get() -> Result<Self> {
        static READY: Mutex<Option<Template>> = Mutex::new(None);
        let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = &*ready {
            return Ok(template.clone());
        }
        let template = Self::described()?;
        // Each test is a process of its own; the first one boots the template, the others wait.
        let lock = File::create(template.folder.with_extension("lock"))?;
        lock.lock().context("waiting for the template")?;
        if !template.folder.join("state").exists() {
            template.make()?;
        }
        Ok(ready.insert(template).clone())
    }

    /// Named by a digest of all that it is made of.
    fn described() -> Result<Self> {
        let config: Value = serde_json::from_slice(&live_config(Path::new("."), PLAIN)?)?;
        let mut units = config["systemd"]["units"].as_array().cloned().unwrap_or_default();
        let of_agent = units.clone();
        units.push(json!({"name": "hold.service", "enabled": true, "contents": HOLD_UNIT}));
        let config = json!({
            "ignition": config["ignition"],
            "storage": {"files": [{
                "path": "/usr/local/bin/hold", "mode": 0o755,
                "contents": {"source": format!("data:,{}", percent(HOLD))},
            }]},
            "systemd": {"units": units},
        });
        let config = config.to_string().into_bytes();
        let mut template = Self { folder: PathBuf::new(), config, units: of_agent };
        let squashfs = artifact(Artifact::LIVE_SQUASHFS)?;
        let cache = squashfs.ancestors().nth(2).context("the live system is not in a cache")?;
        template.folder = cache.join(format!("guest-{}", template.digest()?));
        Ok(template)
    }

    fn digest(&self) -> Result<String> {
        let mut digest = Sha256::new();
        digest.update(&self.config);
        for part in [Artifact::VMLINUX, Artifact::LIVE_SQUASHFS, Artifact::LIVE_INITRD] {
            let sums = artifact(part)?.with_file_name("SHA256SUMS");
            digest.update(std::fs::read(&sums).with_context(|| sums.display().to_string())?);
        }
        let qemu = Command::new("qemu-system-x86_64").arg("--version").output()?;
        digest.update(&qemu.stdout);
        // The arguments are in this program's sources, apart from names of files.
        for source in [
            include_str!("template.rs"),
            include_str!("boot.rs"),
            include_str!("guest.rs"),
            include_str!("arguments.rs"),
            include_str!("machine.rs"),
        ] {
            digest.update(source);
        }
        Ok(hex(&digest.finalize()[..8]))
    }

    /// The hardware of the template itself (`share` is `on`) or of a copy, whose writes stay its own.
    fn hardware(&self, machine: &Machine, share: &str) -> Machine {
        let memory = self.folder.join("memory");
        let memory = format!(
            "memory-backend-file,id=memory,size={MEMORY_MIB}M,mem-path={},share={share}",
            memory.display()
        );
        let mut more = words("-machine memory-backend=memory -device vmgenid,guid=auto");
        option(&mut more, "-object", &memory);
        for slot in 0..N_SLOTS {
            let port = format!("pcie-root-port,id=slot{slot},chassis={0},slot={0}", slot + 1);
            option(&mut more, "-device", &port);
        }
        Machine { disks: Vec::new(), more, ..machine.clone() }
    }

    fn start(&self, name: &str, folder: &Path, machine: &Machine) -> Result<Guest> {
        let boot = boot::live("template", folder, machine, &self.config)?;
        Guest::start(name, folder, machine, &Boot::Kernel(boot), LIVE)
    }

    /// Boots the live system until it holds, and saves it.
    fn make(&self) -> Result<()> {
        let folder = test_folder("template")?;
        std::fs::remove_dir_all(&self.folder).ok();
        std::fs::create_dir_all(&self.folder)?;
        let machine = self.hardware(&Machine::plain(MEMORY_MIB, Vec::new()), "on");
        let mut guest = self.start("template", &folder, &machine)?;
        guest.wait_for("TEMPLATE-IS-READY")?;
        let mut qmp = guest.qmp()?;
        qmp.execute("stop", &json!({}))?;
        ignore_memory(&mut qmp)?;
        let made = self.folder.join("state.new");
        qmp.execute("migrate", &json!({"uri": format!("file:{}", made.display())}))?;
        wait_for_status(&mut qmp, "query-migrate", "completed")?;
        drop(guest);
        Ok(std::fs::rename(made, self.folder.join("state"))?)
    }
}

/// The memory is a file that QEMU maps, so neither saved nor loaded with the state.
fn ignore_memory(qmp: &mut Qmp) -> Result<()> {
    let on = json!({"capabilities": [{"capability": "x-ignore-shared", "state": true}]});
    qmp.execute("migrate-set-capabilities", &on)?;
    Ok(())
}

fn wait_for_status(qmp: &mut Qmp, query: &str, wanted: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let found = qmp.execute(query, &json!({}))?;
        let status = found["status"].as_str().unwrap_or_default();
        if status == wanted {
            return Ok(());
        }
        ensure!(status != "failed" && Instant::now() < until, "{query}: {found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Plugs the machine's disks into empty slots and returns the number of drives that the guest gets.
fn plug_in(qmp: &mut Qmp, machine: &Machine, folder: &Path) -> Result<usize> {
    let mut arguments = Vec::new();
    machine.disk_arguments(&mut arguments, folder)?;
    arguments.extend_from_slice(&machine.more);
    // The guest finds the devices that are plugged in together from the last slot on.
    let mut slots = (0..N_SLOTS).rev();
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { bail!("{pair:?} has no value") };
        let model = value.split(',').next().unwrap_or_default();
        let is_of_pci = model.ends_with("-pci") || model == "nvme";
        let command = match option.as_str() {
            "-drive" => format!("drive_add 0 {value}"),
            "-device" if is_of_pci => {
                let slot = slots.next().context("the template has no more slots")?;
                format!("device_add {value},bus=slot{slot}")
            }
            "-device" => format!("device_add {value}"),
            "-object" => format!("object_add {value}"),
            _ => bail!("{option} cannot be added to a running machine"),
        };
        let answer = qmp.monitor(&command)?;
        ensure!(answer.is_empty() || answer == "OK", "{command}: {answer}");
    }
    Ok(machine.disks.iter().map(Disk::n_drives).sum())
}

/// What a copy gets of an Ignition config, which is not applied again.
struct Config {
    files: Vec<Value>,
    /// Units that the template does not have.
    units: Vec<Value>,
    /// The names of those that are enabled.
    started: Vec<String>,
}

impl Config {
    fn of(config: &[u8], of_template: &[Value]) -> Result<Self> {
        let config: Value = serde_json::from_slice(config)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for (section, known) in [("storage", "files"), ("systemd", "units")] {
            let keys = config[section].as_object().into_iter().flat_map(|object| object.keys());
            let other: Vec<_> = keys.filter(|key| *key != known).collect();
            ensure!(other.is_empty(), "a copy gets no {section} of the kind {other:?}");
        }
        let mut units = list(&config["systemd"]["units"]);
        units.retain(|unit| !of_template.contains(unit));
        let enabled = units.iter().filter(|unit| unit["enabled"] == true);
        let started = enabled.filter_map(|unit| unit["name"].as_str().map(str::to_owned)).collect();
        Ok(Self { files: list(&config["storage"]["files"]), units, started })
    }

    /// The files, units and script as a tar, with a machine id of its own.
    fn archive(&self, script: &str) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let mut add = |path: &str, mode: u64, content: &[u8]| -> Result<()> {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len().try_into()?);
            header.set_mode(mode.try_into()?);
            Ok(tar.append_data(&mut header, path.trim_start_matches('/'), content)?)
        };
        for file in &self.files {
            let path = file["path"].as_str().context("a file without a path")?;
            add(path, file["mode"].as_u64().unwrap_or(0o644), &content_of(file)?)?;
        }
        for unit in &self.units {
            let name = unit["name"].as_str().context("a unit without a name")?;
            let contents = unit["contents"].as_str().context("a unit without contents")?;
            add(&format!("etc/systemd/system/{name}"), 0o644, contents.as_bytes())?;
        }
        let id = format!("{}{}\n", nonce()?, nonce()?);
        add("etc/machine-id", 0o444, id.as_bytes())?;
        if !script.is_empty() {
            add("usr/local/bin/prepare", 0o755, script.as_bytes())?;
        }
        Ok(tar.into_inner()?)
    }
}

/// The content of a file: that of a `data:` URL, or the agent, which the lab VIM serves.
fn content_of(file: &Value) -> Result<Vec<u8>> {
    let source = file["contents"]["source"].as_str().context("a file without a source")?;
    if source.ends_with("/ocp/run-coreos-installer.gz") {
        return Ok(std::fs::read(agent_binary()?)?);
    }
    let data = source.strip_prefix("data:").and_then(|rest| rest.split_once(','));
    let (form, data) = data.with_context(|| format!("a copy gets no file from {source}"))?;
    let is_base64 = form.ends_with(";base64");
    let packed = if is_base64 { STANDARD.decode(data)? } else { percent_decoded(data)? };
    if file["contents"]["compression"] != "gzip" {
        return Ok(packed);
    }
    let mut content = Vec::new();
    GzDecoder::new(&*packed).read_to_end(&mut content)?;
    Ok(content)
}

fn percent_decoded(text: &str) -> Result<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).context("% without two digits")?;
        bytes.push(u8::from_str_radix(digits, 16)?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    Ok(bytes)
}

#[test]
fn copies_have_other_random_numbers_another_machine_id_and_the_present_time() -> Result<()> {
    let script = "#!/bin/sh
echo \"COPY random=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n') id=$(cat /etc/machine-id) time=$(date +%s)\" >/dev/ttyS0
";
    let folder = test_folder("template_copies")?;
    let config = live_config(&folder, PLAIN)?;
    let shown = |name: &str| -> Result<Vec<String>> {
        let machine = Machine::plain(MEMORY_MIB, Vec::new());
        let mut copy = restore(name, &folder, &machine, &config, script)?;
        let line = copy.wait_for("COPY random=")?.text;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let values: Vec<String> = line
            .split_whitespace()
            .filter_map(|word| Some(word.split_once('=')?.1.to_owned()))
            .collect();
        let [random, id, time] = &*values else { bail!("the copy shows {line:?}") };
        ensure!(random.len() == 32 && id.len() == 32, "the copy shows {line:?}");
        let time: u64 = time.parse()?;
        ensure!(time.abs_diff(now) < 60, "the copy's time is {time}, the present is {now}");
        Ok(values)
    };
    let (one, other) = (shown("one")?, shown("other")?);
    ensure!(one[0] != other[0], "two copies have the same random numbers: {}", one[0]);
    ensure!(one[1] != other[1], "two copies have the same machine id: {}", one[1]);
    Ok(())
}

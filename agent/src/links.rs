//! Brings network ports up, so that link and LLDP neighbour can be read, and restores them.
//!
//! This is the only code that changes the network, and only on request. It is not a probe, since probes cannot write:
//! it writes `/sys/class/net/<port>/flags` (`Documentation/ABI/testing/sysfs-class-net`), as `ip link set up` does. A
//! driver may hang there, and holds the kernel's global network lock (`rtnl_lock`) meanwhile, so the work runs on a
//! thread with a time limit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use probes::guard::{self, Failure};
use probes::machine::{Machine, Source};
use probes::network::{PhysicalPort, is_in_use, physical_ports};
use tracing::{info, warn};

use crate::signals::Stop;

/// The kernel's `IFF_UP`.
const FLAG_UP: u32 = 1;
/// Fibre ports above 10 Gbit/s take seconds to train. A port without a cable costs the whole wait.
const CARRIER_WAIT: Duration = Duration::from_secs(8);
const CARRIER_POLL: Duration = Duration::from_millis(200);
/// A driver that takes longer hangs; slow ones take 2 s per port.
const DRIVER_LIMIT: Duration = Duration::from_secs(30);
const STACK_BYTES: usize = 256 << 10;

/// Every port that is brought up now, as class folder and name. It restores them after a panic: the release build does not
/// unwind, so no [`LinksUp`] is dropped.
#[derive(Debug, Clone, Default)]
pub struct BroughtUp(Arc<Mutex<Vec<(PathBuf, String)>>>);

impl BroughtUp {
    /// Brings up every physical port of this machine that is down and waits for their links; a signal ends the wait.
    /// If a driver hangs, the agent continues without its port.
    pub fn bring_up(&self, stop: &Stop) -> LinksUp {
        let class = Path::new("/sys/class/net");
        let ports = || physical_ports(&machine());
        self.guarded(class, ports, CARRIER_WAIT, DRIVER_LIMIT, stop)
    }

    /// Brings up those of `ports` that are down, with the time `limit` for their drivers.
    fn guarded(
        &self,
        class: &Path,
        ports: impl FnOnce() -> Vec<PhysicalPort> + Send + 'static,
        wait: Duration,
        limit: Duration,
        stop: &Stop,
    ) -> LinksUp {
        let (links, stop) = (self.none(class), stop.clone());
        // After the limit nobody receives the links, so the thread drops them, which sets the ports down again.
        let work = move |watch: &Watch| links.with(&ports(), wait, watch, &stop);
        let links = with_limit(limit + wait, "bringing ports up", work);
        links.unwrap_or_else(|| self.none(class))
    }

    fn none(&self, class: &Path) -> LinksUp {
        LinksUp { class: class.to_owned(), names: Vec::new(), all: self.clone() }
    }

    /// Sets all of them down.
    pub fn restore(&self) {
        let ports = self.change(|all| all.clone());
        self.set_down(ports);
    }

    fn set_down(&self, ports: Vec<(PathBuf, String)>) {
        if ports.is_empty() {
            return;
        }
        let all = self.clone();
        with_limit(DRIVER_LIMIT, "setting ports down", move |watch| {
            for (class, name) in ports {
                watch.begin(&name);
                all.change(|all| all.retain(|port| port.0 != class || port.1 != name));
                restore(&class, &name);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<(PathBuf, String)>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ports that were down and are up now. They are set down again when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct LinksUp {
    class: PathBuf,
    names: Vec<String>,
    all: BroughtUp,
}

impl LinksUp {
    /// True if any port was brought up.
    pub fn has_ports(&self) -> bool {
        !self.names.is_empty()
    }

    /// Brings up those of `ports` that are down.
    fn with(mut self, ports: &[PhysicalPort], wait: Duration, watch: &Watch, stop: &Stop) -> Self {
        // USB ports belong to the management controller, not to the machine's network.
        for port in ports.iter().filter(|port| !port.is_up && !port.is_usb) {
            if !watch.begin(&port.name) || stop.is_stopped() {
                return self;
            }
            match set_up(&self.class, &port.name, true) {
                // Recorded at once, so that it is restored even if the next port fails.
                Ok(()) => {
                    self.names.push(port.name.clone());
                    self.all.change(|all| all.push((self.class.clone(), port.name.clone())));
                }
                Err(error) => warn!("port {} could not be brought up: {error}", port.name),
            }
        }
        if !self.names.is_empty() {
            info!("ports brought up to see their links: {}", self.names.join(", "));
            self.wait_for_carrier(wait, stop);
        }
        self
    }

    fn wait_for_carrier(&self, wait: Duration, stop: &Stop) {
        let end = Instant::now() + wait;
        let has_carrier = |name: &String| {
            let text = std::fs::read_to_string(self.class.join(name).join("carrier"));
            text.is_ok_and(|text| text.trim() == "1")
        };
        let is_to_wait = || Instant::now() < end && !stop.is_stopped();
        while !self.names.iter().all(has_carrier) && is_to_wait() {
            std::thread::sleep(CARRIER_POLL);
        }
    }
}

impl Drop for LinksUp {
    fn drop(&mut self) {
        let names = std::mem::take(&mut self.names);
        self.all.set_down(names.into_iter().map(|name| (self.class.clone(), name)).collect());
    }
}

/// Shared by the thread that works on the ports and the one that waits for it.
#[derive(Debug, Default)]
struct Watch {
    /// The port that is being changed.
    port: Mutex<String>,
    is_given_up: AtomicBool,
}

impl Watch {
    /// Records the port to be changed next; false if the other thread no longer waits.
    fn begin(&self, port: &str) -> bool {
        port.clone_into(&mut self.port.lock().unwrap_or_else(PoisonError::into_inner));
        !self.is_given_up.load(Ordering::SeqCst)
    }

    fn port(&self) -> String {
        self.port.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs `work` on a thread; `None`, after a warning, if it is not done within `limit`.
fn with_limit<T: Send + 'static>(
    limit: Duration,
    doing: &str,
    work: impl FnOnce(&Watch) -> T + Send + 'static,
) -> Option<T> {
    let watch = Arc::new(Watch::default());
    let inner = Arc::clone(&watch);
    match guard::within(limit, "links", STACK_BYTES, move || work(&inner)) {
        Ok(done) => return Some(done),
        Err(Failure::NoThread(error)) => {
            warn!("{doing} failed: no thread could be started: {error}");
        }
        Err(Failure::Panicked(panic)) => {
            warn!("a bug ended {doing}, at port {}; please report it: {panic}", watch.port());
        }
        Err(Failure::Late) => {
            watch.is_given_up.store(true, Ordering::SeqCst);
            let (port, limit_s) = (watch.port(), limit.as_secs());
            warn!(
                "{doing}: the driver of port {port} has not responded for {limit_s} s; continuing without it"
            );
        }
    }
    None
}

fn restore(class: &Path, name: &str) {
    // Somebody configured the port meanwhile; it may be the route to the VIM.
    if is_in_use(&machine(), name) {
        info!("port {name} is in use now and stays up");
    } else if let Err(error) = set_up(class, name, false) {
        warn!("port {name} could not be set down again: {error}");
    }
}

fn machine() -> Machine {
    Machine::new(Arc::new(Source::live()), "links")
}

/// Sets or clears `IFF_UP` and leaves the other flags as they are.
fn set_up(class: &Path, name: &str, is_up: bool) -> std::io::Result<()> {
    let file = class.join(name).join("flags");
    let text = std::fs::read_to_string(&file)?;
    let text = text.trim();
    let flags = u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16)
        .map_err(|_| std::io::Error::other(format!("{} holds \"{text}\"", file.display())))?;
    let wanted = if is_up { flags | FLAG_UP } else { flags & !FLAG_UP };
    std::fs::write(&file, format!("{wanted:#x}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace;
    use std::process::Command;
    use tempfile::TempDir;

    fn port(name: &str, is_up: bool) -> PhysicalPort {
        PhysicalPort { name: name.to_owned(), index: 1, is_up, is_usb: false }
    }

    /// A class folder with the flags of these ports.
    fn class(ports: &[(&str, &str)]) -> TempDir {
        let class = tempfile::tempdir().unwrap();
        for (port, flags) in ports {
            std::fs::create_dir(class.path().join(port)).unwrap();
            std::fs::write(class.path().join(port).join("flags"), flags).unwrap();
        }
        class
    }

    fn flags(class: &TempDir, port: &str) -> String {
        let text = std::fs::read_to_string(class.path().join(port).join("flags"));
        text.unwrap().trim().to_owned()
    }

    fn bring_up(class: &Path, ports: &[PhysicalPort], wait: Duration, stop: &Stop) -> LinksUp {
        BroughtUp::default().none(class).with(ports, wait, &Watch::default(), stop)
    }

    fn guarded(class: &Path, down: &'static [&str], wait: Duration, limit: Duration) -> LinksUp {
        let ports = || down.iter().map(|name| port(name, false)).collect();
        BroughtUp::default().guarded(class, ports, wait, limit, &Stop::default())
    }

    #[test]
    fn signal_ends_the_wait_and_brings_up_no_further_port() {
        let class = class(&[("rci-a", "0x1002\n"), ("rci-b", "0x1002\n")]);
        let ports = [port("rci-a", false), port("rci-b", false)];
        let stop = Stop::default();
        let late = stop.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            late.stop();
        });
        let start = Instant::now();
        let links = bring_up(class.path(), &ports, Duration::from_mins(1), &stop);
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(links.names.len(), 2);
        drop(links);
        let links = bring_up(class.path(), &ports, Duration::from_mins(1), &stop);
        assert!(links.names.is_empty());
        stopper.join().unwrap();
    }

    #[test]
    fn only_ports_that_were_down_are_brought_up_and_restored() {
        let class = class(&[("rci-a", "0x1002\n"), ("rci-b", "0x1043\n")]);
        let all = || ["rci-a", "rci-b"].map(|port| flags(&class, port));
        let ports = [port("rci-a", false), port("rci-b", true), port("rci-gone", false)];
        let links = bring_up(class.path(), &ports, Duration::ZERO, &Stop::default());
        assert_eq!(all(), ["0x1003", "0x1043"]);
        assert_eq!(links.names, ["rci-a"]);
        drop(links);
        assert_eq!(all(), ["0x1002", "0x1043"]);
    }

    /// The shipped binary does not unwind, so nothing is dropped after a panic.
    #[test]
    fn ports_are_restored_after_a_panic_that_drops_nothing() {
        let class = class(&[("rci-a", "0x1002\n")]);
        let (all, inner) = (BroughtUp::default(), class.path().to_owned());
        let of_thread = all.clone();
        let answer = guard::ask("run", 1 << 20, move || {
            let ports = || vec![port("rci-a", false)];
            let stop = Stop::default();
            let links = of_thread.guarded(&inner, ports, Duration::ZERO, DRIVER_LIMIT, &stop);
            std::mem::forget(links);
            panic!("in between");
        });
        assert!(answer.unwrap().recv().unwrap().is_err());
        assert_eq!(flags(&class, "rci-a"), "0x1003");
        all.restore();
        assert_eq!(flags(&class, "rci-a"), "0x1002");
        assert!(all.change(|all| all.is_empty()));
    }

    /// A pipe without a writer blocks like a driver that hangs.
    #[test]
    fn hanging_driver_is_abandoned_and_its_port_set_down_later() {
        let class = class(&[("rci-a", "0x1002\n"), ("rci-b", "")]);
        let pipe = class.path().join("rci-b/flags");
        std::fs::remove_file(&pipe).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let start = Instant::now();
        let (ports, limit) = (&["rci-a", "rci-b", "rci-c"], Duration::from_millis(300));
        let links = guarded(class.path(), ports, Duration::ZERO, limit);
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(links.names.is_empty());
        assert_eq!(flags(&class, "rci-a"), "0x1003");
        // The driver responds; its thread sets down what it had brought up.
        std::fs::write(&pipe, "no flags").unwrap();
        while flags(&class, "rci-a") != "0x1002" && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(flags(&class, "rci-a"), "0x1002");
    }

    /// Runs in a network namespace of its own, with a cable between `rci0` and `rci1`.
    #[test]
    fn real_port_is_brought_up_and_restored_unless_in_use() {
        const NAME: &str = "links::tests::real_port_is_brought_up_and_restored_unless_in_use";
        const SCRIPT: &str = "mount -t sysfs sysfs /sys && \
            ip link add rci0 type veth peer name rci1 && ip link set rci1 up";
        if !namespace::enter(NAME, SCRIPT) {
            return;
        }
        let class = Path::new("/sys/class/net");
        let is_up = || {
            let text = std::fs::read_to_string("/sys/class/net/rci0/flags").unwrap();
            u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap() & 1 == 1
        };
        let up = || guarded(class, &["rci0"], Duration::from_secs(5), DRIVER_LIMIT);
        let links = up();
        assert!(is_up());
        let carrier = std::fs::read_to_string("/sys/class/net/rci0/carrier").unwrap();
        assert_eq!(carrier.trim(), "1");
        drop(links);
        assert!(!is_up());
        let links = up();
        let status =
            Command::new("ip").args(["address", "add", "192.0.2.1/24", "dev", "rci0"]).status();
        assert!(status.unwrap().success());
        drop(links);
        assert!(is_up());
    }
}

//! The pluggable module or cable in a port, read page by page through the driver. Needs root.
//!
//! The module's bus is slow and a broken module can block it. Each port is therefore read on its own
//! thread, so that a port that does not respond affects no other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use formats::module::{self, Memory, Module};

use super::ports::physical_ports;
use crate::guard::{self, Failure};
use crate::machine::Machine;
use crate::sys::netlink::ModuleEeprom;

/// Time limit for one port. Reading a page takes a few milliseconds.
const PORT_LIMIT: Duration = Duration::from_secs(3);
/// Time limit for all ports together, short enough to report the result before the collector's deadline.
const LIMIT: Duration = Duration::from_secs(25);
/// The largest number of ports that are read.
const LIMIT_PORTS: usize = 512;

/// The modules by the name of the port.
pub type Modules = BTreeMap<String, Module>;

/// Reads the module in every physical port that has one.
pub fn modules(machine: &Machine) -> Modules {
    let ports = physical_ports(machine).into_iter().filter(|port| !port.is_usb);
    let names: Vec<String> = ports.map(|port| port.name).collect();
    if names.len() > LIMIT_PORTS {
        let found = format!("{} ports", names.len());
        let expected = format!("at most {LIMIT_PORTS}; the modules of the others are not read");
        machine.problem("ethtool", found, expected);
    }
    read_all(machine, names.into_iter().take(LIMIT_PORTS), module, Instant::now() + LIMIT)
}

type Read = fn(&Machine, &str) -> Option<Module>;

/// Reads the ports one after the other until time runs out.
fn read_all(
    machine: &Machine,
    names: impl Iterator<Item = String>,
    read: Read,
    end: Instant,
) -> Modules {
    let mut names = names.peekable();
    let mut found = Modules::new();
    while let Some(name) = names.next_if(|_| Instant::now() < end) {
        let limit = end.saturating_duration_since(Instant::now()).min(PORT_LIMIT);
        if let Some(module) = within_limit(machine, &name, limit, read) {
            found.insert(name, module);
        }
    }
    if let Some(name) = names.next() {
        let n_left = 1 + names.count();
        let text = format!("no time was left for this port, the first of {n_left}");
        machine.problem(&format!("ethtool/{name}/module"), text, "modules that answer at once");
    }
    found
}

/// Runs `read` on its own thread and waits no longer than `limit`.
fn within_limit(machine: &Machine, port: &str, limit: Duration, read: Read) -> Option<Module> {
    let (inner, name) = (machine.clone(), port.to_owned());
    let path = format!("ethtool/{port}/module");
    let module = guard::within(limit, "module", 256 << 10, move || read(&inner, &name));
    let (found, expected) = match module {
        Ok(module) => return module,
        Err(Failure::NoThread(error)) => (error.to_string(), "a thread to read it"),
        Err(Failure::Panicked(panic)) => {
            (format!("a bug in the reader: {panic}"), "no panic; please report this")
        }
        Err(Failure::Late) => {
            let found = format!("no answer after {} ms", limit.as_millis());
            (found, "the memory of the module in the port")
        }
    };
    machine.problem(&path, found, expected);
    None
}

fn module(machine: &Machine, port: &str) -> Option<Module> {
    module::read(&InPort { machine, port })
}

/// The module in a port.
#[derive(Debug)]
struct InPort<'a> {
    machine: &'a Machine,
    port: &'a str,
}

impl Memory for InPort<'_> {
    fn read(&self, address: u8, page: u8, offset: u8, length: u8) -> Option<Vec<u8>> {
        let interface = self.port.to_owned();
        let piece = self.machine.ask(&ModuleEeprom { interface, address, page, offset, length })?;
        (piece.len() >= usize::from(length)).then_some(piece)
    }

    fn problem(&self, found: String, expected: String) {
        self.machine.problem(&format!("ethtool/{}/module", self.port), found, expected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::link::tests::link_message;
    use crate::testing::bytes::attribute;
    use crate::testing::tree_from_bytes;

    /// A machine whose ports have these pieces of memory, by the names of port and piece.
    fn machine(pieces: &[(&str, &str, &[u8])]) -> Machine {
        let mut names: Vec<&str> = pieces.iter().map(|piece| piece.0).collect();
        names.dedup();
        let link = |(index, name): (u32, &&str)| {
            let name = [name.as_bytes(), &[0]].concat();
            link_message(index, 1, &[attribute(3, &name), attribute(57, b"pci\0")])
        };
        let links =
            ("kernel/rtnetlink/link".to_owned(), (2..).zip(&names).flat_map(link).collect());
        let piece = |(port, piece, bytes): &(&str, &str, &[u8])| {
            (format!("kernel/ethtool/{port}/module/{piece}"), bytes.to_vec())
        };
        tree_from_bytes(
            &pieces.iter().map(piece).chain([links]).collect::<Vec<(String, Vec<u8>)>>(),
        )
    }

    #[test]
    fn hanging_ports_keep_earlier_modules_and_name_the_unread_ports() {
        let machine = machine(&[("eno1", "50-00-00-80", &[])]);
        let read = |_: &Machine, port: &str| {
            if port != "eno1" {
                std::thread::sleep(Duration::from_mins(10));
            }
            Some(Module::default())
        };
        let names = ["eno1", "eno2", "eno3", "eno4"].map(str::to_owned).into_iter();
        let start = Instant::now();
        let found = read_all(&machine, names, read, start + Duration::from_millis(500));
        assert!(start.elapsed() < PORT_LIMIT);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["eno1"]);
        let problems = machine.problems();
        let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["/ethtool/eno2/module", "/ethtool/eno3/module"]);
        assert!(problems[1].found.ends_with("the first of 2"), "{}", problems[1].found);
    }

    #[test]
    fn too_many_ports_are_a_problem() {
        let n_problems = |n_ports: usize| {
            let names: Vec<String> = (0..n_ports).map(|n| format!("eno{n}")).collect();
            let pieces: Vec<(&str, &str, &[u8])> =
                names.iter().map(|name| (name.as_str(), "none", &[][..])).collect();
            let machine = machine(&pieces);
            assert!(modules(&machine).is_empty());
            machine.problems().len()
        };
        assert_eq!((n_problems(LIMIT_PORTS), n_problems(LIMIT_PORTS + 1)), (0, 1));
    }

    #[test]
    fn wrong_checksum_is_a_problem_of_its_port() {
        let mut sfp = [0; 128];
        sfp[0] = 3;
        let machine = machine(&[("eno1", "50-00-00-80", &sfp)]);
        assert_eq!(modules(&machine)["eno1"].kind.as_deref(), Some("sfp"));
        assert_eq!(machine.problems()[0].path, "/ethtool/eno1/module");
    }

    #[test]
    fn panicking_or_hanging_port_loses_only_its_own_module() {
        let machine = machine(&[("eno1", "50-00-00-80", &[])]);
        let limit = Duration::from_secs(1);
        let quick = |_: &Machine, _: &str| Some(Module::default());
        assert!(within_limit(&machine, "eno1", limit, quick).is_some());
        assert!(within_limit(&machine, "eno2", limit, |_, _| panic!("out of cheese")).is_none());
        let hang = |_: &Machine, _: &str| {
            std::thread::sleep(Duration::from_mins(10));
            None
        };
        assert!(within_limit(&machine, "eno3", limit, hang).is_none());
        let paths: Vec<String> = machine.problems().into_iter().map(|p| p.path).collect();
        assert_eq!(paths, ["/ethtool/eno2/module", "/ethtool/eno3/module"]);
    }
}

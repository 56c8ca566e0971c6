//! The collectors, each with a deadline and a panic guard.

mod inventory;

pub use inventory::Inventory;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::machine::{Extras, Machine, Problem, Source};
use crate::pool::{self, Failure, Job};

/// Adds the facts of a collector to the inventory.
pub type Fill = Box<dyn FnOnce(&mut Inventory) + Send>;

/// One collector: the sections that it fills, its time limit, and the function.
#[derive(Debug)]
pub struct Collector {
    /// Its name in problems and timings.
    pub name: &'static str,
    /// The sections of the report that it fills; `--only` selects by them.
    pub sections: &'static [&'static str],
    /// Time after its start at which its sections are given up.
    pub deadline: Duration,
    /// Reads the facts; never fails.
    pub run: fn(&Machine) -> Fill,
}

const QUICK: Duration = Duration::from_secs(15);
/// For a collector that waits for a given time and ends by itself.
const WAITING: Duration = Duration::from_hours(2);
/// Part of the budget that remains when a wait ends.
const MARGIN: Duration = Duration::from_secs(2);

/// The collectors that read what identifies a machine. A report runs all of them: the name of a node
/// must not depend on the sections that are asked for.
const IDENTITY: [&str; 3] = ["network", "dmi", "bmc"];

/// Ends of the paths that the name of a node is read from: UUID, serial numbers and permanent MACs.
const IDENTIFIERS: &str = "/dmi/id/product_uuid /dmi/id/product_serial /dmi/id/board_serial /sys/class/net \
     /address /addr_assign_type /perm_hwaddr /rtnetlink/link";

const fn collector(
    name: &'static str,
    sections: &'static [&'static str],
    deadline: Duration,
    run: fn(&Machine) -> Fill,
) -> Collector {
    Collector { name, sections, deadline, run }
}

/// Puts a section in its place.
fn section<T: Send + 'static>(facts: T, place: fn(&mut Inventory) -> &mut Option<T>) -> Fill {
    Box::new(move |inventory| *place(inventory) = Some(facts))
}

/// Adds what was found to a section that another collector fills.
fn attached<T: Default + PartialEq + Send + 'static, S: Default + 'static>(
    found: T,
    place: fn(&mut Inventory) -> &mut Option<S>,
    attach: fn(&mut S, T),
) -> Fill {
    Box::new(move |inventory| {
        if found != T::default() {
            attach(place(inventory).get_or_insert_default(), found);
        }
    })
}

/// All collectors, in the order of the report.
pub const COLLECTORS: &[Collector] = &[
    collector("cpu", &["cpu"], QUICK, |machine| {
        section(crate::cpu::cpu(machine), |all| &mut all.cpu)
    }),
    collector("memory", &["memory"], QUICK, |machine| {
        section(crate::memory::memory(machine), |all| &mut all.memory)
    }),
    collector("topology", &["topology"], QUICK, |machine| {
        section(crate::topology::topology(machine), |all| &mut all.topology)
    }),
    collector("block", &["block"], Duration::from_secs(30), |machine| {
        section(crate::block::block(machine), |all| &mut all.block)
    }),
    collector("network", &["network"], QUICK, |machine| {
        section(crate::network::network(machine), |all| &mut all.network)
    }),
    collector("local_addresses", &["local_addresses"], QUICK, |machine| {
        section(crate::network::local_addresses(machine), |all| &mut all.local_addresses)
    }),
    collector("pci", &["pci", "gpu"], QUICK, |machine| {
        let pci = crate::pci::pci(machine);
        let gpu = crate::gpu::gpu(machine, &pci);
        Box::new(|inventory| (inventory.pci, inventory.gpu) = (Some(pci), Some(gpu)))
    }),
    collector("devices", &["devices"], QUICK, |machine| {
        let devices = crate::devices::devices(machine);
        Box::new(|inventory| inventory.devices.get_or_insert_default().merge(devices))
    }),
    collector("usb", &["devices"], QUICK, |machine| {
        let usb = crate::usb::usb(machine);
        Box::new(|inventory| inventory.devices.get_or_insert_default().usb = usb)
    }),
    collector("dmi", &["chassis", "baseboard", "product", "bios"], QUICK, |machine| {
        let dmi = crate::dmi::dmi(machine);
        Box::new(|inventory| {
            inventory.chassis = Some(dmi.chassis);
            inventory.baseboard = Some(dmi.baseboard);
            inventory.product = Some(dmi.product);
            inventory.bios = Some(dmi.bios);
        })
    }),
    collector("firmware", &["firmware"], QUICK, |machine| {
        section(crate::firmware::firmware(machine), |all| &mut all.firmware)
    }),
    collector("bmc", &["bmc"], Duration::from_secs(20), |machine| {
        let bmc = crate::bmc::bmc(machine);
        Box::new(|inventory| inventory.bmc = bmc)
    }),
    // Separate from `bmc`, so that a slow controller does not cost the addresses in it.
    // Sensors, event log and parts take up to 14 s together, and each may end in a timeout.
    collector("bmc_telemetry", &["bmc"], Duration::from_secs(25), |machine| {
        let telemetry = crate::bmc::telemetry(machine);
        Box::new(|inventory| telemetry.apply(&mut inventory.bmc))
    }),
    collector("smbios", &["smbios"], QUICK, |machine| {
        let table = crate::smbios::table(machine);
        Box::new(|inventory| inventory.smbios = table)
    }),
    collector("os", &["os"], QUICK, |machine| section(crate::os::os(machine), |all| &mut all.os)),
    // After `block`, whose section it completes: a controller that hangs costs no disk.
    collector("raid", &["block"], Duration::from_secs(20), |machine| {
        let controllers = crate::block::raid_controllers(machine);
        attached(controllers, |all| &mut all.block, crate::block::attach_raid)
    }),
    // After `network`, whose section it completes.
    collector("module", &["network"], Duration::from_secs(30), |machine| {
        let modules = crate::network::modules(machine);
        attached(
            modules,
            |all| &mut all.network,
            |network, modules| {
                for (name, module) in modules {
                    network.interface_mut(&name).module = Some(module);
                }
            },
        )
    }),
    // Last, and after `network`, whose section it completes.
    collector("lldp", &["network"], WAITING, |machine| {
        let neighbours = crate::network::neighbours(machine);
        attached(
            neighbours,
            |all| &mut all.network,
            |network, neighbours| {
                for (name, received) in neighbours {
                    network.interface_mut(&name).lldp = Some(received);
                }
            },
        )
    }),
];

/// The sections of the report, each once; some have several collectors.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = Vec::new();
    for section in COLLECTORS.iter().flat_map(|collector| collector.sections) {
        if !sections.contains(section) {
            sections.push(section);
        }
    }
    sections
}

/// Sections to collect, and the time limit for all.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sections to collect; all if empty.
    pub only: Vec<String>,
    /// True to read the machine's identifiers as well, whatever `only` contains. This may take as long as a management
    /// controller that does not respond.
    pub identity: bool,
    /// After this no collector is waited for.
    pub budget: Duration,
    /// The number of a signal that was received. Once it is not zero, no collector is waited for longer than a moment.
    pub signal: Option<Arc<AtomicUsize>>,
    /// Facts that are read only on request.
    pub extras: Extras,
}

impl Default for Options {
    fn default() -> Options {
        let extras = Extras::default();
        Options {
            only: Vec::new(),
            identity: false,
            budget: Duration::from_secs(45),
            signal: None,
            extras,
        }
    }
}

/// Result of a collection.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// The facts: the wanted sections and, if asked for, those that identify the machine.
    /// `Inventory::keep_only` drops the latter once they have been used.
    pub inventory: Inventory,
    /// Facts that could not be read, with the reason; by collector in the order of the report. For a collector that ran
    /// only for the identity, just the problems that concern it.
    pub problems: Vec<Problem>,
    /// Duration of each collector, in ms, by its name.
    pub durations_ms: BTreeMap<String, u64>,
}

/// Runs the collectors of the wanted sections, and waits for each no longer than its deadline and the
/// budget allow.
pub fn collect(source: &Arc<Source>, options: &Options) -> Collected {
    collect_with(COLLECTORS, source, options)
}

fn collect_with(
    collectors: &'static [Collector],
    source: &Arc<Source>,
    options: &Options,
) -> Collected {
    let start = Instant::now();
    let is_asked_for = |collector: &Collector| {
        options.only.is_empty()
            || collector.sections.iter().any(|section| options.only.iter().any(|o| o == section))
    };
    let is_wanted = |collector: &&Collector| {
        is_asked_for(collector) || options.identity && IDENTITY.contains(&collector.name)
    };
    let extras = Extras {
        // Listening until the end of the budget would get the collector given up, with all its frames.
        lldp_wait: options.extras.lldp_wait.min(options.budget.saturating_sub(MARGIN)),
        ..options.extras
    };
    let machine = |collector: &'static Collector| {
        Machine::new(Arc::clone(source), collector.name).with_extras(extras)
    };
    let wanted: Vec<(&Collector, Machine)> =
        collectors.iter().filter(is_wanted).map(|one| (one, machine(one))).collect();
    let job = |(collector, machine): &(&'static Collector, Machine)| {
        let (run, machine) = (collector.run, machine.clone());
        Job { deadline: collector.deadline, work: Box::new(move || run(&machine)) }
    };
    let jobs = wanted.iter().map(job).collect();
    let settled = pool::run(jobs, start, options.budget, options.signal.as_deref());
    let mut collected = Collected::default();
    for ((collector, machine), settled) in wanted.iter().zip(settled) {
        let duration_ms = u64::try_from(settled.duration.as_millis()).unwrap_or(u64::MAX);
        collected.durations_ms.insert(collector.name.to_owned(), duration_ms);
        let problems = machine.problems().into_iter();
        let is_kept = |problem: &Problem| is_asked_for(collector) || is_of_identity(problem);
        collected.problems.extend(problems.filter(is_kept));
        match settled.result {
            Ok(fill) => fill(&mut collected.inventory),
            // Not through the machine's own list, which is closed once it is full: the reason why a
            // section is missing must always be reported.
            Err(failure) => {
                collected.problems.push(problem(machine, collector.name, failure, duration_ms));
            }
        }
    }
    collected
}

/// True if `problem` may explain why the machine has no identifier, or a different one than before.
fn is_of_identity(problem: &Problem) -> bool {
    IDENTIFIERS.split(' ').any(|end| problem.path.ends_with(end))
}

/// The problem of a collector without a result, with the path that it read last.
fn problem(machine: &Machine, name: &str, failure: Failure, duration_ms: u64) -> Problem {
    let (found, expected) = match failure {
        Failure::Panicked(panic) => {
            (format!("a bug in the collector {name}: {panic}"), "no panic; please report this")
        }
        Failure::Late => (
            format!("no answer after {duration_ms} ms; the section is left out"),
            "an answer before the collector's deadline",
        ),
        Failure::NotStarted => (
            "no time was left for it; the section is left out".to_owned(),
            "an answer before the collector's deadline",
        ),
        Failure::NoThread(error) => (error, "a thread for the collector"),
    };
    Problem::new(name, &machine.last_path(), found, expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Os;

    const GOOD: Collector = Collector {
        name: "good",
        sections: &["os"],
        deadline: QUICK,
        run: |_| Box::new(|inventory| inventory.os = Some(Os::default())),
    };

    #[test]
    fn only_the_wanted_sections_are_collected() {
        const LIST: &[Collector] = &[GOOD];
        let collected = |section: &str| {
            let options = Options { only: vec![section.to_owned()], ..Options::default() };
            collect_with(LIST, &Arc::new(Source::live()), &options).inventory
        };
        assert!(collected("cpu").os.is_none());
        assert!(collected("os").os.is_some());
    }

    fn part(source: &Arc<Source>, only: &[&str], identity: bool) -> Collected {
        let only = only.iter().map(|section| (*section).to_owned()).collect();
        collect(source, &Options { only, identity, ..Options::default() })
    }

    #[test]
    fn what_identifies_the_machine_is_collected_whatever_sections_are_asked_for() {
        let product = |only: &[&str]| {
            let source =
                crate::testing::source(&[("sys/class/dmi/id/product_serial", "SERIAL-01")]);
            let inventory = part(&source, only, true).inventory;
            (inventory.product.unwrap().serial, inventory.network.is_some())
        };
        let whole = product(&[]);
        assert_eq!(whole, (Some("SERIAL-01".to_owned()), true));
        assert_eq!((product(&["cpu"]), product(&["os", "pci"])), (whole.clone(), whole));
        let is_known = |name: &&str| COLLECTORS.iter().any(|collector| collector.name == *name);
        assert!(IDENTITY.iter().all(is_known));
    }

    #[test]
    fn waiting_for_a_disk_never_waits_for_a_management_controller() {
        let collected = part(&crate::testing::source(&[]), &["block"], false);
        let names: Vec<&String> = collected.durations_ms.keys().collect();
        assert_eq!(names, ["block", "raid"]);
    }

    #[test]
    fn problems_of_other_sections_are_dropped_unless_they_concern_the_identity() {
        let denied = "13 sys/class/dmi/id/product_uuid\n13 sys/class/dmi/id/chassis_serial\n\
                      13 sys/firmware/dmi/tables/DMI\n13 sys/class/net\n";
        let files = [
            ("kernel/errors", denied),
            ("sys/class/dmi/id/product_name", "R650\n"),
            ("proc/net/dev", "a\nb\neth0: 0\n"),
        ];
        let paths = |only: &[&str]| -> Vec<String> {
            let problems = part(&crate::testing::source(&files), only, true).problems;
            problems.into_iter().map(|problem| problem.path).collect()
        };
        let of_os = paths(&["os"]);
        for path in ["/sys/class/net", "/sys/class/dmi/id/product_uuid"] {
            assert!(of_os.iter().any(|found| found == path), "{path}: {of_os:?}");
        }
        let is_other = |path: &&String| path.ends_with("chassis_serial") || path.ends_with("/DMI");
        assert_eq!(of_os.iter().find(is_other), None);
        assert_eq!(paths(&["chassis"]).iter().filter(is_other).count(), 2);
    }

    #[test]
    fn each_section_can_be_kept_alone() {
        let source = crate::testing::source(&[("sys/class/net/eth0/address", "02:00:00:00:00:01")]);
        let whole = collect(&source, &Options::default()).inventory;
        let keys = |inventory: &Inventory| -> Vec<String> {
            let value = serde_json::to_value(inventory).unwrap();
            value.as_object().unwrap().keys().cloned().collect()
        };
        let all = keys(&whole);
        assert!(all.len() > 10, "{all:?}");
        for section in sections() {
            let mut kept = whole.clone();
            kept.keep_only(&[section.to_owned()]);
            let expected: Vec<&String> = all.iter().filter(|key| *key == section).collect();
            assert_eq!(keys(&kept).iter().collect::<Vec<_>>(), expected, "{section}");
        }
        let mut kept = whole.clone();
        kept.keep_only(&[]);
        assert_eq!(kept, whole);
    }

    const SLOW: Collector = Collector {
        name: "slow",
        deadline: Duration::from_millis(50),
        run: |machine| {
            assert!(machine.text("proc/version/none").is_none());
            std::thread::sleep(Duration::from_mins(10));
            Box::new(|_| ())
        },
        ..GOOD
    };
    const NOISY: Collector = Collector {
        name: "noisy",
        run: |machine| {
            (0..1000).for_each(|i| machine.problem(&format!("sys/{i}"), "x", "y"));
            assert!(machine.text("sys/none/999").is_none());
            panic!("out of cheese")
        },
        ..GOOD
    };

    #[test]
    fn hanging_and_a_panicking_collector_cost_their_own_sections() {
        const LIST: &[Collector] = &[SLOW, NOISY, GOOD];
        let collected = collect_with(LIST, &Arc::new(Source::live()), &Options::default());
        assert!(collected.inventory.os.is_some());
        let of = |name: &str| collected.problems.iter().rfind(|p| p.collector == name).unwrap();
        assert!(of("slow").found.starts_with("no answer after"), "{:?}", of("slow"));
        assert_eq!(of("slow").path, "/proc/version/none");
        // More problems than are kept do not push out the one that explains the missing section.
        assert!(of("noisy").found.contains("out of cheese"), "{:?}", of("noisy"));
        assert_eq!(of("noisy").path, "/sys/none/999");
        assert_eq!(collected.durations_ms.len(), 3);
    }
}

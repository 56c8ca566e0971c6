//! A refused instruction is tried again once the node has changed as the advice asks, and never after a write began.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use probes::block::{Disk, Filesystem};
use probes::machine::Source;
use run_coreos_installer::act::System;
use run_coreos_installer::act::system::{Files, Handle, Kernel};
use run_coreos_installer::act::takedown::Step;
use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::install::with;
use super::machine::Machine;
use super::mock::{Mock, Reply};

type Disks = Arc<Mutex<Vec<Disk>>>;

/// The kernel of a machine in a folder, whose disks can change. It ends the use of swap space, and takes down nothing else.
#[derive(Debug)]
pub(crate) struct Changing {
    files: Files,
    disks: Option<Disks>,
}

impl Changing {
    /// The system of a machine with these disks; without them with those of its report.
    pub(crate) fn system(machine: &Machine, disks: Option<Disks>) -> System {
        let root = machine.root.clone();
        System::of(Arc::new(Self { files: Files { root: root.clone() }, disks }), root)
    }
}

impl Kernel for Changing {
    fn source(&self) -> io::Result<Source> {
        self.files.source()
    }

    fn disks(&self) -> io::Result<Option<Vec<Disk>>> {
        let Some(disks) = &self.disks else { return Ok(None) };
        let mut disks = disks.lock().unwrap();
        // Left by the program that writes when it was asked for its version, which is after the choice.
        if self.files.root.join("unplugged").exists() {
            disks.clear();
        }
        Ok(Some(disks.clone()))
    }

    fn open(&self, device: &str) -> io::Result<Arc<dyn Handle>> {
        self.files.open(device)
    }

    fn number_of(&self, path: &str) -> io::Result<Option<String>> {
        self.files.number_of(path)
    }

    fn resolve(&self, path: &str) -> Option<String> {
        self.files.resolve(path)
    }

    fn take_down(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::SwapOff { .. } => {
                std::fs::write(self.files.root.join("proc/swaps"), "Filename Type\n")
            }
            _ => Err(io::Error::other("the array is frozen")),
        }
    }
}

/// A machine whose disks can change, and its VIM.
struct Node {
    mock: Mock,
    machine: Machine,
    /// Those that are plugged in.
    disks: Disks,
    second: Disk,
}

/// A VIM that sends the same install five times and then `stop`, and a machine with two disks, whose coreos-installer fails.
/// Only the first disk is plugged in. Before the third time, `change` happens to the disks that are plugged in; it gets the
/// second disk.
fn node(keys: Value, change: impl Fn(&mut Vec<Disk>, Disk) + Send + Sync + 'static) -> Node {
    let (disks, second): (Disks, Arc<Mutex<Option<Disk>>>) = Default::default();
    let (of_vim, of_second) = (Arc::clone(&disks), Arc::clone(&second));
    let is_changed = AtomicBool::new(false);
    let install = with(keys);
    let mock = Mock::vim(move |request, n| {
        let is_poll = request.path.ends_with("/instruction");
        if is_poll && n >= 4 {
            return Reply::action("stop");
        }
        if is_poll && n == 1 && !is_changed.swap(true, Ordering::SeqCst) {
            let second = of_second.lock().unwrap().clone().unwrap();
            change(&mut of_vim.lock().unwrap(), second);
        }
        Reply::install(&install)
    });
    let mut machine = Machine::new(&mock.url);
    machine.settings.on_refusal = OnRefusal::Retry;
    machine.add_disk("sdb", 64 << 20);
    machine.script("echo 'Error: something nobody knows' >&2; exit 1");
    let sdb = machine.collected.disks.pop().unwrap();
    *second.lock().unwrap() = Some(sdb.clone());
    disks.lock().unwrap().clone_from(&machine.collected.disks);
    machine.settings.site.system = Changing::system(&machine, Some(Arc::clone(&disks)));
    Node { mock, machine, disks, second: sdb }
}

impl Node {
    /// Runs the job, which ends with an untouched disk after these results and this number of runs of coreos-installer.
    #[track_caller]
    fn ends_after(&mut self, codes: &[&str], n_runs: usize) {
        assert_eq!(self.machine.run().exit_status, ExitStatus::Untouched);
        assert_eq!(self.mock.codes(), codes);
        assert_eq!(self.machine.read("args").lines().count(), n_runs, "runs of coreos-installer");
    }
}

fn on(serial: &str) -> Value {
    json!({"disk": {"hints": {"serial": serial}}})
}

#[test]
fn missing_disk_that_is_inserted_is_installed_without_another_instruction() {
    // It is tried again once, and not a second time: the installer ran.
    node(on("SERIAL-sdb"), Vec::push).ends_after(&["DISK_NONE", "INSTALLER_FAILED"], 1);
}

#[test]
fn relabelled_file_system_makes_the_same_instruction_possible() {
    let labelled = |label: &str| Filesystem {
        kind: "ext4".into(),
        label: Some(label.into()),
        ..Filesystem::default()
    };
    let relabel = move |disks: &mut Vec<Disk>, _| disks[1].filesystem = Some(labelled("old"));
    let mut node = node(on("SERIAL-sda"), relabel);
    let sdb = Disk { filesystem: Some(labelled("boot")), ..node.second.clone() };
    node.disks.lock().unwrap().push(sdb);
    node.ends_after(&["BOOT_LABEL", "INSTALLER_FAILED"], 1);
}

#[test]
fn same_disks_or_other_health_do_not_lead_to_another_try() {
    let mut node = node(on("SERIAL-sdb"), |disks, _| {
        disks[0].health = Some(probes::block::Health::default());
    });
    node.ends_after(&["DISK_NONE"], 0);
}

#[test]
fn nothing_is_tried_again_after_coreos_installer_ran() {
    node(json!({}), Vec::push).ends_after(&["INSTALLER_FAILED"], 1);
}

#[test]
fn refusal_after_the_checks_is_final_although_the_disks_have_changed_since_the_choice() {
    let mut node = node(json!({}), |disks, _| disks.clear());
    let mark = node.machine.root.join("unplugged");
    node.machine.installer(&format!("0.27.0'; touch '{}", mark.display()), "exit 0");
    assert_eq!(node.machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(node.mock.codes().len(), 1, "{:?}", node.mock.codes());
    assert!(node.machine.read("args").is_empty(), "the installer was run");
}

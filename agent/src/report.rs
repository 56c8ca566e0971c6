//! The report: everything that is known about a machine, in the form that is posted and printed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use probes::collect::{Inventory, Options, collect, sections};
use probes::cpu::Cpu;
use probes::dmi::Product;
use probes::faults::{Fault, faults};
use probes::findings::{Finding, findings};
use probes::gpu::Gpu;
use probes::identity::{Identifier, identity};
use probes::live::{Live, live};
use probes::machine::{Problem, Source};
use probes::memory::Memory;
use probes::network::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::act::trace::Trace;
use crate::node_id::node_id;

/// The version of the report's keys. A new key raises the second number, a changed key the first.
pub const SCHEMA_VERSION: &str = "1.0";

/// The one kind of [`Report::kinds`] that most servers lack.
const GPUS: &str = "GPUs";

/// Everything that is known about a machine: `Report` of VIM API v1, and the output of `inspect`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of these keys, e.g. `1.0`.
    pub schema_version: String,
    /// The program that made the report.
    pub agent: Agent,
    /// The name under which the agent speaks of this node, e.g. `uuid-4c4c4544-…`. A machine without
    /// an identifier is named after its boot, `boot-…`, and the next boot gives it another name.
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: String,
    /// When the report was made, by the node's clock: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub collected_at: String,
    /// How long collecting took, in ms.
    pub duration_ms: u64,
    /// The identifiers of the machine.
    pub identity: Vec<Identifier>,
    /// The facts, by section.
    #[serde(flatten)]
    pub inventory: Inventory,
    /// What is wrong with the machine, worst first.
    pub findings: Vec<Finding>,
    /// The findings joined into faults, worst first: which part may be broken, where it is, and why.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What could not be read or understood, and why.
    pub problems: Vec<Problem>,
    /// How long each collector took.
    pub timings: Timings,
    /// The trace of the last install on this machine, in what a VIM receives; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Trace>,
    /// Uptime, load and memory of the running machine; absent in a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
    /// The product, also if its section was not asked for: it names the machine for people. Not reported.
    #[serde(skip)]
    pub machine: Option<Product>,
}

/// The program that made a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Always `run-coreos-installer`.
    pub name: String,
    /// Its version, e.g. `0.1.0`.
    pub version: String,
    /// The sections that this program can fill.
    pub capabilities: Vec<String>,
}

/// How long collecting took. These figures differ from run to run, like the section `live`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Wall time of each collector in ms, by its name.
    pub collectors_ms: BTreeMap<String, u64>,
}

/// Reads the machine of `source` and makes its report.
pub fn report(source: &Arc<Source>, options: &Options) -> Report {
    let start = Instant::now();
    let mut collected = collect(source, &Options { identity: true, ..options.clone() });
    let identity = identity(&collected.inventory);
    let (node_id, problem) = node_id(&identity, source);
    collected.problems.extend(problem);
    let machine = collected.inventory.product.clone();
    collected.inventory.keep_only(&options.only);
    let findings = findings(&collected.inventory);
    Report {
        schema_version: SCHEMA_VERSION.to_owned(),
        agent: agent(),
        node_id,
        collected_at: formats::time::rfc3339(SystemTime::now()),
        duration_ms: milliseconds(start.elapsed()),
        faults: faults(&collected.inventory, &findings),
        findings,
        identity,
        inventory: collected.inventory,
        problems: collected.problems,
        timings: Timings { collectors_ms: collected.durations_ms },
        previous: None,
        // Last, so that the agent's peak memory and CPU time include the collecting.
        live: source.is_live().then(live),
        machine,
    }
}

impl Report {
    /// The kinds of hardware that every machine has and whose sections this report has without any data in
    /// them. Each is named as people say it, e.g. `processors`.
    pub fn kinds_without_data(&self) -> Vec<&'static str> {
        let kinds = self.kinds().into_iter().filter(|(_, has_data)| *has_data == Some(false));
        kinds.map(|(name, _)| name).filter(|name| *name != GPUS).collect()
    }

    /// An error if nothing about the hardware was found, so that a lack of findings says nothing about the machine. `only`
    /// are the sections that were asked for; all if it is empty.
    ///
    /// # Errors
    /// No processor, memory, disk, network port, PCI device or GPU was found. If neither processors nor memory were asked
    /// for, that is no error: a machine may have no GPU.
    pub fn require_hardware(&self, only: &[String]) -> anyhow::Result<()> {
        let is_asked = |section: &str| only.is_empty() || only.iter().any(|name| name == section);
        let kinds = self.kinds();
        let has_data = kinds.iter().any(|(_, has_data)| *has_data == Some(true));
        if has_data || !(is_asked("cpu") || is_asked("memory")) {
            return Ok(());
        }
        let missing = self.kinds_without_data();
        let missing = if missing.is_empty() { "section".to_owned() } else { missing.join(", ") };
        // The lack of an identifier follows from it.
        let problems = self.problems.iter().filter(|problem| problem.collector != "identity");
        let unread = problems.map(|problem| format!("; {}: found {}", problem.path, problem.found));
        let first = unread.take(1).collect::<String>();
        anyhow::bail!("nothing about this machine's hardware could be read: no {missing}{first}")
    }

    /// For each kind whether the report has data of it; `None` if it lacks the section.
    fn kinds(&self) -> [(&'static str, Option<bool>); 6] {
        let Inventory { cpu, memory, block, network, pci, gpu, .. } = &self.inventory;
        // The kernel's version names the architecture too.
        let bare = |cpu: &Cpu| Cpu { architecture: cpu.architecture.clone(), ..Cpu::default() };
        [
            ("processors", cpu.as_ref().map(|cpu| *cpu != bare(cpu))),
            ("memory", memory.as_ref().map(|memory| *memory != Memory::default())),
            ("disks", block.as_ref().map(|block| block.n_disks.is_some())),
            ("network ports", network.as_ref().map(|network| *network != Network::default())),
            ("PCI devices", pci.as_ref().map(|pci| !pci.devices.is_empty())),
            (GPUS, gpu.as_ref().map(|gpu| *gpu != Gpu::default())),
        ]
    }

    /// Replaces the findings, sorts them, and concludes the faults from them.
    pub fn set_findings(&mut self, mut findings: Vec<Finding>) {
        findings.sort_by_key(|finding| Reverse(finding.severity));
        self.faults = faults(&self.inventory, &findings);
        self.findings = findings;
    }
}

fn agent() -> Agent {
    let capabilities = sections().into_iter().map(str::to_owned).collect();
    let name = "run-coreos-installer".to_owned();
    Agent { name, version: env!("CARGO_PKG_VERSION").to_owned(), capabilities }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! The commands that are compared, on the running machine and on a captured tree.

use std::path::Path;
use std::process::Command;

use crate::subject::Subject;

/// A command line with its environment.
#[derive(Debug)]
pub(crate) struct Tool {
    /// What the table calls it.
    pub(crate) name: &'static str,
    words: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Tool {
    pub(crate) fn new(name: &'static str, words: &[&str]) -> Tool {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Tool { name, words, environment: Vec::new() }
    }

    pub(crate) fn with(mut self, word: &str) -> Tool {
        self.words.push(word.to_owned());
        self
    }

    /// Its program and arguments.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    pub(crate) fn command(&self) -> Command {
        let (program, arguments) =
            self.words.split_first().map_or(("true", &[][..]), |(p, a)| (p, a));
        let mut command = Command::new(program);
        command.args(arguments);
        self.dressed(command)
    }

    /// The same command with this tool's environment.
    pub(crate) fn dressed(&self, mut command: Command) -> Command {
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }

    fn is_here(&self) -> bool {
        let Some(program) = self.words.first() else { return false };
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(program).exists())
    }
}

/// The whole report as JSON.
pub(crate) fn agent(agent: &Path, subject: &Subject) -> Tool {
    let words = [&*agent.to_string_lossy(), "inspect", "--format", "json"].map(str::to_owned);
    let mut tool = Tool {
        name: "run-coreos-installer inspect",
        words: words.to_vec(),
        environment: Vec::new(),
    };
    if let Some(root) = &subject.root {
        tool = tool.with("--root").with(&root.to_string_lossy());
    }
    tool
}

/// Only what `lscpu` and `lstopo --no-io` show.
pub(crate) fn agent_cpu(path: &Path, subject: &Subject) -> Tool {
    agent(path, subject).with("--only").with("cpu,topology")
}

/// The start of the process and nothing more.
pub(crate) fn agent_version(agent: &Path) -> Tool {
    Tool::new("start of the process (`--version`)", &[&*agent.to_string_lossy(), "--version"])
}

/// The tools that each give a part of the report.
pub(crate) fn replaced(subject: &Subject) -> Vec<Tool> {
    let lstopo = || Tool::new("lstopo --of xml", &["lstopo-no-graphics", "--of", "xml"]);
    let tools = match &subject.root {
        None => vec![
            Tool::new("lscpu", &["lscpu"]),
            Tool::new("lsmem", &["lsmem"]),
            lstopo(),
            Tool::new("lsblk -O", &["lsblk", "-O"]),
            Tool::new("lspci -vv", &["lspci", "-vv"]),
            Tool::new("dmidecode", &["dmidecode"]),
        ],
        Some(root) => {
            let at = root.to_string_lossy();
            let mut topology = lstopo();
            topology.environment = vec![
                ("HWLOC_FSROOT", at.to_string()),
                ("HWLOC_COMPONENTS", "-x86,linux".to_owned()),
            ];
            let mut tools = vec![
                Tool::new("lscpu", &["lscpu", "--sysroot", &*at]),
                Tool::new("lsmem", &["lsmem", "--sysroot", &*at]),
                topology,
                Tool::new("lsblk -O", &["lsblk", "-O", "--sysroot", &*at]),
                Tool::new("lspci -vv", &["lspci", "-vv", "-A", "linux-sysfs"])
                    .with("-O")
                    .with(&format!("sysfs.path={at}/sys/bus/pci")),
            ];
            if let Some(dump) = &subject.smbios_dump {
                tools.push(
                    Tool::new("dmidecode", &["dmidecode", "--from-dump"])
                        .with(&dump.to_string_lossy()),
                );
            }
            tools
        }
    };
    tools.into_iter().filter(Tool::is_here).collect()
}

/// Programs that give a whole inventory; they cannot read a captured tree.
pub(crate) fn inventories(subject: &Subject) -> Vec<Tool> {
    if subject.root.is_some() {
        return Vec::new();
    }
    let tools = [
        Tool::new("lshw -json", &["lshw", "-json", "-quiet"]),
        Tool::new("hwinfo", &["timeout", "120", "hwinfo"]),
    ];
    tools.into_iter().filter(Tool::is_here).collect()
}

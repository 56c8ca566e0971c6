//! The agent against a real Ironic, a real ironic-inspector and a real assisted-service. Ironic is one process with API and conductor, a database in a file, power that does nothing.
//!
//! `tests/ironic/setup` installs it. The agent runs as a process of its own, this program started once more, so that it
//! can be killed; its machine is the one of the job's tests, with files for disks and a script for coreos-installer.

#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the tests show which scenario ended how, and the agent's process writes its log"
)]

#[cfg(test)]
mod agent;
#[cfg(test)]
mod assisted;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod inspector;
#[cfg(test)]
mod server;

#[cfg(test)]
#[path = "../job/image.rs"]
#[expect(dead_code, reason = "the job's tests use all of it")]
mod image;
#[cfg(test)]
#[path = "../job/machine.rs"]
#[expect(dead_code, reason = "the job's tests use all of it")]
mod machine;
#[cfg(test)]
#[path = "../job/mock.rs"]
#[expect(dead_code, reason = "the job's tests use all of it")]
mod mock;
#[cfg(test)]
#[path = "../part.rs"]
mod part;
#[cfg(test)]
#[path = "../skipped.rs"]
mod skipped;
#[cfg(test)]
#[path = "../until.rs"]
mod until;

//! `make demo`: the whole job of the virtual machine tests, with a line on the terminal for each stage.
//!
//! A program of its own, because the test binary would need another build of the agent. It shares the modules of the tests.

#![expect(dead_code, reason = "the tests use the rest of these modules")]

mod agent;
mod arguments;
mod artifacts;
mod boot;
mod console;
mod cpio;
mod disk;
mod expect;
mod guest;
mod install;
mod ipmi;
mod lab;
mod machine;
mod narrator;
mod qmp;
mod smbios;

fn main() -> anyhow::Result<()> {
    install::whole_job("demo", &mut narrator::Narrator::verbose())
}

//! Tests that boot virtual machines. `cargo test` leaves them out; `cargo test --test vm` runs them (see tests/vm/README.md).

mod agent;
mod arguments;
mod artifacts;
mod bmc;
mod boot;
mod console;
mod cpio;
mod crowded;
mod debugger;
mod disk;
mod expect;
mod guest;
mod install;
mod ipmi;
mod lab;
mod machine;
mod narrator;
mod outside;
mod qmp;
mod rich;
mod smbios;
mod template;

mod confirm;
mod cuts;
mod faults;
mod inspect;
mod ironic;
mod iso;
mod job;
mod load;
mod netboot;
mod packet;
mod pointer;
mod rack;
mod reignite;
mod reinstall;
mod report;
mod sectors;
mod silence;
mod uefi;
mod waiting;

#[path = "../qr_reader.rs"]
mod qr_reader;
#[path = "../ironic/server.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests with a real Ironic use all of it, and fail by a failed unwrap"
)]
mod server;
#[path = "../until.rs"]
mod until;

//! The job against a mock VIM and a fake installer.
//!
//! `mock` is the server, `machine` the node: a folder with a file for a disk, a piece of sysfs and a script in
//! place of coreos-installer; `install` joins the two. `image` makes a disk image in the shape of `CoreOS` if `mkfs.ext4` is
//! installed. `world` is a simulated kernel, for `property`.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod again;
mod assisted;
mod blocked;
mod bootstrap;
mod certificates;
mod changed;
mod choice;
mod config_server;
mod confirm;
mod crash;
mod delivery;
mod ending;
mod files;
mod image;
mod inspector;
mod install;
mod ironic;
mod ironic_agent;
mod late;
mod load;
mod machine;
mod memory;
mod mock;
mod offline;
#[path = "../part.rs"]
mod part;
mod proof;
mod property;
mod proxy;
#[path = "../noise/random.rs"]
#[expect(dead_code, reason = "the noise test needs more of it")]
mod random;
mod refusal;
mod reignite;
mod remains;
mod secrets;
mod signature;
#[path = "../skipped.rs"]
mod skipped;
mod stream;
mod takedown;
mod tls;
#[path = "../until.rs"]
mod until;
mod vim;
mod wire;
mod wire_document;
mod world;

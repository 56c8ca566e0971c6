//! The job against a mock VIM and a fake installer.
//!
//! `mock` is the server, `machine` the node: a folder with a file for a disk, a piece of sysfs and a script in
//! place of coreos-installer. `image` makes a disk image in the shape of `CoreOS` if `mkfs.ext4` is installed. `world` is
//! a simulated kernel, for `property`.

#[cfg(test)]
mod assisted;
#[cfg(test)]
mod blocked;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod changed;
#[cfg(test)]
mod choice;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod delivery;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod files;
#[cfg(test)]
mod image;
#[cfg(test)]
mod inspector;
#[cfg(test)]
mod install;
#[cfg(test)]
mod ironic;
#[cfg(test)]
mod ironic_agent;
#[cfg(test)]
mod late;
#[cfg(test)]
mod load;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod property;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod refusal;
#[cfg(test)]
mod remains;
#[cfg(test)]
#[path = "../skipped.rs"]
mod skipped;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod takedown;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod vim;
#[cfg(test)]
mod wire;
#[cfg(test)]
mod wire_document;
#[cfg(test)]
mod world;

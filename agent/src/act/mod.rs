//! Writes the disk: chooses it, checks that it may be written, and runs coreos-installer.
//!
//! Nothing here is reachable from the code that collects facts. The order is
//! [`selection::Selection::target`], [`preflight`], [`run::write`], all called by [`install::Act::carry_out`].

pub mod advice;
mod again;
pub mod array_metadata;
mod blank;
pub mod blocking;
pub(crate) mod bootstrap;
pub mod busy;
pub mod choice;
pub(crate) mod choose;
pub mod code;
mod confirm;
mod counters;
mod device;
mod disarm;
pub mod efi;
mod efivar;
pub mod erase;
mod existing;
pub mod first_boot;
mod follow;
pub mod hints;
pub mod identity;
mod ignition_version;
pub mod image;
pub mod install;
mod labels;
mod mounted;
pub mod order;
pub mod osmet;
pub mod outcome;
mod pointers;
pub mod preflight;
pub mod programs;
pub mod progress;
pub mod proof;
pub mod protect;
mod prove;
pub mod readable;
pub mod record;
mod reignite;
pub mod remains;
pub mod root_arguments;
pub mod run;
mod saved;
pub mod say;
pub mod seen;
pub mod selection;
pub mod settle;
pub mod site;
mod spanning;
pub mod stage;
pub mod stream;
pub mod stream_facts;
pub mod system;
pub mod takedown;
pub mod target;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod watchdog;
pub mod writers;

use std::fmt;

use probes::block::Disk;

use self::advice::advice;
pub use self::code::Code;
pub use self::confirm::{Confirm, ConfirmDigests};
pub use self::mounted::{NewFile, Volume};
pub use self::order::{
    Again, BlockOn, BootOrder, DiskChoice, ExistingDataPolicy, Expect, IfSeveral, IgnitionSource,
    ImageSource, OnUnproved, Order, Override, ProtectMissing, StreamSource, Verify,
};
pub use self::outcome::{
    Check, CheckName, Compared, DiskIdentity, DiskState, ExistingData, NextBoot, Outcome, Proof,
    WriteCounters, WrittenImage, certainty,
};
use self::say::{Say, Term, Words, say};
pub use self::site::Site;
pub use self::stage::{Stage, State};
pub use choice::{Decision, Undecided, Wanted, can_be_written, decide};
use device::device_number;
pub use existing::found as existing_data;
pub use probes::findings::Finding;
pub use system::System;

/// The disk as results name it.
pub fn identity_of(disk: &Disk) -> DiskIdentity {
    DiskIdentity {
        device: disk.device.clone(),
        serial: disk.serial.clone(),
        wwn: disk.wwn.clone(),
        size_bytes: disk.size_bytes.filter(|size_bytes| *size_bytes > 0),
    }
}

/// Describes the disk: `/dev/sda (serial S1, 512110190592 bytes)`.
pub fn describe(disk: &Disk) -> String {
    let serial = disk.serial.as_ref().map(|serial| format!("serial {serial}, "));
    let size = disk.size_bytes.map(|size_bytes| format!("{size_bytes} bytes"));
    let size = size.as_deref().unwrap_or("size unknown");
    format!("{} ({}{size})", disk.device, serial.unwrap_or_default())
}

/// The most things that a message names.
const MAX_NAMED: usize = 16;

/// Joins the first of these names.
fn list(names: impl IntoIterator<Item = String>, separator: &str) -> String {
    names.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(separator)
}

/// The numbers of `n` of these blocks at equal distances, the first and the last among them.
fn spread(n_blocks: u64, n: u64) -> impl Iterator<Item = u64> {
    let n = n.min(n_blocks);
    (0..n).map(move |at| {
        let number = u128::from(n_blocks - 1) * u128::from(at) / u128::from((n - 1).max(1));
        u64::try_from(number).unwrap_or(u64::MAX)
    })
}

/// The disks that show other content than `target`: neither itself, nor the paths of a LUN or the members of a RAID volume
/// that it is.
fn others<'d>(disks: &'d [Disk], target: &'d Disk) -> impl Iterator<Item = &'d Disk> {
    let is_other =
        move |disk: &&Disk| disk.name != target.name && disk.unit() != Some(&target.name);
    disks.iter().filter(is_other)
}

/// Advice on a disk that other hosts may use: nothing that changes what it contains.
const DETACH: &str = "another host may use that disk, so change nothing on it: choose another target, or take the disk \
                      from this node (zoning, LUN mapping, cabling)";

/// Why the install does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable code.
    pub code: Code,
    /// States what was found and what was expected.
    pub message: Say,
    /// Advice on what to do about it.
    pub advice: Option<Say>,
}

impl Failure {
    /// A failure without advice.
    pub fn new(code: Code, message: impl Into<Say>) -> Self {
        Self { code, message: message.into(), advice: None }
    }

    /// A failure with the advice that belongs to its code.
    pub fn advised(code: Code, message: impl Into<Say>) -> Self {
        Self::new(code, message).advise(advice(code))
    }

    /// The same with other advice.
    pub fn advise(mut self, advice: impl Into<Say>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Code, message and advice in one line, in the words of an engine.
    pub fn in_words(&self, words: Words) -> String {
        let advice = self.advice.as_ref().map(|advice| advice.in_words(words));
        let advice = advice.map(|advice| format!("; what to do: {advice}")).unwrap_or_default();
        format!("{}{advice}", self.said(words))
    }

    /// Code and message, in the words of an engine.
    pub fn said(&self, words: Words) -> String {
        format!("{}: {}", self.code, self.message.in_words(words))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

//! The facts of a machine in the forms of other programs: [`ironic`], [`metal3`], [`assisted`].
//!
//! Every function takes an [`Inventory`](probes::collect::Inventory) and returns a JSON value; nothing here reads or
//! writes anything. An unknown value is absent, in every form: the consumers accept that, with the exceptions that
//! their modules name. `docs/exports.md` lists each key with its source in the report.

pub mod assisted;
pub mod ironic;
pub mod metal3;

mod object;
mod ports;
mod select;

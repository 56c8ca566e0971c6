//! The agent: report and its renderings, VIM client, install and proof.

pub mod cli;
pub mod config;

pub mod commands;
pub mod log;
pub mod output;

pub mod capture;
pub mod check;
pub mod expect;
pub mod export;
pub mod links;
pub mod live_config;
pub mod locate;
mod machine_name;
mod node_id;
pub mod qr;
pub mod report;
pub mod text;

pub mod api;
pub mod archive;
pub mod http;

pub mod act;
pub mod engines;
pub mod job;

pub mod ask;
pub mod bounded;
pub mod checkpoint;
pub mod clean;
pub mod clock;
pub mod exit_status;
pub(crate) mod monitor;
pub mod process;
pub mod random;
pub mod secret;
pub mod signals;
pub(crate) mod strict_json;
pub mod terminal;
pub mod whole_file;

#[cfg(test)]
mod namespace;
#[path = "../../tests/skipped.rs"]
#[cfg(test)]
mod skipped;
#[cfg(test)]
mod testing;

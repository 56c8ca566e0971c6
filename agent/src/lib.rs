//! The agent: report and its renderings, VIM client, install and proof.

pub mod api;
pub mod capture;
pub mod cli;
pub mod commands;
pub mod config;
pub mod log;
pub mod output;
pub mod report;

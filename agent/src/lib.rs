//! The agent: report and its renderings, VIM client, install and proof.

pub mod api;

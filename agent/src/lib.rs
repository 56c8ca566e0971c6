//! The agent: report and its renderings, VIM client, install and proof.

pub mod api;
pub mod bounded;
pub mod digest;
pub mod install;
pub mod job;
pub mod proof;
pub mod secret;
pub mod vim;

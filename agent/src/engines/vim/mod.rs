//! VIM API v1: posts the report, asks for the instruction, posts events and the result; its `install` becomes an order, and
//! an outcome its result.

pub mod client;
pub mod delivery;
mod ending;
mod engine;
pub mod events;
mod late;
mod load;
mod neighbours;
pub(crate) mod order;
mod posting;
pub mod result;
pub(crate) mod result_file;
mod session;
mod waiting;
mod words;

pub use client::Answer;
pub use engine::{Settings, Vim};
pub use events::Events;
pub use result_file::ResultFile;
pub use words::words;

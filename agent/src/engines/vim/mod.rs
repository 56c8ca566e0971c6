//! VIM API v1: posts the report, asks for the instruction, posts events and the result; its `install` becomes an order, and
//! an outcome its result.

pub mod client;
pub mod delivery;
pub mod events;
pub(crate) mod order;
pub mod result;
mod words;

pub use client::Answer;
pub use events::Events;
pub use words::words;

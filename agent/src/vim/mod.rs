//! The requests of VIM API v1: posts the report, asks for the instruction, posts events and the result.

pub mod client;
pub mod delivery;
pub mod events;

pub use client::Answer;
pub use events::Events;

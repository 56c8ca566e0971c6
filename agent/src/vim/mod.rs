//! The client of VIM API v1: posts the report, asks for the instruction, posts events and the result.
//!
//! No response, however large, slow or malformed, can make it panic, hang or use unbounded memory: sizes and times are
//! limited, see [`transport`]. Waits between attempts are in [`retry`].

pub mod client;
pub mod clock_skew;
pub mod delivery;
pub mod download;
pub mod events;
mod exchange;
pub mod fetch;
pub(crate) mod order;
mod refusal;
mod request;
pub mod result;
pub mod retry;
mod token;
pub mod transport;
mod unreachable;
pub mod url;
mod words;

pub use client::{Answer, Client};
pub use events::Events;
pub use request::{Method, Response};
pub use token::TokenHeader;
pub use transport::VimSettings;
pub use words::words;

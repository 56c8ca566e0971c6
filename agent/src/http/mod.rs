//! The HTTP client of every engine: TLS, retries, addresses, downloads. `server` is the other side.
//!
//! No response, however large, slow or malformed, can make it panic, hang or use unbounded memory: sizes and times are
//! limited, see [`transport`]. Waits between attempts are in [`retry`].

pub mod client;
pub mod clock_skew;
pub mod download;
mod exchange;
mod expired;
pub mod fetch;
mod no_proxy;
pub mod proxy;
pub(crate) mod refusal;
mod request;
pub mod retry;
pub(crate) mod server;
pub mod signature;
#[cfg(test)]
mod tests;
mod token;
pub mod transport;
mod unreachable;
pub mod url;

pub use client::Client;
pub use request::{Request, Response};
pub use token::TokenHeader;
pub use transport::ServerSettings;

/// Media type of every other body.
pub const JSON_MEDIA_TYPE: &str = "application/json";

/// Media type of a bare Ignition config as the response to a report.
pub const IGNITION_MEDIA_TYPE: &str = "application/vnd.coreos.ignition+json";

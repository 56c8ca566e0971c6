//! The lab VIM as its clients see it: the real program, real requests over loopback sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod api;
mod faults;
mod files;
mod netboot;
mod pages;
mod secure;
mod util;

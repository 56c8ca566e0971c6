//! The lab VIM as its clients see it: the real program, real requests over loopback sockets.

mod api;
mod faults;
mod files;
mod pages;
mod secure;
mod util;

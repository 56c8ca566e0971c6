//! The lab VIM.

fn main() {}

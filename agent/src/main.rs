//! `run-coreos-installer`: the command line of the agent.

fn main() {}

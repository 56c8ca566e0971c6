//! Network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Network {}

/// Addresses, routes, name servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LocalAddresses {}

/// Reads the interfaces.
#[must_use]
pub fn network(_machine: &Machine) -> Network {
    Network {}
}

/// Reads addresses, routes and name servers.
#[must_use]
pub fn local_addresses(_machine: &Machine) -> LocalAddresses {
    LocalAddresses {}
}

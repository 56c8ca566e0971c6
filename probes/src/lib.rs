//! Reads what hardware a machine has.

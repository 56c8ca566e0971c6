//! Checks a returned Ignition config; makes the live image's own.

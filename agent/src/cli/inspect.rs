//! The options of `inspect`.

use clap::{Args, ValueEnum};

use super::{Color, SourceOptions};

/// Options of `inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectOptions {
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
    /// Output format
    ///
    /// The forms of other programs contain what they have a place for, in their
    /// units; see docs/exports.md. They need all sections, so not --only.
    #[arg(long, value_enum, default_value_t = InspectFormat::Text)]
    pub format: InspectFormat,
    /// When to colour the text
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Form of the whole report on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InspectFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// The same as JSON, easier to read
    Yaml,
    /// Inspection data for Ironic, as JSON
    Ironic,
}

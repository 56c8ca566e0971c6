//! The options of `inspect`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Color, SourceOptions};

/// Options of `inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectOptions {
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
    /// Also check that the machine has what this file expects
    ///
    /// Made by `expect`; see docs/expectations.md. Each deviation is a finding. To
    /// check neighbours, set --lldp-wait too.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Output format
    ///
    /// The forms of other programs contain what they have a place for, in their
    /// units; see docs/exports.md. They need all sections, so not --only.
    #[arg(long, value_enum, default_value_t = InspectFormat::Text)]
    pub format: InspectFormat,
    /// What to make of the format metal3
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Resource)]
    pub form: Form,
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
    /// `HardwareData` for Metal3, as JSON
    Metal3,
    /// Host inventory of assisted-service, as JSON
    Assisted,
}

/// What is made of the details that Metal3 reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A resource, for `kubectl apply`; give it the name of the `BareMetalHost`
    Resource,
    /// One line for the annotation `inspect.metal3.io/hardwaredetails`
    Annotation,
}

//! `inspect`: the report as text, as JSON or YAML, or in another program's format.

use anyhow::bail;

use crate::cli::{Form, InspectFormat, InspectOptions};
use crate::exit_status::ExitStatus;
use crate::links::BroughtUp;
use crate::{expect, export, output, text};

/// Prints the report.
///
/// # Errors
/// If the options are wrong, or the machine cannot be read.
pub(super) fn inspect(options: &InspectOptions, links: &BroughtUp) -> anyhow::Result<ExitStatus> {
    let is_own =
        matches!(options.format, InspectFormat::Text | InspectFormat::Json | InspectFormat::Yaml);
    if options.form == Form::Annotation && options.format != InspectFormat::Metal3 {
        bail!("--as annotation: only --format metal3 has annotations");
    }
    // A missing section would look like a machine without disks or ports.
    if !is_own && !options.source.only.is_empty() {
        bail!("--only: this format needs all sections; remove --only, or use --format json");
    }
    let expectations = options.expect.as_deref().map(expect::read).transpose()?;
    let source = super::source(&options.source)?;
    let mut report = super::read(&source, &options.source, super::NO_WAIT, links)?;
    if let Err(error) = super::require_hardware(&report, &options.source) {
        tracing::warn!("{error:#}");
    }
    expect::add(expectations.as_ref(), &mut report)?;
    output::print(&match options.format {
        InspectFormat::Text => text::text(&report, output::is_colored(options.color)),
        InspectFormat::Json => output::json(&report)?,
        InspectFormat::Yaml => output::yaml(&report)?,
        InspectFormat::Ironic => output::json(&export::ironic(&report))?,
        InspectFormat::Metal3 if options.form == Form::Annotation => {
            compare::escaped_json(&format!("{}\n", export::metal3::details(&report.inventory)))
        }
        InspectFormat::Metal3 => {
            output::json(&export::metal3::resource(&report.inventory, &report.node_id))?
        }
        InspectFormat::Assisted => output::json(&export::assisted::inventory(&report.inventory))?,
    })?;
    Ok(ExitStatus::Done)
}

//! `reignite`: another Ignition config for the system on a disk of this machine, which may be the running one.

use std::sync::Arc;

use anyhow::Context as _;
use tracing::{error, info, warn};

use super::job::server_settings;
use crate::act::install::{Act, Mark, Watch};
use crate::act::{BootOrder, IgnitionSource, Order, Site, Stage, State, System, describe};
use crate::cli::{ReigniteOptions, VimOptions};
use crate::clock::RealClock;
use crate::engines::offline::{arguments, disk, ignition_source, words};
use crate::exit_status::ExitStatus;
use crate::http::Client;
use crate::job::lock;
use crate::signals::Stop;

/// The log has what a person at a terminal needs to know.
struct Silent;

impl Watch for Silent {
    fn stage(&self, _: Stage, _: State, _: Option<u8>, _: Option<&str>) {}
    fn note(&self, _: Mark) {}
}

/// Replaces the config of the system, and reads it back.
///
/// # Errors
/// The options are wrong, or signals or the client cannot be set up.
pub(super) fn reignite(options: &ReigniteOptions) -> anyhow::Result<ExitStatus> {
    let stop = Stop::on_signals().context("catching signals")?;
    let vim = VimOptions {
        allow_plain_http: options.allow_plain_http,
        ca_file: options.ca_file.clone(),
        ..VimOptions::default()
    };
    let client = Client::new(&server_settings(&vim), Arc::new(RealClock), stop.clone())?;
    let order = order(options)?;
    let system = System::default().until(&stop);
    let mut site = Site { system, protect: options.protect.clone(), ..Site::default() };
    match lock::take(&site.run_dir) {
        Ok(lock) => site.lock = lock,
        Err(failure) => {
            error!("{}", failure.said(words));
            return Ok(ExitStatus::Untouched);
        }
    }
    let outcome = Act {
        site: &site,
        client: &Arc::new(client),
        watch: &Silent,
        reported: &[],
        findings: &|_| Vec::new(),
        is_dry_run: options.dry_run,
    }
    .carry_out(&order);
    for warning in &outcome.warnings {
        warn!("{warning}");
    }
    let disk = outcome.disk.as_deref().map(describe).unwrap_or_default();
    match &outcome.failure {
        Some(failure) => error!("{}", failure.said(words)),
        None if options.dry_run => {
            info!("dry run: {disk} would get the config; nothing was changed");
        }
        None => info!("reboot, and the system on {disk} applies the config"),
    }
    Ok(outcome.exit_status())
}

fn order(options: &ReigniteOptions) -> anyhow::Result<Order> {
    Ok(Order {
        reignite: true,
        ignition: IgnitionSource {
            skip_pointers: options.skip_pointers,
            ..ignition_source(&options.ignition, options.ignition_hash.clone())?
        },
        disk: disk(options.disk.as_deref(), &options.hints)?,
        append_kargs: arguments(&options.append_karg),
        delete_kargs: arguments(&options.delete_karg),
        platform: options.platform.clone(),
        firstboot_args: options.firstboot_args.clone(),
        boot_order: BootOrder::Keep,
        ..Order::default()
    })
}

//! `install` and `report`: what the VIM gets of a machine, and how a run ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use probes::block::Disk;
use probes::collect::{Options, collect};
use probes::machine::{Extras, Source};

use crate::cli::{InstallOptions, ReportOptions, VimOptions};
use crate::install::Candidate;
use crate::job;
use crate::job::{Collected, EXIT_DONE, EXIT_NOT_REPORTED, JobSettings};
use crate::links::LinksUp;
use crate::report::{Report, report};
use crate::vim::{Client, RealClock, Stop, VimSettings};

/// Time between two looks for a disk that has not appeared yet.
const DISK_POLL: Duration = Duration::from_secs(2);

/// Switches send LLDP every 30 s.
const LLDP_WAIT: Duration = Duration::from_secs(31);

pub(super) fn install(options: &InstallOptions) -> anyhow::Result<u8> {
    let mut settings = JobSettings::new(vim_settings(&options.vim)?);
    settings.is_dry_run = options.dry_run;
    settings.installer.clone_from(&options.installer);
    let collect_options = Options {
        budget: Duration::from_secs(options.budget),
        extras: Extras { lldp_wait: Duration::from_secs(options.lldp_wait), ..Extras::default() },
        ..Options::default()
    };
    let brings_links_up = options.bring_links_up && !options.dry_run;
    let mut wait = Duration::from_secs(options.wait_for_disk);
    let mut collect = || {
        wait_for_disk(std::mem::take(&mut wait));
        let _links = brings_links_up.then(LinksUp::bring_up);
        collected(&report(&Arc::new(Source::live()), &collect_options))
    };
    Ok(job::run(&settings, &mut collect).exit_status)
}

pub(super) fn send_report(options: &ReportOptions) -> anyhow::Result<u8> {
    let settings = vim_settings(&options.vim)?;
    let client = Client::new(&settings, Arc::new(RealClock), Stop::on_signals()?)?;
    let report = super::read(&super::source(&options.source)?, &options.source, LLDP_WAIT)?;
    match client.post_report(&crate::output::tree(&report)?) {
        Ok(_) => {
            tracing::info!(node = report.node_id, vim = settings.url, "the VIM has the report");
            Ok(EXIT_DONE)
        }
        Err(_) => Ok(EXIT_NOT_REPORTED),
    }
}

fn vim_settings(options: &VimOptions) -> anyhow::Result<VimSettings> {
    let Some(url) = &options.vim else {
        bail!("no VIM is configured; give its address with --vim, rci.vim= or RCI_VIM=");
    };
    Ok(VimSettings {
        allow_plain_http: options.allow_plain_http,
        token_file: options.token_file.clone(),
        ca_file: options.ca_file.clone(),
        client_cert_file: options.client_cert_file.clone(),
        client_key_file: options.client_key_file.clone(),
        deadline: options.give_up_after.map(Duration::from_secs),
        ..VimSettings::new(url.clone())
    })
}

/// Waits for as long as `wait` while no disk is there that could be installed on, since drivers may
/// still be finding disks when systemd starts the agent.
fn wait_for_disk(wait: Duration) {
    let start = Instant::now();
    let options = Options { only: vec!["block".to_owned()], ..Options::default() };
    loop {
        let found = collect(&Arc::new(Source::live()), &options);
        let disks = found.inventory.block.iter().flat_map(|block| &block.disks);
        let has_disk = disks.into_iter().any(|disk| disk.eligible);
        if has_disk || start.elapsed() >= wait {
            return;
        }
        let rest_s = wait.saturating_sub(start.elapsed()).as_secs();
        tracing::info!(rest_s, "no disk to install on yet; waiting for one");
        std::thread::sleep(DISK_POLL);
    }
}

fn collected(report: &Report) -> Collected {
    let json = crate::output::tree(report).context("writing the report as JSON");
    let disks = report.inventory.block.iter().flat_map(|block| &block.disks);
    Collected {
        report: json.unwrap_or_else(|error| {
            tracing::error!("{error:#}");
            serde_json::Value::Null
        }),
        node_id: report.node_id.clone(),
        candidates: disks.map(candidate).collect(),
        findings: report.findings.clone(),
    }
}

fn candidate(disk: &Disk) -> Candidate {
    Candidate {
        name: disk.name.clone(),
        device: disk.device.clone(),
        device_number: disk.device_number.clone(),
        size_bytes: disk.size_bytes.unwrap_or_default(),
        logical_block_bytes: disk.logical_block_bytes.map(u64::from),
        serial: disk.serial.clone(),
        wwn: disk.wwn.clone(),
        eui64: disk.eui64.clone(),
        nguid: disk.nguid.clone(),
        model: disk.model.clone(),
        vendor: disk.vendor.clone(),
        rotational: disk.rotational,
        hctl: disk.hctl.clone(),
        by_path: disk.by_path.clone(),
        multipath: disk.multipath.clone(),
        diskseq: disk.diskseq,
        by_id: disk.by_id.clone(),
        transport: disk.transport.clone(),
        is_removable: disk.is_removable.unwrap_or_default(),
        is_read_only: disk.is_read_only.unwrap_or_default(),
        eligible: disk.eligible,
        not_eligible_because: disk.not_eligible_because.clone(),
    }
}

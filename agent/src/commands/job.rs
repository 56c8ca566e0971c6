//! `install` and `report`: posts to the VIM, and the end of a run.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use compare::expectation::Expectations;
use probes::collect::Options;
use probes::machine::{Extras, Machine, Problem, Source};
use probes::network::neighbours;

use crate::act::blocking::Policy;
use crate::act::trace::Previous;
use crate::act::{System, protect};
use crate::cli::{Backend, BlockOptions, InstallOptions, Recipient, ReportOptions, VimOptions};
use crate::clock::{Clock, RealClock};
use crate::config;
use crate::engines::assisted::{self, Assisted};
use crate::engines::inspector::{self, Inspector};
use crate::engines::ironic::api::Api;
use crate::engines::ironic::inspection::{self, Inspected};
use crate::engines::ironic::{self, Ironic};
use crate::engines::offline::{self, Offline};
use crate::engines::vim::{self, Vim};
use crate::exit_status::ExitStatus;
use crate::expect;
use crate::export;
use crate::http::proxy::ProxySettings;
use crate::http::url::{Url, Zones};
use crate::http::{Client, ServerSettings, TokenHeader};
use crate::job::{self, Collected, Engine, Listener, Node, Survey, supervise};
use crate::links::{BroughtUp, LinksUp};
use crate::machine_name::machine_name;
use crate::process::Process;
use crate::report::{Report, report};
use crate::secret::{Secret, redact};
use crate::signals::Stop;

/// Switches send LLDP every 30 s.
const LLDP_WAIT: Duration = Duration::from_secs(31);

/// Does the whole job, without a VIM if it is `offline`. `is_typed` is true if `--dry-run` was given on the command
/// line.
pub(super) fn install(
    options: &InstallOptions,
    offline: Option<offline::Settings>,
    is_typed: bool,
    expectations: Option<&Expectations>,
    process: &Process,
) -> ExitStatus {
    let stop = job::stop_on_signals();
    let settings = job::Settings { process: process.clone(), ..node_settings(options) };
    let node = Node::new(settings, Arc::new(RealClock), stop.clone());
    let mut collect = collector(options, &node, expectations, stop.clone());
    let ended = with_engine(options, offline, node, &mut collect, &mut |engine| {
        if let Some(status) = supervise::supervise(engine, &stop) {
            return status;
        }
        let ended = job::run(engine);
        // The agent may end while it still listens.
        process.links.restore();
        let status = exit_status(ended, options.dry_run && !is_typed);
        // A disk that hangs can keep this process from ending; its parent does not wait for that.
        engine.node().memory.update(|checkpoint| checkpoint.exit_status = Some(status.code()));
        status
    });
    ended.unwrap_or_else(|error| {
        tracing::error!("CONFIG: {error:#}; nothing was installed");
        ExitStatus::Usage
    })
}

/// Reads the hardware; again whenever a fleet asks for it.
fn collector<'a>(
    options: &'a InstallOptions,
    node: &Node,
    expectations: Option<&'a Expectations>,
    stop: Stop,
) -> impl FnMut() -> Report + use<'a> {
    let job::Settings { listener, load, process, .. } = node.settings.clone();
    let backend = options.ironic.backend;
    // assisted-service asks for the hardware again and again; a port must not go up and down each time.
    let brings_links_up =
        options.bring_links_up && !options.dry_run && backend != Backend::Assisted;
    if options.lldp_wait.is_some() {
        // Either every report contains the neighbours, or nobody wants to wait for them.
        listener.require();
    }
    // Links and neighbours follow the report, unless the VIM needs them first.
    let mut follows = backend == Backend::Vim && options.lldp_wait.is_none() && !options.dry_run;
    move || {
        let collect_options = collect_options(options, &listener, &stop);
        let is_first = std::mem::take(&mut follows);
        let brings_links_up = brings_links_up && !stop.is_stopped();
        let links = (brings_links_up && !is_first && !listener.is_listening())
            .then(|| process.links.bring_up(&stop));
        let mut report = report(&Arc::new(Source::live()), &collect_options);
        load.end_into(&mut report);
        if let Err(why) = expect::add(expectations, &mut report) {
            tracing::error!("comparing the machine with the expectations: {why:#}");
        }
        report.problems.extend(unmatched(&options.protect, &report));
        drop(links);
        if is_first {
            listen(&listener, brings_links_up.then_some(&process.links), &stop);
        }
        report
    }
}

/// The configured entries of `protect` that name no disk.
fn unmatched(entries: &[String], report: &Report) -> Vec<Problem> {
    let Some(block) = &report.inventory.block else { return Vec::new() };
    let system = System::default();
    let resolve = |path: &str| system.kernel().resolve(path);
    let problem = |entry: &String| Problem {
        collector: "protect".to_owned(),
        path: "protect".to_owned(),
        found: format!("{entry:?}"),
        expected: "a name of a disk of this machine".to_owned(),
    };
    protect::missing(&block.disks, [entries, &[]], &resolve).into_iter().map(problem).collect()
}

/// Makes the engine of the configured fleet and gives it to `run`.
fn with_engine(
    options: &InstallOptions,
    offline: Option<offline::Settings>,
    node: Node,
    collect: &mut dyn FnMut() -> Report,
    run: &mut dyn FnMut(&mut dyn Engine) -> ExitStatus,
) -> anyhow::Result<ExitStatus> {
    let server = server_settings(&options.vim);
    Ok(match options.ironic.backend {
        Backend::Vim => {
            let system = node.settings.site.system.clone();
            let mut collect = || {
                let mut report = collect();
                let disks = report.inventory.block.as_ref().map_or(&[][..], |block| &block.disks);
                report.previous = Previous::read(&system, disks).newest();
                collected(&report)
            };
            if let Some(settings) = offline {
                return Ok(run(&mut Offline::new(settings, &server, node, Survey(&mut collect))?));
            }
            let settings = vim::Settings { server, on_refusal: options.on_refusal };
            run(&mut Vim::new(settings, node, Survey(&mut collect))?)
        }
        Backend::Assisted => {
            let mut survey = || {
                let report = collect();
                Ok(assisted::Surveyed::new(&report, collected(&report)?))
            };
            let infra_env_id = options.assisted.infra_env_id.as_deref().unwrap_or_default();
            let settings = assisted::Settings::new(infra_env_id);
            let server = ServerSettings { token_header: TokenHeader::SecretKey, ..server };
            run(&mut Assisted::new(settings, server, node, Survey(&mut survey))?)
        }
        Backend::Inspector => {
            let log = node.settings.process.log.clone();
            let mut survey = || inspector::document(&collect(), &log.text());
            run(&mut Inspector::new(&server, node, Survey(&mut survey))?)
        }
        Backend::Ironic | Backend::IronicAgent => {
            let mut survey = || {
                let report = collect();
                let document = export::ironic(&report);
                Ok(ironic::Surveyed { collected: collected(&report)?, document })
            };
            run(&mut Ironic::new(ironic_settings(options)?, node, Survey(&mut survey))?)
        }
    })
}

/// Options for reading the hardware.
fn collect_options(options: &InstallOptions, listener: &Listener, stop: &Stop) -> Options {
    let lldp_wait = match options.lldp_wait {
        // After a signal it still reports, but waits for nothing more.
        _ if stop.is_stopped() => Duration::ZERO,
        Some(seconds) => Duration::from_secs(seconds),
        None if listener.is_required() => LLDP_WAIT,
        None => Duration::ZERO,
    };
    Options {
        budget: Duration::from_secs(options.budget),
        signal: Some(stop.number()),
        extras: Extras { lldp_wait, ..Extras::default() },
        ..Options::default()
    }
}

/// Returns the settings that do not depend on the fleet.
fn node_settings(options: &InstallOptions) -> job::Settings {
    let mut settings = job::Settings {
        is_dry_run: options.dry_run,
        shows_qr: options.console.console_qr,
        wait_for_disk: Duration::from_secs(options.wait_for_disk),
        ..job::Settings::default()
    };
    // A service's standard error is a log, where every line has a prefix. The console itself has 80 columns.
    let is_watched = std::io::stderr().is_terminal();
    settings.screen = Some(if is_watched { "/dev/stderr" } else { "/dev/console" }.into());
    let site = &mut settings.site;
    site.blocking = policy(&options.block);
    site.installer.clone_from(&options.installer);
    site.protect.clone_from(&options.protect);
    site.protect_missing = offline::known(options.protect_missing.as_deref());
    site.is_insecure_image_allowed = options.allow_insecure_image;
    settings
}

/// Returns the node's policy for faulty hardware.
pub(super) fn policy(options: &BlockOptions) -> Policy {
    Policy {
        // The command line allows only values that the API knows.
        block_on: offline::known(options.block_on.as_deref()),
        also: options.block_also.clone(),
        except: options.block_except.clone(),
    }
}

fn ironic_settings(options: &InstallOptions) -> anyhow::Result<ironic::Settings> {
    let of_ironic = &options.ironic;
    let callback_url = of_ironic.callback_url.as_deref();
    if let Some(url) = callback_url {
        let parsed = Url::parse(url, &Zones::default()).context("callback-url")?;
        // Ironic knows no zone of this machine, and appends the paths of its commands.
        let is_plain = parsed.target() == "/" && !url.contains(['%', '#', '?']);
        let is_whole = parsed.is_https() && parsed.port().is_some() && is_plain;
        ensure!(is_whole, "callback-url is {}, expected https://HOST:PORT", parsed.shown());
    }
    let token = options.vim.token_file.as_deref().map(Secret::from_file).transpose();
    Ok(ironic::Settings {
        is_agent: of_ironic.backend == Backend::IronicAgent,
        token: token.context("reading --token-file")?.or_else(config::ramdisk_token),
        callback_url: callback_url.map(|url| url.trim_end_matches('/').to_owned()),
        port: of_ironic.agent_port,
        clean_disks: of_ironic.clean_disk.clone(),
        ..ironic::Settings::new(server_settings(&options.vim))
    })
}

/// Brings links up if `links` are given, and listens for neighbours, while the report is posted. Not while the hardware is
/// read: a slow driver holds the kernel's network lock while it brings a port up.
fn listen(listener: &Listener, links: Option<&BroughtUp>, stop: &Stop) {
    let (of_thread, links, stop) = (listener.clone(), links.cloned(), stop.clone());
    if links.is_some() {
        listener.begin_links();
    }
    listener.start(move || {
        let links = links.map(|links| links.bring_up(&stop));
        of_thread.end_links(links.as_ref().is_some_and(LinksUp::has_ports));
        let extras = Extras { lldp_wait: LLDP_WAIT, ..Extras::default() };
        let machine = Machine::new(Arc::new(Source::live()), "lldp").with_extras(extras);
        let found = neighbours(&machine);
        // A port that was brought up stays so until the neighbours are known.
        drop(links);
        found
    });
}

/// A dry run that was not typed comes from the live image's configuration. Its unit reboots after exit status 0 into
/// the same image and the same dry run, forever. So such a run ends with [`ExitStatus::Untouched`], which is also true.
fn exit_status(of_job: ExitStatus, is_unattended_dry_run: bool) -> ExitStatus {
    match of_job {
        ExitStatus::Done if is_unattended_dry_run => {
            tracing::warn!(
                "dry run by configuration: exiting with status {}, so that systemd does not reboot",
                ExitStatus::Untouched.code()
            );
            ExitStatus::Untouched
        }
        status => status,
    }
}

pub(super) fn send_report(
    options: &ReportOptions,
    process: &Process,
) -> anyhow::Result<ExitStatus> {
    let mut settings = server_settings(&options.vim);
    settings.url = options.url.clone().or(settings.url);
    if settings.url.is_none() {
        bail!("no VIM is configured; give its address with --vim, rci.vim= or RCI_VIM=");
    }
    if options.to != Recipient::Vim && options.vim.vim_key.is_some() {
        bail!("--vim-key is for a VIM, as no other recipient signs its answers: drop it");
    }
    let read =
        |wait| super::read(&super::source(&options.source)?, &options.source, wait, &process.links);
    match options.to {
        Recipient::Vim => {}
        Recipient::Ironic => return send_inspection(&settings, || read(Duration::ZERO)),
        Recipient::Inspector => {
            let document = inspector::document(&read(Duration::ZERO)?, &process.log.text());
            return inspector::send(&settings, &document);
        }
    }
    // No handler: a signal ends the program at once, since there is nothing to restore.
    let client = Client::new(&settings, Arc::new(RealClock), Stop::default())?;
    let report = read(LLDP_WAIT)?;
    match client.post_report(&json(&report)?) {
        Ok(_) => {
            let vim = redact(settings.url.as_deref().unwrap_or_default());
            tracing::info!("{vim} has the report of node {}", report.node_id);
            Ok(ExitStatus::Done)
        }
        Err(gave_up) => Ok(not_posted(&gave_up)),
    }
}

/// Posts the report as Ironic's inspection data.
fn send_inspection(
    settings: &ServerSettings,
    read: impl FnOnce() -> anyhow::Result<Report>,
) -> anyhow::Result<ExitStatus> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let api = Api::new(settings, &clock, &Stop::default())?;
    let inspected = inspection::inspect(&api, &export::ironic(&read()?));
    Ok(match inspected {
        Ok(Inspected::Accepted(_)) => {
            tracing::info!(
                "Ironic has the report; its hooks judge it now, see the node's last_error"
            );
            ExitStatus::Done
        }
        Ok(Inspected::MaybeDelivered(why)) => {
            tracing::warn!("the report was probably delivered: an answer was lost, and then {why}");
            ExitStatus::NotReported
        }
        Ok(Inspected::NotExpected(why) | Inspected::Refused(why)) => {
            tracing::error!("{why}");
            ExitStatus::NotReported
        }
        Err(gave_up) => not_posted(&gave_up),
    })
}

fn not_posted(why: &dyn std::fmt::Display) -> ExitStatus {
    tracing::error!("the report could not be posted: {why}");
    ExitStatus::NotReported
}

/// Returns the proxy from the options; unset ones are taken from the environment.
fn proxy(options: &VimOptions) -> Option<ProxySettings> {
    let from_env = ProxySettings::from_env();
    let proxy = match &options.proxy {
        Some(url) => from_env.unwrap_or_default().with_url(url),
        None => from_env?,
    };
    Some(if options.no_proxy.is_empty() { proxy } else { proxy.with_no_proxy(&options.no_proxy) })
}

pub(super) fn server_settings(options: &VimOptions) -> ServerSettings {
    ServerSettings {
        proxy: proxy(options),
        url: options.vim.clone(),
        allow_plain_http: options.allow_plain_http,
        vim_key: options.vim_key.clone(),
        token_file: options.token_file.clone(),
        ca_file: options.ca_file.clone(),
        client_cert_file: options.client_cert_file.clone(),
        client_key_file: options.client_key_file.clone(),
        deadline: options.give_up_after.map(Duration::from_secs),
        ..ServerSettings::default()
    }
}

/// The report as it is posted.
fn json(report: &Report) -> anyhow::Result<Vec<u8>> {
    Ok(crate::output::json(report).context("writing the report as JSON")?.into_bytes())
}

fn collected(report: &Report) -> anyhow::Result<Collected> {
    let disks = report.inventory.block.iter().flat_map(|block| &block.disks);
    let unread = report.problems.iter().map(|found| format!("{} {}", found.collector, found.path));
    Ok(Collected {
        report: json(report)?,
        node_id: report.node_id.clone(),
        disks: disks.cloned().collect(),
        findings: report.findings.clone(),
        faults: report.faults.clone(),
        machine: Some(machine_name(report.inventory.product.as_ref(), &report.node_id)),
        unread: unread.collect(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn install(options: &[&str]) -> Box<InstallOptions> {
        let words = ["x", "install"].iter().chain(options);
        let Some(Command::Install(options)) = Cli::parse_from(words).command else { panic!() };
        options
    }

    #[test]
    fn proxy_of_the_options_is_used_whatever_the_environment_says() {
        let options = install(&["--proxy", "http://p.example:1", "--no-proxy", "a, b.example"]);
        let hosts = ["a".to_owned(), "b.example".to_owned()];
        let expected =
            ProxySettings::default().with_url("http://p.example:1").with_no_proxy(&hosts);
        assert_eq!(proxy(&options.vim), Some(expected));
    }

    #[test]
    fn callback_url_is_https_with_host_and_port_and_nothing_more() {
        for (url, is_accepted) in [
            ("https://192.0.2.1:9999", true),
            ("HTTPS://[fd00::1]:9999/", true),
            ("http://192.0.2.1:9999", false),
            ("https://192.0.2.1", false),
            ("https://192.0.2.1:9999/v1", false),
            ("https://192.0.2.1:9999/?a", false),
            ("https://192.0.2.1:9999/#a", false),
            ("https://[fe80::1%eth0]:9999", false),
        ] {
            let options = install(&["--vim", "http://h", "--callback-url", url]);
            assert_eq!(ironic_settings(&options).is_ok(), is_accepted, "{url}");
        }
    }

    #[test]
    fn unattended_dry_run_never_exits_with_the_status_that_reboots() {
        assert_eq!(exit_status(ExitStatus::Done, true), ExitStatus::Untouched);
        assert_eq!(exit_status(ExitStatus::Done, false), ExitStatus::Done);
        assert_eq!(exit_status(ExitStatus::NotReported, true), ExitStatus::NotReported);
    }

    #[test]
    fn dry_run_counts_as_typed_only_on_the_command_line() {
        use crate::commands::is_typed;
        use crate::config::{Sources, configure};
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let kernel = [("vim", "http://[::1]"), ("dry-run", "true")].map(pair).to_vec();
        let sources = Sources { kernel, ..Sources::default() };
        let configuration = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(Into::into).collect();
            configure(&words, &sources, true).unwrap()
        };
        let of_unit = configuration(&["run-coreos-installer"]);
        let Some(Command::Install(options)) = &of_unit.cli.command else { panic!() };
        assert!(options.dry_run && !is_typed(&of_unit.settings, "dry-run"));
        let of_person = configuration(&["run-coreos-installer", "install", "--dry-run"]);
        assert!(is_typed(&of_person.settings, "dry-run"));
    }
}

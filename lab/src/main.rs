//! The lab VIM: a small real server that speaks VIM API v1, for tests, the demo and people who do not have a VIM yet.
//!
//! Its layers, each above those that it uses: the wire ([`http`], [`socket`], [`stream`], [`tls`]); storage ([`store`],
//! [`journal`], [`files`], [`faults`], [`contract`], [`sign`]), all of it in [`lab`]; the answer to a node ([`orders`]); routes
//! ([`api`], [`admin`], [`netboot`], [`page`]); the [`server`], which carries out faults ([`broken`]).

mod admin;
mod api;
mod broken;
mod cli;
mod contract;
mod faults;
mod files;
mod http;
mod journal;
mod lab;
mod netboot;
mod orders;
mod overview;
mod page;
mod server;
mod sign;
mod socket;
mod store;
mod stream;
mod tls;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;

use crate::cli::Options;
use crate::lab::Lab;

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let outcome = runtime.context("starting the runtime").and_then(|runtime| {
        let outcome = runtime.block_on(run(options));
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            journal::line(&format!("lab-vim: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Serves until SIGTERM or SIGINT.
async fn run(options: Options) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
    let tls = (!options.listen_https.is_empty())
        .then(|| tls::prepare(&options.tls_dir, &options.name))
        .transpose()?;
    let ca_pem = tls.as_ref().map(|tls| tls.ca_pem.clone());
    let lab = Arc::new(Lab::open(options, ca_pem)?);
    preset(&lab)?;
    if let Some(signer) = &lab.signer {
        journal::line(&format!("answers are signed; for nodes: --vim-key {}", signer.public_key()));
    }
    let options = &lab.options;
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config));
    let mut words = vec!["listening".to_owned()];
    for (scheme, addresses, tls) in
        [("http", &options.listen, None), ("https", &options.listen_https, acceptor)]
    {
        for address in addresses {
            let listener = socket::listen(*address)?;
            words.push(format!("{scheme}={}", listener.local_addr()?));
            tokio::spawn(server::serve(Arc::clone(&lab), listener, tls.clone()));
        }
    }
    announce(&words.join(" "), options.port_file.as_deref())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Prints `line`, which names the addresses, as the only line on stdout, and writes it to the port file.
fn announce(line: &str, port_file: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = port_file {
        // Written to another name and renamed, so that a reader never sees half a line.
        let aside = path.with_extension("part");
        fs::write(&aside, format!("{line}\n"))
            .and_then(|()| fs::rename(&aside, path))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("writing to stdout")
}

/// Stores the settings that the command line names.
fn preset(lab: &Lab) -> anyhow::Result<()> {
    let options = &lab.options;
    let mode = json!({
        "mode": options.answer, "polls": options.polls, "retry_after": options.retry_after,
    });
    lab.store.set_if_other("default", "answer", &mode.to_string())?;
    for (kind, path) in [("instruction", &options.instruction), ("ignition", &options.ignition)] {
        let Some(path) = path else { continue };
        let text = fs::read_to_string(path)
            .with_context(|| format!("reading the {kind} {}", path.display()))?;
        for fault in admin::setting_faults(lab, kind, &text) {
            // Tests send broken ones on purpose.
            journal::line(&format!("{}: {fault}; it is sent anyway", path.display()));
        }
        lab.store.set_if_other("default", kind, &text)?;
    }
    Ok(())
}

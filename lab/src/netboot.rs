//! Network boot: each machine's iPXE script, and the files that it fetches, under `/boot/`.
//!
//! A machine names its MAC and its serial number in the query; the reports map these to a node. An
//! installed node boots its disk until another install is requested, so network-first machines are
//! not reinstalled at every boot.

use std::path::PathBuf;

use hyper::StatusCode;
use serde_json::Value;

use crate::files::Shelf;
use crate::http::{Answer, Refusal, Request, answer, query};
use crate::lab::Lab;
use crate::orders;
use crate::store::Node;

/// Scripts are short; a larger file is not one.
const MAX_SCRIPT_BYTES: u64 = 64 << 10;

/// The boot target of a machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// Its disk, for this reason.
    Disk(String),
    /// The live image, by this script.
    Live(String),
}

/// Answers a GET below `/boot/`.
///
/// # Errors
/// 404 when the file or the script does not exist, 500 when the database fails.
pub(crate) async fn serve(lab: &Lab, request: &Request, name: &str) -> Result<Answer, Refusal> {
    let Some(shelf) = &lab.boot else {
        let message =
            "start the lab VIM with --boot DIR to serve machines that boot over the network";
        return Err(Refusal::new(404, "PATH_UNKNOWN", message));
    };
    if name != "ipxe" {
        return shelf.serve(&format!("/files/{name}")).await;
    }
    let (mac, serial) = (parameter(request, "mac"), parameter(request, "serial"));
    let node = find(lab, mac.as_deref(), serial.as_deref())?;
    let macs: Vec<String> = mac.into_iter().collect();
    let text = match next(lab, shelf, node.as_ref(), &macs, serial.as_deref())? {
        // UEFI firmware tries its next boot entry only if a loader fails; after success it opens its menu and waits.
        Boot::Disk(reason) => {
            format!("#!ipxe\n# {reason}\niseq ${{platform}} efi && exit 1 ||\nexit\n")
        }
        Boot::Live(script) => read(shelf, &script)?,
    };
    Ok(answer(StatusCode::OK, "text/plain; charset=utf-8", text))
}

/// Returns the next boot target of a node, for its page; `None` if this VIM does not serve network boot.
///
/// # Errors
/// 404 if it has no script, 500 if the database fails.
pub(crate) fn of_node(lab: &Lab, node: &Node) -> Result<Option<Boot>, Refusal> {
    let Some(shelf) = &lab.boot else { return Ok(None) };
    let report = node.report.as_ref().map(|report| &report.body);
    let macs = report.map(macs).unwrap_or_default();
    let serial = report.and_then(|report| report["product"]["serial"].as_str());
    next(lab, shelf, Some(node), &macs, serial).map(Some)
}

fn next(
    lab: &Lab,
    shelf: &Shelf,
    node: Option<&Node>,
    macs: &[String],
    serial: Option<&str>,
) -> Result<Boot, Refusal> {
    if let Some(node) = node
        && let Some(reason) = orders::installed(lab, node)?
    {
        return Ok(Boot::Disk(reason));
    }
    // Which port of a node boots is not known here; iPXE names the one that it uses.
    let ids = macs.iter().map(|mac| mac.replace(':', "-")).chain(serial.map(str::to_owned));
    let mut names: Vec<String> = ids.map(|id| format!("live-{id}.ipxe")).collect();
    names.push("live.ipxe".to_owned());
    if let Some(script) = names.iter().find(|name| shelf.file(name).is_some()) {
        return Ok(Boot::Live(script.clone()));
    }
    let message = format!(
        "the folder of --boot has none of {}; run-coreos-installer live-config --format ipxe makes live.ipxe",
        names.join(", ")
    );
    Err(Refusal::new(404, "FILE_UNKNOWN", message))
}

fn read(shelf: &Shelf, name: &str) -> Result<String, Refusal> {
    let failed =
        |why: String| Refusal::new(404, "FILE_UNKNOWN", format!("the script {name} {why}"));
    let path: PathBuf = shelf.file(name).ok_or_else(|| failed("has just been removed".into()))?;
    let unreadable = |error: std::io::Error| failed(format!("cannot be read: {error}"));
    let n_bytes = path.metadata().map_err(unreadable)?.len();
    if n_bytes > MAX_SCRIPT_BYTES {
        return Err(failed(format!("has {n_bytes} bytes, expected at most {MAX_SCRIPT_BYTES}")));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

/// Returns the node whose last report has this MAC, or this serial number if no report has the MAC.
fn find(lab: &Lab, mac: Option<&str>, serial: Option<&str>) -> Result<Option<Node>, Refusal> {
    let mut nodes = lab.store.nodes()?;
    let has = |test: &dyn Fn(&Value) -> bool| {
        nodes.iter().position(|node| node.report.as_ref().is_some_and(|report| test(&report.body)))
    };
    let by_mac = mac.and_then(|mac| has(&|report| macs(report).iter().any(|own| own == mac)));
    let is_serial = |report: &Value| report["product"]["serial"].as_str() == serial;
    let found = by_mac.or_else(|| serial.and_then(|_| has(&is_serial)));
    Ok(found.map(|index| nodes.swap_remove(index)))
}

/// Returns the MACs in a report, permanent ones first.
fn macs(report: &Value) -> Vec<String> {
    let ports = report["network"]["interfaces"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |key: &'static str| ports.iter().filter_map(move |port| port[key].as_str());
    of("permanent_mac").chain(of("current_mac")).map(str::to_ascii_lowercase).collect()
}

/// Returns a query parameter that is a MAC or a serial number; iPXE leaves an unknown one empty.
fn parameter(request: &Request, name: &str) -> Option<String> {
    let value = query(request.query.as_deref(), name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:-_ ".contains(c);
    let is_id = !value.is_empty() && value.len() <= 64 && value.chars().all(is_plain);
    let value = if name == "mac" { value.to_ascii_lowercase().replace('-', ":") } else { value };
    is_id.then_some(value)
}

//! `run-coreos-installer`: the command line of the agent.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

fn main() {
    // Stand-in until the command line lands: `inspect --format json [--root DIR]`.
    let args: Vec<String> = std::env::args().collect();
    let root = args.iter().position(|a| a == "--root").and_then(|i| args.get(i + 1));
    let source = match root {
        Some(root) => probes::machine::Source::captured(Path::new(root)),
        None => Ok(probes::machine::Source::live()),
    };
    let Ok(source) = source else { return };
    let collected = probes::collect::collect(&Arc::new(source), &Default::default());
    let mut report = serde_json::to_value(&collected.inventory).unwrap_or_default();
    report["problems"] = serde_json::to_value(&collected.problems).unwrap_or_default();
    report["timings"] = serde_json::to_value(&collected.durations_ms).unwrap_or_default();
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    writeln!(std::io::stdout(), "{text}").ok();
}

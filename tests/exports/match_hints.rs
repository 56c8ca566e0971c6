//! Answers which disks fit root device hints, for the comparison with Ironic's own matcher: `check_hints.py`.
//!
//! A line of standard input is `{"disks": […], "hints": [{…}, …]}`, with disks as in the report. The answer is a line
//! `{"disks": […], "matches": [["sda"], …]}`: the disks in Ironic's form, and for each object of hints the paths of
//! those that fit, or the error as a text.

use std::io::{BufRead as _, Write as _};

use probes::block::{Block, Disk};
use probes::collect::Inventory;
use run_coreos_installer::act::hints::Hints;
use run_coreos_installer::export::ironic;
use serde_json::{Map, Value, json};

#[derive(serde::Deserialize)]
struct Question {
    disks: Vec<Disk>,
    hints: Vec<Map<String, Value>>,
}

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let matches: Vec<Value> =
            question.hints.iter().map(|hints| matches(&question.disks, hints)).collect();
        let block = Block { disks: question.disks, ..Block::default() };
        let inventory = Inventory { block: Some(block), ..Inventory::default() };
        let document = ironic::document(&inventory, None, None);
        let disks = document["inventory"].get("disks").cloned().unwrap_or_else(|| json!([]));
        writeln!(output, "{}", json!({"disks": disks, "matches": matches}))?;
        output.flush()?;
    }
    Ok(())
}

fn matches(disks: &[Disk], hints: &Map<String, Value>) -> Value {
    match Hints::parse(hints) {
        Ok(hints) => disks.iter().filter(|d| hints.matches(d)).map(|d| d.device.as_str()).collect(),
        Err(error) => error.in_words(run_coreos_installer::engines::vim::words).into(),
    }
}

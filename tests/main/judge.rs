//! Captured machines of other projects, which lie beside the repository and never in it.

use std::process::Command;

use crate::util::repository;

#[test]
fn the_facts_of_foreign_machines_are_right() {
    let judge = repository().join("../shared/tools/judge");
    if !judge.exists() {
        return;
    }
    let table = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("judge.json");
    let mut command = Command::new(&judge);
    // It unpacks every tree: ten seconds in memory, two minutes on a disk.
    let memory = nix::sys::statvfs::statvfs("/dev/shm");
    if memory.is_ok_and(|fs| fs.blocks_available() * fs.fragment_size() > 4 << 30) {
        command.env("TMPDIR", "/dev/shm");
    }
    let output = command
        .args(["--agent", env!("CARGO_BIN_EXE_run-coreos-installer"), "--json"])
        .arg(&table)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&table).unwrap()).unwrap();
    assert!(result["table"].get("runs").is_none(), "a run crashed, hung or gave no JSON:\n{text}");
    let total = |key: &str| result["total"][key].as_u64().unwrap();
    let (right, wrong, absent) = (total("right"), total("wrong"), total("absent"));
    let share = right * 1000 / (right + wrong + absent);
    assert!(share >= 990, "only {share} in 1000 facts are right:\n{text}");
}

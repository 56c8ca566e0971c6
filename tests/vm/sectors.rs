//! `check` in a guest whose disk returns an I/O error in its middle.

use std::fs::File;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::agent::agent_files;
use crate::artifacts::test_folder;
use crate::boot;
use crate::guest::Guest;
use crate::machine::Machine;

const SIZE_BYTES: u64 = 64 << 20;
/// The page with this sector begins in the middle of the disk.
const BAD_SECTOR: u64 = SIZE_BYTES / 2 / 512 + 4;

const SCRIPT: &str = "cd /results
run-coreos-installer check --format json --read-disks=false >off.json; echo OFF $?
run-coreos-installer check --format json >on.json; echo ON $?
";

#[test]
fn sector_in_the_middle_of_a_disk_that_cannot_be_read_is_named() -> Result<()> {
    let folder = test_folder("sectors_middle")?;
    let image = folder.join("bad.raw");
    File::create(&image)?.set_len(SIZE_BYTES)?;
    let bad = format!(
        "driver=blkdebug,node-name=bad,image.driver=file,image.filename={},inject-error.0.event=none,\
         inject-error.0.iotype=read,inject-error.0.errno=5,inject-error.0.sector={BAD_SECTOR}",
        image.display()
    );
    let more = ["-blockdev", &bad, "-device", "virtio-blk-pci,drive=bad,serial=BAD-0"];
    let machine =
        Machine { more: more.map(str::to_owned).into(), ..Machine::plain(512, Vec::new()) };
    let boot = boot::tiny("guest", &folder, &machine, SCRIPT, &agent_files()?)?;
    let mut guest = Guest::start("guest", &folder, &machine, &boot, Duration::from_mins(4))?;
    guest.wait_for("OFF ")?;
    guest.wait_for("ON 1")?;
    guest.wait_for_end()?;
    let results = guest.results()?;
    let found = |file: &str| -> Result<Vec<Value>> {
        let all: Vec<Value> = serde_json::from_slice(&std::fs::read(results.join(file))?)?;
        Ok(all.into_iter().filter(|finding| finding["code"] == "disk.unreadable").collect())
    };
    let off = found("off.json")?;
    ensure!(off.is_empty(), "nothing reads the middle: {off:#?}");
    let on = found("on.json")?;
    let [finding] = on.as_slice() else { bail!("{on:#?}") };
    let first = BAD_SECTOR / 8 * 8;
    let expected = format!("sectors {first} to {} at its middle cannot be read: ", first + 7);
    let evidence = finding["evidence"].as_str().unwrap_or_default();
    ensure!(evidence.starts_with(&expected), "{evidence}");
    Ok(())
}

//! Machines with files removed, cut, overwritten, denied, turned into directories and loops.

use crate::damage::{Targets, damage};
use probes::machine::Archive;

use crate::machines::all;
use crate::memory::alone;
use crate::random::Random;
use crate::replay::check;

/// Rounds for a machine of our own; foreign ones get a fifteenth, since there are many.
const ROUNDS: u64 = 150;

#[test]
fn no_damage_to_a_machines_files_breaks_the_report() {
    let _alone = alone();
    let rounds = number("RCI_NOISE_ROUNDS");
    let mut n_trees = 0;
    let mut failures = Vec::new();
    for machine in all() {
        let default = if machine.is_own { ROUNDS } else { ROUNDS / 15 };
        let rounds = match number("RCI_NOISE_ROUND") {
            Some(only) => only..only + 1,
            None => 0..rounds.unwrap_or(default),
        };
        let tree = machine.tree();
        let targets = Targets::of(&tree);
        for round in rounds {
            n_trees += 1;
            failures.extend(failure(&machine.name, tree.clone(), &targets, round));
        }
    }
    eprintln!("{n_trees} damaged machines gave a report");
    assert!(failures.is_empty(), "{} of {n_trees}:\n{}", failures.len(), failures.join("\n"));
}

/// Describes a failure of one round, with everything needed to repeat it.
fn failure(name: &str, mut tree: Archive, targets: &Targets, round: u64) -> Option<String> {
    let done = damage(&mut tree, targets, &mut Random::new(name, round));
    let wrong = check(tree).err()?;
    let repeat = format!("RCI_NOISE_TREE={name} RCI_NOISE_ROUND={round}");
    let shown = done.len().min(40);
    Some(format!("{repeat}: {wrong}\n  {}", done[..shown].join("\n  ")))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

//! Real programs that tests compare with; `RCI_REQUIRE_TOOLS=1` makes their absence a failure.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::part::part;
use crate::skipped::skipped;

/// Runs `program` with `input` on its standard input; `None` when it is not installed.
pub(crate) fn run(program: impl AsRef<Path>, args: &[&str], input: &[u8]) -> Option<Output> {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            let is_required = std::env::var_os("RCI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
            assert!(
                !is_required,
                "{} is not installed, but RCI_REQUIRE_TOOLS=1 requires it",
                program.display()
            );
            skipped(&format!("{} is missing", program.display()));
            return None;
        }
        Err(err) => panic!("{}: {err}", program.display()),
    };
    // A program that rejects its input early closes the pipe; its exit status matters, not this error.
    let _ = child.stdin.take().unwrap().write_all(input);
    Some(child.wait_with_output().unwrap())
}

/// Output of a real `ignition-validate` 2.26; `None` where it is not next to the repository.
pub(crate) fn ignition_validate(config: &str) -> Option<Result<String, String>> {
    validate(&part("ignition-validate")?, config)
}

/// Output of this `ignition-validate`; `None` if it is not installed.
pub(crate) fn validate(program: &Path, config: &str) -> Option<Result<String, String>> {
    let output = run(program, &["-"], config.as_bytes())?;
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    Some(if output.status.success() { Ok(text) } else { Err(text) })
}

//! Real programs that tests compare with; `RCI_REQUIRE_TOOLS=1` makes their absence a failure.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::skipped::skipped;

/// Runs `program` with `input` on its standard input; `None` when it is not installed.
pub(crate) fn run(program: &str, args: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            let is_required = std::env::var_os("RCI_REQUIRE_TOOLS").is_some_and(|v| v == "1");
            assert!(
                !is_required,
                "{program} is not installed, but RCI_REQUIRE_TOOLS=1 requires it"
            );
            skipped(&format!("{program} is missing"));
            return None;
        }
        Err(err) => panic!("{program}: {err}"),
    };
    // A program that rejects its input early closes the pipe; its exit status matters, not this error.
    let _ = child.stdin.take().unwrap().write_all(input);
    Some(child.wait_with_output().unwrap())
}

/// Butane, which no distribution packages: installed, or unpacked from a file next to the repository.
pub(crate) fn butane() -> Option<String> {
    let script = "command -v butane || { xz -dc ../../shared/parts/bin/butane.xz >$0 && chmod +x $0 && echo $0; }";
    let place = std::env::temp_dir().join(format!("rci-butane-{}", std::process::id()));
    let output = Command::new("sh").args(["-c", script]).arg(place).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// Output of the real `ignition-validate` (2.14, spec up to 3.3.0); `None` when it is not installed.
pub(crate) fn ignition_validate(config: &str) -> Option<Result<String, String>> {
    let output = run("ignition-validate", &["-"], config.as_bytes())?;
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    Some(if output.status.success() { Ok(text) } else { Err(text) })
}

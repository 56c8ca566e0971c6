//! The commands of the README and of docs/first-node.md, run as they are written.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::hygiene::sources;
use crate::skipped::skipped;
use crate::util::{agent, cache, read, remove_own_variables, repository, run, scratch, stderr};

/// The line above a block that the tests cannot run; a reason follows it.
const NOT_RUN: &str = "<!-- not run by the tests: ";

/// A block of its own, so that a paste of the block before it leaves time to look at the server.
const STOP: &str = "kill $!\n";

/// Checks what the README asks of it, and leaves a trace.
const INSTALLER: &str = "#!/bin/sh\nset -e\n[ \"$*\" = 'iso ignition embed -i live.ign fedora-coreos-live.iso' ]\n\
                         grep -q '\"ignition\"' live.ign\ntouch installer-was-run\n";

/// The `sh` blocks of the README, and whether each is to be run. A block that stops a server is run in the shell of the
/// block before it, as when a person pastes one after the other.
fn blocks_of_readme() -> Vec<(String, bool)> {
    let mut all: Vec<(String, bool)> = Vec::new();
    for (before, block) in blocks(&read("README.md")) {
        match all.last_mut() {
            Some((earlier, _)) if block == STOP => earlier.push_str(&block),
            _ => all.push((block, !before.starts_with(NOT_RUN))),
        }
    }
    all
}

/// The `sh` blocks of a document without the indentation of the list that contains them, each with the line before it.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(indentation) = line.strip_suffix("```sh") {
            let of_block = lines.by_ref().take_while(|line| line.trim() != "```");
            let stripped = of_block.map(|line| line.strip_prefix(indentation).unwrap_or(line));
            blocks.push((before, stripped.flat_map(|line| [line, "\n"]).collect()));
        }
        before = line;
    }
    blocks
}

/// The lab VIM that belongs to this build, built now if it is not there.
fn lab_vim() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_run-coreos-installer")).with_file_name("lab-vim");
    if !program.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "--locked", "-p", "lab-vim"])
            .current_dir(repository())
            .status()
            .unwrap();
        assert!(built.success());
    }
    program
}

fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A shell in a network of its own where that is allowed, so that port 8080 is free and no link of this machine is touched.
fn shell() -> Command {
    for isolation in [&["--net"][..], &["--map-root-user", "--net"][..]] {
        let is_allowed = Command::new("unshare")
            .args(isolation)
            .args(["sh", "-c", "ip link set lo up"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if is_allowed {
            let mut command = Command::new("unshare");
            command.args(isolation).args(["bash", "-euo", "pipefail", "-s"]);
            return command;
        }
    }
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-s"]);
    command
}

/// Runs a block in an empty folder and returns that folder and what was printed.
fn run_block(name: &str, block: &str, programs: &Path) -> (PathBuf, String) {
    let folder = scratch(name);
    let home = scratch(&format!("{name}-home"));
    std::fs::create_dir(home.join(".ssh")).unwrap();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f s@example\n";
    std::fs::write(home.join(".ssh/id_ed25519.pub"), key).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = folder.with_extension("output");
    let file = std::fs::File::create(&output).unwrap();
    let mut command = shell();
    remove_own_variables(&mut command);
    let mut child = command
        .current_dir(&folder)
        .env("PATH", path)
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let script = format!("ip link set lo up 2>/dev/null || true\n{block}");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let status = child.wait().unwrap();
    let printed = String::from_utf8_lossy(&std::fs::read(&output).unwrap()).into_owned();
    assert!(status.success(), "{status} of this block of the README:\n{block}\n{printed}");
    (folder, printed)
}

#[test]
fn every_command_of_the_readme_works_in_an_empty_folder() {
    let programs = programs("readme-programs");
    write_program(&programs.join("coreos-installer"), INSTALLER);
    let mut n_captures = 0;
    for (number, (block, _)) in
        blocks_of_readme().into_iter().filter(|(_, is_run)| *is_run).enumerate()
    {
        let (folder, printed) = run_block(&format!("readme-{number}"), &block, &programs);
        assert!(!printed.contains("exit status 2"), "{block}\n{printed}");
        if block.contains("capture") {
            assert!(std::fs::metadata(folder.join("machine.tar.zst")).unwrap().len() > 1000);
            n_captures += 1;
        }
        if block.contains("coreos-installer iso") {
            assert!(folder.join("installer-was-run").exists(), "{printed}");
        }
        if block.contains("lab-vim") {
            let log = std::fs::read_to_string(folder.join("lab-vim.log")).unwrap();
            assert!(
                log.contains("/v1/reports"),
                "no report arrived at the lab VIM:\n{log}\n{printed}"
            );
            assert!(block.ends_with(STOP), "the server is not stopped, or too early:\n{block}");
            assert!(!block.trim_end_matches(STOP).contains("kill"), "{block}");
            assert!(
                !printed.contains("WARN posting the report"),
                "the server was not waited for:\n{printed}"
            );
        }
    }
    assert!(n_captures >= 2, "the README shows no capture");
}

#[test]
fn only_two_blocks_of_the_readme_are_not_run_and_they_use_targets_that_exist() {
    let makefile = read("Makefile");
    let not_run = blocks_of_readme().into_iter().filter(|(_, is_run)| !is_run);
    let not_run: Vec<String> = not_run.map(|(block, _)| block).collect();
    assert_eq!(not_run.len(), 2, "{not_run:?}");
    for line in not_run.iter().flat_map(|block| block.lines()) {
        let command = line.split('#').next().unwrap_or_default().trim();
        let Some(targets) = command.strip_prefix("make ") else {
            assert!(command.starts_with("install -m755 target/"), "{line}");
            continue;
        };
        for target in targets.split_whitespace() {
            assert!(makefile.contains(&format!("\n{target}: ")), "make has no target {target}");
        }
    }
}

/// Accepts what docs/first-node.md asks of it, with the real program's options, and writes down what that was. The virtual
/// machine tests run the real one with the same options.
const RECORDER: &str = r#"#!/bin/sh
set -eu
case "$1 $2 ${3:-}" in
'iso ignition embed') [ "$4" = -i ] && grep -q '"ignition"' "$5" && [ -s "$6" ] ;;
'iso kargs modify') [ "$4" = -a ] && [ -s "$6" ] ;;
'iso customize --live-ignition') grep -q '"ignition"' "$4" && ls network/*.nmconnection >/dev/null && [ -s fedora-coreos-live.iso ] ;;
'pxe ignition wrap') grep -q '"ignition"' "$5" && : >"$7" ;;
*) echo "unexpected: $*" >&2 && exit 2 ;;
esac
echo "$*" >>installer-calls
"#;

/// Copies an ISO, as `xorriso` with these options does.
const XORRISO: &str = r#"#!/bin/sh
set -eu
[ "$1 $3 $5 $6 $7 $8 $9" = '-indev -outdev -compliance iso_9660_level=1 -boot_image any replay' ]
shift 9
[ "$1 $3" = '-map /run-coreos-installer' ] && [ -x "$2" ]
echo iso >single.iso
"#;

/// The blocks of docs/first-node.md.
fn first_node() -> Vec<String> {
    blocks(&read("docs/first-node.md")).into_iter().map(|(_, block)| block).collect()
}

/// A folder for PATH with the two programs.
pub(crate) fn programs(name: &str) -> PathBuf {
    let programs = scratch(name);
    let agent = env!("CARGO_BIN_EXE_run-coreos-installer");
    std::os::unix::fs::symlink(agent, programs.join("run-coreos-installer")).unwrap();
    std::os::unix::fs::symlink(lab_vim(), programs.join("lab-vim")).unwrap();
    programs
}

/// A file that `tests/vm/setup` has put into the cache; `None` if no virtual machine test ran here.
fn cached(part: &str, file: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(cache()?).ok()?.flatten();
    let folders = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(part));
    let files = folders.map(|folder| folder.path().join(file)).filter(|file| file.is_file());
    files.max_by_key(|file| file.metadata().and_then(|file| file.modified()).ok())
}

#[test]
fn tests_that_the_first_node_document_names_exist() {
    let sources: String = sources("tests/vm").into_iter().map(|(_, text)| text).collect();
    let document = read("docs/first-node.md");
    let (_, table) = document.split_once("## Which test tries each way").unwrap();
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let named: Vec<&str> = rows
        .map_while(|row| row.strip_prefix("| ")?.strip_suffix("` |"))
        .map(|row| row.rsplit('`').next().unwrap())
        .collect();
    assert!(named.len() >= 6, "{named:?}");
    for name in named {
        assert!(sources.contains(&format!("\nfn {name}()")), "{name} is no test");
    }
}

#[test]
fn first_node_document_works_with_the_real_coreos_installer() {
    let found = (cached("installer-", "coreos-installer"), cached("iso-", "live.iso"));
    let (Some(installer), Some(iso)) = found else {
        return skipped("tests/vm/setup has not put coreos-installer and the ISO into the cache");
    };
    if Command::new("xorriso").arg("-version").output().is_err() {
        return skipped("xorriso is missing");
    }
    let programs = programs("first-node-real-programs");
    std::os::unix::fs::symlink(&installer, programs.join("coreos-installer")).unwrap();
    let downloads = format!(
        "ln -s '{}' fedora-coreos-live.iso\nfor part in kernel initramfs.img rootfs.img; do\n\
         echo $part >fedora-coreos-live-$part\ndone\n",
        iso.display()
    );
    let script = format!("{downloads}{}", first_node().concat());
    let (folder, _) = run_block("first-node-real", &script, &programs);
    let shown = |args: &str| {
        let args = args.split(' ');
        let output = Command::new(&installer).args(args).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    for name in ["live", "single", "ironic"] {
        let embedded = shown(&format!("iso ignition show {name}.iso"));
        assert_eq!(embedded, read(&format!("{name}.ign")), "{name}");
    }
    assert!(shown("iso kargs show live.iso").contains("console=ttyS0,115200n8"));
    assert_eq!(shown("pxe ignition unwrap boot/config.img"), read("boot/live.ign"));
    let profiles = shown("iso network extract static.iso");
    assert!(profiles.contains("bond0.100"), "{profiles}");
    let listed = Command::new("xorriso")
        .args(["-indev", "single.iso", "-find", "/run-coreos-installer"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("/run-coreos-installer"));
    // Five ISOs.
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn first_node_document_works_from_top_to_bottom_in_an_empty_folder() {
    let programs = programs("first-node-programs");
    write_program(&programs.join("coreos-installer"), RECORDER);
    write_program(&programs.join("xorriso"), XORRISO);
    let blocks = first_node();
    assert!(blocks.len() >= 10, "{} blocks", blocks.len());
    // What `coreos-installer download` leaves.
    let downloads = "for part in live.iso live-kernel live-initramfs.img live-rootfs.img; do\n\
                     echo $part >fedora-coreos-$part\ndone\n";
    let script = format!("{downloads}{}", blocks.concat());
    let (folder, printed) = run_block("first-node", &script, &programs);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("installer-calls").lines().count(), 6, "{}", read("installer-calls"));
    assert!(
        printed.contains("kernel --name vmlinuz http://192.0.2.10:8080/boot/vmlinuz "),
        "{printed}"
    );
    let of_profiles = std::fs::read_dir(folder.join("network")).unwrap().count();
    assert_eq!(of_profiles, 4, "bond0, bond0.100 and two ports");
    for (name, expected) in [
        ("live.ign", "ocp/run-coreos-installer.gz"),
        ("single.ign", "run-coreos-installer-copy.service"),
        ("bootstrap.ign", "bootstrap.service"),
        ("ironic.ign", "backend:%20"),
        ("boot/live.pxelinux", "APPEND ignition.firstboot"),
        ("boot/live.grub", "linux '(http,192.0.2.10:8080)/boot/vmlinuz' "),
        ("boot/packet.ipxe", "ignition.platform.id=packet"),
        ("boot/packet.ign", "run-coreos-installer-network.service"),
    ] {
        assert!(read(name).contains(expected), "{name}: {}", read(name));
    }
    // The only warnings are those of the test build, which is not static, and of the static network.
    let warnings: Vec<&str> = printed.lines().filter(|line| line.contains("WARN")).collect();
    let is_expected = |line: &&&str| {
        line.contains("needs shared libraries") || line.contains("before the profiles of --network")
    };
    assert_eq!(warnings.iter().filter(|line| !is_expected(line)).count(), 0, "{warnings:#?}");
}

#[test]
fn nodes_document_works_from_top_to_bottom_in_an_empty_folder() {
    let document = read("docs/nodes.md");
    let blocks = blocks(&document).into_iter().map(|(_, block)| block);
    let (folder, printed) =
        run_block("nodes", &blocks.collect::<String>(), &programs("nodes-programs"));
    for name in ["worker-live.ign", "master-live.ign"] {
        assert!(folder.join(name).metadata().unwrap().len() > 1000, "{name}: {printed}");
    }
    let warnings: Vec<&str> = printed.lines().filter(|line| line.contains("WARN")).collect();
    assert!(matches!(&warnings[..], [it] if it.contains(".filesystem")), "{warnings:#?}");
}

#[test]
fn configuration_files_and_kernel_arguments_of_the_documents_are_accepted() {
    let mut n_files = 0;
    for name in ["docs/ironic.md", "docs/inspector.md", "docs/assisted.md"] {
        let text = read(name);
        for block in text.split("```yaml\n# /etc/run-coreos-installer.yaml").skip(1) {
            // The rest of the first line, and the file up to the end of the block.
            let (_, file) = block.split_once("```").unwrap().0.split_once('\n').unwrap();
            let file: serde_json::Value = yaml_serde::from_str(file).unwrap();
            let mut command = agent();
            command.args(["live-config", "--agent-in-image", "--format", "butane"]);
            for (key, value) in file.as_object().unwrap() {
                let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                for value in values.iter().map(|value| value.as_str().unwrap()) {
                    match key.as_str() {
                        "vim" => command.args(["--vim", value]),
                        // Files of the live image.
                        "ca-file" | "token-file" => &mut command,
                        _ => command.arg("--agent-option").arg(format!("{key}={value}")),
                    };
                }
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{name}: {}", stderr(&output));
            n_files += 1;
        }
        // `vim` has an option of its own.
        for word in text.split(['`', ' ']).filter(|word| word.starts_with("rci.")) {
            let options = match word.strip_prefix("rci.vim=") {
                Some(vim) => format!("--vim {vim}"),
                None => format!("--vim https://h --append-karg {word}"),
            };
            let output = run(&format!("live-config --format kargs --agent-in-image {options}"));
            assert!(output.status.success(), "{word}: {}", stderr(&output));
        }
    }
    assert_eq!(n_files, 2);
}

//! The static binary as it is shipped: its form, its size, and name resolution without the host's NSS modules.
//!
//! `RCI_STATIC_AGENT` names it; `make release-check` builds it and sets the variable.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap fails the test")]

#[path = "../job/mock.rs"]
#[expect(dead_code, reason = "the job's tests use all of it")]
mod mock;
#[path = "../skipped.rs"]
mod skipped;
#[path = "../until.rs"]
mod until;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

use mock::{Mock, Reply};
use skipped::skipped;

const MIB: u64 = 1 << 20;

fn agent() -> PathBuf {
    let path = std::env::var_os("RCI_STATIC_AGENT").expect("RCI_STATIC_AGENT names the binary");
    PathBuf::from(path)
}

#[test]
fn the_binary_is_static_and_stripped() {
    let output = Command::new("readelf").args(["-lSd"]).arg(agent()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("LOAD"), "{text}");
    assert!(!text.contains("INTERP"), "it requests a dynamic loader");
    assert!(!text.contains("(NEEDED)"), "it needs shared libraries");
    assert!(!text.contains(".symtab"), "it is not stripped");
}

#[test]
fn the_binary_is_at_most_8_mib_and_3_5_mib_compressed() {
    let n_bytes = std::fs::metadata(agent()).unwrap().len();
    // The limit is that of `gzip -9`; other compressors differ by some kB.
    let gzip = Command::new("gzip").args(["-9", "-c"]).arg(agent()).output().unwrap();
    let n_packed = gzip.stdout.len() as u64;
    assert!(gzip.status.success() && n_packed > MIB, "gzip ended with {}", gzip.status);
    assert!(n_bytes <= 8 * MIB, "{n_bytes} bytes");
    assert!(n_packed <= 7 * MIB / 2, "{n_packed} bytes compressed");
}

/// The guard of `probes` as the shipped binary has it: compiled without unwinding.
#[test]
fn without_unwinding_a_panic_costs_only_the_guarded_work() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guard");
    std::fs::create_dir_all(&folder).unwrap();
    let guard = Path::new(env!("CARGO_MANIFEST_DIR")).join("../probes/src/guard.rs");
    let program = format!(
        "#[path = {guard:?}] mod guard;\n\
         fn main() {{\n\
           let broken = guard::ask(\"a\", 65536, || -> u8 {{ panic!(\"out of cheese\") }});\n\
           println!(\"{{:?}}\", broken.unwrap().recv().unwrap());\n\
           println!(\"{{:?}}\", guard::ask(\"b\", 65536, || 7).unwrap().recv().unwrap());\n\
           panic!(\"nobody guards this\");\n\
         }}\n"
    );
    std::fs::write(folder.join("main.rs"), program).unwrap();
    let built = Command::new("rustc")
        .args(["--edition=2024", "-Cpanic=abort", "--cap-lints=allow", "-o", "main", "main.rs"])
        .current_dir(&folder)
        .status()
        .unwrap();
    assert!(built.success());
    let output = Command::new(folder.join("main")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("Err(\"out of cheese (") && text.ends_with("Ok(7)\n"), "{text}");
    assert_eq!(output.status.code(), None, "unguarded work aborts");
}

/// A root directory with the agent, /etc/hosts and an nsswitch.conf as systemd distributions have it.
/// In place of `resolve` and `myhostname` it has a module that leaves a trace when it is loaded.
fn chroot(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&root).ok();
    for dir in [
        "etc",
        "lib64",
        "usr/lib64",
        "lib/x86_64-linux-gnu",
        "usr/lib/x86_64-linux-gnu",
        "proc",
        "tmp",
    ] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::fs::copy(agent(), root.join("agent")).unwrap();
    std::fs::write(
        root.join("etc/nsswitch.conf"),
        "hosts: resolve [!UNAVAIL=return] files myhostname dns\n",
    )
    .unwrap();
    std::fs::write(root.join("etc/hosts"), "127.0.0.1 vim.hosts.test\n").unwrap();
    std::fs::write(root.join("etc/resolv.conf"), "nameserver 127.0.0.77\noptions timeout:2\n")
        .unwrap();
    let trap = root.join("trap.c");
    std::fs::write(
        &trap,
        "#include <fcntl.h>\n__attribute__((constructor)) static void loaded(void)\n\
         { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(2), \"D\"(\"/loaded\"), \"S\"(O_CREAT | O_WRONLY), \"d\"(0644) : \"rcx\", \"r11\", \"memory\"); }\n",
    )
    .unwrap();
    for module in ["libnss_resolve.so.2", "libnss_myhostname.so.2"] {
        let built = root.join("lib/x86_64-linux-gnu").join(module);
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-nostdlib", "-O1", "-o"])
            .arg(&built)
            .arg(&trap)
            .status()
            .unwrap();
        assert!(status.success());
        for dir in ["lib64", "usr/lib64", "usr/lib/x86_64-linux-gnu"] {
            std::fs::copy(&built, root.join(dir).join(module)).unwrap();
        }
    }
    root
}

/// Checks that the agent in such a root directory posts its report to this host without loading a module.
fn assert_found(root: &Path, host: &str) {
    let vim = Mock::start(|_, _| Reply::action("stop"));
    let output = Command::new("chroot")
        .arg(root)
        .args(["/agent", "report", "--allow-plain-http", "--give-up-after", "20", "--vim"])
        .arg(vim.url.replace("127.0.0.1", host))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(vim.paths(), ["/v1/reports"]);
    assert!(!root.join("loaded").exists(), "an NSS module of the host was loaded");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

#[test]
fn a_name_in_etc_hosts_is_found_without_loading_nss_modules() {
    assert!(is_root() || std::env::var_os("CI").is_none(), "with CI set this runs as root");
    if !is_root() {
        return skipped("it needs root");
    }
    assert_found(&chroot("nss-hosts"), "vim.hosts.test");
}

#[test]
fn a_name_in_dns_is_found_without_loading_nss_modules() {
    if !is_root() {
        return skipped("it needs root");
    }
    let dns = UdpSocket::bind("127.0.0.77:53").unwrap();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = dns.recv_from(&mut query) {
            dns.send_to(&dns_answer(&query[..length]), from).ok();
        }
    });
    assert_found(&chroot("nss-dns"), "vim.dns.test");
}

/// The answer 127.0.0.1 to a question for an A record, and no record to any other (RFC 1035 §4.1).
fn dns_answer(query: &[u8]) -> Vec<u8> {
    let name_end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let question = &query[12..name_end + 4];
    let is_a = question[question.len() - 4..] == [0, 1, 0, 1];
    let mut answer = vec![query[0], query[1], 0x85, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0];
    answer.extend_from_slice(question);
    if is_a {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    answer
}

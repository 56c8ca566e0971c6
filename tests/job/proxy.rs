//! The program itself with a proxy from its configuration file.

use std::process::Command;
use std::time::Duration;

use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::proxy::ProxySettings;

use super::machine::Machine;
use super::mock::{Mock, Reply};

#[test]
fn configured_proxy_is_used_and_its_password_never_shown() {
    // The proxy is asked for a tunnel to the VIM, and refuses.
    let proxy = Mock::start(|_, _| Reply::status(407));
    let address = proxy.url.replace("http://", "http://user:hunter2secret@");
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = format!("proxy: {address}\nvim: http://vim.example\nallow_plain_http: true\n");
    std::fs::write(&file, settings).unwrap();
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
            .args(words)
            .arg("--config")
            .arg(file.path())
            .env_clear()
            .env("no_proxy", "another.example")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    let words = ["report", "--give-up-after", "0", "--only", "os", "--lldp-wait", "0"];
    let said = run(&[&words[..], &["--log-level", "debug"]].concat());
    let asked = proxy.requests("vim.example:80");
    assert!(!asked.is_empty(), "{said}");
    assert!(
        asked[0].header("proxy-authorization").is_some_and(|value| value.starts_with("Basic "))
    );
    assert!(said.contains("could not be posted") && !said.contains("hunter2secret"), "{said}");
    let named = format!("through the proxy {}: the proxy", &proxy.url["http://".len()..]);
    assert!(said.contains(&named) && said.contains("HTTP status 407"), "{said}");
    assert!(said.contains("as USER:PASSWORD@ in front of the host"), "{said}");
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = run(&[&words[..], &["--proxy", &format!("http://{dead}")]].concat());
    let named = format!("through the proxy {dead}: connection refused");
    assert!(said.contains(&named), "{said}");
    let said = run(&["report", "--print-config"]);
    assert!(said.contains("proxy") && !said.contains("hunter2secret"), "{said}");
}

#[test]
fn address_in_a_network_of_no_proxy_is_reached_without_the_proxy() {
    let vim = Mock::vim(|_, _| Reply::action("reboot"));
    for (network, expected) in
        [("127.0.0.0/8", ExitStatus::Done), ("10.0.0.0/8", ExitStatus::NotReported)]
    {
        let mut machine = Machine::new(&vim.url);
        let proxy = ProxySettings::default().with_url("http://127.0.0.1:1");
        machine.settings.vim.proxy = Some(proxy.with_no_proxy(&[network.to_owned()]));
        machine.settings.vim.deadline = Some(Duration::ZERO);
        assert_eq!(machine.run().exit_status, expected, "{network}");
    }
}

#[test]
fn proxy_of_another_kind_is_refused_at_the_start() {
    for command in ["report", "install"] {
        let output = Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
            .args([command, "--vim", "https://vim.example", "--allow-plain-http"])
            .env_clear()
            .env("all_proxy", "socks5://joe:hunter2@p.example:1080")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("has the scheme socks5, expected http or https"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

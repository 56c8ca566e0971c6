//! Network boot: which script a machine gets.

use std::fs;

use serde_json::{Value, json};

use crate::util::{Vim, report, result};

const MAC: &str = "52:54:00:AA:00:01";

fn vim() -> Vim {
    let vim = Vim::installing(&["--boot", "."]);
    fs::write(vim.dir.join("live.ipxe"), "#!ipxe\n# live\n").unwrap();
    fs::write(vim.dir.join("vmlinuz"), "kernel").unwrap();
    vim
}

fn with_port(node: &str) -> Value {
    let mut report = report(node);
    report["network"] =
        json!({"interfaces": [{"name": "eth0", "permanent_mac": MAC.to_lowercase()}]});
    report["product"] = json!({"serial": "SERIAL-01"});
    report
}

#[test]
fn installed_machine_boots_its_disk_until_another_install_is_asked_for() {
    let vim = vim();
    let script = |query: &str| vim.get(&format!("/boot/ipxe?{query}")).text();
    let by_mac = format!("mac={MAC}&serial=");
    assert_eq!(script(&by_mac), "#!ipxe\n# live\n");
    vim.post("/v1/reports", &with_port("uuid-1"));
    assert_eq!(script(&by_mac), "#!ipxe\n# live\n");
    assert!(vim.get("/nodes/uuid-1").text().contains("the live image, by live.ipxe"));
    assert_eq!(vim.post("/v1/nodes/uuid-1/result", &result("uuid-1", "installed")).status, 204);
    for query in [&by_mac, "mac=52-54-00-aa-00-01", "serial=SERIAL-01"] {
        let text = script(query);
        assert!(
            text.starts_with("#!ipxe\n# installed at ")
                && text.ends_with("\niseq ${platform} efi && exit 1 ||\nexit\n"),
            "{text}"
        );
    }
    assert!(vim.get("/nodes/uuid-1").text().contains("its disk: installed at "));
    for query in ["", "mac=52:54:00:aa:00:02", "serial=SERIAL-02", "mac=%0aexit"] {
        assert_eq!(script(query), "#!ipxe\n# live\n", "{query}");
    }
    let again = json!({"ignition": {"version": "3.3.0"}});
    assert!(vim.put("/lab/nodes/uuid-1/ignition", &again).status < 300);
    assert_eq!(script(&by_mac), "#!ipxe\n# live\n");
}

#[test]
fn script_of_a_mac_or_serial_number_comes_before_the_one_for_all() {
    let vim = vim();
    fs::write(vim.dir.join("live-52-54-00-aa-00-01.ipxe"), "mac").unwrap();
    fs::write(vim.dir.join("live-SERIAL-01.ipxe"), "serial").unwrap();
    for (query, expected) in [
        (format!("mac={MAC}&serial=SERIAL-01"), "mac"),
        ("mac=52:54:00:aa:00:02&serial=SERIAL-01".to_owned(), "serial"),
        ("serial=../../c".to_owned(), "#!ipxe\n# live\n"),
    ] {
        assert_eq!(vim.get(&format!("/boot/ipxe?{query}")).text(), expected);
    }
    assert_eq!(vim.get("/boot/vmlinuz").text(), "kernel");
    let outside = vim.dir.with_extension("outside");
    fs::write(&outside, "secret").unwrap();
    let name = outside.file_name().unwrap().to_str().unwrap();
    assert_eq!(vim.get(&format!("/boot/..%2f{name}")).status, 404);
    fs::remove_file(outside).unwrap();
    fs::remove_file(vim.dir.join("live.ipxe")).unwrap();
    let missing = vim.get("/boot/ipxe?mac=52:54:00:aa:00:02&serial=X");
    assert_eq!(missing.code(), "FILE_UNKNOWN");
    let names = "none of live-52-54-00-aa-00-02.ipxe, live-X.ipxe, live.ipxe;";
    assert!(missing.text().contains(names), "{}", missing.text());
    fs::write(vim.dir.join("live.ipxe"), "x".repeat(70_000)).unwrap();
    let long = vim.get("/boot/ipxe").text();
    assert!(long.contains("live.ipxe has 70000 bytes, expected at most 65536"), "{long}");
    assert_eq!(Vim::start(&[]).get("/boot/ipxe").code(), "PATH_UNKNOWN");
}

#[test]
fn page_of_a_node_shows_the_script_of_any_of_its_ports() {
    let vim = vim();
    let mut report = with_port("uuid-1");
    let second = json!({"name": "eth1", "permanent_mac": "52:54:00:aa:00:0b"});
    report["network"]["interfaces"].as_array_mut().unwrap().push(second);
    vim.post("/v1/reports", &report);
    fs::write(vim.dir.join("live-52-54-00-aa-00-0b.ipxe"), "second port").unwrap();
    let page = vim.get("/nodes/uuid-1").text();
    assert!(page.contains("the live image, by live-52-54-00-aa-00-0b.ipxe"), "{page}");
}

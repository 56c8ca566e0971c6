//! Files, images and the agent.

use std::fs::{self, File};
use std::io::Read;

use crate::util::{Vim, client, folder};

#[test]
fn nothing_outside_the_folder_is_served() {
    let dir = folder();
    fs::create_dir_all(dir.join("root/sub")).unwrap();
    fs::write(dir.join("secret"), "SECRET").unwrap();
    fs::write(dir.join("root/sub/a b"), "fine").unwrap();
    std::os::unix::fs::symlink("../secret", dir.join("root/link")).unwrap();
    let vim = Vim::start_in(&dir, &["--files", "root"]);
    assert_eq!(vim.get("/files/sub/a%20b").text(), "fine");
    let absolute = format!("/files/{}", dir.join("secret").display());
    for path in [
        "/files/../secret",
        "/files/%2e%2e/secret",
        "/files/..%2fsecret",
        "/files/sub/../../secret",
        "/files/sub%2f..%2f..%2fsecret",
        "/files/link",
        "/files//secret",
        "/files/",
        "/files/sub",
        "/files/%00",
        "/files/%ff",
        "/files/%2",
        &absolute,
    ] {
        let got = vim.raw(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        assert!(got.starts_with("HTTP/1.1 404 "), "{path}: {got}");
        assert!(!got.contains("SECRET"), "{path}");
    }
}

#[test]
fn a_file_of_300_mb_arrives_complete_with_its_length() {
    let vim = Vim::start(&["--files", "."]);
    File::create(vim.dir.join("big")).unwrap().set_len(300_000_000).unwrap();
    let mut answer = client().get(vim.url("/files/big")).call().unwrap();
    assert_eq!(answer.headers()["content-length"], "300000000");
    let mut body = answer.body_mut().as_reader();
    let (mut block, mut n_bytes) = (vec![0u8; 1 << 20], 0);
    loop {
        match body.read(&mut block).unwrap() {
            0 => break,
            n => n_bytes += n,
        }
    }
    assert_eq!(n_bytes, 300_000_000);
    let head = vim.raw("HEAD /files/big HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(head.contains("content-length: 300000000") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn agent_image_and_signature_are_served_and_a_file_under_the_name_given() {
    let dir = folder();
    for (name, text) in
        [("agent", "abc"), ("image.raw.xz", "image"), ("image.raw.xz.sig", "signature")]
    {
        fs::write(dir.join(name), text).unwrap();
    }
    let files = ["--image", "image.raw.xz", "--file", "other=image.raw.xz", "--agent", "agent"];
    let vim = Vim::start_in(&dir, &files);
    for (path, text) in [
        ("/files/image.raw.xz", "image"),
        ("/files/image.raw.xz.sig", "signature"),
        ("/files/other", "image"),
        ("/ocp/run-coreos-installer", "abc"),
    ] {
        assert_eq!(vim.get(path).text(), text, "{path}");
    }
    let packed = vim.get("/ocp/run-coreos-installer.gz");
    assert_eq!(packed.header("content-type"), Some("application/gzip"));
    assert_eq!(packed.header("content-encoding"), None);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
    let digest = vim.get("/ocp/run-coreos-installer.sha512").text();
    assert!(digest.starts_with("ddaf35a193617aba"), "{digest}");
}

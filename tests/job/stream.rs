//! The image on its way from the server to coreos-installer.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use formats::digest;
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::transport::ProxySettings;
use serde_json::{Value, json};

use super::certificates::{Certificates, Fault};
use super::files::{Asked, Files, Sent};
use super::image;
use super::install::{Job, with};
use super::machine::{IGNITION, Machine, tool};
use super::mock::{Mock, Reply, assert_has, assert_says};
use super::tls::server_config;

/// A raw image without a partition table in which no two blocks are the same: 3 MB.
fn numbers() -> Vec<u8> {
    (0_u32..750_000).flat_map(u32::to_le_bytes).collect()
}

/// A run of the job with an image, and what the installer got.
struct Run {
    mock: Mock,
    machine: Machine,
}

impl Run {
    /// Installs the image that `source` names.
    fn new(source: &Value) -> Self {
        Self::of(Job::new(json!({ "image": source })))
    }

    fn of(job: Job) -> Self {
        let Job { mock, machine } = job.script(STREAMING);
        Self { mock, machine }
    }

    /// Runs the job, which installs nothing and ends with these values in the result. Returns that.
    #[track_caller]
    fn fails(&mut self, expected: &Value) -> Value {
        assert_ne!(self.machine.run().exit_status, ExitStatus::Done);
        let result = self.mock.result();
        assert_has(&result, expected);
        result
    }

    /// Runs the job, which is refused with this code before the disk is touched.
    #[track_caller]
    fn is_refused(&mut self, code: &str) -> Value {
        assert_eq!(self.machine.run().exit_status, ExitStatus::Untouched);
        let result = self.mock.result();
        assert_has(&result, &json!({"code": code, "disk_state": "untouched"}));
        assert!(self.machine.is_untouched("sda"));
        result
    }

    fn result(&self) -> Value {
        self.mock.result()
    }

    /// What the installer received in its last run.
    fn received(&self) -> Vec<u8> {
        fs::read(self.machine.root.join("body")).unwrap_or_default()
    }

    fn is_whole(&self) -> bool {
        self.machine.read("whole").lines().last() == Some("yes")
    }
}

/// Behaves as coreos-installer: asks for the signature, then for the image, and writes the disk only if all of it came.
pub(crate) const STREAMING: &str = r#"
URL=$(sed -n 's/.*"image-url": "\(.*\)".*/\1/p' "$CONFIG")
echo "$no_proxy $NO_PROXY" > "$ROOT/no_proxy"
curl -sf "$URL.sig" -o "$ROOT/sig"
rm -f "$ROOT/body"
if curl -s "$URL" -o "$ROOT/body"; then
    echo yes >> "$ROOT/whole"
    dd if="$ROOT/body" of="$DEVICE" bs=1M conv=notrunc status=none
    echo 'Install complete.' >&2
else
    echo no >> "$ROOT/whole"
    printf 'Error: decoding and writing image\n\nCaused by:\n    error decoding response body\n' >&2
    exit 1
fi
"#;

fn insecure(files: &Files, hash: Option<String>) -> Value {
    let mut image = json!({"url": format!("{}/i.raw", files.url), "insecure": true});
    if let Some(hash) = hash {
        image["hash"] = json!(hash);
    }
    image
}

/// A server with one image, sent as `change` makes it.
fn server(change: impl Fn(&Asked, &mut Sent) + Send + Sync + 'static) -> Files {
    server_of(numbers(), change)
}

fn server_of(image: Vec<u8>, change: impl Fn(&Asked, &mut Sent) + Send + Sync + 'static) -> Files {
    Files::start(move |asked| {
        if asked.path != "/i.raw" {
            return Sent::status(404);
        }
        let mut sent = Sent::new(&image);
        change(asked, &mut sent);
        sent
    })
}

#[test]
fn image_is_downloaded_once_and_the_bytes_written_are_the_bytes_checked() {
    let image = image::plain();
    let files = server_of(image.clone(), |_, _| {});
    let mut run = Run::new(&insecure(&files, Some(digest::sha512(&image))));
    assert_eq!(run.machine.run().exit_status, ExitStatus::Done, "{:#}", run.result());
    assert!(run.received() == image);
    assert_eq!(files.downloads("/i.raw").len(), 1);
    let (digest, source) = (digest::sha512(&image), format!("{}/i.raw", files.url));
    let expected = json!({"digest": digest, "size_bytes": image.len(), "source": source});
    assert_has(&run.result()["image"], &expected);
    assert_eq!(run.machine.read("no_proxy"), "* *\n");
    let url = run.machine.seen_config()["image-url"].to_string();
    assert!(url.contains("http://127.0.0.1:") && !url.contains(&files.url), "{url}");
    assert!(run.mock.messages().iter().any(|message| message.contains("MB of 33.5 MB")));
}

#[test]
fn wrong_digest_breaks_the_stream_before_its_end_and_is_not_tried_again() {
    let files = server(|_, _| {});
    for hash in [digest::sha512(b"x"), digest::sha256(b"x")] {
        let mut run = Run::new(&insecure(&files, Some(hash.clone())));
        let expected = json!({"code": "IMAGE_HASH", "attempts": 1, "image": {"digest": null}});
        let result = run.fails(&expected);
        assert!(!run.is_whole() && run.received().len() < numbers().len());
        assert!(run.machine.is_untouched("sda"));
        assert_says(&result["message"], &[&hash, "after 3000000 bytes"]);
    }
}

#[test]
fn image_that_changes_after_its_check_is_not_passed_on() {
    let changed_head = server(|asked, sent| {
        if !asked.is_head() {
            sent.bytes[100] ^= 1;
        }
    });
    let longer = server(|asked, sent| {
        if !asked.is_head() {
            sent.bytes.push(0);
        }
    });
    for files in [changed_head, longer] {
        let mut run = Run::new(&insecure(&files, None));
        run.fails(&json!({"code": "IMAGE_CHANGED"}));
        assert!(run.received().is_empty() && run.machine.is_untouched("sda"));
    }
}

#[test]
fn image_that_the_server_truncated_is_not_complete_for_the_installer() {
    // The server announces more than it has, or breaks off a chunked body; neither can be resumed.
    for is_chunked in [false, true] {
        let files = server(move |asked, sent| {
            sent.has_ranges = asked.is_head();
            sent.is_chunked = is_chunked && !asked.is_head();
            sent.breaks_after = (!asked.is_head()).then_some(1_000_000);
        });
        let mut run = Run::new(&insecure(&files, None));
        let result = run.fails(&json!({"code": "IMAGE_TRUNCATED", "attempts": 3}));
        assert!(!run.is_whole() && run.machine.is_untouched("sda"), "{result:#}");
        assert_says(&result["message"], &["after 1000000"]);
    }
}

#[test]
fn raw_image_shorter_than_its_partition_table_is_refused_before_the_disk_is_touched() {
    let mut image = image::plain();
    image.truncate(image.len() / 2);
    let files = server_of(image, |_, sent| sent.is_chunked = true);
    let mut run = Run::new(&insecure(&files, None));
    run.is_refused("IMAGE_TRUNCATED");
    assert!(run.machine.read("args").is_empty());
}

#[test]
fn broken_connection_is_resumed_without_the_installer_noticing() {
    let files = server(|asked, sent| {
        if asked.n_before < 3 && !asked.is_head() {
            sent.breaks_after = Some(700_000);
        }
    });
    let mut run = Run::new(&insecure(&files, Some(digest::sha256(&numbers()))));
    run.machine.run();
    assert!(run.is_whole() && run.received() == numbers());
    assert_eq!(run.result()["attempts"], 1);
    let asked: Vec<_> = files.downloads("/i.raw").iter().map(|asked| asked.first).collect();
    assert_eq!(asked, [None, Some(700_000), Some(1_400_000), Some(2_100_000)]);
    assert_eq!(files.downloads("/i.raw")[1].if_range.as_deref(), Some("\"1\""));
}

#[test]
fn connection_that_breaks_is_not_resumed_with_another_file() {
    let files = server(|asked, sent| match asked.n_before {
        _ if asked.is_head() => {}
        0 => sent.breaks_after = Some(700_000),
        _ => {
            sent.etag = Some("\"2\"");
            sent.bytes[2_000_000] ^= 1;
        }
    });
    let mut run = Run::new(&insecure(&files, None));
    run.machine.run();
    let mut other = numbers();
    other[2_000_000] ^= 1;
    assert!(run.received() == other, "the second run got one file, not parts of two");
    assert_eq!(run.result()["attempts"], 2);
}

#[test]
fn stalled_server_is_reported_and_the_download_resumed() {
    let files = server(|asked, sent| {
        if asked.n_before == 0 && !asked.is_head() {
            sent.stalls = Some((1_000_000, Duration::from_mins(1)));
        }
    });
    let mut run = Run::new(&insecure(&files, None));
    run.machine.settings.vim.timeouts.stall_notice = Duration::from_millis(300);
    run.machine.settings.vim.timeouts.idle = Duration::from_millis(1500);
    run.machine.run();
    assert!(run.received() == numbers() && run.result()["attempts"] == 1);
    let messages = run.mock.messages();
    let stalled = messages.iter().position(|message| message.starts_with("no byte of the image"));
    let resumed =
        messages.iter().position(|message| message.starts_with("the image arrives again"));
    assert!(stalled.is_some() && stalled < resumed, "{messages:#?}");
}

#[test]
fn signal_ends_the_reading_of_an_image_and_is_reported() {
    let files = server(|asked, sent| {
        sent.stalls = (!asked.is_head()).then_some((1_000_000, Duration::from_mins(1)));
    });
    let url = files.url.clone();
    let mut run = Run::new(&insecure(&files, None));
    let stop = run.machine.stop.clone();
    std::thread::spawn(move || {
        while files.downloads("/i.raw").is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        stop.stop();
    });
    let started = Instant::now();
    run.machine.run();
    assert!(started.elapsed() < Duration::from_secs(10), "{url}: {:?}", started.elapsed());
    assert_eq!(run.result()["code"], "INTERRUPTED");
    assert!(!run.is_whole() && run.machine.is_untouched("sda"));
}

#[test]
fn stalled_server_is_given_up_with_the_number_of_bytes_received() {
    let files = server(|asked, sent| {
        let after = if asked.n_before == 0 { 1_000_000 } else { 0 };
        sent.stalls = (!asked.is_head()).then_some((after, Duration::from_mins(1)));
    });
    let mut run = Run::new(&insecure(&files, None));
    run.machine.settings.vim.timeouts.idle = Duration::from_millis(50);
    let result = run.fails(&json!({"code": "IMAGE_STALLED"}));
    let stalled = "stalled: nothing received for 0.05 s, after ";
    assert_says(&result["message"], &[stalled, " of 3000000 bytes", &files.url]);
}

#[test]
fn image_is_fetched_with_the_ca_and_the_client_certificate_of_the_agent() {
    let certificates = Certificates::make(Fault::None);
    let config = server_config(&certificates, true, rustls::ALL_VERSIONS);
    let files = Files::with_tls(config, |asked| match asked.path.as_str() {
        "/i.raw" => Sent::new(&numbers()),
        _ => Sent::status(404),
    });
    for has_client_cert in [true, false] {
        let mut run = Run::new(&insecure(&files, None));
        let settings = &mut run.machine.settings.vim;
        settings.ca_file = Some(certificates.path("ca.pem"));
        if has_client_cert {
            settings.client_cert_file = Some(certificates.path("client.pem"));
            settings.client_key_file = Some(certificates.path("client.key"));
        }
        run.machine.run();
        assert_eq!(run.received() == numbers(), has_client_cert);
        if !has_client_cert {
            assert_eq!(run.result()["code"], "IMAGE_FETCH");
        }
    }
}

#[test]
fn token_goes_to_the_vim_and_to_no_other_server() {
    let files = server(|_, _| {});
    let other = format!("{}/i.raw", files.url);
    for redirects in [false, true] {
        let other = other.clone();
        let mock = Mock::start(move |request, _| {
            let is_known = request.header("authorization") == Some("Bearer secret");
            let image = json!({"url": format!("http://{}/i.raw", request.header("host").unwrap()), "insecure": true});
            match request.path.as_str() {
                _ if !is_known => Reply::status(401),
                "/v1/reports" => Reply::install(&with(json!({ "image": image }))),
                "/i.raw" if redirects => Reply::status(302).and("Location", &other),
                "/i.raw" => Reply::bytes(&numbers()),
                _ => Reply::status(404),
            }
        });
        let mut run = Run::of(Job::at(mock));
        run.machine.set_token("secret");
        run.machine.run();
        assert!(run.received() == numbers(), "redirects: {redirects}");
    }
    let asked = files.asked("/i.raw");
    assert!(asked.len() > 1 && asked.iter().all(|asked| asked.token.is_none()), "{asked:?}");
}

#[test]
fn signature_comes_from_next_to_the_path_and_reaches_the_installer() {
    let files = Files::start(|asked| match asked.path.as_str() {
        "/i.raw?key=1" => Sent::new(&numbers()),
        "/i.raw.sig?key=1" => Sent::new(b"a signature"),
        _ => Sent::status(404),
    });
    let url = format!("{}/i.raw?key=1", files.url);
    let mut run = Run::new(&json!({"url": url}));
    run.machine.run();
    assert!(run.received() == numbers());
    assert_eq!(run.machine.read("sig"), "a signature");
    assert!(run.machine.seen_config().get("insecure").is_none());
    let source = run.result()["image"]["source"].clone();
    assert_eq!(source, format!("{}/i.raw?…", files.url));
    let mut run = Run::new(&json!({"url": format!("{}/i.raw", files.url)}));
    // Without its query there is no image.
    run.is_refused("IMAGE_FETCH");
}

#[test]
fn every_request_goes_through_the_proxy_except_those_over_loopback() {
    // The proxy answers every request itself: ureq asks it for a tunnel to the image's server.
    let proxy = Mock::start(|_, _| Reply::status(403));
    let mut run = Run::new(&json!({"url": "http://images.example/i.raw"}));
    let variables = [("http_proxy", proxy.url.clone()), ("no_proxy", "127.0.0.1".to_owned())];
    run.machine.settings.vim.proxy = ProxySettings::from_variables(|name| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    });
    // The VIM was reached without the proxy.
    run.is_refused("IMAGE_FETCH");
    assert!(!proxy.requests("images.example:80").is_empty());
}

#[test]
fn image_from_a_file_of_the_live_system_is_streamed_like_one_from_a_server() {
    let image = numbers();
    let mut run = Run::new(&json!({"file": "/nonexistent", "insecure": true}));
    run.is_refused("IMAGE_FETCH");
    let path = std::env::temp_dir().join(format!("rci-live-image-{}", std::process::id()));
    fs::write(&path, &image).unwrap();
    for (hash, is_whole) in [(digest::sha256(&image), true), (digest::sha256(b"x"), false)] {
        let source = json!({"file": path.to_str().unwrap(), "insecure": true, "hash": hash});
        let mut run = Run::new(&source);
        run.machine.run();
        assert_eq!((run.is_whole(), run.received() == image), (is_whole, is_whole));
        if !is_whole {
            assert_eq!(run.result()["code"], "IMAGE_HASH");
        }
    }
    let mut run = Run::new(&json!({"file": path.to_str().unwrap()}));
    run.is_refused("SIGNATURE");
    fs::remove_file(path).unwrap();
}

#[test]
fn stream_metadata_names_image_signature_and_the_digest_that_is_enforced() {
    for is_right in [true, false] {
        let sha256 = digest::sha256(if is_right { numbers() } else { vec![0] }.as_slice());
        let sha256 = sha256.trim_start_matches("sha256-").to_owned();
        let files = Files::start(move |asked| match asked.path.as_str() {
            "/stable.json" => {
                let host = "{HOST}";
                let file = json!({"location": format!("{host}/i.raw"), "signature": format!("{host}/other.sig"),
                    "sha256": sha256});
                let text = json!({"architectures": {"x86_64": {"artifacts": {"metal": {"formats": {
                    "raw.xz": {"disk": file}}}}}}});
                let host = asked.host.as_deref().unwrap();
                Sent::new(text.to_string().replace("{HOST}", &format!("http://{host}")).as_bytes())
            }
            "/i.raw" => Sent::new(&numbers()),
            "/other.sig" => Sent::new(b"its signature"),
            _ => Sent::status(404),
        });
        let stream = json!({"url": format!("{}/stable.json", files.url), "architecture": "x86_64"});
        let mut run = Run::new(&json!({"stream": stream}));
        run.machine.run();
        assert_eq!(run.machine.read("sig"), "its signature");
        assert_eq!((run.is_whole(), run.received() == numbers()), (is_right, is_right));
        if !is_right {
            assert_eq!(run.result()["code"], "IMAGE_HASH");
        }
    }
}

#[test]
fn size_and_sector_size_of_compressed_images_are_known_before_the_write() {
    let image = image::with_sectors(4096, IGNITION, "ignition.platform.id=metal");
    for program in [&["gzip", "-c"][..], &["xz", "-c"], &["zstd", "-qc"]] {
        let path = tool(program[0]);
        let file = std::env::temp_dir().join(format!("rci-packed-{}", std::process::id()));
        fs::write(&file, &image).unwrap();
        let packed = Command::new(path).args(&program[1..]).arg(&file).output().unwrap().stdout;
        fs::remove_file(file).unwrap();
        assert!(packed.len() < image.len() / 10);
        let files = server_of(packed, |_, _| {});
        let result = Run::new(&insecure(&files, None)).is_refused("SECTOR_SIZE");
        assert!(!result["warnings"].to_string().contains("size of the image is unknown"));
    }
}

/// A file packed by gzip as `gzip -1` does, without its checksum.
fn damaged_gzip(bytes: &[u8]) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("rci-gzip-{}", std::process::id()));
    fs::write(&path, bytes).unwrap();
    let packed = Command::new(tool("gzip")).args(["-1", "-c"]).arg(&path).output().unwrap().stdout;
    fs::remove_file(path).unwrap();
    let mut packed = packed;
    let at = packed.len() - 8;
    packed[at] ^= 0xff;
    packed
}

#[test]
fn image_that_cannot_be_verified_in_full_never_reaches_the_disk() {
    let late = damaged_gzip(&numbers());
    // An xz header with a filter that does not exist.
    let early = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\x00\x7f\x01".repeat(50);
    for (image, code, words) in [
        (early, "INSTRUCTION_INVALID", "the agent cannot decompress"),
        (late, "IMAGE_FETCH", "could not be decompressed to its end"),
    ] {
        let files = server_of(image, |_, _| {});
        let keys = json!({"image": insecure(&files, None), "verify": "full"});
        let result = Run::of(Job::new(keys)).is_refused(code);
        assert_says(&result["message"], &[words]);
    }
}

//! The image on its way from the server to coreos-installer.

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use formats::digest;
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::proxy::ProxySettings;
use serde_json::{Value, json};

use super::certificates::{Certificates, Fault};
use super::files::{Sent, is_for_head};
use super::image;
use super::install::{Job, with};
use super::machine::{IGNITION, packed};
use super::mock::{Mock, Reply, Request, assert_says};
use super::tls::server_config;

/// A raw image without partitions in which no two blocks are the same: 3 MB.
fn numbers() -> Vec<u8> {
    image::with_empty_table((0_u32..750_080).flat_map(u32::to_le_bytes).collect())
}

/// A run of the job with the image that `source` names.
fn run(source: &Value) -> Job {
    Job::new(json!({ "image": source })).script(STREAMING)
}

/// What the installer received in its last run.
fn received(job: &Job) -> Vec<u8> {
    fs::read(job.machine.root.join("body")).unwrap_or_default()
}

fn is_whole(job: &Job) -> bool {
    job.machine.read("whole").lines().last() == Some("yes")
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

fn insecure(files: &Mock, hash: Option<String>) -> Value {
    let mut image = json!({"url": format!("{}/i.raw", files.url), "insecure": true});
    image["hash"] = hash.into();
    image
}

/// A server with one image, sent as `change` makes it, which gets the number of earlier downloads, or none if preflight asks
/// for the beginning.
fn server(change: impl Fn(Option<usize>, &mut Sent) + Send + Sync + 'static) -> Mock {
    server_of(numbers(), change)
}

fn server_of(
    image: Vec<u8>,
    change: impl Fn(Option<usize>, &mut Sent) + Send + Sync + 'static,
) -> Mock {
    let n_downloads = AtomicUsize::new(0);
    Mock::start(move |request, _| {
        if request.path != "/i.raw" {
            return Reply::status(404);
        }
        let mut sent = Sent::new(&image);
        let download = !is_for_head(request);
        change(download.then(|| n_downloads.fetch_add(1, Ordering::SeqCst)), &mut sent);
        sent.reply(request)
    })
}

/// The requests for all of the image, or for its rest.
fn downloads(files: &Mock) -> Vec<Request> {
    files.requests("/i.raw").into_iter().filter(|request| !is_for_head(request)).collect()
}

#[test]
fn image_is_downloaded_once_and_the_bytes_written_are_the_bytes_checked() {
    let image = image::plain();
    let files = server_of(image.clone(), |_, _| {});
    let mut job = run(&insecure(&files, Some(digest::sha512(&image))));
    let (digest, source) = (digest::sha512(&image), format!("{}/i.raw", files.url));
    let expected = json!({"digest": digest, "size_bytes": image.len(), "source": source});
    job.ends(ExitStatus::Done, &json!({"image": expected}));
    assert!(received(&job) == image);
    assert_eq!(downloads(&files).len(), 1);
    assert_eq!(job.machine.read("no_proxy"), "* *\n");
    let url = job.machine.seen_config()["image-url"].to_string();
    assert!(url.contains("http://127.0.0.1:") && !url.contains(&files.url), "{url}");
    assert!(job.mock.messages().iter().any(|message| message.contains("MB of 33.5 MB")));
}

#[test]
fn wrong_digest_breaks_the_stream_before_its_end_and_is_not_tried_again() {
    let files = server(|_, _| {});
    for hash in [digest::sha512(b"x"), digest::sha256(b"x")] {
        let mut job = run(&insecure(&files, Some(hash.clone())));
        let expected = json!({"code": "IMAGE_HASH", "attempts": 1, "image": {"digest": null}});
        let result = job.is_refused(&expected);
        assert!(!is_whole(&job) && received(&job).len() < numbers().len());
        assert_says(&result["message"], &[&hash, "after 3000320 bytes"]);
    }
}

#[test]
fn image_that_changes_after_its_check_is_not_passed_on() {
    let changes: [fn(&mut Sent); 2] = [|sent| sent.bytes[100] ^= 1, |sent| sent.bytes.push(0)];
    for change in changes {
        let files = server(move |n, sent| n.map_or((), |_| change(sent)));
        let mut job = run(&insecure(&files, None));
        job.is_refused(&json!({"code": "IMAGE_CHANGED"}));
        assert!(received(&job).is_empty());
    }
}

#[test]
fn image_that_the_server_truncated_is_not_complete_for_the_installer() {
    // The server announces more than it has, or breaks off a chunked body; neither can be resumed.
    for is_chunked in [false, true] {
        let files = server(move |n, sent| {
            sent.has_ranges = n.is_none();
            sent.is_chunked = is_chunked && n.is_some();
            sent.breaks_after = n.map(|_| 1_000_000);
        });
        let mut job = run(&insecure(&files, None));
        let result = job.is_refused(&json!({"code": "IMAGE_TRUNCATED", "attempts": 3}));
        assert!(!is_whole(&job), "{result:#}");
        assert_says(&result["message"], &["after 1000000"]);
    }
}

#[test]
fn raw_image_shorter_than_its_partition_table_is_refused_before_the_disk_is_touched() {
    let mut image = image::plain();
    image.truncate(image.len() / 2);
    let files = server_of(image, |_, sent| sent.is_chunked = true);
    let mut job = run(&insecure(&files, None));
    job.is_refused(&json!({"code": "IMAGE_TRUNCATED"}));
    assert!(job.machine.read("args").is_empty());
}

#[test]
fn file_that_is_no_disk_image_is_refused_by_name_before_the_disk_is_touched() {
    let with = |mut bytes: Vec<u8>, at: usize, magic: &[u8]| {
        bytes[at..at + magic.len()].copy_from_slice(magic);
        bytes
    };
    let qcow2 = with(vec![0; 200_000], 0, b"QFI\xfb");
    let page = b"<!DOCTYPE html><title>log in</title>".to_vec();
    let longer = [numbers(), vec![0; 512]].concat();
    for (file, code, found) in [
        (packed(&["gzip", "-c"], &qcow2), "IMAGE_INVALID", "is a qcow2 image, expected a raw disk"),
        (qcow2, "IMAGE_INVALID", "is a qcow2 image, expected a raw disk image"),
        // A hybrid ISO has a partition table, too.
        (with(numbers(), 0x8001, b"CD001"), "IMAGE_INVALID", "is an ISO image"),
        (with(numbers(), 530, b"?"), "IMAGE_INVALID", "GPT header with a wrong checksum"),
        (vec![0; 9000], "IMAGE_INVALID", "zeros without a partition table"),
        (longer, "IMAGE_INVALID", "has 3000832 bytes, but its partition table is for 3000320"),
        // The server may have the image a moment later.
        (page, "IMAGE_FETCH", "is an HTML page"),
    ] {
        let files = server_of(file, |_, _| {});
        let mut job = run(&insecure(&files, None));
        let result = job.is_refused(&json!({"code": code}));
        assert_says(&result["message"], &[found, &files.url]);
        assert!(job.machine.read("args").is_empty());
    }
}

#[test]
fn broken_connection_is_resumed_without_the_installer_noticing() {
    let files = server(|n, sent| {
        sent.breaks_after = n.filter(|n| *n < 3).map(|_| 700_000);
    });
    let mut job = run(&insecure(&files, Some(digest::sha256(&numbers()))));
    job.machine.run();
    assert!(is_whole(&job) && received(&job) == numbers());
    assert_eq!(job.mock.result()["attempts"], 1);
    let asked = downloads(&files);
    let ranges: Vec<_> = asked.iter().map(|request| request.header("range")).collect();
    let expected = ["bytes=700000-", "bytes=1400000-", "bytes=2100000-"].map(Some);
    assert_eq!((ranges[0], &ranges[1..]), (None, &expected[..]));
    assert_eq!(asked[1].header("if-range"), Some("\"1\""));
}

#[test]
fn connection_that_breaks_is_not_resumed_with_another_file() {
    let files = server(|n, sent| match n {
        None => {}
        Some(0) => sent.breaks_after = Some(700_000),
        Some(_) => {
            sent.etag = "\"2\"";
            sent.bytes[2_000_000] ^= 1;
        }
    });
    let mut job = run(&insecure(&files, None));
    job.machine.run();
    let mut other = numbers();
    other[2_000_000] ^= 1;
    assert!(received(&job) == other, "the second run got one file, not parts of two");
    assert_eq!(job.mock.result()["attempts"], 2);
}

/// A server that sends nothing after these bytes of its first, and of a later response.
fn stalling(first: Option<usize>, later: Option<usize>) -> Mock {
    server(move |n, sent| {
        let after = n.and_then(|n| if n == 0 { first } else { later });
        sent.stalls = after.map(|after| (after, Duration::from_mins(1)));
    })
}

#[test]
fn stalled_server_is_reported_and_the_download_resumed() {
    let mut job = run(&insecure(&stalling(Some(1_000_000), None), None));
    job.machine.settings.vim.timeouts.stall_notice = Duration::from_millis(300);
    job.machine.settings.vim.timeouts.idle = Duration::from_millis(1500);
    job.machine.run();
    assert!(received(&job) == numbers() && job.mock.result()["attempts"] == 1);
    let messages = job.mock.messages();
    let at = |start| messages.iter().position(|message| message.starts_with(start));
    let (stalled, resumed) = (at("no byte of the image"), at("the image arrives again"));
    assert!(stalled.is_some() && stalled < resumed, "{messages:#?}");
}

#[test]
fn signal_ends_the_reading_of_an_image_and_is_reported() {
    let files = stalling(Some(1_000_000), Some(1_000_000));
    let mut job = run(&insecure(&files, None));
    job.machine.stops_when(move || !downloads(&files).is_empty());
    let started = Instant::now();
    job.is_refused(&json!({"code": "INTERRUPTED"}));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(!is_whole(&job));
}

#[test]
fn stalled_server_is_given_up_with_the_number_of_bytes_received() {
    let files = stalling(Some(1_000_000), Some(0));
    let mut job = run(&insecure(&files, None));
    job.machine.settings.vim.timeouts.idle = Duration::from_millis(50);
    let result = job.is_refused(&json!({"code": "IMAGE_STALLED"}));
    let stalled = "stalled: nothing received for 0.05 s, after ";
    assert_says(&result["message"], &[stalled, " of 3000320 bytes", &files.url]);
}

#[test]
fn image_is_fetched_with_the_ca_and_the_client_certificate_of_the_agent() {
    let certificates = Certificates::make(Fault::None);
    let config = server_config(&certificates, true, rustls::ALL_VERSIONS);
    let files = Mock::start_at("127.0.0.1:0", Some(config), |request, _| {
        if request.path == "/i.raw" { Reply::bytes(&numbers()) } else { Reply::status(404) }
    });
    let files = files.unwrap();
    for has_client_cert in [true, false] {
        let mut job = run(&insecure(&files, None));
        let settings = &mut job.machine.settings.vim;
        settings.ca_file = Some(certificates.path("ca.pem"));
        if has_client_cert {
            settings.client_cert_file = Some(certificates.path("client.pem"));
            settings.client_key_file = Some(certificates.path("client.key"));
        }
        job.machine.run();
        assert_eq!(received(&job) == numbers(), has_client_cert);
        if !has_client_cert {
            assert_eq!(job.mock.result()["code"], "IMAGE_FETCH");
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
        let mut job = Job::at(mock).script(STREAMING);
        job.machine.set_token("secret");
        job.machine.run();
        assert!(received(&job) == numbers(), "redirects: {redirects}");
    }
    let asked = files.requests("/i.raw");
    let has_token = |request: &Request| request.header("authorization").is_some();
    assert!(asked.len() > 1 && !asked.iter().any(has_token), "{asked:?}");
}

#[test]
fn signature_comes_from_next_to_the_path_and_reaches_the_installer() {
    let files = Mock::start(|request, _| match request.path.as_str() {
        "/i.raw?key=1" => Reply::bytes(&numbers()),
        "/i.raw.sig?key=1" => Reply::bytes(b"a signature"),
        _ => Reply::status(404),
    });
    let source = |path: &str| json!({"url": format!("{}{path}", files.url)});
    let mut job = run(&source("/i.raw?key=1"));
    job.machine.run();
    assert!(received(&job) == numbers());
    assert_eq!(job.machine.read("sig"), "a signature");
    assert!(job.machine.seen_config().get("insecure").is_none());
    assert_eq!(job.mock.result()["image"]["source"], format!("{}/i.raw?…", files.url));
    // Without its query there is no image.
    run(&source("/i.raw")).is_refused(&json!({"code": "IMAGE_FETCH"}));
}

#[test]
fn every_request_goes_through_the_proxy_except_those_over_loopback() {
    // The proxy answers every request itself: ureq asks it for a tunnel to the image's server.
    let proxy = Mock::start(|_, _| Reply::status(403));
    let mut job = run(&json!({"url": "http://images.example/i.raw"}));
    let variables = [("http_proxy", proxy.url.clone()), ("no_proxy", "127.0.0.1".to_owned())];
    job.machine.settings.vim.proxy = ProxySettings::from_variables(|name| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    });
    // The VIM was reached without the proxy.
    job.is_refused(&json!({"code": "IMAGE_FETCH"}));
    assert!(!proxy.requests("images.example:80").is_empty());
}

#[test]
fn image_from_a_file_of_the_live_system_is_streamed_like_one_from_a_server() {
    let image = numbers();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&image).unwrap();
    let path = file.path();
    for (hash, is_right) in [(digest::sha256(&image), true), (digest::sha256(b"x"), false)] {
        let mut job = run(&json!({"file": path, "insecure": true, "hash": hash}));
        job.machine.run();
        assert_eq!((is_whole(&job), received(&job) == image), (is_right, is_right));
        if !is_right {
            assert_eq!(job.mock.result()["code"], "IMAGE_HASH");
        }
    }
    for (source, code) in [
        (json!({"file": path}), "SIGNATURE"),
        (json!({"file": "/nonexistent", "insecure": true}), "IMAGE_FETCH"),
    ] {
        run(&source).is_refused(&json!({"code": code}));
    }
}

#[test]
fn stream_metadata_names_image_signature_and_the_digest_that_is_enforced() {
    for is_right in [true, false] {
        let sha256 = digest::sha256(if is_right { numbers() } else { vec![0] }.as_slice());
        let sha256 = sha256.trim_start_matches("sha256-").to_owned();
        let files = Mock::start(move |request, _| match request.path.as_str() {
            "/stable.json" => {
                let host = format!("http://{}", request.header("host").unwrap());
                let file = json!({"location": format!("{host}/i.raw"), "signature": format!("{host}/other.sig"),
                    "sha256": sha256});
                Reply::json(
                    200,
                    &json!({"architectures": {std::env::consts::ARCH: {"artifacts": {"metal": {"formats": {
                    "raw.xz": {"disk": file}}}}}}}),
                )
            }
            "/i.raw" => Reply::bytes(&numbers()),
            "/other.sig" => Reply::bytes(b"its signature"),
            _ => Reply::status(404),
        });
        let stream = json!({"url": format!("{}/stable.json", files.url)});
        let mut job = run(&json!({"stream": stream}));
        job.machine.run();
        assert_eq!(job.machine.read("sig"), "its signature");
        assert_eq!((is_whole(&job), received(&job) == numbers()), (is_right, is_right));
        if !is_right {
            assert_eq!(job.mock.result()["code"], "IMAGE_HASH");
        }
    }
}

#[test]
fn size_and_sector_size_of_compressed_images_are_known_before_the_write() {
    let image = image::with_sectors(4096, IGNITION, "ignition.platform.id=metal");
    for program in [&["gzip", "-c"][..], &["xz", "-c"], &["zstd", "-qc"]] {
        let packed = packed(program, &image);
        assert!(packed.len() < image.len() / 10);
        let files = server_of(packed, |_, _| {});
        let result = run(&insecure(&files, None)).is_refused(&json!({"code": "SECTOR_SIZE"}));
        assert!(!result["warnings"].to_string().contains("size of the image is unknown"));
    }
}

#[test]
fn image_that_cannot_be_verified_in_full_never_reaches_the_disk() {
    // As `gzip -1` packs it, without its checksum.
    let mut late = packed(&["gzip", "-1", "-c"], &numbers());
    let checksum = late.len() - 8;
    late[checksum] ^= 0xff;
    // An xz header with a filter that does not exist.
    let early = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\x00\x7f\x01".repeat(50);
    for (image, code, words) in [
        (early, "INSTRUCTION_INVALID", "the agent cannot decompress"),
        (late, "IMAGE_INVALID", "could not be decompressed to its end"),
    ] {
        let files = server_of(image, |_, _| {});
        let keys = json!({"image": insecure(&files, None), "verify": "full"});
        let result = Job::new(keys).script(STREAMING).is_refused(&json!({"code": code}));
        assert_says(&result["message"], &[words]);
    }
}

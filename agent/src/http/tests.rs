//! The client with a script for its server and a clock that does not wait.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ureq::http;

use super::download::Cause;
use super::transport::{Body, Limits, Received, Timeouts, Transport};
use super::{Client, Request, ServerSettings};
use crate::signals::Stop;
use crate::testing::VirtualClock;

/// Answers a request by its number.
type Script = fn(usize, &http::Request<Body>) -> Result<Received, ureq::Error>;

#[derive(Debug)]
struct Scripted(Script, AtomicUsize);

impl Transport for Scripted {
    fn send(&self, request: http::Request<Body>, _: Limits) -> Result<Received, ureq::Error> {
        self.0(self.1.fetch_add(1, Ordering::SeqCst), &request)
    }
}

const IMAGE: &str = "http://files.example/image";

fn client(script: Script, clock: &Arc<VirtualClock>, stop: &Stop) -> Client {
    let second = Duration::from_secs(1);
    let settings = ServerSettings {
        allow_plain_http: true,
        timeouts: Timeouts {
            resolve: second,
            connect: second,
            send: second,
            headers: second,
            body: second,
            ignition: second,
            ..Timeouts::default()
        },
        transport: Some(Arc::new(Scripted(script, AtomicUsize::new(0)))),
        ..ServerSettings::new("http://vim.example")
    };
    Client::new(&settings, clock.clone(), stop.clone()).unwrap()
}

/// A clock with the longest waits between two attempts.
fn slow_clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(u32::MAX, |_| {}))
}

/// The waits on a clock, in s.
fn waits(clock: &VirtualClock) -> Vec<u64> {
    let slept = clock.slept.lock().unwrap();
    slept.iter().map(|wait| (*wait + Duration::from_millis(500)).as_secs()).collect()
}

fn refused() -> Result<Received, ureq::Error> {
    Err(ureq::Error::Io(io::ErrorKind::ConnectionRefused.into()))
}

fn answer(
    status: u16,
    headers: &[(&str, &str)],
    body: impl Read + 'static,
) -> Result<Received, ureq::Error> {
    let response = http::Response::builder().status(status);
    let response =
        headers.iter().fold(response, |response, (key, value)| response.header(*key, *value));
    Ok(response.body(Box::new(body) as Box<dyn Read>)?)
}

/// The first half of an image, after which the connection breaks.
fn half() -> Result<Received, ureq::Error> {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    answer(200, &[("ETag", "\"a\""), ("Content-Length", "6")], Read::chain(&b"abc"[..], Broken))
}

#[test]
fn server_that_refuses_connections_is_asked_until_the_limit_after_waits_that_double() {
    let clock = slow_clock();
    let fetched = client(|_, _| refused(), &clock, &Stop::default()).fetch_ignition(IMAGE, 6);
    let why = fetched.unwrap_err();
    assert!(why.contains("connection refused"), "{why}");
    assert_eq!(waits(&clock)[..13], [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30]);
    // The last attempt is made when the limit passes.
    assert_eq!((waits(&clock).len(), clock.passed().as_secs() / 10), (14, 30));
}

#[test]
fn wait_that_a_busy_server_names_is_kept_and_a_refused_source_is_asked_for_only_twice() {
    let busy: Script = |n, _| match n {
        0 => answer(503, &[("Retry-After", "120")], io::empty()),
        _ => answer(200, &[], &b"{}"[..]),
    };
    let clock = slow_clock();
    let fetched = client(busy, &clock, &Stop::default()).fetch_ignition(IMAGE, 6);
    assert_eq!((fetched, waits(&clock)), (Ok(b"{}".to_vec()), vec![132]));
    let clock = slow_clock();
    let missing: Script = |_, _| answer(404, &[], io::empty());
    let fetched = client(missing, &clock, &Stop::default()).fetch_ignition(IMAGE, 6);
    assert!(fetched.unwrap_err().contains("responded 404"));
    assert_eq!(waits(&clock), [2]);
}

#[test]
fn request_that_never_ends_is_given_up_after_its_whole_time_or_soon_after_a_signal() {
    let endless: Script = |_, _| {
        loop {
            std::thread::park();
        }
    };
    for (stopped_at, seconds, words) in
        [(u64::MAX, 5, "sends its response too slowly"), (2, 3, "interrupted by a signal")]
    {
        let stop = Stop::default();
        let stopper = stop.clone();
        let clock = Arc::new(VirtualClock::new(0, move |passed| {
            if passed.as_secs() >= stopped_at {
                stopper.stop();
            }
        }));
        let failed = client(endless, &clock, &stop).exchange("v1", &Request::get()).unwrap_err();
        assert!(failed.message.contains(words) && failed.may_have_arrived, "{failed:?}");
        assert_eq!(clock.passed().as_secs(), seconds);
    }
}

#[test]
fn image_goes_on_where_its_connection_broke_and_is_given_up_if_no_server_continues_it() {
    let resumed: Script = |n, request| match n {
        0 => half(),
        1 => refused(),
        _ => {
            assert_eq!(request.headers()["range"], "bytes=3-");
            assert_eq!(request.headers()["if-range"], "\"a\"");
            answer(206, &[("ETag", "\"a\""), ("Content-Range", "bytes 3-5/6")], &b"def"[..])
        }
    };
    let (clock, mut bytes) = (slow_clock(), Vec::new());
    let image = client(resumed, &clock, &Stop::default());
    let mut download = image.download(IMAGE, false, &|| false).unwrap();
    let mut piece = [0; 4];
    while let n @ 1.. = download.read(&mut piece).unwrap() {
        bytes.extend_from_slice(&piece[..n]);
    }
    assert_eq!((bytes, waits(&clock)), (b"abcdef".to_vec(), vec![1, 4]));

    let clock = slow_clock();
    let lost = client(|n, _| if n == 0 { half() } else { refused() }, &clock, &Stop::default());
    let mut download = lost.download(IMAGE, false, &|| false).unwrap();
    assert_eq!(download.read(&mut piece), Ok(3));
    let broken = download.read(&mut piece).unwrap_err();
    assert_eq!((broken.cause, broken.is_transient), (Cause::Unreachable, true));
    // The next wait would end after the five minutes that a source has.
    assert_eq!((waits(&clock).iter().sum::<u64>(), clock.passed().as_secs()), (241, 240));
}

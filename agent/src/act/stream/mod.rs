//! Hands the image to coreos-installer over loopback HTTP.
//!
//! The agent fetches the image once, with its own transport, and checks it while it passes. coreos-installer gets the
//! stored bytes unchanged, so it decompresses them and verifies their signature as always. See `pass.rs` for why a
//! stream that breaks leaves the disk without a partition table.

mod meter;
mod pass;
mod server;
mod source;
mod tee;

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use probes::guard;
use tracing::debug;

use self::meter::{Meter, Reading};
use self::pass::Whole;
use self::tee::Tee;
use super::image::Image;
use super::stream_facts::StreamFacts;
use super::{Code, Failure, Verify};
use crate::http::Client;
use crate::http::server::accept;
use crate::random;

pub use self::meter::Update;
pub use self::source::Fault;

/// Stack of the serving thread; TLS needs some of it.
const STACK_BYTES: usize = 1 << 20;
/// Time limit for the rest of a sample once the image is written; it is nearly done then.
pub(super) const RECORD_LIMIT: Duration = Duration::from_mins(1);

/// The image on a loopback port, for the coreos-installer runs of one install.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    port: u16,
    reading: Mutex<Reading>,
}

/// The state that the thread and the install share.
#[derive(Debug)]
struct Shared {
    /// `/random/image.raw.xz`: other programs of the live system cannot guess it.
    path: String,
    image: Image,
    client: Arc<Client>,
    verify: Verify,
    meter: Meter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts the runs of coreos-installer.
    generation: u64,
    is_closed: bool,
    /// The connection on which the image is being passed on.
    socket: Option<TcpStream>,
    fault: Option<Fault>,
    /// Digest and size of the stored bytes, once all were passed on.
    whole: Option<Whole>,
    tee: Option<Tee>,
}

impl State {
    /// Forgets the last pass.
    fn reset(&mut self) {
        *self = Self { generation: self.generation, is_closed: self.is_closed, ..Self::default() };
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the last pass; returns the run of coreos-installer that the new one belongs to.
    fn begin_pass(&self, socket: &TcpStream) -> u64 {
        let mut state = self.lock();
        state.reset();
        state.socket = socket.try_clone().ok();
        state.generation
    }

    /// True if the run of coreos-installer is over.
    fn is_over(&self, generation: u64) -> bool {
        let state = self.lock();
        state.is_closed || state.generation != generation
    }

    fn end_pass(&self, generation: u64, outcome: Result<(Whole, Option<Tee>), Fault>) {
        let mut state = self.lock();
        if state.generation != generation {
            return;
        }
        state.socket = None;
        match outcome {
            Ok((whole, tee)) => (state.whole, state.tee) = (Some(whole), tee),
            Err(fault) => state.fault = Some(fault),
        }
    }

    /// Breaks the connection on which the image is being passed on.
    fn cut(state: &mut State) {
        if let Some(socket) = state.socket.take() {
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Stream {
    /// Serves `image` on a loopback port, and records it for the proof.
    ///
    /// # Errors
    /// `IMAGE_FETCH`: the kernel gives no port or no thread.
    pub fn start(image: Image, client: &Arc<Client>, verify: Verify) -> Result<Self, Failure> {
        Self::try_start(image, Arc::clone(client), verify).map_err(|error| {
            let message = format!("serving the image on the loopback address: {error}");
            Failure::new(Code::ImageFetch, message)
                .advise("the live system has no loopback interface, port or thread left")
        })
    }

    fn try_start(image: Image, client: Arc<Client>, verify: Verify) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let reading = Mutex::new(Reading::new(client.stall_notice()));
        let shared = Arc::new(Shared {
            path: format!("/{}/image.raw{}", random::uuid(), image.head.format.suffix()),
            image,
            meter: Meter::new(Arc::clone(&client.clock)),
            client,
            verify,
            state: Mutex::default(),
        });
        let (for_thread, for_panic) = (Arc::clone(&shared), Arc::clone(&shared));
        let on_panic = move |panic| {
            // The connection would stay open, because the thread that owns it sleeps from now on.
            let mut state = for_panic.lock();
            state.is_closed = true;
            let message = format!("a bug ended the reading of the image: {panic}");
            state.fault = Some(Fault::new(Code::AgentBug, message));
            Shared::cut(&mut state);
        };
        guard::spawn("image", STACK_BYTES, move || serve(&listener, &for_thread), on_panic)?;
        Ok(Self { shared, port, reading })
    }

    /// The address of the image.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.shared.path)
    }

    /// A new run of coreos-installer begins: the last one and its fault are forgotten.
    pub fn begin(&self) {
        let mut state = self.shared.lock();
        Shared::cut(&mut state);
        state.reset();
        state.generation += 1;
        self.shared.meter.start();
        self.shared.meter.stop();
    }

    /// Why the stream of this run broke; `None` if it did not.
    pub fn fault(&self) -> Option<Fault> {
        self.shared.lock().fault.clone()
    }

    /// True if the whole image was passed on, and was the right one.
    pub fn is_whole(&self) -> bool {
        self.shared.lock().whole.is_some()
    }

    /// True if more bytes are expected from the source now.
    pub fn waits_for_source(&self) -> bool {
        self.shared.meter.waits()
    }

    /// Progress and stalls since the last call; call it often.
    pub fn update(&self) -> Option<Update> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.update(&self.shared.meter, self.shared.client.clock.now_outside())
    }

    /// Returns the facts learned of the image; `None` unless the whole image was passed on.
    pub fn facts(&self) -> Option<StreamFacts> {
        let (whole, tee) = {
            let mut state = self.shared.lock();
            (state.whole.clone(), state.tee.take())
        };
        let (digest, n_bytes) = whole?;
        let stop = &self.shared.client.stop;
        let record = tee.map(|mut tee| tee.record(RECORD_LIMIT, stop)).unwrap_or_default();
        Some(StreamFacts {
            digest,
            n_bytes,
            head: self.shared.image.head.unpacked.clone(),
            has_all_samples: record.is_complete,
            samples: record.samples,
            image_bytes: record.image_bytes,
            boot: record.boot,
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        Shared::cut(&mut state);
    }
}

/// The thread: one client after the other, until the stream is dropped.
fn serve(listener: &TcpListener, shared: &Shared) {
    accept(
        listener,
        shared.client.clock.as_ref(),
        || shared.lock().is_closed,
        |socket| {
            let is_local = socket.peer_addr().is_ok_and(|from| from.ip().is_loopback());
            let outcome = if is_local { server::answer(socket, shared) } else { Ok(()) };
            if let Err(error) = outcome {
                debug!(%error, "a request for the image failed");
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::super::image::{Head, Source};
    use super::*;
    use crate::clock::RealClock;
    use crate::http::ServerSettings;
    use crate::signals::Stop;

    #[test]
    fn only_the_unguessable_path_is_served_and_only_for_reading() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "the image").unwrap();
        let mut settings = ServerSettings::new("http://vim.example");
        settings.allow_plain_http = true;
        let client = Client::new(&settings, Arc::new(RealClock), Stop::default()).unwrap();
        let image = Image {
            source: Source::File(file.path().to_owned()),
            signature: Some(b"signature".to_vec()),
            digests: Vec::new(),
            is_insecure: true,
            head: Head::new(b"the image".to_vec(), Some(9)),
        };
        let stream = Stream::start(image, &Arc::new(client), Verify::Sample).unwrap();
        let url = stream.url();
        let path = url.splitn(4, '/').nth(3).unwrap();
        assert!(url.starts_with("http://127.0.0.1:") && path.len() > 36, "{url}");
        let ask = |request: &str| {
            let mut socket = TcpStream::connect(("127.0.0.1", stream.port)).unwrap();
            socket.write_all(format!("{request} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            let mut response = String::new();
            socket.read_to_string(&mut response).unwrap();
            response
        };
        for (request, status, end) in [
            ("GET /".to_owned(), "404", "\r\n\r\n"),
            ("GET /image.raw".to_owned(), "404", "\r\n\r\n"),
            (format!("POST /{path}"), "400", "\r\n\r\n"),
            (format!("GET /{path} HTTP/1.0\r\n\r\n"), "400", "\r\n\r\n"),
            (format!("HEAD /{path}"), "200", "\r\n\r\n"),
            (format!("GET /{path}.sig"), "200", "\r\n\r\nsignature"),
            (format!("GET /{path}"), "200", "\r\n\r\nthe image"),
        ] {
            let response = ask(&request);
            let is_right = response.starts_with(&format!("HTTP/1.1 {status} "));
            assert!(is_right && response.ends_with(end), "{request}: {response:?}");
        }
        assert!(stream.is_whole() && stream.facts().unwrap().has_all_samples);
        let port = stream.port;
        drop(stream);
        std::thread::sleep(Duration::from_millis(500));
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port outlives the stream");
    }
}

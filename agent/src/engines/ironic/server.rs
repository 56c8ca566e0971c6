//! The HTTPS server to which Ironic sends its commands. TLS 1.3, and 1.2 for older conductors.
//!
//! A connection carries one request. There are few connections at once, each with a time limit for its whole request,
//! and a new one replaces the one that has waited longest for its request: a client that sends a byte now and then does
//! not block others.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use probes::guard;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};
use tracing::{debug, warn};

use super::certificate::Certificate;
use super::http::{self, Handler};
use crate::clock::RealClock;
use crate::http::server::{Timed, accept};

/// Most connections at once.
const MAX_CONNECTIONS: usize = 16;
/// Time limit for a client's handshake and request.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for a client to receive the answer.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);
/// Time limit for a client to end its request after the answer.
const LINGER_LIMIT: Duration = Duration::from_secs(5);
/// Largest rest of a request that is discarded, in bytes.
const MAX_LINGER_BYTES: usize = 64 << 20;
/// Stack of a connection's thread.
const STACK_BYTES: usize = 512 << 10;

/// A connection.
struct Connection {
    id: u64,
    /// The socket while its request has not arrived.
    waiting: Option<TcpStream>,
}

/// The connections, oldest first.
#[derive(Default)]
struct Connections {
    all: Vec<Connection>,
    n_accepted: u64,
}

type Shared = Arc<Mutex<Connections>>;

/// Listens on a port, of IPv6 and IPv4 if the machine has both.
///
/// # Errors
/// The port is in use.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        .or_else(|_| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
}

/// Serves requests on threads of its own until the handler is closed or the process ends.
///
/// # Errors
/// A message if the certificate cannot be used, or no thread can be started.
pub(super) fn start(
    listener: TcpListener,
    certificate: &Certificate,
    handler: Arc<dyn Handler>,
) -> Result<(), String> {
    let unusable =
        |error: &dyn std::fmt::Display| format!("the agent's certificate cannot be used: {error}");
    let chain = CertificateDer::from_pem_slice(certificate.pem.as_bytes());
    let chain = vec![chain.map_err(|error| unusable(&error))?];
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes());
    let key = key.map_err(|error| unusable(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| unusable(&error))?;
    let config = Arc::new(config);
    let shared = Shared::default();
    let run = move || {
        accept(
            &listener,
            &RealClock,
            || handler.is_closed(),
            |socket| admit(socket, &shared, &config, &handler),
        );
    };
    let on_panic = |panic| warn!(panic, "a bug ended the command server");
    guard::spawn("commands", STACK_BYTES, run, on_panic)
        .map_err(|error| format!("could not start a thread: {error}"))
}

fn admit(
    socket: TcpStream,
    shared: &Shared,
    config: &Arc<ServerConfig>,
    handler: &Arc<dyn Handler>,
) {
    let Some(id) = enter(&socket, shared) else { return };
    let (for_thread, config, handler) =
        (Arc::clone(shared), Arc::clone(config), Arc::clone(handler));
    let (for_panic, for_error) = (Arc::clone(shared), Arc::clone(shared));
    let serve = move || {
        if let Err(error) = serve(socket, &config, handler.as_ref(), || arrived(id, &for_thread)) {
            // Scanners and broken connections are no news for the journal.
            debug!(%error, "a connection to the command server broke");
        }
        leave(id, &for_thread);
    };
    let on_panic = move |panic| {
        warn!(panic, "a bug ended a request of Ironic");
        leave(id, &for_panic);
    };
    if guard::spawn("command", STACK_BYTES, serve, on_panic).is_err() {
        leave(id, &for_error);
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Connections> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a connection; `None` if there are too many, and each of them has a request.
fn enter(socket: &TcpStream, shared: &Shared) -> Option<u64> {
    let waiting = socket.try_clone().ok()?;
    let mut connections = lock(shared);
    if connections.all.len() >= MAX_CONNECTIONS {
        let oldest = connections.all.iter().position(|connection| connection.waiting.is_some())?;
        let removed = connections.all.remove(oldest);
        removed.waiting?.shutdown(Shutdown::Both).ok();
    }
    connections.n_accepted += 1;
    let id = connections.n_accepted;
    connections.all.push(Connection { id, waiting: Some(waiting) });
    Some(id)
}

fn arrived(id: u64, shared: &Shared) {
    if let Some(found) = lock(shared).all.iter_mut().find(|connection| connection.id == id) {
        found.waiting = None;
    }
}

fn leave(id: u64, shared: &Shared) {
    lock(shared).all.retain(|connection| connection.id != id);
}

fn serve(
    socket: TcpStream,
    config: &Arc<ServerConfig>,
    handler: &dyn Handler,
    arrived: impl FnOnce(),
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut socket = Timed::new(socket, REQUEST_LIMIT, Arc::new(RealClock));
    let mut tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = Stream::new(&mut tls, &mut socket);
    let answer = http::receive(&mut stream, handler, arrived)?;
    // A command may take long, so its answer has a time limit of its own.
    stream.sock.allow(ANSWER_LIMIT);
    http::send(&mut stream, &answer)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    socket.socket.shutdown(Shutdown::Write)?;
    linger(socket);
    Ok(())
}

/// Discards what the client still sends of a request that was refused by its head. A socket that is closed with unread
/// bytes resets the connection, and the client would lose the answer.
fn linger(mut socket: Timed) {
    socket.allow(LINGER_LIMIT);
    let (mut rest, mut n_left) = (vec![0; 16 << 10], MAX_LINGER_BYTES);
    while let Ok(n @ 1..) = socket.read(&mut rest) {
        n_left = n_left.saturating_sub(n);
        if n_left == 0 {
            return;
        }
    }
}

//! The HTTPS server to which Ironic sends its commands. TLS 1.3, and 1.2 for older conductors.
//!
//! A connection carries one request. There are few connections at once, each with a time limit for its whole request,
//! and a new one replaces one that has its answer, or else the one that has waited longest for its request: a client that
//! sends a byte now and then, or never closes, does not block others.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use probes::guard;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};
use tracing::{debug, warn};

use super::certificate::Certificate;
use super::commands::Commands;
use super::http;
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
const MAX_LINGER_BYTES: u64 = 64 << 20;
/// Stack of a connection's thread.
const STACK_BYTES: usize = 512 << 10;

/// The connections by number, oldest first; `None` while a request is answered.
type Connections = BTreeMap<u64, Option<Idle>>;

/// A connection that a new one may replace.
struct Idle {
    /// True until its request has arrived, false after its answer: those that have theirs are replaced first.
    is_waiting: bool,
    socket: TcpStream,
}

#[derive(Clone)]
struct Server {
    config: Arc<ServerConfig>,
    commands: Arc<Commands>,
    connections: Arc<Mutex<Connections>>,
}

/// Listens on a port, of IPv6 and IPv4 if the machine has both.
///
/// # Errors
/// The port is in use.
pub(super) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        .or_else(|_| TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))))
}

/// Serves requests on threads of its own until the commands are closed or the process ends.
///
/// # Errors
/// The certificate cannot be used, or no thread can be started.
pub(super) fn start(
    listener: TcpListener,
    certificate: &Certificate,
    commands: Arc<Commands>,
) -> anyhow::Result<()> {
    let config = config(certificate).context("the agent's certificate cannot be used")?;
    let server = Server { config: Arc::new(config), commands, connections: Arc::default() };
    let mut id = 0;
    let run = move || {
        let serve = |socket| {
            id += 1;
            server.admit(id, socket);
        };
        let clock = Arc::clone(&server.commands.clock);
        accept(&listener, clock.as_ref(), || server.commands.is_closed(), serve);
    };
    let on_panic = |panic| warn!(panic, "a bug ended the command server");
    guard::spawn("commands", STACK_BYTES, run, on_panic).context("could not start a thread")
}

fn config(certificate: &Certificate) -> anyhow::Result<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.pem.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(certificate.key.expose().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    Ok(builder.with_single_cert(chain, key)?)
}

impl Server {
    fn admit(&self, id: u64, socket: TcpStream) {
        if self.enter(id, &socket).is_none() {
            return;
        }
        let (for_thread, for_panic) = (self.clone(), self.clone());
        let serve = move || {
            if let Err(error) = for_thread.serve(id, socket) {
                // Scanners and broken connections are no news for the journal.
                debug!(%error, "a connection to the command server broke");
            }
            for_thread.connections().remove(&id);
        };
        let on_panic = move |panic| {
            warn!(panic, "a bug ended a request of Ironic");
            for_panic.connections().remove(&id);
        };
        if guard::spawn("command", STACK_BYTES, serve, on_panic).is_err() {
            self.connections().remove(&id);
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection; `None` if there are too many, and each of them has a request.
    fn enter(&self, id: u64, socket: &TcpStream) -> Option<()> {
        let socket = socket.try_clone().ok()?;
        let mut connections = self.connections();
        if connections.len() >= MAX_CONNECTIONS {
            let idle = connections.iter().filter_map(|(id, idle)| Some((idle.as_ref()?, *id)));
            let (_, first) = idle.map(|(idle, id)| (idle.is_waiting, id)).min()?;
            connections.remove(&first)??.socket.shutdown(Shutdown::Both).ok();
        }
        connections.insert(id, Some(Idle { is_waiting: true, socket }));
        Some(())
    }

    /// Records that the request of a connection has arrived (`None`), or that its answer was sent.
    fn note(&self, id: u64, idle: Option<Idle>) {
        self.connections().entry(id).and_modify(|known| *known = idle);
    }

    fn serve(&self, id: u64, socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut socket = Timed::new(socket, REQUEST_LIMIT, Arc::clone(&self.commands.clock));
        let mut tls = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        let mut stream = Stream::new(&mut tls, &mut socket);
        let arrived = || self.note(id, None);
        let (answer, is_read) = http::receive(&mut stream, &self.commands, arrived)?;
        // A command may take long, so its answer has a time limit of its own.
        stream.sock.allow(ANSWER_LIMIT);
        http::send(&mut stream, &answer)?;
        stream.conn.send_close_notify();
        stream.flush()?;
        socket.socket.shutdown(Shutdown::Write)?;
        if is_read {
            return Ok(());
        }
        // What the client still sends of a request that was refused by its head is discarded. A socket that is closed with
        // unread bytes resets the connection, and the client would lose the answer.
        self.note(id, Some(Idle { is_waiting: false, socket: socket.socket.try_clone()? }));
        socket.allow(LINGER_LIMIT);
        io::copy(&mut socket.take(MAX_LINGER_BYTES), &mut io::sink()).ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::act::System;
    use crate::engines::ironic::journal::Journal;
    use crate::engines::ironic::logs::Logs;

    #[test]
    fn new_connection_replaces_one_that_has_its_answer_then_the_longest_waiting_never_a_busy_one() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path());
        let commands = Commands::new(journal, channel().0, Logs::default(), System::default());
        let certificate = Certificate::new("192.0.2.1", std::time::SystemTime::now()).unwrap();
        let config = Arc::new(config(&certificate).unwrap());
        let server = Server { config, commands: Arc::new(commands), connections: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for id in 0..16 {
            server.enter(id, &connect()).unwrap();
        }
        server.note(0, None);
        server.note(5, Some(Idle { is_waiting: false, socket: connect() }));
        for (id, replaced) in [(16, 5), (17, 1)] {
            server.enter(id, &connect()).unwrap();
            assert!(!server.connections().contains_key(&replaced), "{replaced}");
            assert_eq!(server.connections().len(), MAX_CONNECTIONS);
        }
        (0..18).for_each(|id| server.note(id, None));
        assert!(server.enter(18, &connect()).is_none());
    }
}

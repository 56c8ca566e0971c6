//! The server's sockets: one for both IPv4 and IPv6, and connections that can be reset on purpose.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

/// Opens a listening socket; one on `[::]` accepts IPv4 too, regardless of the host's default.
///
/// # Errors
/// When the address does not belong to this machine or is in use.
pub(crate) fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    open(address).with_context(|| format!("listening on {address}"))
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// Lets an answer reset its own connection.
#[derive(Debug)]
pub(crate) struct Control(Option<Socket>);

impl Control {
    /// Controls a connection.
    pub(crate) fn of(stream: &TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self(SockRef::from(stream).try_clone().ok())
    }

    /// Once its last user closes the connection, the client gets RST, not FIN, and nothing that is still unsent.
    pub(crate) fn reset(&self) {
        if let Some(socket) = &self.0 {
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }
}

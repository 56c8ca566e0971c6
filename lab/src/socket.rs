//! The server's sockets: one for both IPv4 and IPv6, and connections that can be reset on purpose.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use anyhow::Context as _;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
#[derive(Debug, Default)]
pub(crate) struct Control(AtomicBool);

impl Control {
    /// Resets the connection: the client gets RST, not FIN.
    pub(crate) fn reset(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_reset(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    control: Arc<Control>,
}

impl Connection {
    /// A connection that `control` can reset.
    pub(crate) fn new(stream: TcpStream, control: Arc<Control>) -> Self {
        let _ = stream.set_nodelay(true);
        Self { stream, control }
    }

    fn guard(&self) -> io::Result<()> {
        if self.control.is_reset() {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "reset on purpose"));
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.control.is_reset() {
            let _ = SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.guard()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.guard()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guard()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guard()?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! [`Wired`]: a server whose peers have no sockets, on a clock that jumps ahead whenever everybody waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::{Handler, IntoHandler, PeerAddr, Request, Response, Server, Service};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::Instant;

/// A server that is kept for all inputs, and with it the memory that passes from one connection to the next.
pub struct Wired<H: Handler + 'static> {
    runtime: Runtime,
    service: Service<H>,
}

impl<H: Handler + 'static> Wired<H> {
    pub fn new<Kind>(server: Server, handler: impl IntoHandler<Kind, Handler = H>) -> Wired<H> {
        Wired::on(paused(), server, handler)
    }

    /// Serves on a runtime of another kind.
    pub fn on<Kind>(
        runtime: Runtime,
        server: Server,
        handler: impl IntoHandler<Kind, Handler = H>,
    ) -> Wired<H> {
        let service = runtime.block_on(async { server.service(handler) });
        Wired { runtime, service }
    }

    /// Runs what goes on behind the server.
    pub fn block_on<F: Future>(&self, behind: F) -> F::Output {
        self.runtime.block_on(behind)
    }

    pub fn service(&self) -> &Service<H> {
        &self.service
    }

    /// All that the server says to `packets`, each of which arrives when the one before has been dealt with. Behind
    /// them the peer ends its side, or waits.
    pub fn ask(&self, packets: Vec<Vec<u8>>, ends: bool) -> Received {
        self.ask_from(PeerAddr::Memory, packets, ends)
    }

    /// As [`Wired::ask`], where the peer has an address.
    pub fn ask_from(&self, from: PeerAddr, packets: Vec<Vec<u8>>, ends: bool) -> Received {
        let received = Rc::default();
        let peer = Peer { packets: packets.into(), awaited: false, ends, received: Rc::clone(&received) };
        // An early end of the connection shows in the octets that were received.
        let took = self.runtime.block_on(async {
            let start = Instant::now();
            let _ = self.service.serve_connection_from(from, peer).await;
            let took = start.elapsed();
            // A server behind a gateway may still be writing, and reads afterwards what it was sent meanwhile.
            for _ in 0..32 {
                yield_now().await;
            }
            took
        });
        Received { took, ..received.take() }
    }

    /// The response to a request that comes without a connection.
    pub fn respond_from(&self, from: PeerAddr, request: Request) -> Response {
        self.runtime.block_on(self.service.respond_from(from, request))
    }
}

/// The octets that a peer has received.
#[derive(Default)]
pub struct Received {
    pub octets: Vec<u8>,
    /// Whether the server has ended its side. A connection that it drops is reset, where there are sockets.
    pub is_ended: bool,
    /// By the server's clock.
    pub took: Duration,
}

/// A runtime on this thread, with such a clock.
pub fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// `received` without its date lines, the only ones that change.
pub fn undated(received: &Received) -> String {
    let received = String::from_utf8_lossy(&received.octets);
    received.split_inclusive("\r\n").filter(|line| !line.starts_with("date: ")).collect()
}

struct Peer {
    packets: VecDeque<Vec<u8>>,
    /// Whether the server has found out that the first of them is not there yet.
    awaited: bool,
    ends: bool,
    received: Rc<RefCell<Received>>,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (awaited, ends) = (mem::replace(&mut self.awaited, true), self.ends);
        match self.packets.front_mut() {
            None if !ends => return Poll::Pending,
            None if awaited => return Poll::Ready(Ok(())),
            Some(packet) if awaited => {
                let len = packet.len().min(out.remaining());
                out.put_slice(&packet[..len]);
                packet.drain(..len);
            }
            _ => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if self.packets.front().is_some_and(Vec::is_empty) {
            self.packets.pop_front();
            self.awaited = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Peer {
    fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.received.borrow_mut().octets.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.received.borrow_mut().is_ended = true;
        // A peer that receives the end closes, too.
        self.ends = true;
        Poll::Ready(Ok(()))
    }
}

/// A source that is read in these pieces.
pub struct Pieces(pub VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(piece.len().min(out.remaining()));
            out.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

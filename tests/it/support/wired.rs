//! [`Wired`]: a server whose peers' packets are cut to the byte.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::{Handler, IntoHandler, Server, Service};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::{Served, undated};

/// A server on this thread whose peers have no sockets. Their packets arrive exactly as they are cut, each one when the
/// server has dealt with the one before. The clock is paused, and jumps ahead whenever everybody waits.
pub struct Wired<H: Handler + 'static> {
    runtime: Runtime,
    service: Service<H>,
}

impl<H: Handler + 'static> Wired<H> {
    /// Serves with the default settings.
    pub fn new<Kind>(handler: impl IntoHandler<Kind, Handler = H>) -> Wired<H> {
        Wired::with(|server| server, handler)
    }

    /// Serves with the settings that `set` makes.
    pub fn with<Kind>(
        set: impl FnOnce(Server) -> Server,
        handler: impl IntoHandler<Kind, Handler = H>,
    ) -> Wired<H> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let service = runtime.block_on(async { set(Server::new().half_close(true)).service(handler) });
        Wired { runtime, service }
    }

    /// All that the server says to `packets`, until it closes.
    pub fn ask(&self, packets: &[&[u8]], then: Then) -> String {
        self.ask_for_writes(packets, then).concat()
    }

    /// As [`Wired::ask`], each write on its own.
    pub fn ask_for_writes(&self, packets: &[&[u8]], then: Then) -> Vec<String> {
        let received = Rc::default();
        let packets = packets.iter().map(|packet| packet.to_vec()).collect();
        let peer = Packets { packets, awaited: false, then, received: Rc::clone(&received) };
        // The error that ended the connection early shows in the bytes that were received.
        let _ = self.runtime.block_on(self.service.serve_connection(peer));
        received.take()
    }

    /// Lets time pass on the server's clock.
    pub fn pass(&self, time: Duration) {
        self.runtime.block_on(tokio::time::advance(time));
    }

    /// The time of the server's clock.
    pub fn now(&self) -> Instant {
        self.runtime.block_on(async { Instant::now() })
    }

    /// All that the server says to `wire`, which must be the same however it is cut in two, and byte by byte.
    #[track_caller]
    pub fn ask_cut(&self, wire: impl AsRef<[u8]>, then: Then) -> String {
        self.ask_counting(wire.as_ref(), then).0
    }

    /// As [`Wired::ask_counting`]. The responses must also be the same if the peer ends its side, and from `served`,
    /// which serves sockets with the same handler.
    #[track_caller]
    pub fn ask_in_every_way(&self, served: &Served, wire: &[u8]) -> (String, usize) {
        let whole = self.ask_counting(wire, Then::Waits);
        let ended = (undated(&self.ask(&[wire], Then::Ends)), take_handled());
        assert_eq!(ended, (undated(&whole.0), whole.1), "{:?} and an end", shortened(wire));
        assert_eq!(undated(&served.ask(wire)), undated(&whole.0), "{:?} over TCP", shortened(wire));
        whole
    }

    /// As [`Wired::ask_cut`], and how often the handler ran.
    #[track_caller]
    pub fn ask_counting(&self, wire: &[u8], then: Then) -> (String, usize) {
        take_handled();
        let whole = (self.ask(&[wire], then), take_handled());
        let bytes = wire.chunks(wire.len().div_ceil(LONG).max(1)).collect();
        let cut = cuts(wire.len()).map(|at| vec![&wire[..at], &wire[at..]]);
        for packets in cut.chain([bytes]) {
            let received = (undated(&self.ask(&packets, then)), take_handled());
            let first = packets.first().map_or(0, |first| first.len());
            assert_eq!(received, (undated(&whole.0), whole.1), "{:?} cut at {first}", shortened(wire));
        }
        whole
    }
}

/// How a peer goes on when it has sent everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Closes its sending half.
    Ends,
    /// Waits for the server to close.
    Waits,
}

/// Where an input of that length is cut: everywhere, or where that would take too long, at its ends and here and there.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    let step = if len <= LONG { 1 } else { len / 40 };
    (1..len).filter(move |at| *at < 20 || len - at < 20 || at % step == 0)
}

const LONG: usize = 500;

/// Enough of `wire` to know which it is.
pub fn shortened(wire: &[u8]) -> String {
    wire[..wire.len().min(400)].escape_ascii().to_string()
}

/// The peer of a [`Wired`] server.
struct Packets {
    packets: VecDeque<Vec<u8>>,
    /// Whether the server has found out that the first of them is not there yet.
    awaited: bool,
    then: Then,
    received: Rc<RefCell<Vec<String>>>,
}

impl AsyncRead for Packets {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let awaited = mem::replace(&mut self.awaited, true);
        let then = self.then;
        match (self.packets.front_mut(), then) {
            (None, Then::Waits) => return Poll::Pending,
            (None, Then::Ends) if awaited => return Poll::Ready(Ok(())),
            (Some(packet), _) if awaited => {
                out.put_slice(&packet.drain(..packet.len().min(out.remaining())).collect::<Vec<_>>());
            }
            _ => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if self.packets.front().is_some_and(|packet| packet.is_empty()) {
            self.packets.pop_front();
            self.awaited = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Packets {
    fn poll_write(self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.received.borrow_mut().push(String::from_utf8_lossy(bytes).into_owned());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        // A peer that hears the end closes, too.
        self.then = Then::Ends;
        Poll::Ready(Ok(()))
    }
}

thread_local! {
    static HANDLED: Cell<usize> = const { Cell::new(0) };
}

/// Counts one call of a handler on this thread.
pub fn count_handled() {
    HANDLED.set(HANDLED.get() + 1);
}

/// How often handlers ran on this thread since the last call.
pub fn take_handled() -> usize {
    HANDLED.take()
}

//! Connections take turns: one that never has to wait does not keep its core to itself.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll, ready};

use corehttp::middleware::{self, wrap};
use corehttp::net::MemoryListener;
use corehttp::{BodyPlan, Context, Handler, IntoHandler, Limits, Request, Server, Service, block_on};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::{LocalSet, coop, spawn_local, yield_now};

use crate::support::paused;

/// How many bytes a connection may move before others have their turn, and with one call.
const TURN: usize = 2 << 20;
const CALL: usize = 256 << 10;

/// A peer that never makes the server wait: it sends a head, then the rest again and again, and reads whatever it is
/// sent. Like a socket it uses up the budget of its task.
pub struct Flood {
    wire: Vec<u8>,
    /// Where the rest begins in `wire`, and what is sent next.
    rest: usize,
    next: usize,
    /// How many bytes went either way.
    moved: Rc<Cell<usize>>,
}

impl Flood {
    pub fn new(head: &str, rest: impl AsRef<[u8]>) -> Flood {
        let rest = rest.as_ref();
        let wire = [head.as_bytes(), &rest.repeat(CALL.div_ceil(rest.len()))].concat();
        Flood { wire, rest: head.len(), next: 0, moved: Rc::default() }
    }

    fn count(&self, cx: &mut task::Context<'_>, count: usize) -> Poll<()> {
        ready!(coop::poll_proceed(cx)).made_progress();
        self.moved.set(self.moved.get() + count);
        Poll::Ready(())
    }
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = self.wire.len().min(self.next + buf.remaining().min(CALL));
        ready!(self.count(cx, end - self.next));
        buf.put_slice(&self.wire[self.next..end]);
        self.next = if end == self.wire.len() { self.rest } else { end };
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Flood {
    fn poll_write(self: Pin<&mut Self>, cx: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.count(cx, bytes.len()).map(|()| Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Checks that a peer which sends `head` and more for ever moves no more than a turn allows before other tasks have
/// theirs.
#[track_caller]
fn check<Kind>(head: &str, handler: impl IntoHandler<Kind>) {
    let flood = Flood::new(head, "x");
    let moved = Rc::clone(&flood.moved);
    let service = Server::new().limits(Limits { body_max: 64 << 20, ..Limits::default() });
    let most = most_in_a_turn(service.service(handler), flood, &moved);
    assert!((TURN / 2..=TURN + CALL).contains(&most), "{most} bytes in a turn: {head:?}");
}

/// Serves `flood`: the most by which `count` grew before others had their turn.
pub fn most_in_a_turn(service: Service<impl Handler>, flood: Flood, count: &Cell<usize>) -> usize {
    // Fewer than the longest body here takes.
    const TURNS: usize = 20;
    paused(LocalSet::new().run_until(async move {
        spawn_local(async move { service.serve_connection(flood).await });
        let mut most = 0;
        for _ in 0..TURNS {
            let before = count.get();
            yield_now().await;
            most = most.max(count.get() - before);
        }
        most
    }))
}

#[test]
fn a_peer_that_asks_for_ever_has_one_batch_of_responses_a_turn() {
    for pipeline_responses_max in [1, 8, 64] {
        let handled = Rc::<Cell<usize>>::default();
        let count = Rc::clone(&handled);
        let flood = Flood::new("", "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        let service = Server::new().limits(Limits { pipeline_responses_max, ..Limits::default() });
        let service = service.service(move |_: &mut Context| count.set(count.get() + 1));
        assert_eq!(most_in_a_turn(service, flood, &handled), pipeline_responses_max);
    }
}

#[test]
fn a_connection_that_never_waits_moves_only_so_much_a_turn() {
    let stream = |_: &Request| BodyPlan::Stream;
    let read = async |ctx: &mut Context| -> corehttp::Result {
        let mut body = ctx.body_reader();
        while body.chunk().await?.is_some() {}
        Ok(())
    };
    let write = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        loop {
            out.write_all(&[b'x'; 64 << 10]).await?;
        }
    };
    let sized = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 67108864\r\n\r\n";
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4000000\r\n";
    check(sized, wrap(middleware::plan(stream), read));
    check(chunked, wrap(middleware::plan(stream), read));
    check(sized, wrap(middleware::plan(stream), write));
    check(sized, |_: &mut Context| {});
}

/// Content that is written in response to HEAD is dropped, which never waits, but must not keep the core busy.
#[test]
fn a_handler_whose_content_is_dropped_takes_turns() {
    const HEAD: &str = "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n";
    for (piece, most) in [(4 << 10, 128), (1, 1024)] {
        let writes = Rc::<Cell<usize>>::default();
        let count = Rc::clone(&writes);
        let endless = async move |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            while count.get() < 100 * most {
                out.write_all(&vec![b'x'; piece]).await?;
                out.flush().await?;
                count.set(count.get() + 1);
            }
            Ok(out.finish().await?)
        };
        let in_a_turn = most_in_a_turn(Server::new().service(endless), Flood::new(HEAD, "x"), &writes);
        assert!((1..=most).contains(&in_a_turn), "{in_a_turn} writes of {piece} bytes in a turn");
    }
}

/// A peer at one listener does not have to wait for all those at another.
#[test]
fn listeners_take_turns() {
    let (flooded, other) = (MemoryListener::new(), MemoryListener::new());
    let (to_flooded, to_other) = (flooded.connector(), other.connector());
    block_on(async {
        let mut crowd = Vec::new();
        for _ in 0..100 {
            crowd.push(to_flooded.connect().await.unwrap());
        }
        let mut late = to_other.connect().await.unwrap();
        let server = Server::bind(flooded).and_bind(other).cores(1);
        let running =
            server.start(|ctx: &mut Context| ctx.response.set_text(ctx.connection_id().to_string())).unwrap();
        late.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut response = String::new();
        late.read_to_string(&mut response).await.unwrap();
        let number: u64 = response.rsplit("\r\n").next().unwrap().parse().unwrap();
        assert!(number <= 2, "{number} were served first");
        drop((running, crowd));
    })
    .unwrap();
}

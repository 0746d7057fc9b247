//! WebSockets that are dropped: the close frame is sent all the same, and the peer can read it (RFC 6455 §7.1.1).

use std::future::pending;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::websocket::{self, Broadcast, CloseCode, OnLag, WebSocket};
use corehttp::{Client, Context, Server, block_on};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use super::support::{FIRST_BINARY, HEAD, MORE, TEXT, close, frame, shown};
use crate::support::{ErrorReports, Peer, Served, eventually, paused};

/// The ways to drop a WebSocket, of which one message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Returned,
    Failed,
    Panicked,
    TimedOut,
    ReaderFirst,
    WriterFirst,
    InTask,
    TaskAborted,
    /// A close frame was sent, and the answer to it is not waited for.
    Closed,
    /// Messages wait to be sent.
    Fed,
    /// A member of a broadcast has lost messages, and is closed.
    Lagged,
}

const WAYS: [Way; 11] = [
    Way::Returned,
    Way::Failed,
    Way::Panicked,
    Way::TimedOut,
    Way::ReaderFirst,
    Way::WriterFirst,
    Way::InTask,
    Way::TaskAborted,
    Way::Closed,
    Way::Fed,
    Way::Lagged,
];

impl Way {
    async fn handle(self, ctx: &mut Context) -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        assert_eq!(socket.receive().await?.unwrap().text(), Some("a"));
        match self {
            Way::Returned => {}
            Way::Failed => return Err(io::Error::other("the handler failed").into()),
            Way::Panicked => panic!("the handler panicked"),
            Way::TimedOut => {
                let _ = timeout(Duration::from_millis(50), pending::<()>()).await;
            }
            Way::ReaderFirst => {
                let WebSocket { reader, writer, .. } = socket;
                drop(reader);
                drop(writer);
            }
            Way::WriterFirst => {
                let WebSocket { reader, writer, .. } = socket;
                drop(writer);
                drop(reader);
            }
            Way::InTask => drop(spawn_local(async move {
                tokio::task::yield_now().await;
                drop(socket);
            })),
            Way::TaskAborted => {
                let task = spawn_local(async move { drop(socket.receive().await) });
                tokio::task::yield_now().await;
                task.abort();
            }
            Way::Closed => socket.writer.close(CloseCode::NORMAL, "enough").await?,
            Way::Fed => {
                socket.writer.feed("b").await?;
                socket.writer.feed(vec![7; 200_000].as_slice()).await?;
            }
            Way::Lagged => {
                let room = Broadcast::new(1);
                let mut member = room.join(OnLag::Close);
                (0..3).for_each(|_| assert_eq!(room.send("lost"), 1));
                member.forward(&mut socket.writer).await?;
            }
        }
        Ok(())
    }

    fn expected(self) -> &'static [&'static str] {
        match self {
            Way::Closed => &["close 1000 \"enough\""],
            Way::Fed => &["text \"b\"", "binary of 200000", "close 1011 \"\""],
            Way::Lagged => &["close 1013 \"\""],
            _ => &["close 1011 \"\""],
        }
    }
}

fn opened(served: &Served) -> Peer {
    let mut peer = served.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    peer
}

/// The peer is sending when the WebSocket is dropped, so the socket would be reset if it were closed.
#[test]
fn a_peer_that_sends_reads_why_it_is_closed_rfc6455_7_1_1() {
    for way in WAYS {
        let served = Served::new(async move |ctx: &mut Context| way.handle(ctx).await);
        let mut peer = opened(&served);
        // The rest of a message may be under way, and others behind it.
        let rest = [frame(FIRST_BINARY, "b"), frame(MORE, vec![7; 900_000])].concat();
        peer.send([frame(TEXT, "a"), rest].concat());
        std::thread::sleep(Duration::from_millis(5));
        peer.send(frame(MORE, "c"));
        let mut received = Vec::new();
        peer.stream.read_to_end(&mut received).unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert_eq!(shown(&received), way.expected(), "{way:?}");
        assert_eq!(served.running.counts().total.open, 1, "{way:?}: the peer has not closed");
        peer.send(close(1000, ""));
        drop(peer);
        eventually("it is gone", || served.running.counts().total.open == 0);
    }
}

/// The connection is kept until the peer has closed, too, or its time is over.
#[test]
fn a_peer_that_never_closes_is_given_up() {
    for way in [Way::Failed, Way::Closed, Way::Fed, Way::Lagged] {
        let service = Server::new().service(async move |ctx: &mut Context| way.handle(ctx).await);
        paused(async {
            let (mut near, far) = duplex(1000);
            near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
            near.write_all(&frame(TEXT, "a")).await.unwrap();
            let start = Instant::now();
            let talk = async {
                let mut received = Vec::new();
                while near.read_buf(&mut received).await.unwrap_or(0) > 0 {}
                while near.write_all(&frame(TEXT, "go on")).await.is_ok() {
                    sleep(Duration::from_millis(100)).await;
                }
                received
            };
            let (_, received) = tokio::join!(service.serve_connection(far), talk);
            let end = received.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            assert_eq!(shown(&received[end..]), way.expected());
            let took = start.elapsed();
            assert!((5..7).contains(&took.as_secs()), "{way:?}: {took:?}");
        });
    }
}

/// The ways to close a WebSocket while its reader waits for a silent peer.
#[derive(Clone, Copy, Debug)]
enum Close {
    Dropped,
    AfterWait,
    /// The reader waits in a task of its own.
    Beside,
}

impl Close {
    async fn handle(self, socket: WebSocket) -> io::Result<()> {
        let (mut socket, moment) = (socket, Duration::from_millis(750));
        match self {
            Close::Dropped => drop(timeout(moment, socket.receive()).await),
            Close::AfterWait => {
                assert!(timeout(moment, socket.receive()).await.is_err());
                socket.close(CloseCode::NORMAL, "").await?;
            }
            Close::Beside => {
                let WebSocket { mut reader, mut writer, .. } = socket;
                let waits = spawn_local(async move { reader.receive().await.map(drop) });
                sleep(moment).await;
                writer.close(CloseCode::NORMAL, "").await?;
                waits.await??;
            }
        }
        Ok(())
    }
}

/// The time for pings has no part in the close, for which a silent peer has all of its time (RFC 6455 §7.1.1).
#[test]
fn a_silent_peer_has_the_time_of_the_close_and_no_other() {
    for ping_interval in [Some(1), Some(4), None] {
        for close in [Close::Dropped, Close::AfterWait, Close::Beside] {
            let ping_interval = ping_interval.map(Duration::from_secs);
            let options = websocket::Options { ping_interval, ..websocket::Options::default() };
            let service = Server::new().service(async move |ctx: &mut Context| -> corehttp::Result {
                Ok(close.handle(ctx.websocket(&options).await?).await?)
            });
            paused(LocalSet::new().run_until(async {
                let (mut near, far) = duplex(1000);
                near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
                let start = Instant::now();
                let served = timeout(Duration::from_secs(60), service.serve_connection(far)).await;
                assert!(served.is_ok(), "{ping_interval:?}, {close:?}: it never ends");
                let took = start.elapsed().as_secs_f32();
                assert!((5.5..6.5).contains(&took), "{ping_interval:?}, {close:?}: {took}");
            }));
        }
    }
}

/// A peer that reads nothing is not waited for longer, either.
#[test]
fn a_peer_that_never_reads_is_given_up() {
    let service = Server::new().service(async |ctx: &mut Context| Way::Fed.handle(ctx).await);
    paused(async {
        let (mut near, far) = duplex(1000);
        near.write_all(format!("{HEAD}\r\n").as_bytes()).await.unwrap();
        near.write_all(&frame(TEXT, "a")).await.unwrap();
        let served = timeout(Duration::from_secs(70), service.serve_connection(far)).await;
        assert!(served.is_ok());
    });
}

/// Both ends may drop the WebSocket at any moment of the close.
#[test]
fn a_stop_waits_for_the_close_of_what_was_dropped() {
    let served = Served::new(async |ctx: &mut Context| Way::Failed.handle(ctx).await);
    let mut peer = opened(&served);
    peer.send(frame(TEXT, "a"));
    let mut frame = [0; 4];
    peer.stream.read_exact(&mut frame).unwrap();
    served.running.stop(Duration::from_secs(30));
    peer.stream.write_all(&close(1011, "")).unwrap();
    drop(peer);
    served.running.wait().unwrap();
}

/// The report of the exchange has the code that the peer is sent.
#[test]
fn a_drop_is_reported() {
    let codes: Arc<Mutex<Vec<Option<u16>>>> = Arc::default();
    for (way, code) in [(Way::Failed, 1011), (Way::Lagged, 1013), (Way::Closed, 1000)] {
        let (seen, reports) = (codes.clone(), ErrorReports::default());
        let served = Served::with(
            |server| {
                reports.attach(server).on_exchange(move |report| {
                    seen.lock().unwrap().push(report.websocket.unwrap().close_code)
                })
            },
            async move |ctx: &mut Context| way.handle(ctx).await,
        );
        let mut peer = opened(&served);
        peer.send(frame(TEXT, "a"));
        peer.stream.read_to_end(&mut Vec::new()).unwrap();
        eventually("it is reported", || !codes.lock().unwrap().is_empty());
        assert_eq!(codes.lock().unwrap().split_off(0), [Some(code)]);
        assert_eq!(reports.take().len(), usize::from(way != Way::Closed), "{way:?}");
    }
}

/// A client that drops its WebSocket leaves with 1001, behind what it has sent; in a task of its own, too.
#[test]
fn a_client_that_drops_its_websocket_leaves_with_1001() {
    for halves in [false, true] {
        let (sender, received) = std::sync::mpsc::channel();
        let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&websocket::Options::default()).await?;
            // Messages are on their way to a client that does not read them.
            socket.writer.feed(vec![7; 500_000].as_slice()).await?;
            let mut texts = Vec::new();
            while let Some(message) = socket.receive().await? {
                texts.push(message.text().unwrap().to_owned());
            }
            sender.send((texts, socket.close_reason().unwrap().code)).unwrap();
            Ok(())
        });
        let client = Client::new();
        block_on(async {
            let mut socket = client.websocket(&format!("ws://{}/", served.addr())).await.unwrap();
            socket.send("a").await.unwrap();
            socket.writer.feed("b").await.unwrap();
            match halves {
                false => drop(socket),
                true => {
                    let WebSocket { reader, writer, .. } = socket;
                    spawn_local(async move { drop(reader) });
                    spawn_local(async move { drop(writer) });
                }
            }
            while served.running.counts().total.open > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
        assert_eq!(received.recv().unwrap(), (vec!["a".to_owned(), "b".to_owned()], CloseCode::AWAY));
    }
}

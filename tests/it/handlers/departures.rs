//! Random histories of peers that leave: whoever goes, when and how, a response is whole if and only if its handler has
//! ended, and nothing is left behind, neither a permit nor memory nor a connection to the server behind a gateway.
#![allow(clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::health::Health;
use corehttp::middleware::{ConcurrencyLimit, wrap};
use corehttp::net::Dialer;
use corehttp::server::{CutBy, ExchangeReport};
use corehttp::{BodyPlan, BoxHandler, Client, Context, Handler, Limits, Server, Service, routes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Sleep, sleep, timeout};

use crate::support::chance::{Chance, check_histories};
use crate::support::{Served, eventually, get, paused, streaming};

#[test]
fn peers_that_leave_take_nothing_along_and_get_nothing_that_passes_for_whole() {
    check_histories("it departures", (150, 8), Visit::draw, |visits| {
        paused(LocalSet::new().run_until(play(visits)));
    });
}

/// Nothing is read to see the end of a peer, so the rest of its upload stands before that.
#[test]
fn a_peer_that_closes_behind_octets_that_nobody_reads_is_gone() {
    let (dialed, _dials) = unbounded_channel();
    let client = Client::builder().dialer(Behind(dialed)).build();
    let handler = routes! {
        // The server behind reads nothing.
        POST "/behind" => wrap(BodyPlan::Stream, async move |ctx: &mut Context| -> corehttp::Result {
            let onward = ctx.request.forwarded_to("http://behind/")?;
            ctx.forward(client.open_call(&onward)).await
        }),
        POST "/beside" => streaming(async |ctx: &mut Context| -> corehttp::Result {
            ctx.body_reader().chunk().await?;
            sleep(HOUR).await;
            Ok(())
        }),
    };
    let cuts = Arc::new(Mutex::new(Vec::new()));
    let reported = cuts.clone();
    let served = Served::with(
        |server| {
            server.half_close(false).on_exchange(move |report: &ExchangeReport| {
                reported.lock().unwrap().push((report.status, report.cut));
            })
        },
        handler,
    );
    for path in ["/behind", "/beside"] {
        // A complete upload, and one of which more was announced.
        for announced in [CONTENT, 2 * CONTENT] {
            let mut peer = served.connect();
            peer.send(format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {announced}\r\n\r\n"));
            peer.send([7; CONTENT]);
            std::thread::sleep(WORK);
            assert_eq!(*cuts.lock().unwrap(), [], "{path} waits");
            drop(peer);
            eventually("it is cut", || !cuts.lock().unwrap().is_empty());
            assert_eq!(std::mem::take(&mut *cuts.lock().unwrap()), [(None, Some(CutBy::Peer))], "{path}");
        }
    }
}

/// A reset shows that nobody is left to read the response, whatever is waited for.
#[test]
fn a_peer_that_has_ended_waits_for_a_check_until_it_resets() {
    let (cuts, health) = (Arc::new(Mutex::new(Vec::new())), Health::new().check_timeout(HOUR));
    let health = health.check("slow", async || -> Result<(), io::Error> { std::future::pending().await });
    let reported = cuts.clone();
    let served = Served::with(
        |server| {
            server.half_close(false).on_exchange(move |report: &ExchangeReport| {
                reported.lock().unwrap().push(report.cut);
            })
        },
        health.ready(),
    );
    let mut ended = served.connect();
    ended.send(get("/"));
    ended.end();
    let mut reset = served.connect();
    reset.send(get("/"));
    std::thread::sleep(WORK);
    assert_eq!(*cuts.lock().unwrap(), []);
    reset.reset();
    eventually("it is cut", || *cuts.lock().unwrap() == [Some(CutBy::Peer)]);
}

/// A peer with one request.
#[derive(Clone, Debug)]
struct Visit {
    route: &'static str,
    /// When it comes, in milliseconds after the first may.
    comes: u64,
    /// How much of the content it sends at once, and how much later it sends the rest.
    first: usize,
    pause: u64,
    leaves: Leaves,
    /// When it leaves, in milliseconds after it has come.
    after: u64,
}

/// How a peer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// It closes the connection.
    Closes,
    /// It closes its sending half, and reads what still comes.
    Ends,
    /// It waits for its response.
    Stays,
}

/// The content of each request. Large enough to need a share of the memory.
const CONTENT: usize = 100_000;
/// How many requests are handled at once.
const PERMITS: usize = 3;

impl Visit {
    fn draw(chance: &mut Chance) -> Visit {
        let sent = [0, 1, 20_000, CONTENT];
        Visit {
            route: chance
                .one_of(&["/whole", "/sized", "/chunked", "/source", "/upload", "/beside", "/behind"]),
            comes: chance.below(40) as u64,
            first: chance.one_of(&sent),
            pause: chance.below(20) as u64,
            leaves: chance.one_of(&[Leaves::Closes, Leaves::Ends, Leaves::Ends, Leaves::Stays]),
            after: chance.below(80) as u64,
        }
    }

    /// Returns what the peer received.
    async fn make(self, number: usize, service: Rc<Service<BoxHandler>>) -> String {
        sleep(Duration::from_millis(self.comes)).await;
        let (mut near, far) = duplex(8 << 10);
        spawn_local(async move { service.serve_connection(far).await });
        let Visit { route, first, pause, .. } = self;
        let head = format!("POST {route}?{number} HTTP/1.1\r\nhost: a\r\ncontent-length: {CONTENT}\r\n\r\n");
        let mut received = Vec::new();
        let talk = async {
            let (mut read, mut write) = tokio::io::split(&mut near);
            let send = async {
                write.write_all(head.as_bytes()).await?;
                write.write_all(&vec![7; first]).await?;
                sleep(Duration::from_millis(pause)).await;
                write.write_all(&vec![7; CONTENT - first]).await
            };
            // A server that has answered before may close.
            tokio::join!(send, read_response(&mut read, &mut received)).0
        };
        let leaves = match self.leaves {
            Leaves::Stays => HOUR,
            Leaves::Closes | Leaves::Ends => Duration::from_millis(self.after),
        };
        let left_early = timeout(leaves, talk).await.is_err();
        assert!(self.leaves != Leaves::Stays || !left_early, "{self:?} is never answered");
        if self.leaves == Leaves::Ends && left_early {
            near.shutdown().await.unwrap();
            near.read_to_end(&mut received).await.unwrap();
        }
        String::from_utf8(received).unwrap()
    }
}

/// Reads until a response is whole, or the connection ends.
async fn read_response(from: &mut (impl AsyncRead + Unpin), received: &mut Vec<u8>) {
    while !is_whole(&String::from_utf8_lossy(received)) {
        match from.read_buf(received).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
}

pub(super) fn is_whole(response: &str) -> bool {
    let Some((head, content)) = response.split_once("\r\n\r\n") else { return false };
    let length: Option<usize> =
        head.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    match length {
        Some(length) => content.chars().count() == length,
        None => content.ends_with("0\r\n\r\n"),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// The outcomes of the requests, which are numbered.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    /// The requests whose handlers have ended.
    ended: Vec<usize>,
    /// The exchanges that were reported, and who has cut each.
    reports: Vec<(usize, Option<CutBy>)>,
}

impl Ends {
    /// Notes that the handler of this request has ended.
    fn note(&self, ctx: &Context) {
        let number = ctx.request.target().as_str().split_once('?').unwrap().1.parse().unwrap();
        self.0.lock().unwrap().ended.push(number);
    }
}

async fn play(visits: &[Visit]) {
    let (ends, (dialed, mut dials)) = (Ends::default(), unbounded_channel());
    let behind = Rc::new(Server::new().service(BoxHandler::new(streaming(behind))));
    spawn_local(async move {
        while let Some(stream) = dials.recv().await {
            let behind = behind.clone();
            spawn_local(async move { behind.serve_connection(stream).await });
        }
    });
    let client = Client::builder().dialer(Behind(dialed)).build();
    let reported = ends.clone();
    let server = Server::new().limits(Limits { memory_max: MEMORY, ..Limits::default() }).on_exchange(
        move |report: &ExchangeReport| {
            let number = report.target.split_once('?').unwrap().1.parse().unwrap();
            reported.0.lock().unwrap().reports.push((number, report.cut));
        },
    );
    let service = Rc::new(server.service(BoxHandler::new(handler(&ends, &client))));
    let peers: Vec<_> = (0..)
        .zip(visits)
        .map(|(number, visit)| spawn_local(visit.clone().make(number, service.clone())))
        .collect();
    let mut received = Vec::new();
    for peer in peers {
        received.push(peer.await.unwrap());
    }
    // Handlers that were dropped are gone at once, and idle connections close.
    sleep(Duration::from_secs(1)).await;
    let Notes { ended, reports } = std::mem::take(&mut *ends.0.lock().unwrap());
    for (number, (visit, received)) in (0..).zip(visits.iter().zip(&received)) {
        let is_ok = received.starts_with("HTTP/1.1 200 ") && is_whole(received);
        let has_ended = ended.contains(&number);
        if visit.leaves != Leaves::Closes {
            assert_eq!(is_ok, has_ended, "{visit:?} received {received:?}");
        }
        let cuts: Vec<_> =
            reports.iter().filter(|report| report.0 == number).map(|report| report.1).collect();
        assert!(cuts.len() <= 1, "{visit:?} was reported more than once");
        if has_ended && visit.leaves != Leaves::Closes {
            assert_eq!(cuts, [None], "{visit:?}");
        }
    }
    assert_eq!(client.counts().total.busy, 0, "a connection to the server behind is left");
    // All permits and all memory are there again.
    let last = Visit { route: "/whole", comes: 0, first: CONTENT, pause: 0, leaves: Leaves::Stays, after: 0 };
    let (first, numbers) = (visits.len(), visits.len()..visits.len() + PERMITS);
    let start = tokio::time::Instant::now();
    let peers: Vec<_> =
        numbers.map(|number| spawn_local(last.clone().make(number, service.clone()))).collect();
    for peer in peers {
        assert!(peer.await.unwrap().starts_with("HTTP/1.1 200 "));
    }
    assert!(start.elapsed() < 2 * WORK, "a permit or a share of the memory is left after {first} visits");
}

/// Memory for as many bodies as are handled at once, whose shares are small, a quarter of all.
const MEMORY: usize = 4 * PERMITS * (CONTENT + (8 << 10));
/// How long each handler works.
const WORK: Duration = Duration::from_millis(30);

/// Handlers that work for a while, each in its way, and then note that they have ended.
fn handler(ends: &Ends, client: &Client) -> impl Handler + Send + Sync + use<> {
    let [whole, sized, chunked, source, upload, beside, passed] = [(); 7].map(|()| ends.clone());
    let client = client.clone();
    let routes = routes! {
        POST "/whole" => async move |ctx: &mut Context| {
            sleep(WORK).await;
            whole.note(ctx);
            ctx.response.set_text("whole");
        },
        POST "/sized" => async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("content-length", 8)?;
            write_slowly(ctx).await?;
            sized.note(ctx);
            Ok(())
        },
        POST "/chunked" => async move |ctx: &mut Context| -> corehttp::Result {
            write_slowly(ctx).await?;
            chunked.note(ctx);
            Ok(())
        },
        POST "/source" => async move |ctx: &mut Context| {
            let number = ctx.request.target().as_str().split_once('?').unwrap().1.parse().unwrap();
            let ends = source.clone();
            ctx.response.body.set_stream(Slow { wait: Box::pin(sleep(WORK)), number, ends, is_over: false }, None);
        },
        POST "/upload" => streaming(async move |ctx: &mut Context| -> corehttp::Result {
            let mut body = ctx.body_reader();
            while body.chunk().await?.is_some() {
                sleep(WORK / 30).await;
            }
            upload.note(ctx);
            Ok(())
        }),
        POST "/beside" => streaming(async move |ctx: &mut Context| -> corehttp::Result {
            ctx.body_reader().chunk().await?;
            sleep(WORK).await;
            beside.note(ctx);
            ctx.response.set_text("the rest was not read");
            Ok(())
        }),
        POST "/behind" => wrap(BodyPlan::Stream, async move |ctx: &mut Context| -> corehttp::Result {
            let onward = ctx.request.forwarded_to("http://behind/")?;
            ctx.forward(client.open_call(&onward)).await?;
            passed.note(ctx);
            Ok(())
        }),
    };
    wrap(ConcurrencyLimit::new(PERMITS).wait(HOUR), routes)
}

/// Writes a response of eight octets.
async fn write_slowly(ctx: &mut Context) -> corehttp::Result {
    let mut out = ctx.body_writer().await?;
    for _ in 0..4 {
        sleep(WORK / 4).await;
        out.write_all(b"hi").await?;
        out.flush().await?;
    }
    Ok(out.finish().await?)
}

/// Content that comes late.
struct Slow {
    wait: Pin<Box<Sleep>>,
    number: usize,
    ends: Ends,
    is_over: bool,
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_over {
            std::task::ready!(self.wait.as_mut().poll(cx));
            buf.put_slice(b"late");
            self.is_over = true;
            self.ends.0.lock().unwrap().ended.push(self.number);
        }
        Poll::Ready(Ok(()))
    }
}

/// The server behind the gateway.
async fn behind(ctx: &mut Context) -> corehttp::Result {
    let mut body = ctx.body_reader();
    while body.chunk().await?.is_some() {}
    write_slowly(ctx).await
}

/// Hands the other end of each stream to the server behind.
struct Behind(UnboundedSender<DuplexStream>);

impl Dialer for Behind {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(8 << 10);
        self.0.send(far).map_err(|_| io::ErrorKind::ConnectionRefused)?;
        Ok(near)
    }
}

//! Peers that leave: a handler that waits for nobody is dropped, and one that must end runs to its end.
#![allow(clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::future::poll_fn;
use std::io::{Read, Write};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};
use std::time::Duration;

use corehttp::middleware::{ConcurrencyLimit, guard, uncancelled, wrap};
use corehttp::server::{CutBy, ExchangeReport};
use corehttp::{BodyPlan, BoxHandler, Context, Handler, Request, Server, routes};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::support::{Peer, Served, eventually, get, paused, streaming};

/// How often work has begun, been dropped before its end, and ended.
#[derive(Clone, Default)]
struct Work(Arc<[AtomicUsize; 3]>);

const BEGUN: usize = 0;
const DROPPED: usize = 1;
const ENDED: usize = 2;

impl Work {
    fn count(&self, what: usize) -> usize {
        self.0[what].load(Ordering::SeqCst)
    }

    fn begin(&self) -> Running {
        self.0[BEGUN].fetch_add(1, Ordering::SeqCst);
        Running(self.clone(), DROPPED)
    }
}

/// Work that has begun.
struct Running(Work, usize);

impl Running {
    fn end(mut self) {
        self.1 = ENDED;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0[self.1].fetch_add(1, Ordering::SeqCst);
    }
}

/// Content that never comes.
struct Never(#[allow(dead_code, reason = "it is dropped")] Running);

impl AsyncRead for Never {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Handlers that wait, each in its way.
fn waiting(work: &Work) -> impl Handler + Send + Sync + use<> {
    let [whole, source, sized, stream, upload, beside, finishes] = [(); 7].map(|()| work.clone());
    routes! {
        GET "/whole" => async move |ctx: &mut Context| {
            let running = whole.begin();
            sleep(HOUR).await;
            running.end();
            ctx.response.set_text("whole");
        },
        GET "/source" => async move |ctx: &mut Context| ctx.response.body.set_stream(Never(source.begin()), None),
        GET "/sized" => async move |ctx: &mut Context| ctx.response.body.set_stream(Never(sized.begin()), Some(10)),
        GET "/stream" => async move |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            let running = stream.begin();
            out.write_all(b"begun").await?;
            sleep(HOUR).await;
            running.end();
            Ok(out.finish().await?)
        },
        POST "/upload" => streaming(async move |ctx: &mut Context| -> corehttp::Result {
            let running = upload.begin();
            let mut body = ctx.body_reader();
            while body.chunk().await?.is_some() {}
            running.end();
            Ok(())
        }),
        POST "/beside" => streaming(async move |ctx: &mut Context| -> corehttp::Result {
            let running = beside.begin();
            ctx.body_reader().chunk().await?;
            sleep(HOUR).await;
            running.end();
            Ok(())
        }),
        GET "/finishes" => wrap(uncancelled(), async move |ctx: &mut Context| {
            let running = finishes.begin();
            sleep(Duration::from_millis(300)).await;
            running.end();
            ctx.response.set_text("finished");
        }),
    }
}

const DROPPING: [(&str, &str); 6] = [
    ("GET", "/whole"),
    ("GET", "/source"),
    ("GET", "/sized"),
    ("GET", "/stream"),
    ("POST", "/upload"),
    ("POST", "/beside"),
];

/// A request whose body, if it has one, is not complete.
fn unfinished(method: &str, path: &str) -> String {
    match method {
        "POST" => format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhello"),
        _ => get(path),
    }
}

/// The status of each logged request, and who has cut it.
type Log = Arc<Mutex<Vec<(Option<u16>, Option<CutBy>)>>>;

fn logged(server: Server, log: &Log) -> Server {
    let log = log.clone();
    server.on_exchange(move |report: &ExchangeReport| {
        log.lock().unwrap().push((report.status.map(|status| status.as_u16()), report.cut));
    })
}

#[test]
fn a_handler_that_waits_is_dropped_when_its_peer_closes_or_resets() {
    let (work, log) = (Work::default(), Log::default());
    let served = Served::with(|server| logged(server.half_close(false), &log), waiting(&work));
    for leave in [drop, Peer::reset, |mut peer: Peer| {
        peer.end();
        peer.receive_all();
    }] {
        for (method, path) in DROPPING {
            let (begun, dropped) = (work.count(BEGUN), work.count(DROPPED));
            let mut peer = served.connect();
            peer.send(unfinished(method, path));
            eventually("it has begun", || work.count(BEGUN) == begun + 1);
            leave(peer);
            eventually("it is dropped", || work.count(DROPPED) == dropped + 1);
            eventually("it is logged", || !log.lock().unwrap().is_empty());
            let [(status, cut)] = log.lock().unwrap().drain(..).collect::<Vec<_>>()[..] else {
                panic!("once")
            };
            match path {
                // The reader has met the end itself, and a peer that has closed its sending half may read that.
                "/upload" => assert!(status.is_none_or(|status| status == 400), "{status:?}"),
                "/source" | "/sized" | "/stream" => {
                    assert_eq!((status, cut), (Some(200), Some(CutBy::Peer)), "{path}")
                }
                _ => assert_eq!((status, cut), (None, Some(CutBy::Peer)), "{path}"),
            }
        }
    }
    assert_eq!(work.count(ENDED), 0);
}

#[test]
fn a_peer_that_closes_its_sending_half_is_answered_if_the_server_says_so() {
    let served = Served::with(
        |server| server.half_close(true),
        async |ctx: &mut Context| {
            sleep(Duration::from_millis(50)).await;
            ctx.response.set_text("later");
        },
    );
    assert!(served.ask(get("/")).ends_with("\r\n\r\nlater"));
    // A handler that does not wait answers in any case.
    let served =
        Served::with(|server| server.half_close(false), |ctx: &mut Context| ctx.response.set_text("now"));
    for _ in 0..100 {
        assert!(served.ask(get("/")).ends_with("\r\n\r\nnow"));
    }
    let work = Work::default();
    let served = Served::with(|server| server.half_close(true), waiting(&work));
    for (done, (method, path)) in (1..).zip(DROPPING) {
        let mut peer = served.connect();
        peer.send(unfinished(method, path));
        eventually("it has begun", || work.count(BEGUN) == done);
        peer.reset();
        eventually("it is dropped", || work.count(DROPPED) == done);
    }
}

/// There is no peer, and the end of the content is none of one.
#[test]
fn a_request_without_a_connection_is_not_cancelled() {
    let service = Server::new().service(streaming(async |ctx: &mut Context| -> corehttp::Result {
        sleep(Duration::from_millis(10)).await;
        let mut content = Vec::new();
        let mut body = ctx.body_reader();
        while let Some(chunk) = body.chunk().await? {
            content.extend_from_slice(chunk);
        }
        ctx.response.body.set_bytes(content);
        Ok(())
    }));
    paused(async {
        for len in [None, Some(7)] {
            let mut request = Request::post("/").unwrap();
            request.body.set_stream(&b"content"[..], len);
            let response = service.respond(request).await;
            assert_eq!(response.body.bytes(), b"content", "{len:?}");
        }
    });
}

/// Content that is there is sent, however long its source takes to read it.
#[test]
fn a_file_is_sent_to_a_peer_that_has_closed_its_sending_half() {
    const LEN: usize = 6 << 20;
    let served = Served::with(
        |server| server.half_close(false),
        |ctx: &mut Context| -> corehttp::Result {
            let file = tempfile::tempfile()?;
            file.set_len(LEN as u64)?;
            ctx.response.body.set_file(Arc::new(file), 0..LEN as u64);
            Ok(())
        },
    );
    for _ in 0..4 {
        let mut peer = served.connect();
        peer.send(get("/"));
        peer.end();
        assert!(peer.receive_all().len() > LEN, "the file is cut");
    }
}

#[test]
fn an_uncancelled_handler_runs_to_its_end() {
    let work = Work::default();
    let served = Served::with(|server| server.half_close(false), waiting(&work));
    for (done, leave) in (1..).zip([drop, Peer::reset]) {
        let mut peer = served.connect();
        peer.send(get("/finishes"));
        eventually("it has begun", || work.count(BEGUN) == done);
        leave(peer);
        eventually("it ends", || work.count(ENDED) == done);
    }
    // The next request of the connection is cancelled again.
    let mut peer = served.connect();
    peer.send(get("/finishes") + &get("/whole"));
    eventually("the second has begun", || work.count(BEGUN) == 4);
    drop(peer);
    eventually("it is dropped", || work.count(DROPPED) == 1);
}

/// Work behind a whole response is not for the peer.
#[test]
fn a_handler_that_has_answered_goes_on() {
    let work = Work::default();
    let noted = work.clone();
    let served = Served::with(
        |server| server.half_close(false),
        async move |ctx: &mut Context| -> corehttp::Result {
            let running = noted.begin();
            let mut out = ctx.body_writer().await?;
            out.write_all(b"whole").await?;
            out.finish().await?;
            sleep(Duration::from_millis(100)).await;
            running.end();
            Ok(())
        },
    );
    let mut peer = served.connect();
    peer.send(get("/"));
    peer.receive_through("0\r\n\r\n");
    drop(peer);
    eventually("it ends", || work.count(ENDED) == 1);
}

#[test]
fn a_dropped_handler_gives_back_what_it_held() {
    let work = Work::default();
    let held = work.clone();
    let slow = async move |ctx: &mut Context| {
        let running = held.begin();
        let slow = ctx.request.path() == "/slow";
        sleep(if slow { HOUR } else { Duration::ZERO }).await;
        running.end();
    };
    let guarded = wrap(ConcurrencyLimit::new(2).wait(HOUR), slow);
    let served = Served::with(|server| server.half_close(false), guarded);
    let connect = || {
        let mut peer = served.connect();
        peer.send(get("/slow"));
        peer
    };
    let handled = [connect(), connect()];
    eventually("two are handled", || work.count(BEGUN) == 2);
    // Two more wait for a permit, and leave first.
    let wait = [connect(), connect()];
    eventually("all are there", || served.running.counts().total.requests == 4);
    drop(wait);
    eventually("the two that wait are closed", || served.running.counts().total.open == 2);
    drop(handled);
    eventually("the two that are handled are dropped", || work.count(DROPPED) == 2);
    for _ in 0..4 {
        let mut peer = served.connect();
        peer.send(get("/"));
        assert!(peer.receive().starts_with("HTTP/1.1 200"));
    }
    let total = served.running.counts().total;
    assert_eq!((work.count(BEGUN), work.count(DROPPED)), (6, 2), "those that waited were not called");
    eventually("all are closed", || served.running.counts().total.open == 0);
    assert!(total.requests >= 8);
}

/// A payment is not made for a buyer who leaves while the token is looked up.
#[test]
fn an_uncancelled_handler_does_not_begin_for_a_peer_that_has_left_before_it() {
    let (gate, calls) = (Arc::new(Semaphore::new(0)), [(); 2].map(|()| Arc::new(AtomicUsize::new(0))));
    let [guarded, handled] = calls.clone();
    let opened = gate.clone();
    let waits = || {
        let (opened, guarded) = (opened.clone(), guarded.clone());
        guard(async move |_: &mut Context| -> corehttp::Result {
            let mut opened = pin!(opened.acquire());
            // Counted by the poll that waits: one that finds the permit at once does not look for the peer.
            let mut uncounted = Some(&guarded);
            let permit = poll_fn(|cx| {
                let polled = opened.as_mut().poll(cx);
                uncounted.take().map(|count| count.fetch_add(1, Ordering::SeqCst));
                polled
            });
            permit.await.unwrap().forget();
            Ok(())
        })
    };
    let pay = move |_: &mut Context| _ = handled.fetch_add(1, Ordering::SeqCst);
    for handler in [
        BoxHandler::new(wrap((uncancelled(), waits()), pay.clone())),
        BoxHandler::new(wrap((waits(), uncancelled()), pay.clone())),
        BoxHandler::new(wrap((waits(), uncancelled(), BodyPlan::Stream), pay)),
    ] {
        let cuts = Arc::new(Mutex::new(Vec::new()));
        let reported = cuts.clone();
        let served = Served::with(
            |server| {
                server.half_close(false).on_exchange(move |report: &ExchangeReport| {
                    reported.lock().unwrap().push(report.cut);
                })
            },
            handler,
        );
        for content in ["", "hello"] {
            for leave in [drop, Peer::reset] {
                let begun = calls[0].load(Ordering::SeqCst);
                let mut peer = served.connect();
                let length = content.len();
                peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{content}"));
                eventually("the guard waits", || calls[0].load(Ordering::SeqCst) > begun);
                leave(peer);
                // A core that accepts has looked at its sockets since.
                let accepted = served.running.counts().total.accepted;
                drop(served.connect());
                eventually("another is accepted", || served.running.counts().total.accepted > accepted);
                gate.add_permits(1);
                eventually("it is cut", || !cuts.lock().unwrap().is_empty());
                assert_eq!(cuts.lock().unwrap().pop(), Some(Some(CutBy::Peer)), "{content:?}");
            }
        }
        assert_eq!(calls[1].swap(0, Ordering::SeqCst), 0, "it was called");
        gate.add_permits(1);
        assert!(served.ask("POST / HTTP/1.1\r\nhost: a\r\n\r\n").starts_with("HTTP/1.1 200 "));
        assert_eq!(calls[1].swap(0, Ordering::SeqCst), 1);
    }
}

#[test]
fn what_arrives_while_a_handler_waits_is_kept_for_what_reads_it() {
    // A part of a body, the rest of it in pieces, and more requests, all while the handler or its reader waits.
    let served = Served::with(
        |server| server.half_close(false),
        streaming(async |ctx: &mut Context| -> corehttp::Result {
            let content = {
                let mut body = ctx.body_reader();
                let mut reads = pin!(async {
                    let mut content = Vec::new();
                    while let Some(chunk) = body.chunk().await? {
                        content.extend_from_slice(chunk);
                        sleep(Duration::from_millis(1)).await;
                    }
                    Ok::<_, std::io::Error>(content)
                });
                // Beside the reader, something else waits.
                loop {
                    if let Ok(read) = timeout(Duration::from_millis(3), &mut reads).await {
                        break read?;
                    }
                }
            };
            sleep(Duration::from_millis(5)).await;
            ctx.response.body.set_bytes(content);
            Ok(())
        }),
    );
    let mut peer = served.connect();
    for _ in 0..3 {
        peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 26\r\n\r\n");
        for letter in b'a'..=b'z' {
            std::thread::sleep(Duration::from_millis(2));
            peer.send([letter]);
        }
    }
    for _ in 0..3 {
        assert!(peer.receive().ends_with("abcdefghijklmnopqrstuvwxyz"));
    }
}

/// In memory there is no reset: the end of the stream is the only sign.
#[test]
fn a_handler_is_dropped_on_any_transport() {
    paused(async {
        let work = Work::default();
        let service = Server::new().service(waiting(&work));
        for (done, (method, path)) in (1..).zip(DROPPING) {
            let (mut near, far) = tokio::io::duplex(1 << 10);
            let leaves = async {
                near.write_all(unfinished(method, path).as_bytes()).await.unwrap();
                sleep(Duration::from_millis(10)).await;
                drop(near);
            };
            let (_, ended) = tokio::join!(leaves, timeout(HOUR / 2, service.serve_connection(far)));
            let _ = ended.expect("it ends at once");
            assert_eq!(work.count(DROPPED), done, "{path}");
        }
    });
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let work = Work::default();
        let address = format!("unix:{}", path.display());
        let running = Server::bind(&address).cores(1).start(waiting(&work)).unwrap();
        for (done, (method, path_of)) in (1..).zip(DROPPING) {
            let mut peer = std::os::unix::net::UnixStream::connect(&path).unwrap();
            peer.write_all(unfinished(method, path_of).as_bytes()).unwrap();
            eventually("it has begun", || work.count(BEGUN) == done);
            drop(peer);
            eventually("it is dropped", || work.count(DROPPED) == done);
        }
        running.stop(Duration::ZERO);
        running.wait().unwrap();
    }
}

/// Over TLS with and without `close_notify`.
#[cfg(feature = "tls")]
#[test]
fn a_handler_is_dropped_over_tls() {
    use crate::protocol::tls::{Secured, connect_to};

    let (work, secured) = (Work::default(), Secured::new());
    let tls = secured.tls.clone();
    let served = Served::with(|server| server.tls(tls).half_close(false), waiting(&work));
    let mut done = 0;
    for says_so in [true, false] {
        for (method, path) in DROPPING {
            let mut peer = connect_to(&served, secured.peer(), "a.example");
            peer.write_all(unfinished(method, path).as_bytes()).unwrap();
            done += 1;
            eventually("it has begun", || work.count(BEGUN) == done);
            // Some peers say that they close, and keep the socket until they hear the same.
            let waits = if says_so {
                peer.conn.send_close_notify();
                peer.flush().unwrap();
                Some(peer)
            } else {
                drop(peer);
                None
            };
            eventually("it is dropped", || work.count(DROPPED) == done);
            drop(waits);
        }
    }
}

/// The core is busy for longer than its peers wait.
#[test]
fn a_request_whose_peer_has_left_the_queue_is_not_handled() {
    let work = Work::default();
    let counted = work.clone();
    let served = Served::with(
        |server| server.half_close(false),
        move |ctx: &mut Context| {
            counted.begin().end();
            std::thread::sleep(Duration::from_millis(5));
            ctx.response.set_text("done");
        },
    );
    let connect = || {
        let mut peer = served.connect();
        peer.send(get("/"));
        peer
    };
    // Peers that wait hold the core up, and others leave meanwhile.
    let mut waiting = [(); 40].map(|()| connect());
    eventually("it is busy", || work.count(BEGUN) > 0);
    let gone = 300;
    drop([(); 300].map(|()| connect()));
    let mut last = connect();
    for peer in waiting.iter_mut().chain([&mut last]) {
        assert!(peer.receive().ends_with("done"));
    }
    let for_nobody = work.count(ENDED) - waiting.len() - 1;
    assert!(for_nobody < gone / 2, "{for_nobody} of {gone} were handled for nobody");
}

/// A late tick of the core made it behind for a quarter of a second, in which a request and an end were answered with a reset.
#[test]
fn a_core_that_has_caught_up_answers_peers_that_have_ended() {
    let handler = |ctx: &mut Context| {
        if ctx.request.path() == "/busy" {
            std::thread::sleep(Duration::from_millis(300));
        }
        ctx.response.set_text("now");
    };
    let served = Served::with(|server| server.half_close(false), handler);
    assert!(served.ask(get("/busy")).ends_with("now"));
    let mut answered = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        let mut peer = served.connect();
        peer.send(get("/"));
        peer.end();
        let mut received = String::new();
        let _ = peer.stream.read_to_string(&mut received);
        answered += usize::from(received.ends_with("now"));
    }
    // The machine may hold the core up once more.
    assert!(answered > 15, "{answered} of 20 were answered");
}

#[test]
fn permits_of_handlers_that_panic_as_they_are_dropped_come_back() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("as it is dropped"));
            }
        }
    }
    let begun = Arc::new(Semaphore::new(0));
    let begins = begun.clone();
    let served = Served::with(
        |server| server.half_close(false),
        async move |ctx: &mut Context| {
            if ctx.request.path() == "/panics" {
                let _panics = Panics;
                begins.add_permits(1);
                sleep(HOUR).await;
            }
        },
    );
    for _ in 0..3 {
        let mut peer = served.connect();
        peer.send(get("/panics"));
        eventually("it has begun", || begun.try_acquire().map(|permit| permit.forget()).is_ok());
        drop(peer);
        assert!(served.ask(get("/")).starts_with("HTTP/1.1 200"));
    }
    eventually("all are closed", || served.running.counts().total.open == 0);
}

//! Forwarded responses that are kept for a peer which reads slowly: the server behind is done with them before it, within a
//! bound, and a fault of either side reaches the other as it does without one.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::coding::Flush;
use corehttp::middleware::{Middleware, wrap};
use corehttp::server::{CoreCounters, CoreEvents, Transform, TransformAction};
use corehttp::{BodyPlan, Client, Context, Handler, Limits, Response, Result, Server, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use crate::chunks::content;
use crate::support::{Stage, paused};

/// More than a gateway holds on the way in any case: the buffers of both connections.
const SIZE: usize = 400 << 10;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc";

/// A server that keeps so many bytes of a response.
fn keeping(forward_buffer_max: usize) -> Server {
    Server::new().half_close(true).limits(Limits { forward_buffer_max, ..Limits::default() })
}

/// The gateway of `server` in front of the server that `client` dials.
fn gateway(server: Server, client: &Client) -> Service<impl Handler + use<>> {
    let client = client.clone();
    server.service(wrap((BodyPlan::Stream, Shouts), async move |ctx: &mut Context| {
        let onward = ctx.request.forwarded_to("http://b")?;
        ctx.forward(client.open_call(&onward)).await
    }))
}

/// Middleware that changes a response for `/loud` on its way.
#[derive(Clone)]
struct Shouts;

impl Middleware for Shouts {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        if ctx.request.path() == "/loud" {
            ctx.transform = Some(Box::new(Upper));
        }
        next.handle(ctx).await
    }
}

struct Upper;

impl Transform for Upper {
    fn begin(&mut self, _: &mut Response) -> TransformAction {
        TransformAction::Apply
    }

    fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend(data.to_ascii_uppercase());
        Ok(())
    }
}

/// Sends `asked`, and waits until nothing happens any more.
async fn ask(asked: &str, near: &mut DuplexStream) {
    near.write_all(asked.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(100)).await;
}

/// All that comes until the gateway closes.
async fn rest(mut near: DuplexStream) -> String {
    let mut received = String::new();
    near.read_to_string(&mut received).await.unwrap();
    received
}

/// The connections to the server behind that are busy, and those that are idle.
fn conns(client: &Client) -> (u64, u64) {
    let counts = client.counts();
    (counts.total.busy, counts.total.idle)
}

/// `data` in chunks, without the end of the body.
fn chunked(data: &str) -> String {
    let chunks = data.as_bytes().chunks(1 << 12);
    chunks.map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), str::from_utf8(chunk).unwrap())).collect()
}

/// The content of a response, its trailers, and whether it is whole.
#[track_caller]
fn read(received: &str) -> (String, String, bool) {
    let response = received.rsplit_once("HTTP/1.1 200 OK\r\n").expect("there is a response").1;
    let (head, mut body) = response.split_once("\r\n\r\n").unwrap();
    if let Some((_, length)) = head.split_once("content-length: ") {
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        return (body.into(), String::new(), body.len() == length);
    }
    let mut content = String::new();
    while let Some((size, data)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (content, data.into(), data.ends_with("\r\n"));
        }
        content.push_str(&data[..size.min(data.len())]);
        body = data.get(size + 2..).unwrap_or_default();
    }
    (content, String::new(), false)
}

/// The responses of a server with `content`, each with whether its connection persists: of known length, in chunks with
/// a trailer and after an interim response, and up to the end of the connection.
fn responses(content: &str) -> [(String, bool); 3] {
    let chunks = chunked(content);
    [
        (format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{content}", content.len()), true),
        (
            format!(
                "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                 {chunks}0\r\nx-sum: 1\r\n\r\n"
            ),
            true,
        ),
        (format!("HTTP/1.1 200 OK\r\n\r\n{content}"), false),
    ]
}

/// A server that gives one response on each connection, or several if they persist.
fn behind(response: String, persists: bool) -> Stage {
    Stage::new(move |mut peer, _| {
        let response = response.clone();
        async move {
            while peer.request().await?.is_some() {
                peer.send(&response).await?;
                if !persists {
                    break;
                }
            }
            Ok(())
        }
    })
}

/// Checks that a gateway which keeps `kept_max` is done with the server behind before its peer reads, or not.
#[track_caller]
fn check_done(asked: &str, (response, persists): (String, bool), kept_max: usize, is_done: bool) {
    let case = format!("{asked}, {kept_max}, {}", &response[..60]);
    paused(async {
        let client = behind(response.clone(), persists).client();
        let reports = Arc::new(Mutex::new(Vec::new()));
        let noted = reports.clone();
        let server = keeping(kept_max).on_exchange(move |report| {
            noted.lock().unwrap().push((report.status.unwrap().as_u16(), report.cut.is_some(), report.sent));
        });
        let service = gateway(server, &client);
        let (mut near, far) = duplex(1 << 10);
        let idle = u64::from(persists);
        let peer = async {
            ask(asked, &mut near).await;
            assert_eq!(conns(&client), if is_done { (0, idle) } else { (1, 0) }, "{case}");
            rest(near).await
        };
        let received = tokio::join!(peer, service.serve_connection(far)).0;
        let mut expected = content(SIZE);
        if asked.starts_with("GET /loud") {
            expected.make_ascii_uppercase();
        }
        let trailers = if response.contains("x-sum") { "x-sum: 1\r\n\r\n" } else { "\r\n" };
        let (read, read_trailers, is_whole) = read(&received);
        let is_chunked = received.contains("transfer-encoding: chunked");
        assert!(read == expected && is_whole, "{case}: {} bytes", read.len());
        assert_eq!(read_trailers, if is_chunked { trailers } else { "" }, "{case}");
        assert_eq!(conns(&client), (0, idle), "{case}");
        assert_eq!(*reports.lock().unwrap(), [(200, false, received.len() as u64)], "{case}");
    });
}

#[test]
fn the_server_behind_is_done_before_a_slow_peer() {
    for response in responses(&content(SIZE)) {
        let loud = GET.replace("/ ", "/loud ");
        for (kept_max, is_done) in [(0, false), (SIZE / 4, false), (SIZE, true), (usize::MAX, true)] {
            for asked in [GET, POST, &loud] {
                check_done(asked, response.clone(), kept_max, is_done);
            }
        }
    }
}

/// The connection carries the next request while the first response is still read.
#[tokio::test(start_paused = true)]
async fn the_connection_serves_others_meanwhile() {
    let response = responses(&content(SIZE))[0].0.clone();
    let stage = behind(response, true);
    let client = stage.client();
    let service = gateway(keeping(SIZE), &client);
    let (mut near, far) = duplex(1 << 10);
    let (other, other_far) = duplex(1 << 10);
    let peers = async {
        ask(GET, &mut near).await;
        let mut other = other;
        ask(GET, &mut other).await;
        let received = rest(other).await;
        assert!(read(&received).2);
        assert!(read(&rest(near).await).2);
    };
    let _ = tokio::join!(peers, service.serve_connection(far), service.serve_connection(other_far));
    assert_eq!(stage.dialed().len(), 1);
}

/// Nothing is held back from a peer that reads, however much may be kept.
#[tokio::test(start_paused = true)]
async fn each_piece_leaves_as_it_comes() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        for _ in 0..3 {
            sleep(Duration::from_secs(1)).await;
            peer.send("1\r\na\r\n").await?;
        }
        sleep(Duration::from_secs(1)).await;
        peer.send("0\r\n\r\n").await
    });
    let client = stage.client();
    let service = gateway(keeping(SIZE), &client);
    let (mut near, far) = duplex(1 << 10);
    let peer = async {
        ask(GET, &mut near).await;
        for _ in 0..3 {
            let mut received = Vec::new();
            while !received.ends_with(b"1\r\na\r\n") {
                received.push(near.read_u8().await.unwrap());
            }
            assert_eq!(conns(&client).0, 1, "the server behind has not ended the response");
        }
        rest(near).await
    };
    assert_eq!(tokio::join!(peer, service.serve_connection(far)).0, "0\r\n\r\n");
}

/// Notes the most memory that was reserved when content came.
struct Weighing(Arc<Mutex<(Option<CoreCounters>, u64)>>);

impl Transform for Weighing {
    fn begin(&mut self, _: &mut Response) -> TransformAction {
        TransformAction::Apply
    }

    fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        let (counters, most) = &mut *self.0.lock().unwrap();
        *most = counters.as_ref().unwrap().memory().reserved.max(*most);
        out.extend(data);
        Ok(())
    }
}

/// A transform that let other tasks have their turn was once taken for a peer that does not read.
#[tokio::test(start_paused = true)]
async fn nothing_is_kept_while_a_transform_yields() {
    let response = responses(&content(4 * SIZE))[0].0.clone();
    let client = behind(response, true).client();
    let noted = Arc::<Mutex<(Option<CoreCounters>, u64)>>::default();
    let (limits, of_core) = (Limits { forward_buffer_max: SIZE, ..Limits::default() }, noted.clone());
    let server = keeping(0).limits(Limits { memory_max: 64 << 20, ..limits });
    let server =
        server.observe(move |core: &mut CoreEvents| of_core.lock().unwrap().0 = Some(core.counters()));
    let of_transform = noted.clone();
    let service = server.service(async move |ctx: &mut Context| {
        ctx.transform = Some(Box::new(Weighing(of_transform.clone())));
        let onward = ctx.request.forwarded_to("http://b")?;
        ctx.forward(client.open_call(&onward)).await
    });
    let (mut near, far) = duplex(8 * SIZE);
    let peer = async {
        ask(GET, &mut near).await;
        assert!(read(&rest(near).await).2);
    };
    let _ = tokio::join!(peer, service.serve_connection(far));
    // The read of a piece takes memory, too.
    assert_eq!(noted.lock().unwrap().1, 68 << 10);
}

/// A response that is not whole has no end for the peer either, who gets all of it that was sent.
#[test]
fn a_fault_behind_cuts_the_response_after_what_has_come() {
    let sent = content(SIZE / 2);
    let length = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n{sent}");
    let chunks = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}", chunked(&sent));
    for response in
        [length, chunks.clone(), format!("{chunks}x"), format!("{chunks}5\r\nab"), format!("{chunks}0\r\n")]
    {
        for kept_max in [0, SIZE / 4, SIZE] {
            for asked in [GET, POST] {
                paused(async {
                    let client = behind(response.clone(), false).client();
                    let service = gateway(keeping(kept_max), &client);
                    let (mut near, far) = duplex(1 << 10);
                    let peer = async {
                        ask(asked, &mut near).await;
                        let busy = if kept_max == SIZE { 0 } else { 1 };
                        assert_eq!(conns(&client), (busy, 0), "{kept_max}");
                        rest(near).await
                    };
                    let received = tokio::join!(peer, service.serve_connection(far)).0;
                    let (read, trailers, is_whole) = read(&received);
                    assert!(!is_whole && trailers.is_empty(), "{kept_max}: {}", &response[..60]);
                    // As without a bound, the last piece that came together with the fault may be missing.
                    assert!(read.starts_with(&sent) || sent.starts_with(&read) && kept_max < SIZE);
                    assert_eq!(conns(&client), (0, 0));
                });
            }
        }
    }
}

/// A peer that leaves ends all that was done for it, and gives the memory back, of which there is enough for one response.
#[tokio::test(start_paused = true)]
async fn the_memory_is_that_of_all_peers_and_given_back() {
    // A quarter of the memory is for small shares such as these and those of reads, and half of that is left to others.
    const KEPT: usize = 160 << 10;
    let client = behind(responses(&content(KEPT))[0].0.clone(), true).client();
    let limits = Limits { forward_buffer_max: KEPT, memory_max: 12 * KEPT, ..Limits::default() };
    let service = gateway(keeping(0).limits(limits), &client);
    let (mut first, far) = duplex(1 << 10);
    let (mut second, second_far) = duplex(1 << 10);
    let peers = async {
        ask(GET, &mut first).await;
        assert_eq!(conns(&client), (0, 1), "there is memory for the first");
        ask(GET, &mut second).await;
        assert_eq!(conns(&client), (1, 0), "the rest is for others");
        drop(first);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(conns(&client), (0, 1), "the second has what the first has given back");
        assert!(read(&rest(second).await).2);
    };
    let _ = tokio::join!(peers, service.serve_connection(far), service.serve_connection(second_far));
}

/// A core keeps no more than its bound for all peers, however much memory is free, and all of what a peer gives back.
#[tokio::test(start_paused = true)]
async fn a_core_keeps_so_much_for_all_its_peers() {
    const KEPT: usize = 160 << 10;
    let client = behind(responses(&content(KEPT))[0].0.clone(), true).client();
    for (most, is_enough) in [(KEPT - 1, false), (2 * KEPT - 1, false), (2 * KEPT, true)] {
        let limits = Limits {
            forward_buffer_max: KEPT,
            forward_buffers_per_core_max: most,
            memory_max: 64 * KEPT,
            ..Limits::default()
        };
        let service = gateway(keeping(0).limits(limits), &client);
        let (mut first, far) = duplex(1 << 10);
        let (mut second, second_far) = duplex(1 << 10);
        let peers = async {
            ask(GET, &mut first).await;
            assert_eq!(conns(&client).0, u64::from(most < KEPT), "{most}");
            ask(GET, &mut second).await;
            assert_eq!(conns(&client).0 == 0, is_enough, "{most}");
            assert!(read(&rest(first).await).2 && read(&rest(second).await).2, "{most}");
            assert_eq!(conns(&client).0, 0, "{most}");
        };
        let _ = tokio::join!(peers, service.serve_connection(far), service.serve_connection(second_far));
    }
}

/// Without the memory for anything, a gateway streams.
#[test]
fn without_memory_all_is_streamed() {
    paused(async {
        let client = behind(responses(&content(SIZE))[1].0.clone(), true).client();
        let limits = Limits { forward_buffer_max: SIZE, memory_max: 0, ..Limits::default() };
        let service = gateway(keeping(0).limits(limits), &client);
        let (mut near, far) = duplex(1 << 10);
        let peer = async {
            ask(GET, &mut near).await;
            assert_eq!(conns(&client), (1, 0));
            rest(near).await
        };
        let received = tokio::join!(peer, service.serve_connection(far)).0;
        assert!(read(&received) == (content(SIZE), "x-sum: 1\r\n\r\n".into(), true));
    });
}

/// Responses without content, and the switch to WebSocket, are as they are without a bound.
#[test]
fn nothing_is_kept_where_there_is_no_content() {
    for (asked, response, expected) in [
        ("HEAD / ", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "content-length: 9\r\n"),
        ("GET / ", "HTTP/1.1 204 x\r\n\r\n", "HTTP/1.1 204 "),
        ("GET / ", "HTTP/1.1 304 x\r\ncontent-length: 9\r\n\r\n", "HTTP/1.1 304 "),
        ("GET / ", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "content-length: 0\r\n"),
    ] {
        paused(async {
            let client = behind(response.into(), true).client();
            let service = gateway(keeping(SIZE), &client);
            let (mut near, far) = duplex(1 << 10);
            let asked = format!("{asked}HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
            let peer = async {
                ask(&asked, &mut near).await;
                assert_eq!(conns(&client), (0, 1), "{response}");
                rest(near).await
            };
            let received = tokio::join!(peer, service.serve_connection(far)).0;
            assert!(received.contains(expected) && received.ends_with("\r\n\r\n"), "{received}");
        });
    }
    paused(async {
        let stage = Stage::new(|mut peer, _| async move {
            peer.head().await?;
            peer.send("HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").await?;
            peer.send(b"\x81\x01a").await?;
            let mut frame = [0; 7];
            peer.stream.read_exact(&mut frame).await?;
            assert_eq!(&frame, b"\x81\x81maska");
            Ok(())
        });
        let service = gateway(keeping(SIZE), &stage.client());
        let (mut near, far) = duplex(1 << 10);
        let peer = async {
            let asked = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            near.write_all(asked.as_bytes()).await.unwrap();
            near.write_all(b"\x81\x81maska").await.unwrap();
            let mut received = Vec::new();
            near.read_to_end(&mut received).await.unwrap();
            assert!(received.starts_with(b"HTTP/1.1 101 ") && received.ends_with(b"\x81\x01a"));
        };
        let _ = tokio::join!(peer, service.serve_connection(far));
    });
}

/// The response is whole before the request, the rest of which goes on while the peer reads; and after it.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_longer_than_its_response_goes_on() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.send(&responses(&content(SIZE))[0].0).await?;
        peer.stream.read_exact(&mut vec![0; SIZE]).await.map(drop)?;
        peer.answer("HTTP/1.1 204 x\r\n\r\n").await
    });
    let client = stage.client();
    for (kept_max, reads_first) in [(SIZE, true), (SIZE, false), (0, true)] {
        let service = gateway(keeping(kept_max), &client);
        let (near, far) = duplex(1 << 10);
        let (mut read_half, mut write_half) = tokio::io::split(near);
        let asked =
            GET.replace("GET", "POST").replace("\r\n\r\n", &format!("\r\ncontent-length: {SIZE}\r\n\r\n"));
        let read_all = async {
            let mut received = String::new();
            read_half.read_to_string(&mut received).await.unwrap();
            received
        };
        let send = async {
            write_half.write_all(asked.as_bytes()).await.unwrap();
            sleep(Duration::from_secs(1)).await;
            write_half.write_all(content(SIZE).as_bytes()).await.unwrap();
        };
        let peer = async {
            if reads_first {
                return tokio::join!(read_all, send).0;
            }
            send.await;
            read_all.await
        };
        let received = tokio::join!(peer, service.serve_connection(far)).0;
        assert!(read(&received) == (content(SIZE), String::new(), true), "{kept_max}, {reads_first}");
        assert_eq!(conns(&client), (0, 1));
        client.close_idle();
    }
}

/// Of an upload that is refused, the rest is taken from a peer that reads only once all of it was sent.
#[test]
fn the_rest_of_a_refused_upload_is_discarded() {
    for kept_max in [0, SIZE] {
        for closes in [false, true] {
            paused(async {
                let stage = Stage::new(move |mut peer, _| async move {
                    peer.head().await?;
                    let option = if closes { "connection: close\r\n" } else { "" };
                    let head = format!("HTTP/1.1 403 x\r\n{option}content-length: {SIZE}\r\n\r\n");
                    peer.send(head + &content(SIZE)).await?;
                    sleep(Duration::from_secs(100)).await;
                    Ok(())
                });
                let service = gateway(keeping(kept_max), &stage.client());
                let (mut near, far) = duplex(1 << 10);
                let peer = async {
                    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
                    let head = format!("{head}content-length: {}\r\n\r\n", 4 * SIZE);
                    near.write_all(head.as_bytes()).await.unwrap();
                    let began = Instant::now();
                    near.write_all(&vec![b'x'; 4 * SIZE]).await.unwrap();
                    assert!(began.elapsed() < Duration::from_secs(10), "{kept_max}, {closes}");
                    rest(near).await
                };
                let received = tokio::join!(peer, service.serve_connection(far)).0;
                assert!(received.starts_with("HTTP/1.1 403 ") && received.ends_with(&content(SIZE)));
            });
        }
    }
}

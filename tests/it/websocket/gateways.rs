//! Gateways: a WebSocket passes through `Context::forward` by itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use corehttp::client::ClientTimeouts;
use corehttp::middleware::wrap;
use corehttp::server::{CutBy, ExchangeReport, ForwardedHeader};
use corehttp::websocket::{self, CloseCode, Message};
use corehttp::{BodyPlan, Client, Context, Response, Server, Timeouts, TrustedProxies, block_on};
use socket2::{Domain, Socket, Type};

use super::support::{BINARY, CLOSE, HEAD, TEXT, close, echo, frame, shown, unmasked};
use crate::support::{ErrorReports, Peer, Served, eventually, get};

fn gateway(backend: String) -> Served {
    gateway_with(|server| server, Client::new(), backend)
}

fn gateway_with(set: impl FnOnce(Server) -> Server, client: Client, backend: String) -> Served {
    let pass = async move |ctx: &mut Context| -> corehttp::Result {
        let mut onward = ctx.request.forwarded_to(&backend)?;
        ctx.set_forwarded(&mut onward);
        ctx.forward(client.open_call(&onward)).await
    };
    Served::with(|server| set(server.trusted_proxies(this_machine())), wrap(BodyPlan::Stream, pass))
}

/// A gateway whose handler waits for something else, too.
fn busy_gateway(backend: String) -> Served {
    let client = Client::new();
    Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to(&backend)?;
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let mut forwarded = std::pin::pin!(ctx.forward(client.open_call(&onward)));
        loop {
            tokio::select! {
                done = &mut forwarded => return done,
                _ = ticks.tick() => {}
            }
        }
    })
}

fn this_machine() -> TrustedProxies {
    TrustedProxies::new(["127.0.0.1"]).unwrap().headers([ForwardedHeader::XForwardedHost])
}

/// Connects with a socket that holds little of what arrives.
fn connect_small(served: &Served) -> Peer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&served.addr().into()).unwrap();
    Peer::new(TcpStream::from(socket))
}

const SHORT: Duration = Duration::from_secs(1);

/// The server behind writes more than all sockets hold, and the peer reads none of it.
#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let behind = Served::new(async |ctx: &mut Context| -> corehttp::Result {
        let mut socket = ctx.websocket(&websocket::Options::default()).await?;
        Ok(socket.send(&vec![7; 16 << 20]).await?)
    });
    let timeouts = Timeouts { write: SHORT, ..Timeouts::default() };
    let backend = format!("http://{}", behind.addr());
    let front = gateway_with(|server| server.timeouts(timeouts), Client::new(), backend);
    let peers: Vec<Peer> = (0..3).map(|_| connect_small(&front)).collect();
    for mut stream in peers.iter().map(|peer| &peer.stream) {
        stream.write_all(format!("{HEAD}\r\n").as_bytes()).unwrap();
    }
    eventually("all have come", || behind.running.counts().total.requests >= 3);
    eventually("both sides are closed", || {
        front.running.counts().total.open == 0 && behind.running.counts().total.open == 0
    });
    eventually("each is cut by the time limit", || front.running.counts().total.errors.timed_out == 3);
}

/// The peer writes more than all sockets hold, and the server behind reads none of it.
#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let behind = Served::new(async |ctx: &mut Context| -> corehttp::Result {
        let _socket = ctx.websocket(&websocket::Options::default()).await?;
        std::future::pending().await
    });
    let timeouts = ClientTimeouts { send: SHORT, ..ClientTimeouts::default() };
    let client = Client::builder().timeouts(timeouts).build();
    let front = gateway_with(|server| server, client, format!("http://{}", behind.addr()));
    let mut peer = front.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    let flood = frame(BINARY, vec![7; 16 << 20]);
    assert!((&peer.stream).write_all(&flood).is_err(), "the gateway has closed");
    eventually("the gateway has closed", || front.running.counts().total.open == 0);
}

/// The gateway replaces the host.
#[test]
fn an_own_page_gets_in_through_a_gateway() {
    for (proxies, fields, expected) in [
        (TrustedProxies::default(), "Origin: https://front.example\r\n", "403"),
        (TrustedProxies::unix_sockets(), "Origin: https://front.example\r\n", "403"),
        (
            TrustedProxies::default(),
            "Origin: https://front.example\r\nSec-Fetch-Site: same-origin\r\n",
            "101",
        ),
        (this_machine(), "Origin: https://front.example\r\n", "101"),
        (this_machine(), "Origin: https://evil.example\r\n", "403"),
    ] {
        let settings = websocket::Options::default();
        let behind = Served::with(
            |server| server.trusted_proxies(proxies),
            async move |ctx: &mut Context| echo(ctx, &settings).await,
        );
        let front = gateway(format!("http://{}", behind.addr()));
        let head = HEAD.replace("Host: a", "Host: front.example");
        let received = front.ask([format!("{head}{fields}\r\n").as_bytes(), &close(1000, "")].concat());
        assert!(received.starts_with(&format!("HTTP/1.1 {expected}")), "{fields}{received}");
    }
}

#[test]
fn a_426_names_the_protocol_through_a_gateway_rfc9110_15_5_22() {
    let settings = websocket::Options::default();
    let behind = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
    let front = gateway(format!("http://{}", behind.addr()));
    let received = front.ask(format!("{}\r\n", HEAD.replace("Version: 13", "Version: 8")));
    assert!(
        received.starts_with("HTTP/1.1 426") && received.contains("\r\nupgrade: websocket\r\n"),
        "{received}"
    );
    assert!(received.contains("upgrade\r\n"), "{received}");
    // A request with content opens no WebSocket, with the gateway or without; an empty one does.
    let with_content = format!("{HEAD}Content-Length: 1\r\n\r\nx");
    assert!(front.ask(&with_content).starts_with("HTTP/1.1 426"));
    assert!(behind.ask(&with_content).starts_with("HTTP/1.1 400"));
    for served in [&front, &behind] {
        let received =
            served.ask([format!("{HEAD}Content-Length: 0\r\n\r\n").as_bytes(), &close(1000, "")].concat());
        assert!(received.starts_with("HTTP/1.1 101"), "{received}");
    }
}

#[test]
fn a_websocket_passes_a_gateway() {
    let settings = websocket::Options { protocols: vec!["v1".into()], ..websocket::Options::default() };
    let offered = settings.clone();
    let behind = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
    let front = gateway(format!("http://{}", behind.addr()));
    block_on(async {
        let client = Client::new();
        let request = client.websocket(&format!("ws://{}/a", front.addr())).options(&offered);
        let mut socket = request.await.unwrap();
        assert_eq!(socket.protocol.as_deref(), Some("v1"));
        for len in [3, 100_000, 900_000] {
            let bytes = vec![7; len];
            socket.send(&bytes).await.unwrap();
            assert_eq!(socket.receive().await.unwrap(), Some(Message::Binary(&bytes)));
        }
        socket.close(CloseCode::NORMAL, "").await.unwrap();
    })
    .unwrap();
    // Frames may come with the request.
    let mut peer = front.connect();
    peer.send([format!("{HEAD}\r\n").as_bytes(), &frame(TEXT, "early"), &close(1000, "")].concat());
    let received = peer.receive_all();
    assert!(received.contains("101 ") && received.contains("\u{5}early"), "{received}");
}

/// The peer may name other protocols, too, and a list may have empty members.
#[test]
fn a_websocket_among_other_protocols_passes_a_gateway_rfc9110_5_6_1_2() {
    let settings = websocket::Options::default();
    let behind = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
    let front = gateway(format!("http://{}", behind.addr()));
    for protocols in ["websocket,", ", websocket", "h2c, websocket", "websocket, foo/1"] {
        let head = HEAD.replace("Upgrade: websocket", &format!("Upgrade: {protocols}"));
        for served in [&behind, &front] {
            let received = served.ask([format!("{head}\r\n").as_bytes(), &close(1000, "")].concat());
            assert!(received.starts_with("HTTP/1.1 101"), "{protocols} {received}");
            assert!(received.contains("\r\nupgrade: websocket\r\n"), "{received}");
        }
    }
}

#[test]
fn a_refusal_passes_a_gateway() {
    let behind = Served::new(|ctx: &mut Context| ctx.response.set_text("no"));
    let front = gateway(format!("http://{}", behind.addr()));
    block_on(async {
        let mut response = Response::new();
        let request = Client::new().websocket(&format!("ws://{}/a", front.addr()));
        assert!(request.send_into(&mut response).await.is_err());
        assert_eq!(response.text().unwrap(), "no");
    })
    .unwrap();
}

/// Either end may vanish.
#[test]
fn an_end_on_one_side_ends_the_other() {
    let settings = websocket::Options::default();
    let behind = Served::new(async move |ctx: &mut Context| echo(ctx, &settings).await);
    let front = gateway(format!("http://{}", behind.addr()));
    let mut peer = front.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    peer.reset();
    eventually("the server behind has noticed", || behind.running.counts().total.errors.incomplete == 1);
    let mut peer = front.connect();
    peer.send(format!("{HEAD}\r\n"));
    peer.receive();
    drop(behind);
    peer.receive_all();
}

/// Sends messages for ever, and reads none.
async fn feed(ctx: &mut Context) -> corehttp::Result {
    let mut socket = ctx.websocket(&websocket::Options::default()).await?;
    loop {
        socket.send("tick").await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A server behind that only sends notices the end of a peer by its writes, as it does without a gateway.
#[test]
fn a_feed_ends_soon_after_its_peers() {
    let behind = Served::new(feed);
    let (cuts, causes) = (Arc::new(Mutex::new(Vec::new())), ErrorReports::default());
    let noted = cuts.clone();
    let observe = move |report: &ExchangeReport| noted.lock().unwrap().push(report.cut.map(CutBy::as_str));
    let backend = format!("http://{}", behind.addr());
    let front = gateway_with(|server| causes.attach(server.on_exchange(observe)), Client::new(), backend);
    let peers = [(); 3].map(|()| {
        let mut peer = front.connect();
        peer.send(format!("{HEAD}\r\n"));
        peer.receive_through("tick");
        peer
    });
    let start = Instant::now();
    let [reset, gone, mut closed] = peers;
    reset.reset();
    drop(gone);
    // As a browser does for a page that is left.
    closed.send(close(1001, ""));
    drop(closed);
    eventually("the server behind has noticed", || behind.running.counts().total.open == 0);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    eventually("each is reported", || cuts.lock().unwrap().len() == 3);
    cuts.lock().unwrap().sort_unstable();
    assert_eq!(*cuts.lock().unwrap(), [None, Some("peer"), Some("peer")]);
    assert_eq!(causes.take(), vec![(0, "the peer closed the connection without a close frame".into()); 2]);
}

/// A peer that has closed its sending half may still read.
#[test]
fn a_feed_goes_on_for_a_peer_that_reads() {
    let behind = Served::new(feed);
    let front = gateway(format!("http://{}", behind.addr()));
    let mut peer = front.connect();
    peer.send([format!("{HEAD}\r\n").as_bytes(), &close(1000, "")].concat());
    peer.end();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(700) {
        peer.receive_through("tick");
    }
}

/// The server behind says good bye and closes, while frames of the peer are on their way to it.
#[test]
fn the_last_frames_pass_a_gateway_though_the_peer_is_sending_rfc6455_7_1_5() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new();
    let (busy, is_busy) = mpsc::channel();
    let front = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        if ctx.request.path() == "/busy" {
            // No other connection of the core is polled meanwhile.
            busy.send(()).unwrap();
            thread::sleep(Duration::from_millis(100));
            return Ok(());
        }
        let onward = ctx.request.forwarded_to(&backend)?;
        ctx.forward(client.open_call(&onward)).await
    });
    let mut peer = front.connect();
    peer.send(format!("{HEAD}\r\n"));
    let mut behind = Peer::new(listener.accept().unwrap().0);
    behind.receive();
    behind.send("HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    peer.receive();
    peer.send(frame(TEXT, "unread"));
    behind.stream.peek(&mut [0]).unwrap();
    let mut other = front.connect();
    other.send(get("/busy"));
    is_busy.recv().unwrap();
    peer.send(frame(TEXT, "on its way"));
    behind.send([unmasked(TEXT, "bye"), unmasked(CLOSE, 1008_u16.to_be_bytes())].concat());
    // The frame that is unread makes that a reset.
    drop(behind);
    other.receive();
    for _ in 0..20 {
        peer.send(frame(TEXT, "more"));
        thread::sleep(Duration::from_millis(1));
    }
    let mut received = Vec::new();
    peer.stream.read_to_end(&mut received).unwrap();
    assert_eq!(shown(&received), ["text \"bye\"", "close 1008 \"\""]);
    peer.send(close(1008, ""));
    drop(peer);
    eventually("the tunnel is closed", || front.running.counts().total.open == 1);
}

/// The gateway stops: it closes with 1001, and the answer of the peer closes the server behind.
#[test]
fn a_stop_of_a_gateway_closes_both_sides_with_1001() {
    [gateway, busy_gateway].into_iter().for_each(check_stop);
}

#[track_caller]
fn check_stop(gateway: fn(String) -> Served) {
    let (settings, reports) = (websocket::Options::default(), ErrorReports::default());
    let behind = Served::with(
        |server| reports.attach(server),
        async move |ctx: &mut Context| echo(ctx, &settings).await,
    );
    let front = gateway(format!("http://{}", behind.addr()));
    let mut socket = front.connect();
    socket.send(format!("{HEAD}\r\n"));
    socket.receive();
    socket.send(frame(TEXT, "a"));
    assert_eq!(socket.receive_through("a"), "\u{fffd}\u{1}a");
    front.running.stop(std::time::Duration::from_secs(30));
    assert_eq!(socket.receive_through("\u{3}").len(), 5);
    // Its last messages still reach the server behind, whose answers come too late.
    socket.send([frame(TEXT, "on its way"), close(1001, "")].concat());
    let rest = socket.receive_all();
    assert!(!rest.contains("on its way") && !rest.contains("Reset"), "{rest}");
    drop(socket);
    front.running.wait().unwrap();
    eventually("the server behind has closed", || behind.running.counts().total.open == 0);
    assert_eq!(behind.running.counts().total.messages_received, 2);
    assert_eq!(reports.take(), []);
}

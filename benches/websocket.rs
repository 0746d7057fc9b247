//! Questions: how much CPU time does a message of a WebSocket cost, over what the kernel and the frames make every server
//! pay? How much memory does a silent WebSocket hold?
//!
//! Each server is a process pinned to one core, and the load has the other. The `limit` is a loop of tokio that reads,
//! removes masks and writes frames, and checks nothing. `tungstenite` is tokio-tungstenite on an upgraded connection of
//! corehttp, with a read buffer of 4 KiB, which is faster than its default; it sends each message by itself, as `send` of
//! its sink does.
//! The servers take turns round by round; the ratio is that of one round, and its median is what counts.
//!
//! Linux keeps free pages for each core, as many as it sees fit, and messages of 1 MiB that one core sends and the other
//! receives move pages from list to list. `sysctl vm.percpu_pagelist_high_fraction=500` keeps the lists within the caches;
//! without it, the copy into a socket has two speeds.
//!
//! uWebSockets takes part if the variable `UWEBSOCKETS` names the program that `support/uwebsockets.cpp` was built to;
//! gorilla and gobwas do if Go is installed and can have them.
//!
//! ```text
//! cargo bench --bench websocket --features websocket              # about two minutes
//! cargo bench --bench websocket --features websocket -- corehttp  # against the limit alone
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehttp::websocket::{self, WebSocket};
use corehttp::{Context, Server};
use corehttp_benches::child::{self, Child, PinnedCore, announce, pin};
use corehttp_benches::spread::Spread;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

fn main() {
    rlimit::increase_nofile_limit(FILES).expect("the limit may be asked for");
    match child::server().as_deref() {
        None if child::wanted() => measure(),
        None => {}
        Some(name) => {
            pin(PinnedCore::Server);
            serve(name);
        }
    }
}

fn serve(name: &str) {
    match name {
        COREHTTP => serve_corehttp(async |ctx: &mut Context| echo(ctx).await),
        IN_TASK => serve_corehttp(async |ctx: &mut Context| -> corehttp::Result {
            let socket = ctx.websocket(&websocket::Options::default()).await?;
            tokio::task::spawn_local(echo_all(socket));
            Ok(())
        }),
        TUNGSTENITE => serve_corehttp(async |ctx: &mut Context| echo_tungstenite(ctx).await),
        LIMIT => serve_limit(),
        UWEBSOCKETS => {
            serve_by(&mut Command::new(std::env::var_os(UWEBSOCKETS_PROGRAM).expect("it is chosen")))
        }
        GORILLA | GOBWAS => serve_by(Command::new(go_program()).arg(name)),
        unknown => panic!("no server is called {unknown}"),
    }
}

const LIMIT: &str = "limit";
const COREHTTP: &str = "corehttp";
const TUNGSTENITE: &str = "tungstenite";
const UWEBSOCKETS: &str = "uwebsockets";
const GORILLA: &str = "gorilla";
const GOBWAS: &str = "gobwas";
/// A handler that returns once it has moved its WebSocket to a task.
const IN_TASK: &str = "in-task";

fn serve_corehttp(handler: impl AsyncFn(&mut Context) -> corehttp::Result + Send + Sync + 'static) {
    let running = Server::bind("127.0.0.1:0").cores(1).start(handler).expect("a free port");
    announce(running.local_addr());
    running.wait().expect("corehttp serves for ever");
}

async fn echo(ctx: &mut Context) -> corehttp::Result {
    Ok(echo_all(ctx.websocket(&websocket::Options::default()).await?).await?)
}

async fn echo_all(mut socket: WebSocket) -> std::io::Result<()> {
    let WebSocket { reader, writer, .. } = &mut socket;
    while let Some(message) = reader.receive().await? {
        writer.send(message).await?;
    }
    Ok(())
}

async fn echo_tungstenite(ctx: &mut Context) -> corehttp::Result {
    let key = ctx.request.headers.get_bytes("sec-websocket-key").unwrap_or_default();
    ctx.response.headers.set("sec-websocket-accept", derive_accept_key(key))?;
    let upgraded = ctx.upgrade("websocket").await?;
    let config = WebSocketConfig::default().read_buffer_size(4 << 10);
    let mut socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

/// Starts a program, which answers the load in place of this process.
fn serve_by(program: &mut Command) {
    let ended = program.status().expect("the program starts");
    assert!(ended.success(), "{program:?}: {ended}");
}

/// Names the program of uWebSockets.
const UWEBSOCKETS_PROGRAM: &str = "UWEBSOCKETS";

/// The program of gorilla and gobwas.
fn go_program() -> PathBuf {
    std::env::temp_dir().join("corehttp-bench-websocket")
}

/// Reads, removes masks, and writes what has come in one write.
fn serve_limit() {
    let runtime = runtime();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            tokio::task::spawn_local(copy_frames(stream));
        }
    });
}

async fn copy_frames(mut stream: TcpStream) {
    let (mut input, mut output) = (vec![0; 2 << 20], Vec::new());
    let mut filled = 0;
    let head_len = loop {
        match stream.read(&mut input[filled..]).await {
            Ok(count @ 1..) => filled += count,
            _ => return,
        }
        if let Some(end) = input[..filled].windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
    };
    input.copy_within(head_len..filled, 0);
    filled -= head_len;
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let _ = stream.write_all(answer).await;
    loop {
        let mut read = 0;
        while let Some((head, payload)) = frame(&mut input[read..filled]) {
            output.extend_from_slice(&payload.1);
            let (start, end) = (read + head, read + head + payload.0);
            output.extend_from_slice(&input[start..end]);
            read = end;
        }
        input.copy_within(read..filled, 0);
        filled -= read;
        if stream.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
        match stream.read(&mut input[filled..]).await {
            Ok(count @ 1..) => filled += count,
            _ => return,
        }
    }
}

/// The length of the head of the frame that begins here, that of its payload, whose mask is removed, and the head of the
/// answer.
fn frame(bytes: &mut [u8]) -> Option<(usize, (usize, Vec<u8>))> {
    let (len, len_end) = match bytes.get(1)? & 0x7f {
        126 => (usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?])), 4),
        127 => (u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize, 10),
        len => (usize::from(len), 2),
    };
    let head = len_end + 4;
    let payload_end = head + len;
    bytes.get(..payload_end)?;
    let key: [u8; 4] = bytes[len_end..head].try_into().expect("four octets");
    let wide = u64::from_ne_bytes([key, key].as_flattened().try_into().expect("eight octets"));
    let (words, rest) = bytes[head..payload_end].as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes());
    rest.iter_mut().zip(key.iter().cycle()).for_each(|(octet, key)| *octet ^= key);
    let mut answer = bytes[..len_end].to_vec();
    answer[1] &= 0x7f;
    Some((head, (len, answer)))
}

fn measure() {
    let mut servers = child::chosen([COREHTTP, TUNGSTENITE, UWEBSOCKETS, GORILLA, GOBWAS]);
    let has_go = child::build_go("websocket", go_program()).is_some();
    servers.retain(|name| match *name {
        UWEBSOCKETS => std::env::var_os(UWEBSOCKETS_PROGRAM).is_some(),
        GORILLA | GOBWAS => has_go,
        _ => true,
    });
    let servers = [LIMIT].into_iter().chain(servers);
    let mut servers: Vec<_> = servers.map(|name| (name, Child::spawn(name))).collect();
    pin(PinnedCore::Load);
    for (len, in_flight, connections) in
        [(125, 1, 64), (125, 16, 64), (125, 1, 512), (64 << 10, 1, 16), (1 << 20, 1, 4)]
    {
        let mut rounds = vec![Vec::new(); servers.len()];
        for _ in 0..ROUNDS {
            for ((_, server), rounds) in servers.iter_mut().zip(&mut rounds) {
                rounds.push(round(server, len, in_flight, connections));
            }
        }
        println!("\n{len} bytes, {in_flight} in flight, {connections} connections");
        println!("{:<12}{:>26}{:>24}", "", "CPU us/message", "over the limit");
        for ((name, _), own) in servers.iter().zip(&rounds) {
            let over = Spread::from_values(own.iter().zip(&rounds[0]).map(|(own, limit)| own / limit));
            println!("{name:<12}{:>26}{over:>24}", Spread::from_values(own.iter().copied()));
        }
    }
    drop(servers);
    for name in child::chosen([COREHTTP, IN_TASK, TUNGSTENITE]) {
        idle(name);
    }
}

const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(200);
const ROUND: Duration = Duration::from_millis(500);

/// The microseconds of a core that a message takes.
fn round(server: &mut Child, len: usize, in_flight: usize, connections: usize) -> f64 {
    let (runtime, batch) = (runtime(), masked(len).repeat(in_flight));
    let answer_len = answer_len(len) * in_flight;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let (mut streams, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            streams.push(open(server.address).await);
        }
        let begun = Instant::now();
        let (warm, end) = (begun + WARM_UP, begun + WARM_UP + ROUND);
        for mut stream in streams {
            let batch = batch.clone();
            tasks.push(tokio::task::spawn_local(async move {
                let (mut answer, mut count) = (vec![0; answer_len], 0);
                while count == 0 || Instant::now() < end {
                    stream.write_all(&batch).await.expect("the server reads");
                    stream.read_exact(&mut answer).await.expect("the server answers");
                    count += if Instant::now() < warm { 0 } else { in_flight };
                }
                assert_eq!((answer[0], answer[answer_len - 1]), (0x82, b'x'), "it is the message");
                count
            }));
        }
        tokio::time::sleep_until(warm.into()).await;
        let before = server.cpu_time();
        let mut messages = 0;
        for task in tasks {
            messages += task.await.expect("a connection");
        }
        (server.cpu_time() - before).as_secs_f64() * 1e6 / messages as f64
    })
}

fn masked(len: usize) -> Vec<u8> {
    let mut frame = match len {
        0..126 => vec![0x82, 0x80 | len as u8],
        126..0x1_0000 => [&[0x82, 0xfe][..], &(len as u16).to_be_bytes()].concat(),
        _ => [&[0x82, 0xff][..], &(len as u64).to_be_bytes()].concat(),
    };
    let key = [1, 2, 3, 4];
    frame.extend(key);
    frame.extend(key.iter().cycle().take(len).map(|key| b'x' ^ key));
    frame
}

fn answer_len(len: usize) -> usize {
    masked(len).len() - 4
}

async fn open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        received.push(stream.read_u8().await.expect("the server answers"));
    }
    stream
}

/// Question: what does a WebSocket hold that has carried a message and waits for the next?
fn idle(name: &str) {
    let (child, runtime) = (Child::spawn(name), runtime());
    let each = runtime.block_on(async {
        let mut warm = Vec::new();
        for _ in 0..100 {
            warm.push(exchange(child.address).await);
        }
        let before = child.resident();
        let mut idle = Vec::new();
        for _ in 0..SOCKETS {
            idle.push(exchange(child.address).await);
        }
        sleep(Duration::from_secs(3));
        child.resident().saturating_sub(before) / SOCKETS as u64
    });
    println!("\n{name}: {each} bytes resident per silent WebSocket, of {SOCKETS}");
    if name == IN_TASK {
        println!("{} at most {IDLE_MAX}", if each <= IDLE_MAX { "met   " } else { "MISSED" });
    }
}

async fn exchange(address: SocketAddr) -> TcpStream {
    let mut stream = open(address).await;
    stream.write_all(&masked(125)).await.expect("the server reads");
    stream.read_exact(&mut vec![0; answer_len(125)]).await.expect("the server answers");
    stream
}

const SOCKETS: usize = 10_000;
const FILES: u64 = SOCKETS as u64 + 300;
const IDLE_MAX: u64 = 2048;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

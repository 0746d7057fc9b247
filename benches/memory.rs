//! Questions: what does an idle connection hold, and does memory come back after a burst?
//!
//! The server is a process of its own, so what it holds is what the kernel says it has resident;
//! the kernel's own socket buffers are in none of the figures. First 10,000 connections have one
//! request answered each and then stay open. Then, in a fresh process, 200 connections send a
//! body of 1 MiB each, all at the same time, and get it back.
//!
//! ```text
//! cargo bench --bench memory              # about 20 seconds
//! cargo bench --bench memory -- hyper     # hyper only
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use corehttp_benches::child::{self, Child};
use corehttp_benches::handlers::HELLO;
use corehttp_benches::servers;

fn main() {
    rlimit::increase_nofile_limit(FILES).expect("the limit may be asked for");
    match child::server().as_deref() {
        None if child::wanted() => measure(),
        None => {}
        Some(COREHTTP) => servers::serve_corehttp(),
        Some(HYPER) => servers::serve_hyper(),
        Some(unknown) => panic!("no server is called {unknown}"),
    }
}

const COREHTTP: &str = "corehttp";
const HYPER: &str = "hyper";

/// The descriptors of each of the two processes, and some to spare.
const FILES: u64 = CONNECTIONS as u64 + 200;
const CONNECTIONS: usize = 10_000;

fn measure() {
    for name in child::chosen([COREHTTP, HYPER]) {
        idle_connections(name);
        burst(name);
    }
}

/// Question: what does a connection hold that had one request answered and waits for the next?
fn idle_connections(name: &str) {
    let child = Child::spawn(name);
    let warm = open(&child, BATCH);
    let before = child.resident();
    let mut idle = Vec::with_capacity(CONNECTIONS);
    while idle.len() < CONNECTIONS {
        idle.extend(open(&child, BATCH));
    }
    sleep(SETTLE);
    let each = child.resident().saturating_sub(before) / CONNECTIONS as u64;
    println!("{name}: {each} bytes resident per idle connection, of {CONNECTIONS}");
    if name == COREHTTP {
        println!("{} at most {IDLE_MAX}", if each <= IDLE_MAX { "met   " } else { "MISSED" });
    }
    assert_open(warm.into_iter().chain(idle));
}

/// So many connections are busy at the same time.
const BATCH: usize = 100;
const IDLE_MAX: u64 = 1_100;
/// Caches have emptied by then, and no idle timeout has come.
const SETTLE: Duration = Duration::from_secs(3);

/// Connects so many times, and has one request answered on each.
fn open(child: &Child, count: usize) -> Vec<TcpStream> {
    let mut streams: Vec<_> = (0..count).map(|_| connect(child.address)).collect();
    for stream in &mut streams {
        stream.write_all(GET).expect("the server reads");
    }
    for stream in &mut streams {
        assert_eq!(receive(stream), HELLO.as_bytes());
    }
    streams
}

/// The server closed none of them: what was measured was held.
fn assert_open(streams: impl Iterator<Item = TcpStream>) {
    for stream in streams {
        stream.set_nonblocking(true).expect("a socket");
        let peeked = stream.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(peeked, Err(std::io::ErrorKind::WouldBlock), "an idle connection says nothing and stays");
    }
}

/// Question: is the memory of large bodies given back, with their connections still open?
fn burst(name: &str) {
    let child = Child::spawn(name);
    let mut streams = open(&child, BURST);
    let before = child.resident();
    let body: Vec<u8> = (b'a'..=b'z').cycle().take(BODY_LEN).collect();
    let (last, most) = body.split_last().expect("a body");
    for stream in &mut streams {
        write!(stream, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LEN}\r\n\r\n").expect("a head");
        stream.write_all(most).expect("the server reads");
    }
    let during = child.resident();
    for stream in &mut streams {
        stream.write_all(&[*last]).expect("the server reads");
        assert!(receive(stream) == body, "the body comes back as it was");
    }
    sleep(SETTLE);
    let after = child.resident();
    let [before, during, after] = [before, during, after].map(|bytes| bytes as f64 / f64::from(1 << 20));
    println!(
        "{name}: {before:.1} MiB before {BURST} bodies of 1 MiB, {during:.1} with them, {after:.1} after"
    );
    if name == COREHTTP {
        let (met, most) = (after - before <= KEPT_MAX, KEPT_MAX);
        println!("{} at most {most} MiB kept", if met { "met   " } else { "MISSED" });
    }
    assert_open(streams.into_iter());
}

const BURST: usize = 200;
const BODY_LEN: usize = 1 << 20;
/// A few warm buffers may stay: in MiB.
const KEPT_MAX: f64 = 8.0;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Reads one response, and returns its body.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let (mut response, mut input) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(body) = whole_body(&response) {
            return body.to_vec();
        }
        let read = stream.read(&mut input).expect("the server answers");
        assert!(read > 0, "the server answers in full: {}", response.escape_ascii());
        response.extend_from_slice(&input[..read]);
    }
}

/// The body of a response that is complete.
fn whole_body(response: &[u8]) -> Option<&[u8]> {
    let head_len = memchr::memmem::find(response, b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&response[..head_len]).expect("a head of text").to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    let (_, length) = head.split_once("\r\ncontent-length: ").expect("a length");
    let (length, _) = length.split_once("\r\n").expect("an end of line");
    let body = &response[head_len..];
    (body.len() == length.parse::<usize>().expect("a number")).then_some(body)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server accepts");
    stream.set_nodelay(true).expect("a socket");
    stream
}

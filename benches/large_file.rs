//! Question: what does a file of 100 MiB cost a core, beside nginx with `sendfile on`?
//!
//! Both serve the same file, from the page cache, to the same client, which reads and forgets it. The figure compared
//! is the time that the threads of each spent on a core, as the kernel counts it; they take turns, so that whatever
//! else the machine does befalls both. nginx is that of the system, one process on the core of the server: where there
//! is none, corehttp is alone.
//!
//! ```text
//! cargo bench --bench large_file
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use corehttp::Server;
use corehttp::fs::Files;
use corehttp_benches::child::{self, Child, PinnedCore, pin};
use corehttp_benches::nginx::Nginx;
use corehttp_benches::spread::Spread;

fn main() {
    match child::server() {
        None if child::wanted() => measure(),
        None => {}
        Some(root) => serve(&root),
    }
}

/// Serves the directory `root`, in a process of its own.
fn serve(root: &str) {
    pin(PinnedCore::Server);
    let files = Files::new(root).expect("the root is there");
    let running = Server::bind("127.0.0.1:0").cores(1).start(files).expect("a free port is found");
    child::announce(running.local_addr());
    running.wait().expect("it serves until the process ends");
}

fn measure() {
    let root = tempfile::tempdir().expect("a directory");
    let mut file = File::create(root.path().join(NAME)).expect("a file");
    (0..LEN / PIECE).for_each(|_| file.write_all(&[b'x'; PIECE]).expect("room for the file"));
    let mut own = Child::spawn(root.path().to_str().expect("a path that is text"));
    let nginx = Nginx::start(&format!("root {};", root.path().display()), "");
    pin(PinnedCore::Load);

    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let ours = download(own.address, || own.cpu_time());
        let theirs = nginx.as_ref().map(|nginx| download(nginx.address, || nginx.cpu_time()));
        rounds.push((ours, theirs));
    }
    println!("{:<12}{:>32}", "", "core milliseconds per GiB");
    println!("{:<12}{:>32}", "corehttp", Spread::from_values(rounds.iter().map(|round| round.0)));
    if nginx.is_none() {
        return println!("{:<12}{:>32}", "nginx", "skipped: it is not installed");
    }
    println!("{:<12}{:>32}", "nginx", Spread::from_values(rounds.iter().filter_map(|round| round.1)));
    // Of all rounds together: a median of what falls on two sides would be on either.
    let whole = |time: fn(&(f64, Option<f64>)) -> Option<f64>| rounds.iter().filter_map(time).sum::<f64>();
    let times = whole(|round| Some(round.0)) / whole(|round| round.1);
    let verdict = if times <= 1.0 { "met" } else { "MISSED" };
    println!("{verdict:<12}corehttp takes {times:.2} times what nginx does in all, at most 1.00");
}

const NAME: &str = "large.bin";
const LEN: usize = 100 << 20;
const PIECE: usize = 1 << 20;

/// Many, for one differs from the next by a factor of three: it depends on how the cores happen to fall into step.
const ROUNDS: usize = 101;

/// Files in one round: enough that the clock is fine.
const FILES: usize = 3;

/// The cost for a process to send the file [`FILES`] times, in milliseconds per GiB of the time that it says it has
/// spent on a core.
fn download(address: SocketAddr, mut cpu_time: impl FnMut() -> Duration) -> f64 {
    let mut peer = TcpStream::connect(address).expect("the server listens");
    let mut room = vec![0; 256 << 10];
    fetch(&mut peer, &mut room);
    let before = cpu_time();
    (0..FILES).for_each(|_| fetch(&mut peer, &mut room));
    let spent = cpu_time() - before;
    spent.as_secs_f64() * 1e3 / ((FILES * LEN) as f64 / f64::from(1 << 30))
}

/// Asks for the file, and reads it to its end.
fn fetch(peer: &mut TcpStream, room: &mut [u8]) {
    write!(peer, "GET /{NAME} HTTP/1.1\r\nhost: a\r\n\r\n").expect("the server listens");
    let mut read = |room: &mut [u8]| match peer.read(room).expect("the server sends") {
        0 => panic!("the response is cut"),
        count => count,
    };
    let mut filled = 0;
    let head = loop {
        filled += read(&mut room[filled..]);
        if let Some(end) = room[..filled].windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
    };
    assert!(room.starts_with(b"HTTP/1.1 200 OK\r\n"), "the file is there");
    let mut left = LEN - (filled - head);
    while left > 0 {
        left -= read(room);
    }
}

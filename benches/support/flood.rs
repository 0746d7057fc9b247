//! [`flood`]: peers that have a server begin TLS handshakes, and leave.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

/// Sends `hello` to the server from each of so many threads, waits for the first octets of the answer, resets the connection,
/// and begins anew, until `end`. Returns how many handshakes the server has begun.
pub fn flood(address: SocketAddr, hello: &[u8], threads: usize, end: Instant) -> usize {
    thread::scope(|scope| {
        let peers: Vec<_> = (0..threads).map(|_| scope.spawn(|| begin_many(address, hello, end))).collect();
        peers.into_iter().map(|peer| peer.join().expect("a peer ends")).sum()
    })
}

fn begin_many(address: SocketAddr, hello: &[u8], end: Instant) -> usize {
    let mut begun = 0;
    for _ in 0..HANDSHAKES_MAX {
        if Instant::now() >= end {
            break;
        }
        match begin(address, hello) {
            Ok(()) => begun += 1,
            // A server that refuses is not asked again at once.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    begun
}

/// Begins one handshake. A connection that is reset leaves no port behind that waits (RFC 9293 §3.6.1).
fn begin(address: SocketAddr, hello: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(hello)?;
    match stream.read(&mut [0; 1024])? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// How many handshakes a thread begins at most.
const HANDSHAKES_MAX: usize = 1_000_000;
const ANSWER_MAX: Duration = Duration::from_secs(1);

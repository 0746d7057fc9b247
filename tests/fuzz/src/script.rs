//! [`Script`]: servers in memory that answer as they are told, and note all that is said.

use std::io;
use std::sync::{Arc, Mutex};

use corehttp::net::Dialer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::yield_now;

use crate::oracle::gateway::Behind;
use crate::oracle::server::CHOICES;
use crate::oracle::{Next, Reader};

/// Servers for those who dial them.
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Which input it is.
    turn: u64,
    said: Said,
    connections: Vec<Behind>,
}

/// The response to each request.
#[derive(Clone, Default)]
pub struct Said {
    pub packets: Vec<Vec<u8>>,
    /// The response to requests behind the first one; the same if there is no other.
    pub later: Option<&'static [u8]>,
    /// Whether the connection is closed behind the packets.
    pub closes: bool,
    /// Whether they are said before the content of the request has come.
    pub is_early: bool,
}

impl Script {
    /// Has connections be answered like this from now on.
    pub fn begin(&self, said: Said) {
        let mut state = self.0.lock().unwrap();
        *state = State { turn: state.turn + 1, said, connections: Vec::new() };
    }

    /// The octets of each connection since then.
    pub fn connections(&self) -> Vec<Behind> {
        self.0.lock().unwrap().connections.clone()
    }

    async fn serve(self, mut far: DuplexStream, said: Said, place: (u64, usize)) {
        let (mut received, mut answered, mut buffer) = (Vec::new(), 0, vec![0; 4096]);
        // A client that has closed may have sent a request before.
        let mut is_open = true;
        while let Ok(len @ 1..) = far.read(&mut buffer).await {
            received.extend(&buffer[..len]);
            self.note(place, |behind| behind.received.extend(&buffer[..len]));
            while is_open && answered < asked(&received, said.is_early) {
                let packets = match said.later {
                    Some(later) if place.1 > 0 || answered > 0 => vec![later.to_vec()],
                    _ => said.packets.clone(),
                };
                let closes = said.closes && !(said.later.is_some() && (place.1 > 0 || answered > 0));
                answered += 1;
                self.note(place, |behind| {
                    behind.said.extend(packets.concat());
                    behind.is_closed = closes;
                });
                for packet in packets {
                    is_open = is_open && far.write_all(&packet).await.is_ok();
                    for _ in 0..4 {
                        yield_now().await;
                    }
                }
                if closes {
                    return;
                }
            }
        }
    }

    /// Notes something about a connection, unless it is one of an earlier input.
    fn note(&self, (turn, number): (u64, usize), note: impl FnOnce(&mut Behind)) {
        let mut state = self.0.lock().unwrap();
        if state.turn == turn {
            note(&mut state.connections[number]);
        }
    }
}

/// How many requests are to be answered.
fn asked(received: &[u8], is_early: bool) -> usize {
    let (mut reader, mut count) = (Reader::new(received, CHOICES), 0);
    loop {
        match reader.request() {
            Next::Whole(_) => count += 1,
            Next::Partial(Some(_)) => return count + usize::from(is_early),
            _ => return count,
        }
    }
}

impl Dialer for Script {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(64 << 10);
        let (said, place) = {
            let mut state = self.0.lock().unwrap();
            state.connections.push(Behind::default());
            (state.said.clone(), (state.turn, state.connections.len() - 1))
        };
        tokio::spawn(self.clone().serve(far, said, place));
        Ok(near)
    }
}

//! [`Relaying`]: proxies in memory that say what they are told, whatever a client asks them for.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::net::Dialer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::yield_now;
use tokio::time::sleep;

/// Proxies for those who dial them.
#[derive(Clone, Default)]
pub struct Relaying(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    plan: Plan,
    received: Vec<u8>,
    dialed: usize,
    has_ended: bool,
}

/// The octets of a proxy.
#[derive(Clone, Default)]
pub struct Plan {
    pub packets: Vec<Vec<u8>>,
    /// Whether the proxy closes after them.
    pub closes: bool,
    /// The octets of the server, once it has received a head.
    pub behind: Option<&'static [u8]>,
    /// Whether the proxy waits for a head before it says anything.
    pub is_tunnel: bool,
}

impl Relaying {
    pub fn begin(&self, plan: Plan) {
        *self.0.lock().unwrap() = State { plan, ..State::default() };
    }

    /// All that was received on the only connection, once there is no more.
    pub async fn received(&self) -> Vec<u8> {
        for _ in 0..SECONDS_MAX {
            assert_eq!(self.0.lock().unwrap().dialed, 1, "a proxy is dialed once");
            if let Some(received) = self.ended() {
                return received;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("a connection is still open");
    }

    fn ended(&self) -> Option<Vec<u8>> {
        let state = self.0.lock().unwrap();
        state.has_ended.then(|| state.received.clone())
    }

    async fn serve(self, mut far: DuplexStream, plan: Plan) {
        let Plan { packets, closes, behind, is_tunnel } = plan;
        let mut received = Vec::new();
        if is_tunnel {
            read_head(&mut far, &mut received).await;
        }
        for packet in packets {
            // Who has left gets no more.
            let _ = far.write_all(&packet).await;
            for _ in 0..4 {
                yield_now().await;
            }
        }
        if let Some(behind) = behind.filter(|_| !closes)
            && read_head(&mut far, &mut received).await
        {
            let _ = far.write_all(behind).await;
        }
        let _ = far.shutdown().await;
        let _ = far.read_to_end(&mut received).await;
        let mut state = self.0.lock().unwrap();
        (state.received, state.has_ended) = (received, true);
    }
}

/// Reads up to the end of a head. Returns whether it came.
async fn read_head(far: &mut DuplexStream, received: &mut Vec<u8>) -> bool {
    let (start, mut octet) = (received.len(), [0]);
    while !received[start..].ends_with(b"\r\n\r\n") {
        if !matches!(far.read(&mut octet).await, Ok(1)) {
            return false;
        }
        received.push(octet[0]);
    }
    true
}

const SECONDS_MAX: u32 = 1000;

impl Dialer for Relaying {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(64 << 10);
        let mut state = self.0.lock().unwrap();
        state.dialed += 1;
        tokio::spawn(self.clone().serve(far, state.plan.clone()));
        Ok(near)
    }
}

//! [`Relaying`]: proxies in memory that say what they are told, whatever a client asks them for.

use std::io;
use std::sync::{Arc, Mutex};

use corehttp::net::Dialer;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

use crate::heard::{Heard, read_head, say};

/// Proxies for those who dial them.
#[derive(Clone, Default)]
pub struct Relaying {
    state: Arc<Mutex<State>>,
    heard: Heard,
}

#[derive(Default)]
struct State {
    plan: Plan,
    dialed: usize,
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
        self.heard.clear();
        *self.state.lock().unwrap() = State { plan, ..State::default() };
    }

    /// All that was received on the only connection, once there is no more.
    pub async fn received(&self) -> Vec<u8> {
        assert_eq!(self.state.lock().unwrap().dialed, 1, "a proxy is dialed once");
        self.heard.all().await
    }
}

async fn serve(heard: Heard, mut far: DuplexStream, plan: Plan) {
    let Plan { packets, closes, behind, is_tunnel } = plan;
    let mut received = Vec::new();
    if is_tunnel {
        read_head(&mut far, &mut received).await;
    }
    for packet in packets {
        say(&mut far, &packet).await;
    }
    if let Some(behind) = behind.filter(|_| !closes)
        && read_head(&mut far, &mut received).await
    {
        let _ = far.write_all(behind).await;
    }
    heard.end(far, received).await;
}

impl Dialer for Relaying {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(64 << 10);
        let mut state = self.state.lock().unwrap();
        state.dialed += 1;
        tokio::spawn(serve(self.heard.clone(), far, state.plan.clone()));
        Ok(near)
    }
}

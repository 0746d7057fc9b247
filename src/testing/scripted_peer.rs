//! [`ScriptedPeer`]: a server that follows scripts, for tests of clients.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::script::Script;
use crate::client::builder::ClientBuilder;
use crate::client::client::Client;
use crate::memory::lock;
use crate::net::{Dialer, MemoryStream};
use crate::runtime::Handle;

/// A server in memory that follows scripts. The first connection follows the first script, and so on. All further ones follow
/// the last. The server answers for any host. It runs in the runtime of the client, and on its clock. For `https` URLs there is
/// no TLS handshake.
///
/// # Examples
///
/// A retry, seen from the server:
///
/// ```
/// use corehttp::client::Retry;
/// use corehttp::testing::{Script, ScriptedPeer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> corehttp::Result {
/// let peer = ScriptedPeer::new([
///     Script::new().receive().send("HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n"),
///     Script::new().receive().send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
/// ]);
/// let client = peer.client_builder().retry(Retry::new()).build();
/// assert_eq!(client.get("http://api/").await?.text()?, "ok");
/// assert_eq!((peer.connections(), peer.received().len()), (2, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedPeer {
    scripts: Arc<[Script]>,
    connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<String>>>,
}

impl ScriptedPeer {
    /// Creates a server with these scripts. Without any, each connection is closed at once.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> ScriptedPeer {
        ScriptedPeer {
            scripts: scripts.into_iter().collect(),
            connections: Arc::default(),
            received: Arc::default(),
        }
    }

    /// A client of this server, with defaults.
    pub fn client(&self) -> Client {
        self.client_builder().build()
    }

    /// The settings of a client of this server.
    pub fn client_builder(&self) -> ClientBuilder {
        in_memory(Client::builder().dialer(self.clone()))
    }

    /// The requests received so far, as they are on the wire. Octets that are not UTF-8 are replaced.
    pub fn received(&self) -> Vec<String> {
        lock(&self.received).clone()
    }

    /// How many connections were opened so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Dialer for ScriptedPeer {
    type Stream = MemoryStream;

    async fn dial(&self, _host: &str, _port: u16) -> io::Result<MemoryStream> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let script = self.scripts.get(number).or(self.scripts.last()).cloned().unwrap_or_default();
        let handle = Handle::current().ok_or_else(|| io::Error::other("there is no runtime"))?;
        let (near, far) = tokio::io::duplex(STREAM_BYTES);
        let received = self.received.clone();
        handle.spawn(async move {
            let note =
                |message: Vec<u8>| lock(&received).push(String::from_utf8_lossy(&message).into_owned());
            // A client that leaves early is none of the script's faults.
            let _ = script.play_to(far, note).await;
        });
        Ok(near)
    }
}

/// The settings of a client that reaches peers in memory: those of `https` as well, without a handshake.
pub(super) fn in_memory(mut builder: ClientBuilder) -> ClientBuilder {
    builder.settings.dial.is_in_memory = true;
    builder
}

/// How much is under way in each direction.
pub(super) const STREAM_BYTES: usize = 64 << 10;

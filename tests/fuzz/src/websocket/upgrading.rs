//! [`Upgrading`]: servers in memory that open WebSockets, and say what they are told (RFC 6455 §4.2.2).

use std::io;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use corehttp::net::Dialer;
use sha1_smol::Sha1;
use tokio::io::{DuplexStream, duplex};

use crate::heard::{Heard, read_head, say};
use crate::settings::Settings;

/// Servers for those who dial them.
#[derive(Clone, Default)]
pub struct Upgrading {
    plan: Arc<Mutex<Plan>>,
    /// The octets after the request.
    heard: Heard,
}

/// The octets of a server, and what else happens.
#[derive(Clone, Default)]
pub struct Plan {
    pub said: Vec<u8>,
    /// How they are cut, with the head before them; `None` if they are not.
    pub cut: Option<Settings>,
    /// The extension that is agreed on.
    pub extensions: &'static str,
    /// Called when half of the packets were taken.
    pub stop: Option<fn()>,
}

impl Upgrading {
    pub fn begin(&self, plan: Plan) {
        self.heard.clear();
        *self.plan.lock().unwrap() = plan;
    }

    /// The octets after the request, once there are no more.
    pub async fn received(&self) -> Vec<u8> {
        self.heard.all().await
    }
}

async fn serve(heard: Heard, mut far: DuplexStream, plan: Plan) {
    let mut head = Vec::new();
    if !read_head(&mut far, &mut head).await {
        return;
    }
    let packets = plan.packets(&head);
    let half = packets.len() / 2;
    for (number, packet) in packets.into_iter().enumerate() {
        say(&mut far, &packet).await;
        plan.stop.filter(|_| number == half).iter().for_each(|stop| stop());
    }
    heard.end(far, Vec::new()).await;
}

impl Plan {
    /// The response to a request with this head, and all that follows it.
    fn packets(&self, head: &[u8]) -> Vec<Vec<u8>> {
        let head = String::from_utf8_lossy(head);
        let key =
            head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).expect("it has a key");
        let accept = BASE64.encode(Sha1::from(format!("{key}{GUID}")).digest().bytes());
        let extensions = match self.extensions {
            "" => String::new(),
            extensions => format!("sec-websocket-extensions: {extensions}\r\n"),
        };
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\n{extensions}\r\n"
        );
        let wire = [head.as_bytes(), &self.said].concat();
        self.cut.map_or_else(|| vec![wire.clone()], |settings| settings.cut(&wire))
    }
}

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

impl Dialer for Upgrading {
    type Stream = DuplexStream;

    async fn dial(&self, _: &str, _: u16) -> io::Result<DuplexStream> {
        let (near, far) = duplex(64 << 10);
        let plan = self.plan.lock().unwrap().clone();
        tokio::spawn(serve(self.heard.clone(), far, plan));
        Ok(near)
    }
}

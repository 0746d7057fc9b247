//! Content codings: arbitrary octets are decoded alike however they are cut, within the limit and with bounded memory;
//! and what a server encodes a client decodes.

use std::cell::RefCell;

use corehttp::middleware::Compress;
use corehttp::middleware::wrap;
use corehttp::{BoxHandler, Client, Context, Request, Response, Server};
use tokio::runtime::Runtime;

use crate::memory::bounded;
use crate::script::{Said, Script};
use crate::settings::Settings;
use crate::wired::{Wired, paused};

/// The lowest two bits say which coding it is. Bit 2: the octets are encoded first. Bit 3: there are two codings.
pub fn run(data: &[u8]) {
    let Some((settings, content)) = Settings::split(data) else { return };
    let coding = ["gzip", "deflate", "br", "identity"][usize::from(settings.flags & 3)];
    DECODER.with(|decoder| match settings.flag(2) {
        true => {
            let response = encoded(coding, content);
            let decoded = decoder.decode(settings.cut(&response));
            assert_eq!(decoded.as_deref(), Some(content), "{coding}");
        }
        false => {
            let second = if settings.flag(3) { ", gzip" } else { "" };
            let length = content.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: {coding}{second}\r\ncontent-length: {length}\r\n\r\n"
            );
            let response = [head.as_bytes(), content].concat();
            let whole = bounded(MEMORY_MAX, || decoder.decode(vec![response.clone()]));
            let cut = bounded(MEMORY_MAX, || decoder.decode(settings.cut(&response)));
            // Content may be corrupt and also too large, or corrupt and also incomplete: how many octets lie ahead
            // decides which of the two a decoder finds first.
            assert_eq!(cut, whole, "{coding}, cut otherwise");
            assert!(whole.is_none_or(|content| content.len() <= DECODED_MAX));
        }
    });
}

/// A window of brotli has up to 16 MiB.
const MEMORY_MAX: usize = 40 << 20;

pub(crate) const DECODED_MAX: usize = 64 << 10;

thread_local! {
    static DECODER: Decoder = Decoder::new();
    static CONTENT: RefCell<Vec<u8>> = RefCell::default();
    static ENCODER: Wired<BoxHandler> = encoder();
}

struct Decoder {
    runtime: Runtime,
    script: Script,
    client: Client,
}

impl Decoder {
    fn new() -> Decoder {
        let (runtime, script) = (paused(), Script::default());
        let client = Client::builder().dialer(script.clone()).decode_up_to(DECODED_MAX).build();
        Decoder { runtime, script, client }
    }

    /// Receives a response in these packets. `None` if its content cannot be decoded.
    fn decode(&self, packets: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        self.script.begin(Said { packets, closes: true, ..Said::default() });
        self.runtime.block_on(async {
            self.client.close_idle();
            let (request, mut response) = (Request::get("http://a/").unwrap(), Response::new());
            let sent = self.client.send(&request, &mut response).await;
            sent.ok().map(|()| response.body.bytes().to_vec())
        })
    }
}

/// A server that encodes [`CONTENT`].
fn encoder() -> Wired<BoxHandler> {
    let respond = |ctx: &mut Context| {
        CONTENT.with_borrow(|content| ctx.response.set_shared_bytes("text/plain", content.clone()).unwrap());
    };
    Wired::new(Server::new(), BoxHandler::new(wrap(Compress::new().size_min(0), respond)))
}

/// The content that a client makes of a body with these codings. `None` if it cannot be decoded.
pub(crate) fn decoded(codings: &str, body: &[u8]) -> Option<Vec<u8>> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {codings}\r\ncontent-length: {length}\r\n\r\n");
    DECODER.with(|decoder| decoder.decode(vec![[head.as_bytes(), body].concat()]))
}

/// A response with that content in that coding.
pub(crate) fn encoded(coding: &str, content: &[u8]) -> Vec<u8> {
    CONTENT.set(content.to_vec());
    let asked =
        format!("GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: {coding}\r\nconnection: close\r\n\r\n");
    ENCODER.with(|encoder| encoder.ask(vec![asked.into_bytes()], true).octets)
}

//! A gateway between a peer and a server that say arbitrary octets. Nothing goes on that a strict reader refuses, each
//! message is the one that was received, memory is bounded, and nothing of it shows in the next exchange.

use corehttp::middleware::wrap;
use corehttp::{BodyPlan, BoxHandler, Client, Context, Server};

use crate::client::has_odd_cookie;
use crate::memory::bounded;
use crate::oracle::gateway::Transcript;
use crate::script::{Said, Script};
use crate::settings::Settings;
use crate::wired::{Received, Wired, undated};

/// Bit 0: the peer ends its side. Bit 1: the server behind closes. Bit 2: it answers before the content has come. Two
/// more octets say how much of the rest the peer says; the server says what is left.
pub fn run(data: &[u8]) {
    let Some((settings, rest)) = Settings::split(data) else { return };
    let Some((&[low, high], rest)) = rest.split_first_chunk() else { return };
    let (asked, said) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
    GATEWAY.with(|gateway| {
        let (closes, is_early) = (settings.flag(1), settings.flag(2));
        let wire = said;
        let said = Said { packets: settings.cut(wire), later: None, closes, is_early };
        let received = bounded(MEMORY_MAX + 200 * rest.len(), || {
            gateway.ask(settings.cut(asked), settings.flag(0), said)
        });
        let behind = gateway.script.connections();
        if !has_odd_cookie(wire) {
            Transcript { asked, received: &received.octets, is_ended: received.is_ended, behind: &behind }
                .check();
        }
        let said = Said { packets: vec![PROBED.to_vec()], ..Said::default() };
        let probe = gateway.ask(vec![PROBE.to_vec()], true, said);
        assert_eq!(undated(&probe), PROBE_HEARD);
    });
}

/// The memory of both connections before they receive anything, and of the servers in memory.
const MEMORY_MAX: usize = 1 << 20;

const PROBE: &[u8] = b"GET /probe HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
const PROBED: &[u8] = b"HTTP/1.1 200 OK\r\nx-probe: 1\r\ncontent-length: 5\r\n\r\nprobe";
const PROBE_HEARD: &str =
    "HTTP/1.1 200 OK\r\nx-probe: 1\r\ncontent-length: 5\r\nconnection: close\r\n\r\nprobe";

thread_local! {
    static GATEWAY: Gateway = Gateway::new();
}

/// A gateway that is kept for all inputs.
struct Gateway {
    wired: Wired<BoxHandler>,
    script: Script,
    client: Client,
}

impl Gateway {
    fn new() -> Gateway {
        let script = Script::default();
        let client = Client::builder().dialer(script.clone()).build();
        let onward = client.clone();
        let pass = async move |ctx: &mut Context| {
            if ctx.request.path().starts_with("/b") {
                ctx.buffer_body().await?;
            }
            let target = ctx.request.forwarded_to("http://b")?;
            ctx.forward(onward.open_call(&target)).await
        };
        let handler = BoxHandler::new(wrap(BodyPlan::Stream, pass));
        Gateway { wired: Wired::new(Server::new().half_close(true), handler), script, client }
    }

    fn ask(&self, asked: Vec<Vec<u8>>, ends: bool, said: Said) -> Received {
        self.client.close_idle();
        self.script.begin(said);
        self.wired.ask(asked, ends)
    }
}

//! A client that receives arbitrary octets. The response that it accepts is what the oracle reads, however the octets are
//! cut; memory is bounded; and nothing of it shows in the next exchange.

use std::cell::RefCell;
use std::time::Duration;

use corehttp::client::{ClientLimits, Redirects};
use corehttp::{Client, Headers, Request, Response};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::everything;
use crate::memory::bounded;
use crate::oracle::client::{Call, LIMITS, Limits, check, final_response};
use crate::oracle::server::has_odd_trailer;
use crate::oracle::{Field, Next};
use crate::script::{Said, Script};
use crate::settings::Settings;
use crate::wired::paused;

/// Bit 0: the server closes behind its response. Bit 1: limits are small. Bit 2: the method is HEAD.
pub fn run(data: &[u8]) {
    let Some((settings, wire)) = Settings::split(data) else { return };
    CLIENTS.with(|clients| {
        let caller = &clients[usize::from(settings.flag(1))];
        let (method, closes) = (if settings.flag(2) { "HEAD" } else { "GET" }, settings.flag(0));
        let most = MEMORY_MAX + 100 * wire.len();
        let packets = vec![wire.to_vec()];
        let whole = bounded(most, || caller.call(method, packets, closes));
        let cut = bounded(most, || caller.call(method, settings.cut(wire), closes));
        assert_eq!(cut, whole, "cut otherwise: {}", wire.escape_ascii());
        if has_odd_cookie(wire) {
            return;
        }
        let call = Call { method, wire, is_closed: closes, limits: caller.limits };
        let received = whole.received.as_ref();
        check(call, received.map(|it| (it.status, &*it.content, whole.is_reused)).map_err(|why| &**why));
        if let (Next::Whole(read), Ok(received)) = (final_response(wire, method, closes).next, received) {
            let mut expected = unfolded(&read.fields);
            if method == "HEAD" || matches!(received.status, 204 | 304) {
                // Framing that is contradictory does not count there, and is left out (RFC 9112 §6.3 rule 1).
                let is_framing = |name: &str| matches!(name, "content-length" | "transfer-encoding");
                expected.retain(|(name, _)| {
                    !is_framing(name) || received.fields.iter().any(|(kept, _)| kept == name)
                });
            }
            assert_eq!(received.fields, expected, "{}", wire.escape_ascii());
            if !has_odd_trailer(&read.trailers) {
                assert_eq!(received.trailers, unfolded(&read.trailers), "{}", wire.escape_ascii());
            }
        }
    });
}

/// Whether a line may be left out that the strict reader refuses: a cookie with a control is dropped alone, as RFC
/// 6265bis §5.6 has it.
pub(crate) fn has_odd_cookie(wire: &[u8]) -> bool {
    let is_control = |octet: &u8| octet.is_ascii_control() && !matches!(octet, b'\r' | b'\n' | b'\t');
    wire.to_ascii_lowercase().windows(10).any(|name| name == b"set-cookie") && wire.iter().any(is_control)
}

/// The memory of a call without a response, and of the servers in memory.
const MEMORY_MAX: usize = 1 << 20;

thread_local! {
    static CLIENTS: [Caller; 2] = {
        let small = Limits { head_max: 300, fields_max: 6, body_max: 100 };
        [Caller::new(LIMITS), Caller::new(small)]
    };
}

const PROBED: &[u8] = b"HTTP/1.1 200 OK\r\nx-probe: 1\r\ncontent-length: 5\r\n\r\nprobe";

/// A client that is kept for all inputs, and the memory of its exchanges.
struct Caller {
    runtime: Runtime,
    script: Script,
    client: Client,
    limits: Limits,
    response: RefCell<Response>,
}

/// How a call ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    received: Result<ReceivedResponse, String>,
    is_reused: bool,
}

#[derive(Debug, PartialEq)]
struct ReceivedResponse {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
    content: Vec<u8>,
    trailers: Vec<(String, Vec<u8>)>,
}

impl Caller {
    fn new(limits: Limits) -> Caller {
        let (runtime, script) = (paused(), Script::default());
        let builder = Client::builder().dialer(script.clone()).redirects(Redirects::Return);
        let Limits { head_max, fields_max, body_max, .. } = limits;
        let bounds = ClientLimits { head_max, fields_max, body_max, ..ClientLimits::default() };
        let client = builder.limits(bounds).build();
        Caller { runtime, script, client, limits, response: RefCell::default() }
    }

    fn call(&self, method: &str, packets: Vec<Vec<u8>>, closes: bool) -> Outcome {
        self.script.begin(Said { packets, later: Some(PROBED), closes, is_early: false });
        let mut response = self.response.borrow_mut();
        self.runtime.block_on(async {
            self.client.close_idle();
            let request = Request::new(method, "http://a/").unwrap();
            let sent = self.client.send(&request, &mut response).await;
            everything::of_response(&response);
            // Which line an error quotes depends on how much of it has arrived.
            let unquoted = |text: String| text.split(": `").next().map(str::to_owned).unwrap_or_default();
            let received = sent
                .map(|()| ReceivedResponse::from_response(&response))
                .map_err(|error| unquoted(format!("{error:#}")));
            // The rest of the octets arrives on an idle connection.
            sleep(Duration::from_secs(1)).await;
            let probe = Request::get("http://a/probe").unwrap();
            self.client.send(&probe, &mut response).await.expect("a probe is answered");
            let fields = vec![("x-probe".into(), b"1".to_vec()), ("content-length".into(), b"5".to_vec())];
            let probed =
                ReceivedResponse { status: 200, fields, content: b"probe".to_vec(), trailers: Vec::new() };
            assert_eq!(ReceivedResponse::from_response(&response), probed);
            Outcome { received, is_reused: self.script.connections().len() == 1 }
        })
    }
}

impl ReceivedResponse {
    fn from_response(response: &Response) -> ReceivedResponse {
        ReceivedResponse {
            status: response.status.as_u16(),
            fields: received(&response.headers),
            content: response.body.bytes().to_vec(),
            trailers: received(&response.trailers),
        }
    }
}

fn received(headers: &Headers) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), single_blanks(value))).collect()
}

fn unfolded(fields: &[Field]) -> Vec<(String, Vec<u8>)> {
    let name = |field: &Field| String::from_utf8(field.name.to_ascii_lowercase()).unwrap();
    fields.iter().map(|field| (name(field), single_blanks(&field.value))).collect()
}

/// Where a line was folded, there is at least one blank (RFC 9112 §5.2).
fn single_blanks(value: &[u8]) -> Vec<u8> {
    let words = value.split(|octet| matches!(octet, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

//! A server that receives arbitrary octets. Its handlers see the requests that the oracle reads, however the octets are
//! cut; a strict reader reads its responses; memory is bounded; and nothing of it shows in the next exchange.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use corehttp::{BodyPlan, Context, Handler, Limits, Request, Server};

use crate::memory::bounded;
use crate::oracle::server::{Handlers, check};
use crate::oracle::{self, Next, Reader, Response};
use crate::settings::Settings;
use crate::wired::{Received, Wired, undated};

/// Bit 0: the peer ends its side. Bit 1: limits are small.
pub fn run(data: &[u8]) {
    let Some((settings, wire)) = Settings::split(data) else { return };
    SERVERS.with(|servers| {
        let wired = &servers[usize::from(settings.flag(1))];
        let most = MEMORY_MAX + 24 * wire.len();
        let whole = bounded(most, || Outcome::from_packets(wired, vec![wire.to_vec()], settings.flag(0)));
        let cut = bounded(most, || Outcome::from_packets(wired, settings.cut(wire), settings.flag(0)));
        assert_eq!(cut, whole, "cut otherwise: {}", wire.escape_ascii());
        check(wire, READ, &whole.seen, whole.refused);
        let probe = wired.ask(vec![PROBE.to_vec()], true);
        assert_eq!((undated(&probe), SEEN.take().concat()), (PROBED.into(), PROBE_SEEN.into()));
    });
}

/// The memory of a connection before it receives anything.
const MEMORY_MAX: usize = 256 << 10;

/// No connection of this kind waits for more than one body and one more request.
const TIME_MAX: Duration = Duration::from_secs(200);

const PROBE: &[u8] = b"GET /probe HTTP/1.0\r\n\r\n";
const PROBE_SEEN: &str = "GET /probe HTTP/1.0 [] \"\" []";
const PROBED: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

thread_local! {
    static SERVERS: [Wired<Application>; 2] = [Limits::default(), small()].map(|limits| {
        // A peer that has ended its side reads on here, so no request is given up for that.
        Wired::new(Server::new().limits(limits).half_close(true), Application)
    });

    /// The requests that handlers saw.
    static SEEN: RefCell<Vec<String>> = RefCell::default();
}

pub(crate) fn small() -> Limits {
    Limits {
        request_line_max: 100,
        head_max: 400,
        fields_max: 6,
        body_max: 100,
        trailers_max: 60,
        trailer_fields_max: 3,
        drain_max: 50,
        pipeline_responses_max: 2,
        pipeline_bytes_max: 200,
        ..Limits::default()
    }
}

/// The outcome of a connection.
#[derive(Debug, PartialEq)]
struct Outcome {
    seen: Vec<String>,
    refused: Option<u16>,
}

impl Outcome {
    fn from_packets(wired: &Wired<Application>, packets: Vec<Vec<u8>>, ends: bool) -> Outcome {
        let Received { octets: received, is_ended, took } = wired.ask(packets, ends);
        assert!(took < TIME_MAX, "{took:?} for {}", received.escape_ascii());
        let seen = SEEN.take();
        let (mut reader, mut finals) = (Reader::strict(&received), Vec::new());
        loop {
            // A refusal of a request that was not understood may answer HEAD.
            let is_head = seen.get(finals.len()).is_some_and(|seen| seen.starts_with("HEAD "));
            let mut next = reader.clone();
            match next.response(if is_head { b"HEAD" } else { b"GET" }, is_ended) {
                Next::Nothing => break,
                Next::Whole(response) => {
                    reader = next;
                    finals.extend((response.status >= 200).then_some(response));
                }
                Next::Partial(Some(response)) if finals.len() == seen.len() && next.rest().is_empty() => {
                    finals.push(response);
                    break;
                }
                next => panic!("answered {next:?}: {}", received.escape_ascii()),
            }
        }
        let refused = finals.get(seen.len()).map(|response| response.status);
        assert!(
            (seen.len()..=seen.len() + 1).contains(&finals.len()),
            "{seen:?}: {}",
            received.escape_ascii()
        );
        finals.iter().take(seen.len()).for_each(|response| assert_eq!(response.status, 200));
        let closing = finals.iter().position(|response| !response.persists());
        assert!(closing.is_none_or(|at| at + 1 == finals.len()), "goes on: {}", received.escape_ascii());
        check_responses(&finals, &seen);
        Outcome { seen, refused }
    }
}

/// A response has the content that its handler gave it.
fn check_responses(finals: &[Response], seen: &[String]) {
    for (response, seen) in finals.iter().zip(seen).filter(|(_, seen)| !seen.starts_with("HEAD ")) {
        assert!(
            seen.contains(&format!(" \"{}\" ", response.content.escape_ascii())),
            "{response:?} to {seen}"
        );
    }
}

/// Does what the second letter of the path says, and sends back what it has read.
struct Application;

/// The traces that an exchange leaves in its context, where the next must not find them.
struct Soil;

impl Handler for Application {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        match ctx.request.path().as_bytes().get(1) {
            Some(b's' | b'w' | b'e' | b'l') => BodyPlan::Stream,
            _ => BodyPlan::Buffer,
        }
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        let is_new = ctx.extensions.insert(Soil).is_none();
        assert!(is_new && ctx.response.headers.is_empty() && ctx.response.body.bytes().is_empty());
        assert!(ctx.response.trailers.is_empty() && ctx.response.status.as_u16() == 200);
        let way = ctx.request.path().as_bytes().get(1).copied().unwrap_or_default();
        let (mut content, mut trailers) = (Vec::new(), Vec::new());
        match way {
            b'e' => {}
            b's' | b'w' => {
                let read = stream(ctx, &mut content).await;
                trailers = read_on(ctx, read).await?;
            }
            _ => {
                // Later than others, which have it already.
                let buffered = ctx.buffer_body().await;
                read_on(ctx, buffered).await?;
                content.extend(ctx.request.body.bytes());
                trailers = fields(&ctx.request.trailers);
            }
        }
        SEEN.with_borrow_mut(|seen| seen.push(note(&ctx.request, &content, &trailers)));
        if way == b'w' {
            let mut out = ctx.body_writer().await?;
            for piece in content.chunks(7) {
                out.write_all(piece).await?;
                out.flush().await?;
            }
            return Ok(out.finish().await?);
        }
        if content.is_empty() {
            ctx.response.set_text("");
        } else {
            ctx.response.headers.set("x-soil", content.len())?;
            ctx.response.body.set_bytes(content);
        }
        Ok(())
    }
}

async fn stream(ctx: &mut Context, content: &mut Vec<u8>) -> io::Result<Vec<String>> {
    let mut body = ctx.body_reader();
    while let Some(piece) = body.chunk().await? {
        content.extend_from_slice(piece);
    }
    Ok(fields(body.trailers()))
}

/// Once a body could not be received, no more of it can be read.
async fn read_on<T>(ctx: &mut Context, read: io::Result<T>) -> io::Result<T> {
    if read.is_err() {
        let pulled = ctx.body_reader().chunk().await.map(|piece| piece.is_some());
        assert!(ctx.request.body.is_empty() && pulled.is_err(), "{pulled:?} after an error");
        assert!(ctx.buffer_body_up_to(usize::MAX).await.is_err() && ctx.request.body.is_empty());
    }
    read
}

fn fields(headers: &corehttp::Headers) -> Vec<String> {
    headers.iter().map(|(name, value)| format!("{}: {}", shown(name.as_bytes()), shown(value))).collect()
}

fn note(request: &Request, content: &[u8], trailers: &[String]) -> String {
    let (method, target, version) = (request.method(), request.target(), request.version());
    let (fields, content) = (fields(&request.headers), content.escape_ascii());
    format!("{method} {} {version} {fields:?} \"{content}\" {trailers:?}", shown(target.as_str().as_bytes()))
}

fn shown(octets: &[u8]) -> String {
    octets.escape_ascii().to_string()
}

/// The view of [`Application`] of a request that the oracle has read.
const READ: Handlers = Handlers {
    note: &|request| {
        let fields = |fields: &[oracle::Field]| -> Vec<String> {
            let show = |field: &oracle::Field| format!("{}: {}", shown(&field.name), shown(&field.value));
            fields.iter().map(show).collect()
        };
        let is_early = is_early(request);
        let content = if is_early { "".into() } else { shown(&request.content) };
        let trailers = if is_early { Vec::new() } else { fields(&request.trailers) };
        let version = if request.minor == 0 { "HTTP/1.0" } else { "HTTP/1.1" };
        let (method, target) = (String::from_utf8_lossy(&request.method), shown(&request.target));
        format!("{method} {target} {version} {:?} \"{content}\" {trailers:?}", fields(&request.fields))
    },
    is_early: &is_early,
    is_streamed: &|request| request.path().get(1) == Some(&b'w'),
};

fn is_early(request: &oracle::Request) -> bool {
    request.path().get(1) == Some(&b'e')
}

//! Compares what the server made of a stream with what the [`Reader`] makes of it.

use super::grammar::{elements, split_port};
use super::message::{Chunking, Field, Request, sole, values};
use super::reader::{Choice, Next, Reader};

/// Deviations from the strict reading that the server accepts.
pub const CHOICES: &[Choice] = &[Choice::RawTarget];

/// The treatment of requests by the handlers of a server.
#[derive(Clone, Copy)]
pub struct Handlers<'a> {
    /// The note that a handler takes of its request.
    pub note: &'a dyn Fn(&Request) -> String,
    /// Whether it answers without having read the content.
    pub is_early: &'a dyn Fn(&Request) -> bool,
    /// Whether it answers piece by piece. The end of the connection is the only end that HTTP/1.0 knows for that.
    pub is_streamed: &'a dyn Fn(&Request) -> bool,
}

impl<'a> Handlers<'a> {
    /// Handlers that read the content to its end, and answer at once.
    pub fn reading(note: &'a dyn Fn(&Request) -> String) -> Handlers<'a> {
        Handlers { note, is_early: &|_| false, is_streamed: &|_| false }
    }

    /// Whether another request may follow that one.
    fn go_on(&self, request: &Request) -> bool {
        let is_old = request.minor == 0 && request.method != b"HEAD";
        request.persists() && !(is_old && (self.is_streamed)(request))
    }
}

/// Checks a connection over which `wire` was sent: the requests that handlers saw, by their notes, are those that the
/// reader reads, in their order. `refused` is the status of the refusal behind them, which the reader refuses, too, or
/// finds cut short, unless the server [may refuse](may_refuse) it. If there is none, nothing is left.
///
/// # Panics
///
/// If something else happened.
#[track_caller]
pub fn check(wire: &[u8], handlers: Handlers, seen: &[String], refused: Option<u16>) {
    let shown = wire[..wire.len().min(2000)].escape_ascii();
    let (mut reader, mut goes_on) = (Reader::new(wire, CHOICES), true);
    for note in seen {
        assert!(goes_on, "{note:?} was seen behind the last request of {shown}");
        let next = reader.request();
        let (request, is_whole) = match &next {
            Next::Whole(request) => (request, true),
            Next::Partial(Some(request)) | Next::Refused(Some(request), _) => (request, false),
            next => panic!("{note:?} was seen, but read {next:?}: {shown}"),
        };
        let is_early = (handlers.is_early)(request);
        assert_eq!(*note, (handlers.note)(request), "seen, and read: {shown}");
        assert!(is_whole || is_early, "{note:?} was seen whole, but read {next:?}: {shown}");
        goes_on = is_whole && handlers.go_on(request);
        // The unread content may be too much to be read now.
        if is_early && refused.is_none() && seen.last() == Some(note) {
            return;
        }
    }
    if !goes_on {
        return assert_eq!(refused, None, "refused behind the last request of {shown}");
    }
    match (reader.request(), refused) {
        (Next::Nothing, None) | (Next::Refused(..) | Next::Partial(_), Some(_)) => {}
        (Next::Whole(request), Some(status)) => {
            assert!(may_refuse(&request, status), "{status}, but read {request:?}: {shown}");
        }
        (next, refused) => panic!("refused {refused:?}, but read {next:?}: {shown}"),
    }
}

/// Where the server refuses, with this status, what the grammar allows.
pub fn may_refuse(request: &Request, status: u16) -> bool {
    let Request { method, fields, trailers, chunking, .. } = request;
    let chunking = chunking.unwrap_or_default();
    let choices = [
        (501, "9110 §9.1: a method of more than 23 octets", method.len() > 23),
        (501, "9110 §9.3.6: CONNECT, which no handler has planned for", method == b"CONNECT"),
        (417, "9110 §10.1.1: an expectation other than 100-continue", has_other_expectation(fields)),
        (400, "9110 §7.2: a port that no connection can have", authorities(request).any(has_odd_port)),
        (400, "9110 §7.2: a port without a host", authorities(request).any(|it| it.starts_with(b":"))),
        (400, "9110 §4.2.3: a host with escapes", authorities(request).any(|it| it.contains(&b'%'))),
        (400, "WHATWG URL §4.4: a path with a backslash", request.path().contains(&b'\\')),
        (400, "9112 §3.2: a target that is no text", !is_text(&request.target)),
        (400, "9112 §6.1: codings in several lines", has_coding_lines(fields)),
        (400, "9112 §7.1: a size of more than 16 digits", chunking.digits > 16),
        (400, "9112 §7.1.1: long extensions", is_long(chunking)),
        (400, "9110 §6.5.1: a trailer that frames, routes, controls or describes", has_odd_trailer(trailers)),
        (400, "9110 §6.6.2: the announcement of such a trailer", announces_odd_trailer(fields)),
        (413, "9110 §15.5.14: content above the limit", true),
        (414, "9110 §15.5.15: a request line above the limit", true),
        (431, "RFC 6585 §5: fields above their limits", true),
    ];
    choices.iter().any(|(with, _, holds)| *with == status && *holds)
}

/// Bounds on chunks that are not documented as limits of the grammar.
pub fn is_long(chunking: Chunking) -> bool {
    chunking.line > 4 << 10 || chunking.lines > 16 << 10
}

fn has_other_expectation(fields: &[Field]) -> bool {
    let mut all = values(fields, "expect").flat_map(elements);
    all.any(|value| !value.eq_ignore_ascii_case(b"100-continue"))
}

/// The authorities of the target and of Host as it was sent.
fn authorities(request: &Request) -> impl Iterator<Item = &[u8]> {
    [request.authority(), request.sent_host.as_deref()].into_iter().flatten()
}

fn has_odd_port(authority: &[u8]) -> bool {
    let port = split_port(authority).1.and_then(super::grammar::decimal);
    port.is_some_and(|port| port > 65535)
}

/// UTF-8 without controls, of which some are beyond ASCII.
fn is_text(target: &[u8]) -> bool {
    std::str::from_utf8(target).is_ok_and(|target| !target.chars().any(char::is_control))
}

pub fn has_coding_lines(fields: &[Field]) -> bool {
    values(fields, "transfer-encoding").count() > 1
}

pub fn has_odd_trailer(trailers: &[Field]) -> bool {
    trailers.iter().any(|field| is_odd_trailer(&field.name))
}

fn announces_odd_trailer(fields: &[Field]) -> bool {
    values(fields, "trailer").flat_map(elements).any(is_odd_trailer)
}

/// RFC 9110 §6.5.1, kind by kind, and what others are known by to do the same.
fn is_odd_trailer(name: &[u8]) -> bool {
    const ODD: &[&str] = &[
        // Framing and connections (§6.4, §7.6, §7.8).
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        // Routing (§7.2).
        "forwarded",
        "host",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        // Controls and conditions (§7.6.2, §10.1.1, §13, §14.2).
        "cache-control",
        "expect",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "max-forwards",
        "pragma",
        "range",
        // Authentication (§11), and cookies (RFC 6265).
        "authentication-info",
        "authorization",
        "cookie",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "set-cookie",
        "www-authenticate",
        // Control of responses (§10.2, §12.5.5).
        "age",
        "date",
        "expires",
        "location",
        "retry-after",
        "vary",
        "warning",
        // Content (§8).
        "content-encoding",
        "content-language",
        "content-location",
        "content-range",
        "content-type",
    ];
    ODD.iter().any(|odd| name.eq_ignore_ascii_case(odd.as_bytes()))
}

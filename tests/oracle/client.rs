//! Compares what the client made of a response with what the [`Reader`] makes of it.

use super::message::{Field, Response};
use super::reader::{Choice, Next, Reader};
use super::server::{has_coding_lines, is_long};

/// Deviations from the strict reading that the client accepts.
pub const CHOICES: &[Choice] = &[Choice::StatusWithoutSpace];

/// How many interim responses the client reads before a final one.
const INTERIM_MAX: usize = 16;

/// How a request is answered.
pub struct Responses<'a> {
    /// The interim responses.
    pub interim: Vec<Response>,
    /// The final response, or 101.
    pub next: Next<Response>,
    /// The octets behind it.
    pub rest: &'a [u8],
}

/// The response to a request with `method`.
pub fn final_response<'a>(wire: &'a [u8], method: &str, is_closed: bool) -> Responses<'a> {
    let (mut reader, mut interim) = (Reader::new(wire, CHOICES), Vec::new());
    loop {
        match reader.response(method.as_bytes(), is_closed) {
            Next::Whole(response) if matches!(response.status, 100 | 102..200) => interim.push(response),
            next => return Responses { interim, next, rest: reader.rest() },
        }
    }
}

/// A call, and what was answered.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub method: &'a str,
    pub wire: &'a [u8],
    /// Whether the server closed the connection behind it.
    pub is_closed: bool,
    pub limits: Limits,
}

/// The limits of the client.
#[derive(Clone, Copy)]
pub struct Limits {
    pub head_max: usize,
    pub fields_max: usize,
    pub body_max: usize,
}

/// The defaults of the client.
pub const LIMITS: Limits = Limits { head_max: 64 << 10, fields_max: 128, body_max: 16 << 20 };

/// Checks a call. `outcome` is the status, the content, and whether the connection was used again; or what went wrong,
/// if the client accepted no response. Then the reader reads the same; or it reads none either, unless the client
/// [may refuse](may_refuse) it.
///
/// # Panics
///
/// If something else happened.
#[track_caller]
pub fn check(call: Call, outcome: Result<(u16, &[u8], bool), &str>) {
    let Call { method, wire, is_closed, limits } = call;
    let shown = wire[..wire.len().min(2000)].escape_ascii();
    let Responses { interim, next, rest } = final_response(wire, method, is_closed);
    match (&next, outcome) {
        (Next::Whole(response), Ok((status, content, is_reused))) => {
            let read = (response.status, &*response.content);
            assert_eq!((status, content), read, "received, and read: {shown}");
            let may_follow = response.persists() && rest.is_empty() && !is_closed;
            assert!(!is_reused || may_follow, "reused behind {next:?} and {rest:?}: {shown}");
        }
        (Next::Whole(response), Err(why)) => {
            let may_refuse = may_refuse(response, &interim, limits);
            assert!(may_refuse, "{why}, but read {response:?}: {shown}");
        }
        (_, Err(_)) => {}
        (next, Ok(_)) => panic!("received {outcome:?}, but read {next:?}: {shown}"),
    }
}

/// Where the client refuses what the grammar allows.
pub fn may_refuse(response: &Response, interim: &[Response], limits: Limits) -> bool {
    let Response { status, content, trailers, chunking, fields, .. } = response;
    let mut heads = interim.iter().chain([response]);
    let chunking = chunking.unwrap_or_default();
    let choices = [
        ("9110 §7.8: a protocol that was not asked for", *status == 101),
        ("9110 §15.2: more than 16 interim responses", interim.len() > INTERIM_MAX),
        ("9112 §6.1: codings in several lines", has_coding_lines(fields)),
        ("9112 §7.1: a size of more than 16 digits", chunking.digits > 16),
        ("9112 §7.1.1: long extensions", is_long(chunking)),
        ("9110 §5.4: fields above their limits", heads.any(|head| is_beyond(head, limits))),
        ("9110 §5.4: trailers above their limits", trailers.len() > 64 || has_long_trailers(trailers)),
        ("9110 §15.5.14: content above the limit", content.len() > limits.body_max),
    ];
    choices.iter().any(|(_, holds)| *holds)
}

/// Whether the head of a response may be beyond the limits.
fn is_beyond(response: &Response, limits: Limits) -> bool {
    let fields = &response.fields;
    let lengths = fields.iter().map(|field| field.name.len() + field.value.len() + ": \r\n".len());
    // Blanks count, too, but are not kept.
    let status_line = "HTTP/1.1 200 \r\n\r\n".len() + response.reason.len();
    let len = 2 * lengths.sum::<usize>() + status_line;
    fields.len() > limits.fields_max || len > limits.head_max
}

fn has_long_trailers(trailers: &[Field]) -> bool {
    trailers.iter().map(|field| field.name.len() + field.value.len()).sum::<usize>() > 8 << 10
}

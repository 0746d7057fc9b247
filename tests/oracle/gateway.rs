//! Compares what passed a gateway with what was said on both sides of it: nothing goes on that a strict reader refuses,
//! and each message is the one that was received.

use super::client::final_response;
use super::message::{Field, Request, Response};
use super::reader::{Next, Reader};
use super::server::CHOICES;

/// All that was said on both sides of a gateway.
pub struct Transcript<'a> {
    /// The octets from its peer, and those to it.
    pub asked: &'a [u8],
    pub received: &'a [u8],
    /// Whether the gateway has ended its side behind that, and has not cut the connection.
    pub is_ended: bool,
    /// Each connection to the server behind.
    pub behind: &'a [Behind],
}

/// The octets to a server behind a gateway and from it, on one connection.
#[derive(Clone, Debug, Default)]
pub struct Behind {
    pub received: Vec<u8>,
    pub said: Vec<u8>,
    /// Whether it closed the connection then.
    pub is_closed: bool,
}

/// The messages that passed a gateway.
#[derive(Debug, Default, PartialEq)]
pub struct Passed {
    /// How many requests went on whole, and how many final responses came back whole.
    pub requests: usize,
    pub responses: usize,
}

impl Transcript<'_> {
    /// Checks all of it.
    ///
    /// # Panics
    ///
    /// If something passed that should not have, or has become something else.
    #[track_caller]
    pub fn check(&self) -> Passed {
        let (asked, left) = self.asked();
        let mut passed = Passed::default();
        let (mut next, mut known) = (0, Vec::new());
        for behind in self.behind {
            let (mut reader, mut said) = (Reader::new(&behind.received, CHOICES), &*behind.said);
            loop {
                let (onward, is_whole) = match reader.request() {
                    Next::Nothing | Next::Partial(None) => break,
                    Next::Whole(request) => (request, true),
                    Next::Partial(Some(request)) => (request, false),
                    Next::Refused(_, rule) => panic!("sent on, against {rule}: {}", shown(&behind.received)),
                };
                // A request that was not answered may be sent again.
                let found =
                    asked[next.min(asked.len())..].iter().position(|it| it.becomes(&onward, is_whole));
                let Some(ahead) = found else { panic!("{onward:?} was never asked: {}", shown(self.asked)) };
                next += ahead;
                passed.requests += usize::from(is_whole);
                let method = String::from_utf8_lossy(&onward.method).into_owned();
                let response = final_response(said, &method, behind.is_closed);
                said = response.rest;
                known.push(response.next);
                if !is_whole {
                    break;
                }
            }
        }
        passed.responses = self.check_heard((&asked, left), &known);
        passed
    }

    /// The requests that the peer sent, of which the last may not be whole, and what is left.
    fn asked(&self) -> (Vec<SentRequest>, &[u8]) {
        let (mut reader, mut all) = (Reader::new(self.asked, CHOICES), Vec::new());
        loop {
            let left = reader.rest();
            let (request, is_whole) = match reader.request() {
                Next::Whole(request) => (request, true),
                Next::Partial(Some(request)) | Next::Refused(Some(request), _) => (request, false),
                _ => return (all, left),
            };
            let goes_on = is_whole && request.persists();
            all.push(SentRequest { request, is_whole });
            if !goes_on {
                return (all, b"");
            }
        }
    }

    /// Each final response is the response to a request, and one that was `known` to the gateway, or an error of its
    /// own. Returns how many were whole.
    #[track_caller]
    fn check_heard(&self, (asked, left): (&[SentRequest], &[u8]), known: &[Next<Response>]) -> usize {
        let is_left_head = left.strip_prefix(b"\r\n").unwrap_or(left).starts_with(b"HEAD ");
        let (mut reader, mut count) = (Reader::strict(self.received), 0);
        loop {
            let is_head = asked.get(count).map_or(is_left_head, |asked| asked.request.method == b"HEAD");
            let method: &[u8] = if is_head { b"HEAD" } else { b"GET" };
            match reader.response(method, self.is_ended) {
                Next::Nothing | Next::Partial(None) => return count,
                Next::Whole(Response { status: 100..200, .. }) => {}
                Next::Whole(response) => {
                    let is_own = is_error_of_its_own(&response, is_head);
                    let is_known = known.iter().any(|known| known_as(known, &response, true));
                    assert!(is_own || is_known, "{response:?} was never said: {known:?}");
                    count += 1;
                    assert!(
                        count <= asked.len() + 1,
                        "more responses than requests: {}",
                        shown(self.received)
                    );
                }
                Next::Partial(Some(response)) => {
                    let is_known = known.iter().any(|known| known_as(known, &response, false));
                    assert!(is_known, "{response:?} was never said: {known:?}");
                    return count;
                }
                Next::Refused(_, rule) => panic!("sent back, against {rule}: {}", shown(self.received)),
            }
        }
    }
}

/// A request of the peer's.
struct SentRequest {
    request: Request,
    is_whole: bool,
}

impl SentRequest {
    /// Whether that can be what goes on of it.
    fn becomes(&self, onward: &Request, is_whole: bool) -> bool {
        let request = &self.request;
        let content = match is_whole {
            true => self.is_whole && onward.content == request.content,
            false => request.content.starts_with(&onward.content),
        };
        let is_target = (request.path(), request.query()) == (onward.path(), onward.query());
        content
            && request.method == onward.method
            && is_target
            && is_part(&onward.trailers, &request.trailers)
    }
}

/// Whether the response `received` is that one, or if it is not `is_whole`, the beginning of it.
fn known_as(known: &Next<Response>, received: &Response, is_whole: bool) -> bool {
    match (known, is_whole) {
        // A server sends no content with 205, whatever it was given (RFC 9110 §15.3.6).
        (Next::Whole(known) | Next::Partial(Some(known)) | Next::Refused(Some(known), _), true)
            if known.status == 205 =>
        {
            received.status == 205 && received.content.is_empty() && received.trailers.is_empty()
        }
        (Next::Whole(known), true) => {
            let is_same = (known.status, &known.content) == (received.status, &received.content);
            is_same && is_part(&received.trailers, &known.trailers)
        }
        (Next::Whole(known) | Next::Partial(Some(known)) | Next::Refused(Some(known), _), false) => {
            known.status == received.status && known.content.starts_with(&received.content)
        }
        _ => false,
    }
}

/// Whether all of `fields` are among `others`.
fn is_part(fields: &[Field], others: &[Field]) -> bool {
    fields.iter().all(|field| {
        let is_same =
            |other: &&Field| other.name.eq_ignore_ascii_case(&field.name) && other.value == field.value;
        others.iter().any(|other| is_same(&other))
    })
}

/// An error whose content is its reason.
fn is_error_of_its_own(response: &Response, is_head: bool) -> bool {
    response.status >= 400 && (is_head || response.content == response.reason)
}

fn shown(wire: &[u8]) -> String {
    wire[..wire.len().min(2000)].escape_ascii().to_string()
}

//! [`ReceivedResponse`]: what a server said, taken apart by a strict reader.

use std::fmt::Debug;

use crate::oracle::server::{Handlers, check};
use crate::oracle::{Next, Reader, Request, Response};

/// One response.
#[derive(Debug)]
pub struct ReceivedResponse {
    pub status: u16,
    pub reason: String,
    pub fields: Vec<(String, String)>,
    pub body: String,
}

impl ReceivedResponse {
    /// Creates a response of the response that the oracle has read.
    fn new(response: Response) -> ReceivedResponse {
        assert_eq!(response.minor, 1, "{response:?} is not HTTP/1.1");
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let fields = response.fields.iter().map(|field| (text(&field.name), text(&field.value)));
        ReceivedResponse {
            status: response.status,
            reason: text(&response.reason),
            fields: fields.collect(),
            body: text(&response.content),
        }
    }

    /// The value of that field, of which there is at most one.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|field| field.0 == name).map(|field| &*field.1);
        let value = values.next();
        assert_eq!(values.next(), None, "a second {name} in {self:?}");
        value
    }

    /// Whether it says that it is the last one.
    #[track_caller]
    pub fn is_last(&self) -> bool {
        self.field("connection") == Some("close")
    }

    /// ErrorReports say no more than the status does: not a byte of the peer's is in them.
    #[track_caller]
    pub fn check_refusal(&self) {
        assert!(self.is_last(), "{self:?} closes");
        assert_eq!(self.body, self.reason);
        assert_eq!(self.field("content-type"), Some("text/plain; charset=utf-8"));
        let names: Vec<_> = self.fields.iter().map(|field| &*field.0).collect();
        assert_eq!(names, ["content-type", "date", "content-length", "connection"]);
    }

    /// Checks the rules for every final response.
    #[track_caller]
    pub fn check(&self) {
        let date = self.field("date").expect("every response has a date (RFC 9110 §6.6.1)");
        let time = httpdate::parse_http_date(date).expect("it is one");
        assert_eq!(httpdate::fmt_http_date(time), date, "in the one form that is sent (§5.6.7)");
        let (length, coding) = (self.field("content-length"), self.field("transfer-encoding"));
        assert!(length.is_none() || coding.is_none(), "{self:?} is framed twice");
        assert!(length.is_none() || self.status != 204, "{self:?} announces what 204 cannot have");
        assert!(coding.is_none_or(|coding| coding == "chunked"));
        assert!(self.field("connection").is_none_or(|option| ["close", "keep-alive"].contains(&option)));
    }
}

/// Takes apart all that was received on one connection. Nothing may be left over, and nothing may follow a response
/// that says that it is the last. A response with the field `asked: HEAD` has no body.
#[track_caller]
pub fn responses(received: &str) -> Vec<ReceivedResponse> {
    let (mut rest, mut responses) = (received, Vec::<ReceivedResponse>::new());
    while !rest.is_empty() {
        assert!(
            !responses.last().is_some_and(ReceivedResponse::is_last),
            "{rest:?} comes after the last response"
        );
        let response = take_response(&mut rest, false)
            .unwrap_or_else(|| panic!("{rest:?} is no response, of {received:?}"));
        if response.status >= 200 {
            response.check();
        }
        responses.push(response);
    }
    responses
}

/// Checks what was received. `expected` is, for each response, the body of a 200 or the status of a refusal, for which
/// no handler ran.
#[track_caller]
pub fn check_responses(received: &str, handled: usize, expected: &[&str], wire: impl Debug) {
    let responses = responses(received);
    let told = responses.iter().map(|response| match response.status {
        200 => response.body.clone(),
        status => status.to_string(),
    });
    assert_eq!(told.collect::<Vec<_>>(), expected, "{wire:?}");
    let refused = responses.iter().filter(|response| response.status != 200);
    refused.clone().for_each(|response| response.check_refusal());
    assert_eq!(handled, expected.len() - refused.count(), "{wire:?}");
}

/// Checks that the oracle reads of `wire` what a table expects of it: for each request what a handler that reads all of
/// it notes, or the status of a report.
#[track_caller]
pub fn check_expected(wire: &[u8], expected: &[&str], note: &dyn Fn(&Request) -> String) {
    let (seen, refused) = match expected {
        [seen @ .., last] if last.parse::<u16>().is_ok() => (seen, last.parse().ok()),
        seen => (seen, None),
    };
    check(wire, Handlers::reading(note), &Vec::from_iter(seen.iter().map(|seen| seen.to_string())), refused);
}

/// Takes the first response off the front of `rest`, if it is whole. One to HEAD has no body.
pub fn take_response(rest: &mut &str, is_to_head: bool) -> Option<ReceivedResponse> {
    let read = |method: &str| {
        let mut reader = Reader::strict(rest.as_bytes());
        let next = reader.response(method.as_bytes(), true);
        if let Next::Whole(response) = next { Some((response, reader.rest().len())) } else { None }
    };
    let (mut response, mut left) = read("HEAD")?;
    if !is_to_head && !response.fields.iter().any(|field| field.name == b"asked" && field.value == b"HEAD") {
        (response, left) = read("GET")?;
    }
    let ends = response.ends_with_connection;
    let reply = ReceivedResponse::new(response);
    *rest = rest.get(rest.len() - left..)?;
    (!ends || reply.is_last()).then_some(reply)
}

//! [`Request`] and [`Response`]: all that one message says.

use std::fmt;

use super::grammar::{elements, split_absolute};

/// A request.
#[derive(Clone, Default, PartialEq)]
pub struct Request {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    /// The minor version, of major version 1.
    pub minor: u8,
    pub fields: Vec<Field>,
    /// Host as it was sent, in whose place `fields` has the host of an absolute target (RFC 9112 §3.2.2).
    pub sent_host: Option<Vec<u8>>,
    pub content: Vec<u8>,
    pub trailers: Vec<Field>,
    pub chunking: Option<Chunking>,
}

/// A response.
#[derive(Clone, Default, PartialEq)]
pub struct Response {
    pub minor: u8,
    pub status: u16,
    pub reason: Vec<u8>,
    pub fields: Vec<Field>,
    pub content: Vec<u8>,
    pub trailers: Vec<Field>,
    pub chunking: Option<Chunking>,
    /// Whether the content ends where the connection does.
    pub ends_with_connection: bool,
}

/// A field line, as it is spelled, without the blanks around its value.
#[derive(Clone, PartialEq)]
pub struct Field {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
}

/// How a body in chunks was spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chunking {
    /// The most digits of a size.
    pub digits: usize,
    /// The octets of the longest line of a chunk, and of all of them.
    pub line: usize,
    pub lines: usize,
}

impl Request {
    /// Whether another request may follow on the connection (RFC 9112 §9.3).
    pub fn persists(&self) -> bool {
        persists(self.minor, &self.fields)
    }

    /// The value of the only trailer field of that name.
    pub fn trailer<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        sole(&self.trailers, name)
    }

    /// The path of the target, without its query.
    pub fn path(&self) -> &[u8] {
        let rest = self.behind_authority();
        match rest.split(|octet| *octet == b'?').next().unwrap_or_default() {
            // RFC 9112 §3.2.4, RFC 9110 §4.2.3.
            b"" if self.method == b"OPTIONS" && rest.is_empty() => b"*",
            b"" => b"/",
            path => path,
        }
    }

    /// The query of the target.
    pub fn query(&self) -> Option<&[u8]> {
        let rest = self.behind_authority();
        Some(&rest[rest.iter().position(|octet| *octet == b'?')? + 1..])
    }

    /// The authority of the target URI, if it has one (RFC 9112 §3.3).
    pub fn authority(&self) -> Option<&[u8]> {
        match split_absolute(&self.target) {
            _ if self.method == b"CONNECT" => Some(&self.target),
            Some((authority, _)) => Some(authority),
            None => sole(&self.fields, "host"),
        }
    }

    fn behind_authority(&self) -> &[u8] {
        split_absolute(&self.target).map_or(&*self.target, |(_, rest)| rest)
    }
}

impl Response {
    /// Whether another response may follow on the connection.
    pub fn persists(&self) -> bool {
        persists(self.minor, &self.fields) && !self.ends_with_connection
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { method, target, minor, fields, content, trailers, .. } = self;
        let [method, target, content] = [method, target, content].map(|text| text.escape_ascii());
        write!(f, "{method} {target} HTTP/1.{minor} {fields:?} \"{content}\" {trailers:?}")
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Response { minor, status, reason, fields, content, trailers, .. } = self;
        let [reason, content] = [reason, content].map(|text| text.escape_ascii());
        write!(f, "HTTP/1.{minor} {status} {reason} {fields:?} \"{content}\" {trailers:?}")
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name.escape_ascii(), self.value.escape_ascii())
    }
}

/// RFC 9112 §9.3.
fn persists(minor: u8, fields: &[Field]) -> bool {
    let options = || values(fields, "connection").flat_map(elements);
    let has = |wanted: &[u8]| options().any(|option| option.eq_ignore_ascii_case(wanted));
    !has(b"close") && (minor >= 1 || has(b"keep-alive"))
}

/// The values of all fields of that name.
pub fn values<'a>(fields: &'a [Field], name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
    let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|field| &*field.value)
}

/// The value of the only field of that name.
pub fn sole<'a>(fields: &'a [Field], name: &'a str) -> Option<&'a [u8]> {
    let mut all = values(fields, name);
    all.next().filter(|_| all.next().is_none())
}

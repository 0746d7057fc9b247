//! [`RecordedExchange`]: a request and its response, on the wire and in the file of a recording.
//!
//! A file is text. Each message follows a line that begins with `=== `: its head without the fields of the connection and with
//! the URL for the target, an empty line, and its content, up to the next such line or the end of the file. The final line
//! break is not part of the content. Content that text cannot carry is in base64 (RFC 4648 §4). Its `=== ` line has a note
//! then. Octets of a field value that are not UTF-8, and a backslash before an `x`, are written as `\xHH`.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use memchr::{memchr, memmem};

use super::script::{decode_chunks, message_len};
use crate::message::text::percent;
use crate::message::{FieldName, Headers, Method, Request, Response, Status};

/// A request and its response.
#[derive(Clone, Debug)]
pub(super) struct RecordedExchange {
    pub(super) request: Request,
    pub(super) response: Response,
}

impl RecordedExchange {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// Fails at the first malformed message, with the number of its `=== ` line.
    pub(super) fn parse_all(file: &str) -> io::Result<Vec<RecordedExchange>> {
        let mut exchanges = Vec::new();
        let mut request = None;
        for section in sections(file)? {
            let parsed = match (request.take(), section.title) {
                (None, Title::Request) => section.request().map(|it| request = Some(it)),
                (Some(request), Title::Response) => section
                    .response(request.method())
                    .map(|response| exchanges.push(RecordedExchange { request, response })),
                (None, Title::Response) => Err(invalid("a response follows no request")),
                (Some(_), Title::Request) => Err(invalid("the request before has no response")),
            };
            parsed.map_err(|error| invalid(&format!("line {}: {error}", section.line)))?;
        }
        match request {
            None => Ok(exchanges),
            Some(_) => Err(invalid("the last request has no response")),
        }
    }

    /// The text of the exchange in a file.
    pub(super) fn to_text(&self) -> String {
        let RecordedExchange { request, response } = self;
        let mut text = String::new();
        let start = format!("{} {} HTTP/1.1", request.method(), request.target());
        write_message(&mut text, REQUEST, &start, &request.headers, request.body.bytes());
        let start = format!("HTTP/1.1 {}", response.status);
        write_message(&mut text, RESPONSE, &start, &response.headers, response.body.bytes());
        text
    }
}

/// Parses a request that a client has sent to `origin`, without the fields that belong to the connection.
///
/// # Errors
///
/// Fails if it is cut short, or wants another protocol.
pub(super) fn request_from_wire(octets: &[u8], origin: &str) -> io::Result<Request> {
    if message_len(octets) != Some(octets.len()) {
        return Err(invalid("the request is cut short"));
    }
    let end = memmem::find(octets, b"\r\n\r\n").map_or(octets.len(), |end| end + 4);
    let (head, content) = octets.split_at(end);
    let start_len = memchr(b'\n', head).ok_or_else(|| invalid("the head is empty"))?;
    let (start, lines) = head.split_at(start_len);
    let start = String::from_utf8_lossy(start);
    let [method, target] = start_of_request(start.trim_end())?;
    let mut request = match target.starts_with('/') {
        true => Request::new(method, &format!("{origin}{target}")),
        false => Request::new(method, target),
    }
    .map_err(io::Error::other)?;
    request.headers = parse_fields(lines, <[u8]>::to_vec)?;
    if request.method() == Method::Connect || request.headers.contains("upgrade") {
        return Err(invalid("a tunnel or another protocol cannot be recorded"));
    }
    match decode_chunks(content).filter(|_| request.headers.contains("transfer-encoding")) {
        Some(chunks) => request.body.set_bytes(chunks.content),
        None => request.body.set_bytes(content),
    }
    request.headers.remove_each(&HOP_FIELDS);
    request.headers.remove_each(&CLIENT_FIELDS);
    Ok(request)
}

/// Removes the fields of a response that belong to its connection. The length of content that is not here is kept, as in the
/// response to a HEAD.
pub(super) fn strip_response(response: &mut Response) {
    response.headers.remove_each(&HOP_FIELDS);
    if response.headers.content_length() == Some(response.body.bytes().len() as u64) {
        response.headers.remove("content-length");
    }
}

/// Fields of the connection alone, which are not recorded.
const HOP_FIELDS: [FieldName<'_>; 3] =
    [FieldName::new("connection"), FieldName::new("keep-alive"), FieldName::new("transfer-encoding")];
/// Fields that the client of a played request sets anew.
const CLIENT_FIELDS: [FieldName<'_>; 3] =
    [FieldName::new("content-length"), FieldName::new("expect"), FieldName::new("host")];

/// The response to a request with this method, as it is sent.
pub(super) fn response_to_wire(method: Method, response: &Response) -> Vec<u8> {
    let Response { status, headers, body, .. } = response;
    let mut wire = format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.reason()).into_bytes();
    for (name, value) in headers {
        wire.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    let has_content = has_content(method, *status);
    if has_content && !headers.contains("content-length") {
        wire.extend(format!("content-length: {}\r\n", body.bytes().len()).into_bytes());
    }
    wire.extend(b"\r\n");
    if has_content {
        wire.extend(body.bytes());
    }
    wire
}

/// Whether a response has content (RFC 9110 §6.4.1).
fn has_content(method: Method, status: Status) -> bool {
    method != Method::Head && status != Status::NO_CONTENT && status != Status::NOT_MODIFIED
}

fn write_message(out: &mut String, title: &str, start: &str, headers: &Headers, content: &[u8]) {
    let text = str::from_utf8(content).ok().filter(|text| survives(text));
    let coding = if text.is_none() { IN_BASE64 } else { "" };
    out.extend([MARK, title, coding, "\n", start, "\n"]);
    for (name, value) in headers {
        out.extend([name, ": ", &escape(value), "\n"]);
    }
    out.push('\n');
    match text {
        Some("") => {}
        Some(text) => out.extend([text, "\n"]),
        None => {
            let coded = BASE64_STANDARD.encode(content);
            let lines = coded.as_bytes().chunks(BASE64_COLUMNS).map(String::from_utf8_lossy);
            lines.for_each(|line| out.extend([&*line, "\n"]));
        }
    }
}

/// A field value as text.
fn escape(value: &[u8]) -> String {
    let mut text = String::new();
    for chunk in value.utf8_chunks() {
        text.push_str(&chunk.valid().replace(ESCAPE, ESCAPED_ESCAPE));
        chunk.invalid().iter().for_each(|octet| text.push_str(&format!("{ESCAPE}{octet:02X}")));
    }
    text
}

/// The field value that is written as `text`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memmem::find(rest, ESCAPE.as_bytes()) {
        value.extend_from_slice(&rest[..at]);
        rest = &rest[at + ESCAPE.len()..];
        match hex_octet(rest) {
            Some(octet) => {
                value.push(octet);
                rest = &rest[2..];
            }
            None => value.extend_from_slice(ESCAPE.as_bytes()),
        }
    }
    value.extend_from_slice(rest);
    value
}

/// The octet whose two digits `text` begins with.
fn hex_octet(text: &[u8]) -> Option<u8> {
    let [high, low] = *text.first_chunk()?;
    Some(percent::hex_digit(high)? << 4 | percent::hex_digit(low)?)
}

const ESCAPE: &str = "\\x";
const ESCAPED_ESCAPE: &str = "\\x5Cx";

/// Whether `text` reads back as it is, and as something to read.
fn survives(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().all(is_plain) && !text.lines().any(|line| line.starts_with(MARK))
}

const MARK: &str = "=== ";
const REQUEST: &str = "request";
const RESPONSE: &str = "response";
const IN_BASE64: &str = ", content in base64";
const BASE64_COLUMNS: usize = 76;

/// A message in a file.
struct Section<'f> {
    /// The number of its `=== ` line.
    line: usize,
    title: Title,
    is_base64: bool,
    text: &'f str,
}

#[derive(Clone, Copy)]
enum Title {
    Request,
    Response,
}

impl Section<'_> {
    fn request(&self) -> io::Result<Request> {
        let Message { start, headers, content } = self.message()?;
        let [method, url] = start_of_request(start)?;
        let mut request = Request::new(method, url).map_err(io::Error::other)?;
        request.headers = headers;
        request.body.set_bytes(content);
        Ok(request)
    }

    /// The response to a request with this method.
    fn response(&self, method: Method) -> io::Result<Response> {
        let Message { start, headers, content } = self.message()?;
        let code = start.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        // A recorded one was received.
        let status =
            code.and_then(Status::from_received).ok_or_else(|| invalid("there is no status line"))?;
        if status.is_informational() {
            return Err(invalid("an interim response cannot be played"));
        }
        let mut response = Response { status, headers, ..Response::new() };
        response.body.set_bytes(content);
        strip_response(&mut response);
        // `strip_response` has removed a length that is right. With another one, as in a file that was changed by hand, the client
        // would wait for the rest.
        if has_content(method, status) && response.headers.contains("content-length") {
            let found = response.body.bytes().len();
            return Err(invalid(&format!(
                "the content-length is wrong, for there are {found} octets of content"
            )));
        }
        Ok(response)
    }

    fn message(&self) -> io::Result<Message<'_>> {
        let (start, rest) = self.text.split_once('\n').unwrap_or((self.text, ""));
        let end = rest.split_inclusive('\n').take_while(|line| !line.trim_end().is_empty());
        let (lines, content) = rest.split_at(end.map(str::len).sum());
        let content = content.split_once('\n').map_or("", |(_, content)| content);
        let content = match self.is_base64 {
            true => {
                let coded: String = content.split_ascii_whitespace().collect();
                BASE64_STANDARD.decode(coded).map_err(|_| invalid("the content is not base64"))?
            }
            false => content.strip_suffix('\n').unwrap_or(content).into(),
        };
        Ok(Message { start: start.trim_end(), headers: parse_fields(lines.as_bytes(), unescape)?, content })
    }
}

/// The parts of a message.
struct Message<'f> {
    start: &'f str,
    headers: Headers,
    content: Vec<u8>,
}

/// The messages of a file, in order.
fn sections(file: &str) -> io::Result<Vec<Section<'_>>> {
    let mut sections = Vec::new();
    let mut rest = file;
    let mut line = 1;
    while let Some((first, behind)) = rest.split_once('\n') {
        let (title, is_base64) = match first.trim_end().strip_prefix(MARK) {
            Some(title) => (title.trim_end_matches(IN_BASE64), title.ends_with(IN_BASE64)),
            None => return Err(invalid(&format!("line {line}: a message begins with `=== `"))),
        };
        let title = match title {
            REQUEST => Title::Request,
            RESPONSE => Title::Response,
            _ => return Err(invalid(&format!("line {line}: a message is a request or a response"))),
        };
        let end = if behind.starts_with(MARK) { Some(0) } else { behind.find("\n=== ").map(|end| end + 1) };
        let text = &behind[..end.unwrap_or(behind.len())];
        sections.push(Section { line, title, is_base64, text });
        line += 1 + text.matches('\n').count();
        rest = &behind[text.len()..];
    }
    Ok(sections)
}

/// The method and the target of a request line.
fn start_of_request(line: &str) -> io::Result<[&str; 2]> {
    let mut words = line.split(' ');
    match [words.next(), words.next(), words.next(), words.next()] {
        [Some(method), Some(target), Some(_), None] => Ok([method, target]),
        _ => Err(invalid("there is no request line")),
    }
}

/// The fields on `lines`, which may end with an empty one. `value_of` returns the value for what is on a line.
fn parse_fields(lines: &[u8], value_of: fn(&[u8]) -> Vec<u8>) -> io::Result<Headers> {
    let mut headers = Headers::new();
    for line in
        lines.split(|octet| *octet == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty())
    {
        let colon = memchr(b':', line).ok_or_else(|| invalid("a field has no colon"))?;
        let name = String::from_utf8_lossy(&line[..colon]);
        headers.append(&name, value_of(line[colon + 1..].trim_ascii())).map_err(io::Error::other)?;
    }
    Ok(headers)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests;

//! [`Reader`]: reads one message after another (RFC 9112 §2 to §7).

use super::grammar::{
    decimal, elements, form, hexadecimal, is_authority, is_chunk_extension, is_field_value, is_token,
    split_absolute, trim,
};
use super::message::{Chunking, Field, Request, Response, sole, values};

/// Reads the octets of one direction of a connection.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    choices: &'a [Choice],
}

/// The next message, or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<M> {
    /// No message has begun.
    Nothing,
    /// One that is whole.
    Whole(M),
    /// One whose end is missing: as much as there is of it, if its head is whole.
    Partial(Option<M>),
    /// One that breaks the grammar: as much as there is of it, if its head is good, and which rule it breaks.
    Refused(Option<M>, &'static str),
}

/// A deviation that a recipient may accept, and the strict reader does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// Octets in a path or a query that RFC 3986 wants escaped, and that user agents send as they are. A SHOULD of RFC
    /// 9112 §3.2 is against it; but none of them ends the target, or is understood as anything else.
    RawTarget,
    /// A status line without the space behind the status, if it has no reason (RFC 9112 §4).
    StatusWithoutSpace,
}

/// Why no message was read.
enum Stop {
    Partial,
    Refused(&'static str),
}

type Read<T> = Result<T, Stop>;

/// Where the content ends.
enum Length {
    Octets(u64),
    Chunked,
    UntilClose,
}

/// The parts of a message behind its head.
#[derive(Default)]
struct Body {
    content: Vec<u8>,
    trailers: Vec<Field>,
    chunking: Option<Chunking>,
}

/// Whether a value may go on in the next line (RFC 9112 §5.2).
#[derive(Clone, Copy, PartialEq)]
enum Folding {
    Refused,
    Unfolded,
}

impl<'a> Reader<'a> {
    /// Refuses wherever the RFCs leave a choice.
    pub fn strict(wire: &'a [u8]) -> Reader<'a> {
        Reader::new(wire, &[])
    }

    /// Accepts what these choices accept.
    pub fn new(wire: &'a [u8], choices: &'a [Choice]) -> Reader<'a> {
        Reader { rest: wire, choices }
    }

    /// The octets that have not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads a request, and the empty line that may come before it (RFC 9112 §2.2).
    pub fn request(&mut self) -> Next<Request> {
        self.rest = self.rest.strip_prefix(b"\r\n").unwrap_or(self.rest);
        if self.rest.is_empty() || self.rest == b"\r" {
            return Next::Nothing;
        }
        let (head, length) = match self.request_head() {
            Ok(head) => head,
            Err(stop) => return stop.without_head(),
        };
        let (body, end) = self.body(length, false);
        let Body { content, trailers, chunking } = body;
        end_of(Request { content, trailers, chunking, ..head }, end)
    }

    /// Reads a response to a request with `method`. Whether it is interim, its status shows. `is_closed` is whether the
    /// octets end because the connection was closed.
    pub fn response(&mut self, method: &[u8], is_closed: bool) -> Next<Response> {
        if self.rest.is_empty() {
            return Next::Nothing;
        }
        let (head, length) = match self.response_head(method) {
            Ok(head) => head,
            Err(stop) => return stop.without_head(),
        };
        let (body, end) = self.body(length, is_closed);
        let Body { content, trailers, chunking } = body;
        end_of(Response { content, trailers, chunking, ..head }, end)
    }

    fn request_head(&mut self) -> Read<(Request, Length)> {
        let parts: Vec<&[u8]> = self.line()?.split(|octet| *octet == b' ').collect();
        let [method, target, version] = parts[..] else {
            return refuse("9112 §3: a request line has three parts, and a space between them");
        };
        let minor = minor(version)?;
        ensure(is_token(method), "9110 §9.1: a method is a token")?;
        let form = form(method, target, self.choices.contains(&Choice::RawTarget));
        ensure(form.is_some(), "9112 §3.2: a target has the form that its method asks for")?;
        let mut fields = self.field_lines(Folding::Refused)?;
        let hosts = values(&fields, "host").count();
        ensure(hosts == 1 || hosts == 0 && minor == 0, "9112 §3.2: there is one Host")?;
        ensure(values(&fields, "host").all(is_authority), "9112 §3.2: Host is a host, and perhaps a port")?;
        let sent_host = sole(&fields, "host").map(<[u8]>::to_vec);
        if let Some((authority, _)) = split_absolute(target) {
            let hosts = fields.iter_mut().filter(|field| field.name.eq_ignore_ascii_case(b"host"));
            hosts.for_each(|field| field.value = authority.to_vec());
        }
        let length = request_length(minor, &fields)?;
        let (method, target) = (method.to_vec(), target.to_vec());
        Ok((Request { method, target, minor, fields, sent_host, ..Request::default() }, length))
    }

    fn response_head(&mut self, method: &[u8]) -> Read<(Response, Length)> {
        let line = self.line()?;
        let mut parts = line.splitn(3, |octet| *octet == b' ');
        let minor = minor(parts.next().unwrap_or_default())?;
        let (status, reason) = (parts.next().unwrap_or_default(), parts.next());
        let has_space = reason.is_some() || self.choices.contains(&Choice::StatusWithoutSpace);
        ensure(has_space, "9112 §4: a space follows the status")?;
        let reason = reason.unwrap_or_default().to_vec();
        ensure(is_field_value(&reason), "9112 §4: a reason has no controls")?;
        let status = decimal(status).filter(|_| status.len() == 3).and_then(|status| status.try_into().ok());
        let Some(status) = status else { return refuse("9112 §4: a status has three digits") };
        ensure(status >= 100, "9110 §15: a status is 100 or more")?;
        let fields = self.field_lines(Folding::Unfolded)?;
        let length = response_length(method, minor, status, &fields)?;
        let ends_with_connection = matches!(length, Length::UntilClose);
        Ok((Response { minor, status, reason, fields, ends_with_connection, ..Response::default() }, length))
    }

    /// The next line, which ends with CRLF and has no other CR or LF (RFC 9112 §2.2).
    fn line(&mut self) -> Read<&'a [u8]> {
        let end = self.rest.windows(2).position(|octets| octets == b"\r\n").ok_or(Stop::Partial)?;
        let line = &self.rest[..end];
        ensure(!line.contains(&b'\r') && !line.contains(&b'\n'), "9112 §2.2: lines end with CRLF")?;
        self.rest = &self.rest[end + 2..];
        Ok(line)
    }

    /// Field lines, up to the empty line behind them (RFC 9112 §5).
    fn field_lines(&mut self, folding: Folding) -> Read<Vec<Field>> {
        let mut fields = Vec::<Field>::new();
        loop {
            let line = self.line()?;
            match (line, fields.last_mut()) {
                ([], _) => break,
                ([b' ' | b'\t', ..], Some(last)) if folding == Folding::Unfolded => {
                    last.value.push(b' ');
                    last.value.extend(trim(line));
                }
                ([b' ' | b'\t', ..], _) => return refuse("9112 §5.2: no line begins with a blank"),
                _ => fields.push(field(line)?),
            }
        }
        for field in &mut fields {
            field.value = trim(&field.value).to_vec();
            ensure(is_field_value(&field.value), "9110 §5.5: a value has no controls")?;
        }
        Ok(fields)
    }

    /// As much as there is of the body, and why it ends there, if that is not its end.
    fn body(&mut self, length: Length, is_closed: bool) -> (Body, Read<()>) {
        let mut body = Body::default();
        let end = match length {
            Length::Octets(length) => self.octets(length, &mut body.content),
            Length::Chunked => self.chunks(&mut body),
            Length::UntilClose => {
                body.content = std::mem::take(&mut self.rest).to_vec();
                if is_closed { Ok(()) } else { Err(Stop::Partial) }
            }
        };
        (body, end)
    }

    fn octets(&mut self, length: u64, content: &mut Vec<u8>) -> Read<()> {
        let there = usize::try_from(length).unwrap_or(usize::MAX).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(there);
        content.extend(taken);
        self.rest = rest;
        if there as u64 == length { Ok(()) } else { Err(Stop::Partial) }
    }

    /// `chunked-body` (RFC 9112 §7.1).
    fn chunks(&mut self, body: &mut Body) -> Read<()> {
        let chunking = body.chunking.get_or_insert_default();
        loop {
            let line = self.line()?;
            let digits = line.iter().take_while(|octet| octet.is_ascii_hexdigit()).count();
            let Some(size) = hexadecimal(&line[..digits]) else {
                return refuse("9112 §7.1: a chunk has a size, in hexadecimal digits");
            };
            let is_good = is_chunk_extension(&line[digits..]);
            ensure(is_good, "9112 §7.1.1: an extension is a name, and perhaps a value")?;
            chunking.digits = chunking.digits.max(digits);
            chunking.line = chunking.line.max(line.len());
            chunking.lines += line.len();
            if size == 0 {
                break;
            }
            self.octets(size, &mut body.content)?;
            self.rest = match self.rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [] | [b'\r'] => return Err(Stop::Partial),
                _ => return refuse("9112 §7.1: CRLF follows the data of a chunk"),
            };
        }
        body.trailers = self.field_lines(Folding::Refused)?;
        Ok(())
    }
}

/// `HTTP-version`, whose major version is 1 (RFC 9112 §2.3).
fn minor(version: &[u8]) -> Read<u8> {
    match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9'] => Ok(minor - b'0'),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            refuse("9110 §2.5: another major version is another protocol")
        }
        _ => refuse("9112 §2.3: a version is HTTP, and two digits"),
    }
}

/// `field-line` (RFC 9112 §5).
fn field(line: &[u8]) -> Read<Field> {
    let colon = line.iter().position(|octet| *octet == b':');
    let Some(colon) = colon else { return refuse("9112 §5: a field has a colon") };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    ensure(is_token(name), "9110 §5.1: a field name is a token, and the colon follows it")?;
    Ok(Field { name: name.to_vec(), value: trim(value).to_vec() })
}

/// RFC 9112 §6.3, for a request.
fn request_length(minor: u8, fields: &[Field]) -> Read<Length> {
    Ok(announced_length(minor, fields)?.unwrap_or(Length::Octets(0)))
}

/// RFC 9112 §6.3, for a response, rule by rule.
fn response_length(method: &[u8], minor: u8, status: u16, fields: &[Field]) -> Read<Length> {
    match status {
        100..200 | 204 | 304 => Ok(Length::Octets(0)),
        _ if method == b"HEAD" => Ok(Length::Octets(0)),
        200..300 if method == b"CONNECT" => Ok(Length::Octets(0)),
        _ => Ok(announced_length(minor, fields)?.unwrap_or(Length::UntilClose)),
    }
}

/// The length that the fields announce, if they do.
fn announced_length(minor: u8, fields: &[Field]) -> Read<Option<Length>> {
    let codings = values(fields, "transfer-encoding");
    let lengths = values(fields, "content-length");
    if codings.clone().next().is_some() {
        ensure(minor >= 1, "9112 §6.1: HTTP/1.0 has no Transfer-Encoding")?;
        ensure(lengths.clone().next().is_none(), "9112 §6.3: a message has one length")?;
        let codings: Vec<&[u8]> = codings.flat_map(elements).collect();
        let is_chunked = matches!(codings[..], [coding] if coding.eq_ignore_ascii_case(b"chunked"));
        ensure(is_chunked, "9112 §6.1, §6.3: the last coding is chunked, and no other is implemented")?;
        return Ok(Some(Length::Chunked));
    }
    if lengths.clone().next().is_none() {
        return Ok(None);
    }
    let length = sole(fields, "content-length").and_then(decimal);
    length.map(Length::Octets).map(Some).ok_or(Stop::Refused("9112 §6.3: a length is one number"))
}

fn ensure(holds: bool, rule: &'static str) -> Read<()> {
    if holds { Ok(()) } else { Err(Stop::Refused(rule)) }
}

fn refuse<T>(rule: &'static str) -> Read<T> {
    Err(Stop::Refused(rule))
}

fn end_of<M>(message: M, end: Read<()>) -> Next<M> {
    match end {
        Ok(()) => Next::Whole(message),
        Err(Stop::Partial) => Next::Partial(Some(message)),
        Err(Stop::Refused(rule)) => Next::Refused(Some(message), rule),
    }
}

impl Stop {
    fn without_head<M>(self) -> Next<M> {
        match self {
            Stop::Partial => Next::Partial(None),
            Stop::Refused(rule) => Next::Refused(None, rule),
        }
    }
}

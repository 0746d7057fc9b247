//! [`Format`]: what the lines of an access log contain.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::message::{FieldName, HttpDate, Status, Version, write_json_string, write_log_text};
use crate::server::{ExchangeReport, ForwardReport};

/// The format of an access log's lines. Targets and fields are cut at 2 KiB.
#[derive(Clone)]
#[non_exhaustive]
pub enum Format {
    /// The Common Log Format of NCSA and Apache: `192.0.2.1 - - [26/Nov/2026:03:40:01 +0000] "GET /a HTTP/1.1" 200 12`.
    ///
    /// The time is the end of the exchange. The last number is [`ExchangeReport::sent`], which includes the head. An exchange
    /// without a response has the status 499.
    Common,
    /// The same with the fields `referer` and `user-agent` after it.
    Combined,
    /// A JSON object (RFC 8259) with the members `time`, `client`, `method`, `target`, `route`, `status`, `cut`, `received`,
    /// `sent`, `until_handler_us`, `until_response_us`, `duration_us`, `connection`, `exchange` and `request_id`. Of a
    /// forwarded request also `forward_addr`, `forward_status` and `forward_attempts`: see [`ForwardReport`]. Members without a
    /// value are left out. `time` is written as in `Common`. Members that end in `_us` are in microseconds. The members until
    /// the handler and the response count from the head of the request, as in [`ExchangeReport`]. `request_id` is the field
    /// `x-request-id` of the request, which [`RequestId`](crate::middleware::RequestId) sets.
    Json,
    /// The application's: the function writes a line, without its end. See [`Format::from_fn`].
    Custom(Arc<FormatFn>),
}

/// The function of a custom format.
type FormatFn = dyn Fn(&ExchangeReport<'_>, &mut Vec<u8>) + Send + Sync;

impl Format {
    /// Makes a format of a function, which writes a line without its end. The client is
    /// [`ExchangeReport::client_ip`].
    ///
    /// Ends of lines become spaces, but nothing else is escaped. Text of peers, such as the target and fields, must pass
    /// through [`escape_json`](crate::message::escape_json) or [`escape_log`](crate::message::escape_log). Without that it can
    /// forge the rest of a line.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// use corehttp::{Request, Server};
    /// use corehttp::access_log::{self, AccessLog};
    /// use corehttp::message::escape_json;
    /// use corehttp::server::ExchangeReport;
    ///
    /// fn write(report: &ExchangeReport, line: &mut Vec<u8>) {
    ///     let host = report.request.authority().unwrap_or_default();
    ///     let agent = String::from_utf8_lossy(report.request.headers.get_bytes("user-agent").unwrap_or_default());
    ///     let _ = write!(line, r#"{{"host":"{}","agent":"{}"}}"#, escape_json(host), escape_json(&agent));
    /// }
    ///
    /// let (log_file, writer) = std::io::pipe()?;
    /// let log = AccessLog::from_writer(writer, access_log::Format::from_fn(write))?;
    /// let server = Server::new().observe(log.clone());
    /// # let service = server.service(|_: &mut corehttp::Context| {});
    /// # let mut request = Request::get("http://example.com/")?;
    /// # request.headers.set("user-agent", r#"a","status":"forged"#)?;
    /// # corehttp::block_on(service.respond(request))?;
    /// # drop((service, log));
    /// # let line = std::io::read_to_string(log_file)?;
    /// # let forged = r#"{"host":"example.com","agent":"a\",\"status\":\"forged"}"#;
    /// # assert_eq!(line.trim_end(), forged);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_fn(write: impl Fn(&ExchangeReport<'_>, &mut Vec<u8>) + Send + Sync + 'static) -> Format {
        Format::Custom(Arc::new(write))
    }

    /// Appends the line of an exchange to `out`. A line cannot be forged: characters that end one are escaped.
    pub(super) fn write(&self, report: &ExchangeReport<'_>, out: &mut Vec<u8>) {
        match self {
            Format::Common => {
                write_common(report, out);
                out.push(b'\n');
            }
            Format::Combined => {
                write_common(report, out);
                write_combined_end(report, out);
            }
            Format::Json => write_json(report, out),
            Format::Custom(write) => {
                let mut own = OWN_LINE.take();
                own.clear();
                write(report, &mut own);
                out.extend(own.iter().map(|octet| if b"\r\n".contains(octet) { b' ' } else { *octet }));
                out.push(b'\n');
                own.shrink_to(OWN_LINE_KEPT_MAX);
                OWN_LINE.set(own);
            }
        }
    }
}

/// How much memory is kept for the next line of the application.
const OWN_LINE_KEPT_MAX: usize = 1 << 10;

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Common => "Common",
            Format::Combined => "Combined",
            Format::Json => "Json",
            Format::Custom(_) => "Custom(..)",
        })
    }
}

fn write_common(report: &ExchangeReport<'_>, out: &mut Vec<u8>) {
    write_client(out, report.client_ip());
    with_time(report.ended_at, |time| out.extend_from_slice(time));
    // 499 is how nginx logs a peer that has closed before it was answered.
    let status = report.status.map_or(499, Status::as_u16);
    let [hundreds, tens, ones] = [100, 10, 1].map(|place| b'0' + (status / place % 10) as u8);
    let quote_and_status = [b'"', b' ', hundreds, tens, ones, b' '];
    out.extend_from_slice(report.method.as_ref().map_or(b"-", |method| method.as_str().as_bytes()));
    // Of a refused request line, as much is written as is known.
    if !report.target.is_empty() {
        out.push(b' ');
        write_log_text(out, front(report.target).as_bytes());
    }
    if report.has_version() {
        out.extend_from_slice(match report.version {
            Version::Http10 => b" HTTP/1.0",
            Version::Http11 => b" HTTP/1.1",
        });
    }
    out.extend_from_slice(&quote_and_status);
    write_number(out, report.sent);
}

/// Writes the fields `referer` and `user-agent`, and the end of the line.
fn write_combined_end(report: &ExchangeReport<'_>, out: &mut Vec<u8>) {
    let headers = &report.request.headers;
    let referer = headers.named(const { FieldName::new("referer") }).next();
    let agent = headers.named(const { FieldName::new("user-agent") }).next();
    out.extend_from_slice(b" \"");
    write_value(out, referer);
    out.extend_from_slice(b"\" \"");
    write_value(out, agent);
    out.extend_from_slice(b"\"\n");
}

#[inline]
fn write_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    let value = value.unwrap_or(b"-");
    write_log_text(out, &value[..value.len().min(VALUE_LEN_MAX)]);
}

fn write_json(report: &ExchangeReport<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    with_time(report.ended_at, |time| out.extend_from_slice(&time[TIME]));
    out.push(b'"');
    let client = report.client_ip();
    if client.is_some() {
        out.extend_from_slice(b",\"client\":\"");
        write_client(out, client);
        out.push(b'"');
    }
    if let Some(method) = &report.method {
        write_text_member(out, "method", method.as_str());
    }
    if !report.target.is_empty() {
        write_text_member(out, "target", front(report.target));
    }
    if let Some(route) = report.matched_pattern() {
        write_text_member(out, "route", route);
    }
    if let Some(status) = report.status {
        write_member(out, "status", status.as_u16().into());
    }
    if let Some(cut) = report.cut {
        write_text_member(out, "cut", cut.as_str());
    }
    write_member(out, "received", report.received);
    write_member(out, "sent", report.sent);
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    for (name, time) in [
        ("until_handler_us", report.until_handler),
        ("until_response_us", report.until_response),
        ("duration_us", Some(report.duration)),
    ] {
        if let Some(time) = time {
            write_member(out, name, micros(time));
        }
    }
    if let Some(forward) = &report.forward {
        write_forward(out, forward);
    }
    write_member(out, "connection", report.connection_id);
    write_member(out, "exchange", report.exchange_number);
    if let Some(id) = report.request.headers.get("x-request-id") {
        write_text_member(out, "request_id", front(id));
    }
    out.extend_from_slice(b"}\n");
}

fn write_forward(out: &mut Vec<u8>, forward: &ForwardReport) {
    if let Some(addr) = forward.peer_addr {
        write_name(out, "forward_addr");
        // A vector takes all that is written to it.
        let _ = write!(out, "\"{addr}\"");
    }
    if let Some(status) = forward.status {
        write_member(out, "forward_status", status.as_u16().into());
    }
    write_member(out, "forward_attempts", forward.attempts.into());
}

/// Writes a member of an object, which is not its first: a number.
fn write_member(out: &mut Vec<u8>, name: &str, value: u64) {
    write_name(out, name);
    write_number(out, value);
}

fn write_text_member(out: &mut Vec<u8>, name: &str, value: &str) {
    write_name(out, name);
    // A vector takes all that is written to it.
    let _ = write_json_string(out, value);
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes the address of a client. `Display` takes several times as long for the usual kind.
#[inline]
fn write_client(out: &mut Vec<u8>, client: Option<IpAddr>) {
    match client {
        None => out.push(b'-'),
        Some(IpAddr::V4(client)) => {
            client.octets().into_iter().for_each(|octet| write_octet_and_dot(out, octet));
            out.pop();
        }
        Some(IpAddr::V6(client)) => write_ipv6(out, client),
    }
}

#[inline(never)]
fn write_ipv6(out: &mut Vec<u8>, client: Ipv6Addr) {
    // A vector takes all that is written to it.
    let _ = write!(out, "{client}");
}

/// Writes a number of up to three digits, for which itoa takes several times as long, and a dot.
fn write_octet_and_dot(out: &mut Vec<u8>, octet: u8) {
    let [hundreds, tens, ones] = [100, 10, 1].map(|place| b'0' + octet / place % 10);
    let zeros = u8::from(octet < 100) + u8::from(octet < 10);
    // Four octets are one copy. Leading zeros are shifted out; the NULs that come in behind the dot are cut off.
    let text = u32::from_le_bytes([hundreds, tens, ones, b'.']) >> (u8::BITS * u32::from(zeros));
    out.extend_from_slice(&text.to_le_bytes());
    out.truncate(out.len() - usize::from(zeros));
}

/// The front of a text that may be long: lines that wait must not fill the memory.
fn front(text: &str) -> &str {
    let mut len = text.len().min(VALUE_LEN_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// How many bytes of a target or of a field are logged.
const VALUE_LEN_MAX: usize = 2 << 10;

/// A second as text, since most lines of a core are of the same one.
struct LogTime {
    /// The end of the second. Its start is not needed, since the lines of a thread are in order of time.
    until: Instant,
    /// The part of a line that has the time in it, which is at [`TIME`]. Before it are a user-id of RFC 1413, which nobody
    /// sends, and a user, whom only the application knows.
    text: [u8; BEFORE_REQUEST.len()],
}

impl LogTime {
    /// The second of this moment, which is `now` by the clock of the system.
    fn new(moment: Instant, now: SystemTime) -> LogTime {
        let subsec = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let left = Duration::from_secs(1) - Duration::from_nanos(subsec.into());
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let date = HttpDate::new(now);
        let mut text = *BEFORE_REQUEST;
        for (to, from) in [(0, 5..7), (3, 8..11), (7, 12..16), (12, 17..25)] {
            text[TIME][to..to + from.len()].copy_from_slice(date.as_str()[from].as_bytes());
        }
        LogTime { until: moment + left, text }
    }
}

/// Calls `write` with the text of this moment's second.
fn with_time(moment: Instant, write: impl FnOnce(&[u8; BEFORE_REQUEST.len()])) {
    LAST_TIME.with_borrow_mut(|last| {
        last.take_if(|last| moment >= last.until);
        write(&last.get_or_insert_with(|| LogTime::new(moment, SystemTime::now())).text);
    });
}

const BEFORE_REQUEST: &[u8; 35] = b" - - [dd/Mmm/yyyy:hh:mm:ss +0000] \"";
const TIME: Range<usize> = 6..BEFORE_REQUEST.len() - 3;

thread_local! {
    /// The second of the line before.
    static LAST_TIME: RefCell<Option<LogTime>> = const { RefCell::new(None) };
    /// Receives a line of the application, which thus sees no line of others.
    static OWN_LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_common_log_format() {
        let now = Instant::now();
        let time = LogTime::new(now, SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_250));
        assert_eq!(str::from_utf8(&time.text), Ok(" - - [06/Nov/1994:08:49:37 +0000] \""));
        assert_eq!(&time.text[TIME], b"06/Nov/1994:08:49:37 +0000");
        let end = now + Duration::from_millis(750);
        assert_eq!(time.until, end);
        LAST_TIME.set(Some(time));
        with_time(end - Duration::from_nanos(1), |text| {
            assert_eq!(text, b" - - [06/Nov/1994:08:49:37 +0000] \"")
        });
        with_time(end, |text| assert_ne!(text, b" - - [06/Nov/1994:08:49:37 +0000] \""));
    }

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for client in ["0.0.0.0", "192.0.2.1", "255.255.255.255", "2001:db8::1", "::ffff:192.0.2.1"] {
            let mut line = Vec::new();
            write_client(&mut line, client.parse().ok());
            assert_eq!(str::from_utf8(&line), Ok(client));
        }
    }
}

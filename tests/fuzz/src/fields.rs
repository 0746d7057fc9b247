//! Fields of requests: what a client accepts, cookies that a key protects, sessions, the place in a trace; and messages as
//! those of the crate `http`. Each is what an independent reader makes of it, and cannot be forged.

use std::cell::RefCell;
use std::time::Duration;

use corehttp::coding::Coding;
use corehttp::cookies::Key;
use corehttp::http_types::HttpBody;
use corehttp::middleware::wrap;
use corehttp::session::{MemoryStore, Session, Sessions};
use corehttp::tracing::TraceContext;
use corehttp::{BoxHandler, Context, Headers, PeerAddr, Request, Response, Server, SetCookie};

use crate::memory::bounded;
use crate::oracle::fields::{cookie_values, trace_parent, trace_state, weights};
use crate::settings::Settings;
use crate::wired::Wired;

/// The lowest three bits say which fields they are. Each line is one.
pub fn run(data: &[u8]) {
    let Some((settings, lines)) = Settings::split(data) else { return };
    bounded(MEMORY_MAX + 400 * lines.len(), || match settings.flags & 7 {
        0 => check_types(lines),
        1 => check_languages(lines),
        2 => check_codings(lines),
        3 => check_keyed(lines),
        4 => check_session(lines),
        5 => check_trace(lines),
        6 => check_request(lines),
        _ => check_response(lines),
    });
}

const MEMORY_MAX: usize = 1 << 20;

/// A request with a field of this name for each line, except those that are no values.
fn request_with(name: &str, lines: &[u8]) -> Request {
    let mut request = Request::get("http://a.example/").unwrap();
    for line in lines.split(|octet| *octet == b'\n') {
        let _ = request.headers.append(name, line);
    }
    request
}

/// The members of a list that is well-formed have the weights that the oracle reads.
fn check_weights(headers: &Headers, name: &str) -> Option<Vec<(String, u16)>> {
    let weighted: Vec<_> =
        headers.weighted(name).map(|(member, weight)| (member.to_owned(), weight)).collect();
    assert!(weighted.iter().all(|(_, weight)| *weight <= 1000), "{headers:?}");
    let lines: Option<Vec<_>> = headers.all(name).map(weights).collect();
    let read = lines?.concat();
    assert_eq!(weighted, read, "{headers:?}");
    Some(read)
}

fn check_types(lines: &[u8]) {
    let offered = ["text/html", "text/plain; charset=utf-8", "application/json", "image/png;a=\"b;c\""];
    let mut request = request_with("accept", lines);
    let read = check_weights(&request.headers, "accept");
    let chosen = request.preferred_type(offered);
    assert!(chosen.is_none_or(|chosen| offered.contains(&chosen)));
    // Ranges without parameters: the closest one counts (RFC 9110 §12.5.1).
    if let Some(ranges) =
        read.filter(|ranges| !ranges.is_empty() && ranges.iter().all(|(it, _)| !it.contains(';')))
    {
        let weight = |offer: &&str| {
            let essence = offer.split(';').next().unwrap_or_default();
            let kind = format!("{}/*", essence.split('/').next().unwrap_or_default());
            let of = |range: &str| {
                let all = ranges.iter().filter(|(it, _)| it.eq_ignore_ascii_case(range));
                all.map(|(_, weight)| *weight).max()
            };
            of(essence).or(of(&kind)).or(of("*/*")).unwrap_or(0)
        };
        let most = offered.iter().map(weight).max().unwrap_or(0);
        let first = offered.iter().find(|offer| weight(offer) == most && most > 0);
        assert_eq!(chosen, first.copied(), "{:?}", request.headers);
    }
    request.headers.append("accept", "text/html").unwrap();
    assert_eq!(request.preferred_type(offered), Some("text/html"), "{:?}", request.headers);
}

fn check_languages(lines: &[u8]) {
    let offered = ["en", "de-CH", "zh-Hant-TW"];
    let mut request = request_with("accept-language", lines);
    let read = check_weights(&request.headers, "accept-language");
    let chosen = request.preferred_language(offered);
    assert!(chosen.is_none_or(|chosen| offered.contains(&chosen)));
    let refuses = |read: &Vec<(String, u16)>| !read.is_empty() && read.iter().all(|(_, weight)| *weight == 0);
    assert!(!read.is_some_and(|read| refuses(&read)) || chosen.is_none(), "{:?}", request.headers);
    request.headers.append("accept-language", "EN").unwrap();
    assert_eq!(request.preferred_language(offered), Some("en"), "{:?}", request.headers);
}

fn check_codings(lines: &[u8]) {
    let offered = [Coding::Zstd, Coding::Br, Coding::Gzip, Coding::Deflate];
    let request = request_with("accept-encoding", lines);
    let chosen = request.preferred_coding(offered);
    let Some(read) = check_weights(&request.headers, "accept-encoding") else { return };
    // The least of several weights, or that of `*` (RFC 9110 §12.5.3).
    let weight = |coding: Coding| {
        let of =
            |is: &dyn Fn(&str) -> bool| read.iter().filter(|(it, _)| is(it)).map(|(_, weight)| *weight).min();
        of(&|it| Coding::parse(it.as_bytes()) == Some(coding)).or(of(&|it| it == "*")).unwrap_or(0)
    };
    let most = offered.map(weight).into_iter().max().unwrap_or(0);
    match chosen {
        Some(coding) => assert!(weight(coding) == most && most > 0, "{coding:?} by {read:?}"),
        None => {
            let is_plain = |it: &&(String, u16)| it.0.eq_ignore_ascii_case("identity") || it.0 == "*";
            let plain = read.iter().filter(is_plain).map(|(_, weight)| *weight).max().unwrap_or(0);
            assert!(most == 0 || plain > most, "not coded, by {read:?}");
        }
    }
}

thread_local! {
    /// A key, and a field with a signed and a private cookie.
    static KEYED: (Key, Vec<u8>) = {
        let (key, mut response) = (Key::generate().unwrap(), Response::new());
        key.set_signed(&mut response, &SetCookie::new("a", "value")).unwrap();
        key.set_private(&mut response, &SetCookie::new("b", "secret")).unwrap();
        let pairs: Vec<_> = response.cookies().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (key, pairs.join("; ").into_bytes())
    };
}

/// Some octets of the cookies are replaced: where, how many, and by which octets the input says.
fn check_keyed(edit: &[u8]) {
    let Some((&[at, count], octets)) = edit.split_first_chunk() else { return };
    KEYED.with(|(key, genuine)| {
        let mut field = genuine.clone();
        let at = usize::from(at).min(field.len());
        let end = (at + usize::from(count)).min(field.len());
        // An octet of 1 stands for all of the genuine field.
        let octets =
            octets.iter().flat_map(|octet| if *octet == 1 { genuine } else { std::slice::from_ref(octet) });
        field.splice(at..end, octets.copied());
        let mut request = Request::get("/").unwrap();
        if request.headers.set("cookie", &*field).is_err() {
            return;
        }
        let (signed, private) = (key.signed(request.cookies()), key.private(request.cookies()));
        for (name, _) in request.cookies().iter() {
            let shown = field.escape_ascii();
            let (signed, private) = (signed.get(name), private.get(name));
            assert!(signed.is_none() || (name, signed) == ("a", Some("value")), "{signed:?} in {shown}");
            assert!(
                private.is_none() || (name, private.as_deref()) == ("b", Some("secret")),
                "{private:?} in {shown}"
            );
        }
        assert!(field != *genuine || signed.get("a").is_some() && private.get("b").is_some());
    });
}

thread_local! {
    /// A server with sessions, of which one has a value, and the id of that.
    static SESSIONS: (Wired<BoxHandler>, String) = {
        let lifetime = Duration::from_secs(1 << 30);
        let sessions = Sessions::new(MemoryStore::with_sessions_max(100)).lifetime(lifetime).idle_timeout(lifetime);
        let wired = Wired::new(Server::new(), BoxHandler::new(wrap(sessions, use_session)));
        let response = wired.respond_from(PeerAddr::Memory, Request::get("/begin").unwrap());
        let id = response.cookies().next().expect("a session has begun").value.to_owned();
        (wired, id)
    };
    static VALUE: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn use_session(ctx: &mut Context) -> corehttp::Result {
    let is_first = ctx.request.path() == "/begin";
    let session = Session::from_extensions(&mut ctx.extensions)?;
    VALUE.set(session.get("value")?);
    match is_first {
        true => session.set("value", "secret")?,
        false => session.set("seen", &true)?,
    }
    Ok(())
}

/// Cookies, among which the octet 1 stands for the id of a session.
fn check_session(lines: &[u8]) {
    SESSIONS.with(|(wired, id)| {
        let mut field = Vec::new();
        lines.iter().for_each(|octet| match octet {
            1 => field.extend(id.as_bytes()),
            _ => field.push(*octet),
        });
        let request = request_with("cookie", &field);
        let lines: Vec<&[u8]> = request.headers.all("cookie").collect();
        let values = cookie_values(&lines, "__Host-session");
        let is_id = |value: &&Vec<u8>| {
            value.len() == id.len() && value.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_known = values.iter().filter(is_id).take(8).any(|value| value == id.as_bytes());
        let response = wired.respond_from(PeerAddr::Memory, request.clone());
        let expected = is_known.then_some("secret");
        assert_eq!(VALUE.take().as_deref(), expected, "{}", field.escape_ascii());
        // The id of a session is not a peer's choice.
        let begun = response.cookies().next().map(|cookie| cookie.value.to_owned());
        assert_eq!(begun.is_some(), !is_known, "{}", field.escape_ascii());
        let sent = field.escape_ascii().to_string();
        assert!(begun.is_none_or(|id| !sent.contains(&id)), "{sent}");
    });
}

/// Lines that begin with `p` are a `traceparent`, and others a `tracestate`.
fn check_trace(lines: &[u8]) {
    let (mut headers, mut state) = (Headers::new(), Vec::new());
    let mut parents = Vec::new();
    for line in lines.split(|octet| *octet == b'\n') {
        match line {
            [b'p', parent @ ..] if headers.append("traceparent", parent).is_ok() => parents.push(parent),
            [b's', member @ ..] if headers.append("tracestate", member).is_ok() => state.push(member),
            _ => {}
        }
    }
    let shown = lines.escape_ascii();
    let context = TraceContext::from_headers(&headers);
    let read = match parents[..] {
        [parent] => trace_parent(parent),
        _ => None,
    };
    let ids = context.as_ref().map(|it| (it.trace_id(), it.span_id(), it.is_sampled()));
    assert_eq!(ids, read, "{shown}");
    let Some(context) = context else { return };
    // It is sent on as it was read, in the version that is known.
    let mut onward = Headers::new();
    onward.set("traceparent", context.to_string()).unwrap();
    let again = TraceContext::from_headers(&onward).expect("it can be read again");
    assert_eq!((again.trace_id(), again.span_id(), again.is_sampled()), ids.unwrap(), "{shown}");
    if let Some(state) = trace_state(&state) {
        let mut strict = Headers::new();
        strict.set("traceparent", headers.get_bytes("traceparent").unwrap()).unwrap();
        if !state.is_empty() {
            strict.set("tracestate", state).unwrap();
        }
        assert_eq!(TraceContext::from_headers(&strict), Some(context), "{shown}");
    }
}

/// A message: a line, fields, and after an empty line its content. Fields that begin with `t-` are trailers.
struct Parts<'a> {
    start: &'a [u8],
    fields: Headers,
    trailers: Headers,
    content: &'a [u8],
}

impl Parts<'_> {
    fn from_lines(lines: &[u8]) -> Parts<'_> {
        let end = lines.windows(2).position(|octets| octets == b"\n\n");
        let (head, content) = end.map_or((lines, &b""[..]), |end| (&lines[..end], &lines[end + 2..]));
        let mut lines = head.split(|octet| *octet == b'\n');
        let start = lines.next().unwrap_or_default();
        let (mut fields, mut trailers) = (Headers::new(), Headers::new());
        for line in lines {
            let Some(colon) = line.iter().position(|octet| *octet == b':') else { continue };
            let Ok(name) = str::from_utf8(&line[..colon]) else { continue };
            let place = if name.starts_with("t-") { &mut trailers } else { &mut fields };
            let _ = place.append(name, &line[colon + 1..]);
        }
        Parts { start, fields, trailers, content }
    }
}

/// The fields in lower case, those of one name in their order.
fn sorted<'a>(fields: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> =
        fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

/// Fields as the crate `http` has them.
fn sorted_map(map: &http::HeaderMap) -> Vec<(String, Vec<u8>)> {
    sorted(map.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

fn check_request(lines: &[u8]) {
    let Parts { start, fields, trailers, content } = Parts::from_lines(lines);
    let Some((method, url)) = str::from_utf8(start).ok().and_then(|start| start.split_once(' ')) else {
        return;
    };
    check_uri(url);
    let Ok(mut request) = Request::new(method, url) else { return };
    (request.headers, request.trailers) = (fields, trailers);
    request.body.set_bytes(content);
    let shown = lines.escape_ascii();
    let expected = (request.method(), sorted(request.headers.iter()), sorted(request.trailers.iter()));
    let (target, has_user) = (request.target().clone(), url.contains('@'));
    let Ok(converted) = http::Request::<HttpBody>::try_from(request) else {
        panic!("not converted: {shown}")
    };
    assert_eq!(converted.method().as_str(), expected.0.as_str());
    if !has_user {
        assert_eq!(sorted_map(converted.headers()), expected.1, "{shown}");
    }
    let again = Request::try_from(converted).unwrap_or_else(|error| panic!("{error}, back from {shown}"));
    let found = (again.method(), sorted(again.headers.iter()), sorted(again.trailers.iter()));
    assert_eq!((found.0, &found.2, again.body.bytes()), (expected.0, &expected.2, content), "{shown}");
    assert!(has_user || found.1 == expected.1, "{found:?}: {shown}");
    assert_eq!(said(again.target()), said(&target), "{shown}");
}

/// All that a target says. The crate `http` escapes some octets, and has no empty path.
fn said(target: &corehttp::Target) -> String {
    let escaped =
        |text: &str| text.replace('"', "%22").replace('<', "%3C").replace('>', "%3E").replace('`', "%60");
    let text = escaped(target.as_str());
    let Some((scheme, rest)) = text.split_once("://").filter(|_| target.scheme().is_some()) else {
        return text;
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if rest.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{authority}{slash}{rest}")
}

/// A URI of the crate `http`, once it was converted, stays the same.
fn check_uri(text: &str) {
    let Ok(uri) = text.parse::<http::Uri>() else { return };
    let Ok(target) = corehttp::Target::try_from(&uri) else { return };
    let again = http::Uri::try_from(&target).unwrap_or_else(|error| panic!("{error}, back from {text:?}"));
    let target_again = corehttp::Target::try_from(&again).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert_eq!(said(&target_again), said(&target), "{text:?}");
}

fn check_response(lines: &[u8]) {
    let Parts { start, fields, trailers, content } = Parts::from_lines(lines);
    let Some(status) = str::from_utf8(start).ok().and_then(|start| start.parse::<u16>().ok()) else { return };
    let Ok(status) = corehttp::Status::try_from(status) else { return };
    let mut response = Response { status, headers: fields, trailers, ..Response::new() };
    response.body.set_bytes(content);
    let shown = lines.escape_ascii();
    let expected =
        (status, sorted(response.headers.iter()), sorted(response.trailers.iter()), content.to_vec());
    let converted = http::Response::<HttpBody>::try_from(response).expect("it is converted");
    assert_eq!(
        (converted.status().as_u16(), &sorted_map(converted.headers())),
        (status.as_u16(), &expected.1)
    );
    let again = Response::try_from(converted).unwrap_or_else(|error| panic!("{error}, back from {shown}"));
    let content = again.body.bytes().to_vec();
    let found = (again.status, sorted(again.headers.iter()), sorted(again.trailers.iter()), content);
    assert_eq!(found, expected, "{shown}");
}

//! Every octet in each part of a target, beside the target that browsers and curl send for a URL with it (RFC 9112
//! §3.2, RFC 3986 §3, WHATWG URL §1.3 and §4.4).
//!
//! An octet that they send as it is, is served, and arrives as it came. An octet that another reader could take for an
//! end or a separator is refused.

use corehttp::Context;

use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};

/// A part of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Path,
    Query,
    Host,
}

/// How a user agent sends an octet of a URL.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    AsIs,
    Escaped,
    /// The octet ends the part, is dropped, or becomes another one; or there is no such URL.
    Otherwise,
}

use Part::{Host, Path, Query};
use Sent::{AsIs, Escaped, Otherwise};

/// By the percent-encode sets and the forbidden domain code points of WHATWG's URLs. `^` joined the set of paths in
/// 2023, and not all browsers escape it.
fn browsers(part: Part, octet: u8) -> Sent {
    match (part, octet) {
        (_, b'\t' | b'\r' | b'\n' | b'#') | (Path, b'?' | b'\\') => Otherwise,
        (Host, 0..=b' ' | b'%' | b'/' | b':' | b'<' | b'>' | b'?' | b'@' | b'|' | 0x7f..) => Otherwise,
        (Host, b'A'..=b'Z' | b'['..=b'^') => Otherwise,
        (Host, _) => AsIs,
        (_, 0..=b' ' | b'"' | b'<' | b'>' | 0x7f..) => Escaped,
        (Path, b'`' | b'{' | b'}') | (Query, b'\'') => Escaped,
        (_, _) => AsIs,
    }
}

/// Observed of curl 7.88 with `-g`.
fn curl(part: Part, octet: u8) -> Sent {
    match (part, octet) {
        (_, 0..=b' ' | 0x7f | b'#') | (Path, b'?') | (Host, 0x80..) => Otherwise,
        (Path, 0x80..) => Escaped,
        (Host, b'"' | b'%' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b'/' | b':' | b';') => Otherwise,
        (Host, b'!' | b'$' | b',' | b'<'..=b'@' | b'['..=b'^' | b'`' | b'{'..=b'}') => Otherwise,
        (_, _) => AsIs,
    }
}

/// The octets that are served.
fn is_served(part: Part, octet: u8) -> bool {
    match part {
        // A `\` is a `/` to WHATWG's URLs and to some servers.
        Path => octet.is_ascii_graphic() && !b"#?\\".contains(&octet),
        Query => octet.is_ascii_graphic() && octet != b'#',
        // `reg-name`, without escapes.
        Host => octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&octet),
    }
}

/// The octets that some user agent sends as they are, and that are refused all the same: in paths for the reason above,
/// and in hosts because RFC 3986 allows no such name.
const REFUSED: [(Part, &[u8]); 2] = [(Path, b"\\"), (Host, b"\"`{}")];

/// A target with `inner` in this part, in origin-form or absolute-form, and the target that the handler sees.
fn targets(part: Part, inner: &[u8]) -> Vec<[Vec<u8>; 2]> {
    let within = |before: &str, after: &str| [before.as_bytes(), inner, after.as_bytes()].concat();
    match part {
        Path => vec![
            [within("/a", "b"), within("h /a", "b")],
            [within("http://t/a", "b?c"), within("t /a", "b?c")],
        ],
        Query => vec![
            [within("/?a", "b"), within("h /?a", "b")],
            [within("http://t?a", "b"), within("t /?a", "b")],
        ],
        Host => vec![[within("http://a", "b/c"), within("a", "b /c")]],
    }
}

/// Answers with what it saw.
fn tell(ctx: &mut Context) {
    let request = &ctx.request;
    let query = request.target().as_str().split_once('?').map_or("", |(_, query)| query);
    let mark = if query.is_empty() { "" } else { "?" };
    ctx.response.set_text(format!("{} {}{mark}{query}", request.authority().unwrap_or("-"), request.path()));
}

/// A target with `inner` in this part is served as it came, or refused.
#[track_caller]
fn check(wired: &Wired<impl corehttp::Handler>, part: Part, inner: &[u8], is_served: bool) {
    for [target, saw] in targets(part, inner) {
        let wire = [b"GET ", &*target, b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"].concat();
        let received = responses(&wired.ask_cut(&wire, Then::Waits));
        let found: Vec<_> =
            received.iter().map(|response| (response.status, response.body.as_bytes())).collect();
        let expected = if is_served { (200, &*saw) } else { (400, &b"Bad Request"[..]) };
        assert_eq!(found, [expected], "{part:?} {}", target.escape_ascii());
    }
}

#[test]
fn each_octet_is_served_as_it_came_or_refused_rfc9112_3_2() {
    let wired = Wired::new(tell);
    for part in [Path, Query, Host] {
        // An octet that ends a part is not in it.
        for octet in
            (0..=u8::MAX).filter(|octet| !matches!((part, octet), (Path, b'?') | (Host, b'/' | b'?')))
        {
            check(&wired, part, &[octet], is_served(part, octet));
        }
    }
}

#[test]
fn what_user_agents_send_as_it_is_is_served() {
    for part in [Path, Query, Host] {
        for octet in 0..=u8::MAX {
            let is_sent = browsers(part, octet) == AsIs || octet.is_ascii() && curl(part, octet) == AsIs;
            let is_listed = REFUSED.iter().any(|(of, octets)| *of == part && octets.contains(&octet));
            assert_eq!(is_sent && !is_served(part, octet), is_listed, "{part:?} {octet:#x}");
        }
    }
}

/// Octets beyond ASCII are text in UTF-8: curl sends them as they are in queries, and other programs in paths, too.
#[test]
fn text_in_utf8_is_served_as_it_came_and_no_other() {
    let wired = Wired::new(tell);
    for text in ["é", "\u{a0}", "\u{2028}", "／", "日本", "😀", "\u{202e}"] {
        for (part, is_served) in [(Path, true), (Query, true), (Host, false)] {
            check(&wired, part, text.as_bytes(), is_served);
        }
    }
    // U+009B begins a command to a terminal, as ESC does, and U+0085 is an end of line.
    for control in ["\u{80}", "\u{85}", "\u{9b}", "\u{9f}"] {
        [Path, Query, Host].iter().for_each(|part| check(&wired, *part, control.as_bytes(), false));
    }
    for no_text in [&b"\xe9"[..], b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xa0\xa0"] {
        [Path, Query, Host].iter().for_each(|part| check(&wired, *part, no_text, false));
    }
}

/// Octets that arrive as they are, and those that arrive escaped, decode to the same path and the same form.
#[test]
fn what_is_not_escaped_decodes_to_itself() {
    let told = |ctx: &mut Context| {
        let path = ctx.request.path_decoded()?.into_owned();
        let last = ctx.request.target().segments().last().transpose()?.unwrap_or_default().into_owned();
        let value = ctx.request.query().get("q").unwrap_or_default().into_owned();
        ctx.response.set_text(format!("{path} {last} {value}"));
        corehttp::Result::Ok(())
    };
    let wired = Wired::new(told);
    for target in [
        "/a|é/\"<>^`{}?q=\\d\"<>`{|}^é",
        "/a%7C%C3%A9/%22%3C%3E%5E%60%7B%7D?q=%5Cd%22%3C%3E%60%7B%7C%7D%5E%C3%A9",
    ] {
        let received = responses(&wired.ask(
            &[format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes()],
            Then::Waits,
        ));
        assert_eq!(received[0].body, "/a|é/\"<>^`{} \"<>^`{} \\d\"<>`{|}^é", "{target}");
    }
}

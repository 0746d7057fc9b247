//! Heads of requests: those that are served, and those that are refused because two readers could understand them
//! differently (RFC 9112 §2 to §5). Rows are numbered in `tests/regressions.md`; sections are those of RFC 9112 unless
//! noted.

use std::sync::LazyLock;
use std::time::Duration;

use corehttp::{Context, Limits, Server};

use crate::oracle;
use crate::support::Served;
use crate::support::responses::{check_expected, check_responses, responses};
use crate::support::wired::{Then, Wired, count_handled, shortened, take_handled};

static SERVED: LazyLock<Served> = LazyLock::new(|| Served::new(tell));

/// Answers with what it saw: method, authority, path with query, and all fields except Host.
fn tell(ctx: &mut Context) {
    count_handled();
    let request = &ctx.request;
    let (method, path) = (request.method(), request.path());
    let mut saw = format!("{method} {} {path}", request.authority().unwrap_or("-"));
    if let Some(query) = request.target().as_str().split_once('?') {
        saw += &format!("?{}", query.1);
    }
    for (name, value) in request.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
        saw += &format!(" {name}={}", value.escape_ascii());
    }
    if method == "HEAD" {
        ctx.response.headers.set("asked", "HEAD").unwrap();
    }
    ctx.response.set_text(saw);
}

/// The request as the handler sees it, after the oracle has read it.
fn note(request: &oracle::Request) -> String {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    if request.method == b"HEAD" {
        return String::new();
    }
    let authority = request.authority().map_or("-".into(), text);
    let mut saw = format!("{} {authority} {}", text(&request.method), text(request.path()));
    if let Some(query) = request.query() {
        saw += &format!("?{}", text(query));
    }
    for field in request.fields.iter().filter(|field| !field.name.eq_ignore_ascii_case(b"host")) {
        saw += &format!(" {}={}", text(&field.name), field.value.escape_ascii());
    }
    saw
}

/// Sends `wire` in every way. `expected` is, for each request, what the handler saw, or the status of a refusal, for
/// which no handler ran.
#[track_caller]
fn check(wire: &[u8], expected: &[&str]) {
    check_expected(wire, expected, &note);
    let (received, handled) = Wired::new(tell).ask_in_every_way(&SERVED, wire);
    check_responses(&received, handled, expected, shortened(wire));
}

/// A good head, of which the handler sees `saw`; a second request behind it must be answered, too.
#[track_caller]
fn served(head: impl AsRef<[u8]>, saw: &str) {
    check(&[head.as_ref(), b"GET /next HTTP/1.0\r\n\r\n"].concat(), &[saw, "GET - /next"]);
}

/// A bad head, refused with `status`; a second request behind it must not be served.
#[track_caller]
fn refused(head: impl AsRef<[u8]>, status: u16) {
    let smuggled = b"GET /smuggled HTTP/1.0\r\n\r\n";
    check(&[head.as_ref(), smuggled].concat(), &[&status.to_string()]);
}

/// Bad request lines, each with a good Host behind it.
#[track_caller]
fn lines_refused<L: AsRef<[u8]>>(lines: &[L], status: u16) {
    lines.iter().for_each(|line| refused([line.as_ref(), b"\r\nHost: a\r\n\r\n"].concat(), status));
}

/// Bad field lines, each before and behind a good Host.
#[track_caller]
fn fields_refused<L: AsRef<[u8]>>(lines: &[L]) {
    for line in lines.iter().map(L::as_ref) {
        refused([b"GET / HTTP/1.1\r\n", line, b"\r\nHost: a\r\n\r\n"].concat(), 400);
        refused([b"GET / HTTP/1.1\r\nHost: a\r\n", line, b"\r\n\r\n"].concat(), 400);
    }
}

/// Targets of GET that are refused.
#[track_caller]
fn targets_refused<T: AsRef<[u8]>>(targets: &[T]) {
    targets
        .iter()
        .for_each(|target| lines_refused(&[[b"GET ", target.as_ref(), b" HTTP/1.1"].concat()], 400));
}

#[test]
fn row_1_to_4_host_is_required_exactly_once_rfc9112_3_2() {
    refused("GET / HTTP/1.1\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\nX-Host: a\r\nHost_: a\r\n\r\n", 400);
    refused("GET http://a/ HTTP/1.1\r\n\r\n", 400);
    refused("OPTIONS * HTTP/1.1\r\n\r\n", 400);
    for second in ["Host: b", "host: b", "HOST: a", "Host: a", "Host:", "host:\r\nHost: a"] {
        refused(format!("GET / HTTP/1.1\r\nHost: a\r\n{second}\r\n\r\n"), 400);
        refused(format!("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n{second}\r\n\r\n"), 400);
        refused(format!("GET / HTTP/1.0\r\nHost: a\r\n{second}\r\n\r\n"), 400);
    }
    served("GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET  /");
    served("OPTIONS * HTTP/1.1\r\nHost: \r\n\r\n", "OPTIONS  *");
    check(b"GET / HTTP/1.0\r\n\r\n", &["GET - /"]);
    check(b"GET / HTTP/1.0\r\nHost:\r\n\r\n", &["GET  /"]);
    check(b"GET / HTTP/1.0\r\n\r\nGET /smuggled HTTP/1.0\r\n\r\n", &["GET - /"]);
}

#[test]
fn a_host_that_is_no_authority_is_refused_rfc9112_3_2() {
    for host in [
        "a",
        "a:80",
        "a:",
        "A.example",
        "127.0.0.1:8080",
        "[::1]",
        "[::1]:8080",
        "a_b-c",
        "[v1.a:b]",
        "a:0",
        "!$&'()*+;=",
        "-",
        "_",
        "a..b",
        "1.2.3",
    ] {
        served(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), &format!("GET {host} /"));
    }
    for host in [
        ":80",
        ":",
        ":0",
        "a b",
        "a, b",
        "a,b ,c",
        "a\tb",
        "u@a",
        "u:p@a",
        "a/",
        "a/b",
        "a?b",
        "a#b",
        "a\\b",
        "\"a\"",
        "<a>",
        "http://a",
        "a:b",
        "a:-1",
        "a:+1",
        "a:65536",
        "a:1:2",
        "::1",
        "[::1",
        "::1]",
        "[::1]x",
        "[a]",
        "a%",
        "a%4g",
        "a%41",
        "%61",
        "caf%C3%A9",
        "é",
    ] {
        refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400);
        refused(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n"), 400);
        refused(format!("GET http://a/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400);
    }
}

#[test]
fn row_5_and_6_exactly_one_space_parts_the_request_line_rfc9112_3() {
    lines_refused(
        &[
            "GET  /foo HTTP/1.1",
            "GET /foo  HTTP/1.1",
            "GET /a b HTTP/1.1",
            " GET / HTTP/1.1",
            "\tGET / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET / HTTP/1.1\t",
            "GET\t/ HTTP/1.1",
            "GET /\tHTTP/1.1",
            "GET \t/ HTTP/1.1",
            "GET\x0b/ HTTP/1.1",
            "GET / \x0cHTTP/1.1",
            "GET /\u{a0}HTTP/1.1",
            "GET",
            "GET ",
            "GET/ HTTP/1.1",
            "GET HTTP/1.1",
            "GET  HTTP/1.1",
            "/ HTTP/1.1",
            " / HTTP/1.1",
            "GET / HTTP/1.1 HTTP/1.1",
            "GET / x HTTP/1.1",
        ],
        400,
    );
}

#[test]
fn row_7_a_method_is_a_token_and_case_counts_rfc9110_9_1() {
    for method in [
        "G(ET", "G\"ET", "GET:", "G,ET", "G/ET", "G;ET", "G=ET", "G?ET", "G@ET", "[GET]", "G\\ET", "{GET}",
        "<GET>", "G\0ET", "G\x7fET", "G\x01ET", "GÉT", "G\rET", "\x1b[2J",
    ] {
        lines_refused(&[format!("{method} / HTTP/1.1")], 400);
    }
    for method in ["get", "Get", "PROPFIND", "M-SEARCH", "!#$%&'*+-.^_`|~0Az", "HEAD", "TRACE", "head"] {
        served(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"), &head_or(method));
    }
    served(format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "M".repeat(23)), &format!("{} a /", "M".repeat(23)));
    lines_refused(&[format!("{} / HTTP/1.1", "M".repeat(24))], 501);
}

/// The content of the response to `method`: none for HEAD.
fn head_or(method: &str) -> String {
    if method == "HEAD" { String::new() } else { format!("{method} a /") }
}

#[test]
fn row_8_and_9_other_and_malformed_versions_are_refused_rfc9112_2_3() {
    for version in ["2.0", "3.7", "0.9", "2.1", "9.9", "0.0"] {
        lines_refused(&[format!("GET / HTTP/{version}")], 505);
    }
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        served(format!("GET / {version}\r\nHost: a\r\nX: y\r\n\r\n"), "GET a / X=y");
        refused(format!("GET / {version}\r\n\r\n"), 400);
        refused(format!("GET / {version}\r\nHost: a\r\nX : y\r\n\r\n"), 400);
    }
    for version in [
        "http/1.1",
        "Http/1.1",
        "HTTP/1.",
        "HTTP/.1",
        "HTTP/1",
        "HTTP/11",
        "HTTP",
        "HTTP/",
        "ICY",
        "1.1",
        "HTTP/1,1",
        "HTTP/1.a",
        "HTTP/a.1",
        "HTTP/1.²",
        "HTTP\\1.1",
    ] {
        lines_refused(&[format!("GET / {version}")], 400);
    }
    for version in [
        "HTTP/1.10",
        "HTTP/01.1",
        "HTTP/1.1.1",
        "HTTP/1.1x",
        "HTTP/1.2x",
        "HTTP/-1.1",
        "HTTP/+1.1",
        "HTTP/ 1.1",
        "HTTP /1.1",
        "HTTPS/1.1",
        "XHTTP/1.1",
        "XHTTP/2.0",
        "HTTP/1.1\r1",
        "HTTP/\r\r1.1",
        "HTTP/1.1\r",
        "HTTP/1.2\r",
        "HTTP/1.1\0",
        "HTTP/1.2 ",
        "HTTP/2.0 ",
        "x HTTP/2.0",
        "x HTTP/1.2",
        "HTTP/1.1 HTTP/2.0",
        "HTTP/1.2 HTTP/1.2",
    ] {
        lines_refused(&[format!("GET / {version}")], 400);
    }
    // The line has no end yet: a space behind the bad version does not begin another one.
    check(b"GET / HTT/1.1\r4Host: a\r", &["400"]);
    for simple in ["GET /\r\n", "GET / \r\n", "GET\r\n", "GET /"] {
        refused(format!("{simple}\r\n\r\n"), 400);
    }
}

#[test]
fn row_10_a_target_has_the_form_its_method_asks_for_rfc9112_3_2() {
    targets_refused(&[
        "foo", "foo/bar", "*", "?a", "./a", "../a", "\\", "\\\\a\\b", "a:80", ":80/", "h:443", "http:a",
        "http:/a", "http://", "http//a", "://a/", "ftp://a/", "ws://a/",
    ]);
    targets_refused(&["http://h.com\\admin", "http:///a", "file:///etc/passwd", "javascript://a/"]);
    lines_refused(
        &["OPTIONS ** HTTP/1.1", "OPTIONS *? HTTP/1.1", "OPTIONS */ HTTP/1.1", "POST * HTTP/1.1"],
        400,
    );
    served("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS a *");
    served("OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS a /x");
    served("OPTIONS http://t HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS t *");
    served("OPTIONS http://t/ HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS t /");
    check(b"OPTIONS * HTTP/1.0\r\n\r\n", &["OPTIONS - *"]);
    served("GET //b/../c HTTP/1.1\r\nHost: a\r\n\r\n", "GET a //b/../c");
}

#[test]
fn row_10_connect_needs_a_plan_and_a_port_rfc9110_9_3_6() {
    for target in ["h:443", "[::1]:443", "h:1"] {
        refused(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"), 501);
        refused(format!("CONNECT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"), 501);
    }
    for target in
        ["h", "h:", "h:0", ":443", "h:65536", "h:x", "/", "*", "http://h", "u@h:443", "h:443/", "h:443?"]
    {
        refused(format!("CONNECT {target} HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    }
    refused("CONNECT h:443 HTTP/1.1\r\n\r\n", 400);
}

/// `it/targets.rs` has a row for each octet in each part.
#[test]
fn row_11_bytes_that_no_target_may_hold_are_refused_rfc9112_3_2() {
    for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_graphic() || b"#\\".contains(byte)) {
        targets_refused(&[&[b'/', byte, b'b']]);
    }
    targets_refused(&[
        "/#frag",
        "/a?b#",
        "/?\x7f",
        "/?\r",
        "http://a/#b",
        "http://a?\0",
        "/\u{85}",
        "/?\u{9b}",
    ]);
    for target in ["/%00%0d%0a%zz?a=%0a&b[]=`{|}^", "/a|b\"<>^`{}é?\\\"<>`é", "//é/\u{2028}"] {
        served(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), &format!("GET a {target}"));
        served(format!("GET http://b{target} HTTP/1.1\r\nHost: a\r\n\r\n"), &format!("GET b {target}"));
    }
}

#[test]
fn row_12_an_absolute_target_needs_a_good_authority_rfc9110_4_2() {
    for authority in [
        "a:1:2",
        "[::1",
        "127.0.0.1[x]",
        "u\0@h",
        "u@h",
        "u:p@h",
        "@h",
        ":80",
        "a:65536",
        "a:x",
        "a b",
        "[",
        "a\\",
        "a%",
        "a%0",
        "a^b",
        "",
    ] {
        targets_refused(&[
            format!("http://{authority}/"),
            format!("http://{authority}?a"),
            format!("http://{authority}"),
        ]);
    }
}

#[test]
fn row_13_an_absolute_target_wins_over_host_rfc9112_3_2_2() {
    served("GET http://t:1/p?q HTTP/1.1\r\nHost: h\r\n\r\n", "GET t:1 /p?q");
    served("GET HTTP://t HTTP/1.1\r\nHost: h:80\r\n\r\n", "GET t /");
    served("GET https://t?q HTTP/1.1\r\nHost: h\r\n\r\n", "GET t /?q");
    served("POST http://[::1]:80/ HTTP/1.1\r\nHost: h\r\n\r\n", "POST [::1]:80 /");
    check(b"GET http://t/ HTTP/1.0\r\n\r\n", &["GET t /"]);
    // An empty field is ignored like any other, but not one that is missing, malformed or repeated.
    served("GET http://t/p HTTP/1.1\r\nHost:\r\n\r\n", "GET t /p");
    served("OPTIONS http://t HTTP/1.1\r\nHost: \t\r\n\r\n", "OPTIONS t *");
    for lines in ["", "Host: :80\r\n", "Host:\r\nHost:\r\n"] {
        refused(format!("GET http://t/ HTTP/1.1\r\n{lines}\r\n"), 400);
    }
}

#[test]
fn row_14_and_15_blanks_before_a_name_or_a_colon_are_refused_rfc9112_5_1() {
    fields_refused(&[
        " foo: bar",
        "\tfoo: bar",
        " ",
        "\t",
        " \t ",
        " : x",
        "Foo : bar",
        "Foo\t: bar",
        "Foo \t : bar",
        "Content-Length : 4",
        "Content-Length\t: 4",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        " Transfer-Encoding: chunked",
        "Host : a",
        " Host: b",
        "\x0bFoo: bar",
        "Foo\x0b: bar",
        "Foo\u{a0}: bar",
    ]);
    refused("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400);
    refused("GET / HTTP/1.0\r\n \r\n\r\n", 400);
}

#[test]
fn row_16_and_20_a_name_is_a_token_rfc9112_5_1() {
    fields_refused(&[": x", ":", "::", "no colon", "nocolon", "X", "=", "X=y", "GET / HTTP/1.1", "\0", "é"]);
    let no_tchars =
        (0..=u8::MAX).filter(|byte| !byte.is_ascii_graphic() || b"\"(),/;<=>?@[\\]{}".contains(byte));
    for byte in no_tchars {
        refused([b"GET / HTTP/1.1\r\nHost: a\r\nFo", &[byte][..], b"o: x\r\n\r\n"].concat(), 400);
    }
    fields_refused(&[
        "Fooő: x",
        "Content-Length\0: 4",
        "\u{feff}Foo: x",
        "Transfer-Encoding\u{200b}: chunked",
    ]);
    served("GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~0Az: x\r\n\r\n", "GET a / !#$%&'*+-.^_`|~0Az=x");
}

#[test]
fn row_17_controls_in_a_value_are_refused_rfc9110_5_5() {
    for byte in (0..=u8::MAX).filter(|byte| *byte != b'\t' && byte.is_ascii_control()) {
        fields_refused(&[[b"X: a", &[byte][..], b"b"].concat(), [b"X: ", &[byte][..]].concat()]);
    }
    fields_refused(&["X: a\rTransfer-Encoding: chunked", "X: a\r\rb", "X: a\r", "X:\r", "X: \0"]);
    let fit: Vec<_> = (0x80..=u8::MAX).chain(*b"\t \",:;\\").collect();
    let head = [&b"GET / HTTP/1.1\r\nHost: a\r\nX: a"[..], &fit, b"b\r\n\r\n"].concat();
    served(head, &format!("GET a / X=a{}b", fit.escape_ascii()));
}

#[test]
fn blanks_around_a_value_are_not_part_of_it_rfc9112_5_1() {
    for blanks in ["", " ", "\t", "  \t "] {
        served(
            format!("GET / HTTP/1.1\r\nHost:{blanks}a{blanks}\r\nX:{blanks}y{blanks}\r\n\r\n"),
            "GET a / X=y",
        );
        served(format!("GET / HTTP/1.1\r\nHost: a\r\nX:{blanks}\r\nY: z\r\n\r\n"), "GET a / X= Y=z");
    }
    served("GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\nX_: 3\r\nX: 4\r\n\r\n", "GET a / X=1 x=2 X_=3 X=4");
}

#[test]
fn row_18_folded_lines_are_refused_rfc9112_5_2() {
    fields_refused(&[
        "Foo: a\r\n b",
        "Foo: a\r\n\tb",
        "Foo:\r\n b",
        "Foo: a\r\n ",
        "Foo: a\r\n \r\n b",
        "Foo: a\r\n : b",
        "Content-Length:\r\n 4",
        "Content-Length: 1\r\n 4",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked\r\n\t",
        "Foo: a\r\n Transfer-Encoding: chunked",
    ]);
    refused("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400);
    refused("GET /\r\n HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

#[test]
fn row_19_lines_end_with_cr_and_lf_rfc9112_2_2() {
    for head in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\n\n",
        "GET / HTTP/1.1\r\nX: y\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nX:\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\rHost: a\r\r",
        "GET / HTTP/1.1\r\nHost: a\r\rX",
        "GET / HTTP/1.1\n\rHost: a\n\r\n\r",
        "GET / HTTP/1.0\n\r\n",
        "GET / HTTP/1.0\r\n\n",
        "GET / HTTP/1.0\n\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        refused(head, 400);
    }
}

#[test]
fn row_19_a_lone_lf_in_a_large_head_is_refused_at_once_rfc9112_2_2() {
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(6_000));
    let wired = Wired::new(tell);
    for end in ["\n\n", "\nY: z", "\n\r\n"] {
        let start = wired.now();
        let received = wired.ask(&[large.as_bytes(), end.as_bytes()], Then::Waits);
        assert_eq!((responses(&received)[0].status, wired.now() - start), (400, Duration::ZERO), "{end:?}");
    }
    assert_eq!(take_handled(), 0);
}

/// A partial head that is large is not parsed again before it has doubled, and the limit may lie below that.
#[test]
fn a_large_head_that_outgrows_its_limit_is_refused_at_once_rfc6585_5() {
    let wired = Wired::with(|it| it.limits(Limits { head_max: 12_000, ..Limits::default() }), tell);
    let (begun, rest) = (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(8_000)), "x".repeat(5_000));
    let start = wired.now();
    let received = wired.ask(&[begun.as_bytes(), rest.as_bytes()], Then::Waits);
    assert_eq!((responses(&received)[0].status, wired.now() - start), (431, Duration::ZERO));
    assert_eq!(take_handled(), 0);
}

#[test]
fn a_large_head_is_read_whole_rfc9110_5_4() {
    let head = |line: usize, fields: usize, value: usize| {
        let fields = (1..fields).map(|_| format!("X: {}\r\n", "v".repeat(value))).collect::<String>();
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n{fields}\r\n", "p".repeat(line))
    };
    served(head(8_000, 2, 0), &format!("GET a /{} X=", "p".repeat(8_000)));
    served(head(0, 128, 64), &format!("GET a /{}", format!(" X={}", "v".repeat(64)).repeat(127)));
}

#[test]
fn row_23_and_24_one_empty_line_may_come_first_rfc9112_2_2() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let get = "GET /2 HTTP/1.1\r\nHost: b\r\n\r\n";
    let saw = "POST a / Content-Length=2";
    served(format!("\r\n{get}"), "GET b /2");
    check(format!("{post}\r\n{get}").as_bytes(), &[saw, "GET b /2"]);
    check(format!("\r\n{post}\r\n").as_bytes(), &[saw]);
    check(b"\r\n", &[]);
    check(format!("{post}\r\n\r\n{get}").as_bytes(), &[saw, "400"]);
    refused(format!("\r\n\r\n{get}"), 400);
    refused(format!("\r\n \r\n{get}"), 400);
    refused("\r\n".repeat(10_000), 400);
}

/// A refusal of HEAD has no content.
#[test]
fn a_refused_head_request_is_answered_without_content_rfc9110_9_3_2() {
    for (head, expected) in [
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n".into(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n".into(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n".into(), 400),
        ("HEAD / HTTP/1.1\nHost: a\r\n\r\n".into(), 400),
        ("\r\nHEAD * HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("HEAD http:/// HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("HEAD  / HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".into(), 501),
        ("HEAD / HTTP/3.0\r\nHost: a\r\n\r\n".into(), 505),
        (format!("HEAD /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(17_000)), 414),
        (format!("HEAD / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X:\r\n".repeat(128)), 431),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n".into(), 417),
    ] {
        let wire = format!("{head}GET /smuggled HTTP/1.0\r\n\r\n");
        check_expected(wire.as_bytes(), &[&expected.to_string()], &note);
        let (received, handled) = Wired::new(tell).ask_in_every_way(&SERVED, wire.as_bytes());
        let is_refused = received.starts_with(&format!("HTTP/1.1 {expected} ")) && handled == 0;
        let is_head = received.matches("\r\ncontent-length: ").count() == 1 && received.ends_with("\r\n\r\n");
        assert!(is_refused && is_head && received.matches("HTTP/1.1").count() == 1, "{head:?}: {received:?}");
    }
    for (then, expected) in [(Then::Ends, 400), (Then::Waits, 408)] {
        let received = Wired::new(tell).ask_cut("HEAD / HTTP/1.1\r\nHost", then);
        assert!(
            received.starts_with(&format!("HTTP/1.1 {expected} ")) && received.ends_with("\r\n\r\n"),
            "{received:?}"
        );
    }
    // These only look like HEAD.
    for head in
        ["HEADER / HTTP/1.1", "HEAD_ / HTTP/1.1", "HEAD-/ HTTP/1.1", "head / HTTP/1.1", "HEAD\t/ HTTP/1.1"]
    {
        refused(format!("{head}\r\nX : y\r\n\r\n"), 400);
    }
}

/// A large head is not parsed again for each piece of it that comes, but a fault in a late piece counts all the same.
#[test]
fn a_late_fault_in_a_large_head_is_found_without_waiting_for_more_rfc9112_2_2() {
    let begun = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(5000));
    let fields = "\r\na:".repeat(128);
    for (late, when_it_ends, when_it_waits) in [
        ("x", 400, 408),
        ("\r\nY: y\r\n", 400, 408),
        ("\0", 400, 400),
        ("\rx", 400, 400),
        ("\r\nY : y", 400, 400),
        ("\r\n folded", 400, 400),
        (&fields, 431, 431),
    ] {
        for (then, expected) in [(Then::Ends, when_it_ends), (Then::Waits, when_it_waits)] {
            take_handled();
            let received = Wired::new(tell).ask(&[begun.as_bytes(), late.as_bytes()], then);
            assert!(received.starts_with(&format!("HTTP/1.1 {expected} ")), "{late:?} {then:?}: {received}");
            assert_eq!(take_handled(), 0);
        }
    }
}

#[test]
fn bytes_of_other_protocols_are_refused_rfc9112_2_2() {
    refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400);
    refused(b"\0\0\0\0\0\0\0\0", 400);
    refused(b"\x80\x2e\x01\x03\x01\r\n\r\n", 400);
    refused("SSH-2.0-OpenSSH_9.6\r\n", 400);
    refused("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 400);
    refused("{\"jsonrpc\": \"2.0\"}\r\n\r\n", 400);
    refused("<policy-file-request/>\0", 400);
    refused("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", 400);
}

/// A method of this name has the statuses of any other, and only a header of the PROXY protocol is reported as one.
#[test]
fn a_method_is_no_proxy_header_for_its_name_rfc9110_9_1() {
    let set = |server: Server| {
        server.error_response(|report, response| response.set_text(report.cause.to_string()))
    };
    for (wire, expected, is_header) in [
        (format!("PROXY /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(17_000)), 414, false),
        (format!("PROXY / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X:\r\n".repeat(128)), 431, false),
        ("PROXY / HTTP/2.0\r\nHost: a\r\n\r\n".into(), 505, false),
        ("PROXY / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n".into(), 400, false),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".into(), 400, true),
        ("PROXY TCP6 ::1 ::2 1 2\r\n".into(), 400, true),
        ("PROXY UNKNOWN\r\n".into(), 400, true),
    ] {
        refused(&wire, expected);
        let received = Wired::with(set, tell).ask(&[wire.as_bytes()], Then::Ends);
        assert_eq!(received.contains("PROXY header"), is_header, "{wire:.40}: {received}");
    }
}

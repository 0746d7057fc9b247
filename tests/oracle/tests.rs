//! The oracle itself: the examples of the RFCs, and one break of each rule.

use super::{Choice, Next, Reader, Request, Response};

/// All requests of `wire`, as method, target and content, and whether the last thing was refused.
fn requests(wire: &[u8]) -> (Vec<String>, &'static str) {
    let (mut reader, mut all) = (Reader::strict(wire), Vec::new());
    loop {
        match reader.request() {
            Next::Whole(request) => all.push(shown(&request)),
            Next::Nothing => return (all, ""),
            Next::Partial(_) => return (all, "partial"),
            Next::Refused(_, rule) => return (all, rule),
        }
    }
}

fn shown(request: &Request) -> String {
    let Request { method, target, content, trailers, .. } = request;
    let [method, target, content] = [method, target, content].map(|text| text.escape_ascii());
    let trailers =
        trailers.iter().map(|field| format!(" {}={}", field.name.escape_ascii(), field.value.escape_ascii()));
    format!("{method} {target} {content}{}", trailers.collect::<String>())
}

#[track_caller]
fn reads(wire: impl AsRef<[u8]>, expected: &[&str]) {
    let all = requests(wire.as_ref());
    assert_eq!(all, (expected.iter().map(|it| it.to_string()).collect(), ""));
    for end in 1..wire.as_ref().len() {
        let (some, _) = requests(&wire.as_ref()[..end]);
        assert!(all.0.starts_with(&some), "{some:?} at {end}");
    }
}

#[track_caller]
fn refuses(wire: impl AsRef<[u8]>, section: &str) {
    let (all, rule) = requests(wire.as_ref());
    assert!(all.is_empty() && rule.starts_with(section), "{all:?} {rule:?}");
}

#[test]
fn requests_are_read_one_after_another() {
    reads("GET /hello.txt HTTP/1.1\r\nHost: www.example.com\r\n\r\n", &["GET /hello.txt "]);
    reads(
        "\r\nPOST /a?b HTTP/1.1\r\nhost:\r\nContent-Length: 03 \r\n\r\nabc\r\nOPTIONS * HTTP/1.0\r\n\r\n",
        &["POST /a?b abc", "OPTIONS * "],
    );
    reads(
        "PUT http://a:80?q HTTP/1.9\r\nhost: [::1]:\r\ntransfer-encoding: ,Chunked\r\n\r\n\
         00A ; a = \"\\\"b\"\t;c=d\r\n0123456789\r\n1\r\n\n\r\n000\r\nX: y z \r\n\r\nCONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        &["PUT http://a:80?q 0123456789\\n X=y z", "CONNECT a:1 "],
    );
}

#[test]
fn each_rule_of_a_head_is_kept() {
    let with = |line: &str| format!("GET / HTTP/1.1\r\nhost: a\r\n{line}\r\n\r\n");
    for line in ["GET  / HTTP/1.1", "GET / HTTP/1.1 ", " GET / HTTP/1.1", "GET /", ""] {
        refuses(format!("{line}\r\nhost: a\r\n\r\n"), "9112 §3:");
    }
    for target in [
        "a",
        "*",
        "/#",
        "/\"",
        "/|",
        "/%4",
        "/%zz",
        "/\u{e9}",
        "ftp://a/",
        "http:///",
        "http://u@a/",
        "http://a:x/",
    ] {
        refuses(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"), "9112 §3.2:");
    }
    for target in ["/", "a", "a:", "a:0", "a:65536", ":1"] {
        refuses(format!("CONNECT {target} HTTP/1.1\r\nhost: a\r\n\r\n"), "9112 §3.2:");
    }
    refuses("G(T / HTTP/1.1\r\nhost: a\r\n\r\n", "9110 §9.1");
    refuses("GET / http/1.1\r\nhost: a\r\n\r\n", "9112 §2.3");
    refuses("GET / HTTP/2.0\r\nhost: a\r\n\r\n", "9110 §2.5");
    refuses("GET / HTTP/1.1\r\n\r\n", "9112 §3.2: there is one Host");
    refuses("GET / HTTP/1.0\r\nhost: a\r\nHost: a\r\n\r\n", "9112 §3.2: there is one Host");
    for host in ["a b", "u@a", "a/", "a:b", "[a]", "[::1", "a%", "\"a\""] {
        refuses(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n"), "9112 §3.2: Host is");
    }
    refuses(with("a: b\nc: d"), "9112 §2.2");
    refuses(with("a: b\rc: d"), "9112 §2.2");
    refuses(with("a"), "9112 §5:");
    for line in ["a : b", ": b", "a b: c", "\u{e9}: a", "a\0: b"] {
        refuses(with(line), "9110 §5.1");
    }
    refuses(with("a: b\r\n c"), "9112 §5.2");
    refuses("GET / HTTP/1.1\r\n host: a\r\n\r\n", "9112 §5.2");
    refuses(with("a: \0"), "9110 §5.5");
    refuses(with("a: \x7f"), "9110 §5.5");
}

#[test]
fn each_rule_of_a_body_is_kept() {
    let with = |lines: &str, body: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{lines}\r\n\r\n{body}");
    for length in ["+1", "-1", "0x1", "", "1,1", "1 1", "1\r\ncontent-length: 1"] {
        refuses(with(&format!("content-length: {length}"), "a"), "9112 §6.3: a length");
    }
    refuses(with("content-length: 1\r\ntransfer-encoding: chunked", ""), "9112 §6.3: a message");
    for coding in
        ["", ",", "gzip", "gzip, chunked", "chunked, , chunked", "chunked;a=b", "\"chunked\"", "identity"]
    {
        refuses(with(&format!("transfer-encoding: {coding}"), ""), "9112 §6.1, §6.3");
    }
    refuses("GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "9112 §6.1");
    let chunked = |body: &str| with("transfer-encoding: chunked", body);
    for size in ["", "+1", " 1", "g"] {
        refuses(chunked(&format!("{size}\r\na\r\n0\r\n\r\n")), "9112 §7.1:");
    }
    for extension in [" ", ";", ";a ", ";a=", ";=b", ";a=\"b", ";a=\"\0\"", ";a=\"\\\0\"", ";a b", "x1"] {
        refuses(chunked(&format!("1{extension}\r\na\r\n0\r\n\r\n")), "9112 §7.1.1");
    }
    refuses(chunked("1\r\nab\r\n0\r\n\r\n"), "9112 §7.1:");
    refuses(chunked("1;a=\"\n\"\r\na\r\n0\r\n\r\n"), "9112 §2.2");
    refuses(chunked("0\r\na : b\r\n\r\n"), "9110 §5.1");
    refuses(chunked("0\r\na: b\r\n c\r\n\r\n"), "9112 §5.2");
    let huge = chunked("ffffffffffffffffffff\r\nabc");
    assert_eq!(requests(huge.as_bytes()), (Vec::new(), "partial"));
}

#[track_caller]
fn response(wire: &str, method: &str, is_closed: bool) -> (Next<Response>, String) {
    let mut reader = Reader::strict(wire.as_bytes());
    let next = reader.response(method.as_bytes(), is_closed);
    (next, reader.rest().escape_ascii().to_string())
}

#[test]
fn responses_end_where_rfc9112_6_3_says() {
    for (method, wire, content, rest) in [
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc", "ab", "c"),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc", "", "abc"),
        ("CONNECT", "HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\nabc", "", "abc"),
        ("GET", "HTTP/1.1 304 \r\ncontent-length: 1, 2\r\n\r\nabc", "", "abc"),
        ("GET", "HTTP/1.1 100 a\tb\r\n\r\nabc", "", "abc"),
        (
            "GET",
            "HTTP/1.1 200 \r\na: b\r\n\tc\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nb",
            "a",
            "b",
        ),
        ("GET", "HTTP/1.0 999 \r\n\r\nabc", "abc", ""),
    ] {
        let (Next::Whole(read), left) = response(wire, method, true) else { panic!("{wire}") };
        assert_eq!((&*read.content, &*left), (content.as_bytes(), rest), "{wire}");
    }
    assert!(matches!(response("HTTP/1.1 200 \r\n\r\na", "GET", false).0, Next::Partial(Some(_))));
    let folded = "HTTP/1.1 204 \r\na: b\r\n\tc \r\n \r\n\r\n";
    let Next::Whole(read) = response(folded, "GET", false).0 else { panic!("{folded}") };
    assert_eq!(read.fields[0].value, b"b c");
}

#[test]
fn responses_that_break_a_rule_are_refused() {
    for (wire, section) in [
        ("HTTP/1.1 200\r\n\r\n", "9112 §4: a space"),
        ("HTTP/1.1 20 \r\n\r\n", "9112 §4: a status"),
        ("HTTP/1.1 +20 \r\n\r\n", "9112 §4: a status"),
        ("HTTP/1.1 200 \0\r\n\r\n", "9112 §4: a reason"),
        ("HTTP/1.1 099 \r\n\r\n", "9110 §15"),
        ("HTTP/2.0 200 \r\n\r\n", "9110 §2.5"),
        ("\r\nHTTP/1.1 200 \r\n\r\n", "9112 §2.3"),
        ("HTTP/1.1 200 \r\n a: b\r\n\r\n", "9112 §5.2"),
        ("HTTP/1.1 200 \r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na", "9112 §6.3"),
        ("HTTP/1.1 200 \r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\na", "9112 §6.3"),
        ("HTTP/1.0 200 \r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "9112 §6.1"),
    ] {
        let found = response(wire, "GET", true).0;
        assert!(matches!(&found, Next::Refused(_, rule) if rule.starts_with(section)), "{wire:?}: {found:?}");
    }
}

#[test]
fn a_choice_is_accepted_where_it_is_made() {
    let wire = b"GET /%zz?{|}\xff HTTP/1.1\r\nhost: a\r\n\r\n";
    assert!(matches!(Reader::new(wire, &[Choice::RawTarget]).request(), Next::Whole(_)));
    let wire = b"HTTP/1.1 204\r\n\r\n";
    let read = Reader::new(wire, &[Choice::StatusWithoutSpace]).response(b"GET", true);
    assert!(matches!(read, Next::Whole(_)));
}

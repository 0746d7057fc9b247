//! The oracle itself: the examples of the RFCs, and one break of each rule.

use super::fields::{trace_parent, trace_state, weights};
use super::proxies::{Socks, forwarded, forwarded_for, proxy_header, socks_replies};
use super::websocket::{Event, FrameReader, Message, Sender, frame_ends};
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

/// All that a peer says, as texts, and the rule that it breaks.
fn frames(wire: &[u8], sender: Sender) -> (Vec<String>, &'static str) {
    let (mut reader, mut all) = (FrameReader::new(wire, sender, false), Vec::new());
    loop {
        match reader.event() {
            Next::Whole(Event::Message(Message { content, frames, .. })) => {
                all.push(format!("{} in {frames}", content.escape_ascii()));
            }
            Next::Whole(event) => all.push(format!("{event:?}")),
            Next::Nothing => return (all, ""),
            Next::Partial(_) => return (all, "partial"),
            Next::Refused(_, rule) => return (all, rule),
        }
    }
}

/// The examples of RFC 6455 §5.7.
#[test]
fn frames_are_read_one_after_another() {
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    let hello = "Pong([72, 101, 108, 108, 111])";
    assert_eq!(frames(masked, Sender::Client), (vec!["Hello in 1".into(), hello.into()], ""));
    let fragments = b"\x01\x03Hel\x89\0\x80\x02lo\x82\x7e\x01\0";
    let wire = [&fragments[..], &[b'x'; 256], b"\x88\x03\x03\xe8!"].concat();
    let long = format!("{} in 1", "x".repeat(256));
    let expected = vec!["Ping([])".into(), "Hello in 2".into(), long, "Close(1000, \"!\")".into()];
    assert_eq!(frames(&wire, Sender::Server), (expected, ""));
    assert_eq!(frame_ends(&wire), (vec![5, 7, 11, 271, 276], Some(271)));
}

#[test]
fn each_rule_of_a_frame_is_kept() {
    for (wire, section) in [
        (&b"\x83"[..], "6455 §5.2: an opcode"),
        (b"\xa1", "6455 §5.2: RSV2"),
        (b"\xc1", "7692 §6"),
        (b"\x09", "6455 §5.5: a control frame is not"),
        (b"\x89\x7e", "6455 §5.5: a control frame has"),
        (b"\x81\x80", "6455 §5.1"),
        (b"\x81\x7e\0\x7d", "6455 §5.2: a length has its"),
        (b"\x81\x7f\x80", "6455 §5.2: a length has 63"),
        (b"\x80\0", "6455 §5.4: a continuation"),
        (b"\x01\0\x81\0", "6455 §5.4: no message"),
        (b"\x81\x02\xc3", "partial"),
        (b"\x81\x02\xff", "6455 §8.1"),
        (b"\x01\x01\xc3\x80\0", "6455 §8.1"),
        (b"\x88\x01\0", "6455 §5.5.1: a code"),
        (b"\x88\x02\x03\xed", "6455 §7.4"),
        (b"\x88\x03\x03\xe8\xff", "6455 §5.5.1: a reason"),
    ] {
        let (all, rule) = frames(wire, Sender::Server);
        assert!(all.is_empty() && rule.starts_with(section), "{all:?} {rule:?} of {}", wire.escape_ascii());
    }
}

#[test]
fn proxies_are_read() {
    let header = |wire: &[u8]| match proxy_header(wire) {
        Next::Whole(header) => {
            let addresses = header.addresses.map(|(source, destination)| format!("{source} {destination}"));
            (addresses.unwrap_or_default(), header.len)
        }
        next => (format!("{next:?}").chars().take(7).collect(), 0),
    };
    let v2 = |rest: &[u8]| [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0"[..], &[rest.len() as u8], rest].concat();
    let addresses = b"\xc0\0\x02\x01\x0a\0\0\x01\x12\x67\x01\xbb";
    let expected = "192.0.2.1:4711 10.0.0.1:443".to_owned();
    assert_eq!(header(b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\nGET"), (expected.clone(), 40));
    assert_eq!(header(&v2(addresses)), (expected.clone(), 28));
    assert_eq!(header(&v2(&[&addresses[..], b"\x04\0\0"].concat())), (expected, 31));
    assert_eq!(header(b"PROXY UNKNOWN x y\r\n"), (String::new(), 19));
    for refused in [
        &b"GET / HTTP/1.1"[..],
        b"PROXY TCP4 1.1.1.1 1.1.1.1 01 1\r\n",
        b"PROXY UNKNOWN\n",
        &v2(b""),
        &v2(&addresses[1..]),
    ] {
        assert_eq!(header(refused).0, "Refused", "{}", refused.escape_ascii());
    }
    assert_eq!(header(b"PROXY TCP4 1").0, "Partial");
    assert_eq!(
        socks_replies(b"\x05\0\x05\0\0\x01\0\0\0\0\0\0!"),
        Socks::Connected { with_login: false, len: 12 }
    );
    assert_eq!(
        socks_replies(b"\x05\x02\x01\0\x05\0\0\x03\x01a\0\0"),
        Socks::Connected { with_login: true, len: 12 }
    );
    assert_eq!(socks_replies(b"\x05\0\x05\x01\0\x01\0\0\0\0\0\0"), Socks::Requested { with_login: false });
    let is_proxy = |ip: std::net::IpAddr| ip.to_string().starts_with("10.");
    let shown = |client: Option<Option<std::net::IpAddr>>| client.map(|ip| ip.map(|ip| ip.to_string()));
    let list = |value: &str| shown(forwarded_for(&[value.as_bytes()], is_proxy));
    assert_eq!(list("203.0.113.5, 192.0.2.1:80, 10.0.0.2"), Some(Some("192.0.2.1".into())));
    assert_eq!(
        (list("10.0.0.1, 10.0.0.2"), list("x, 10.0.0.2"), list(",")),
        (Some(Some("10.0.0.1".into())), Some(None), None)
    );
    let hops = |value: &str| shown(forwarded(&[value.as_bytes()], is_proxy));
    assert_eq!(
        hops("for=192.0.2.1, For=\"[2001:db8::1]:80\", for=10.0.0.1"),
        Some(Some("2001:db8::1".into()))
    );
    assert_eq!((hops("for=_hidden"), hops("for=a;by=b"), hops("for=[::1]")), (Some(None), None, None));
}

#[test]
fn single_fields_are_read() {
    let weighted = |list: &str| weights(list.as_bytes()).map(|all| format!("{all:?}"));
    assert_eq!(weighted("a/b;q=0.5, *").as_deref(), Some("[(\"a/b\", 500), (\"*\", 1000)]"));
    for refused in ["a;q=1.001", "a;q=.5", "a;q=0.0001", "a b", "a;b=c", "a;q=\"1\""] {
        assert_eq!(weighted(refused), None, "{refused}");
    }
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(trace_parent(parent.as_bytes()).map(|it| it.1), Some(0xb7ad_6b71_6920_3331));
    for refused in
        [&parent[1..], &parent.to_uppercase(), &format!("{parent}-x"), &parent.replacen("00", "ff", 1)]
    {
        assert_eq!(trace_parent(refused.as_bytes()), None, "{refused}");
    }
    assert_eq!(trace_state(&[b"a=b , ,c@d=e"]).as_deref(), Some("a=b,c@d=e"));
    assert_eq!((trace_state(&[b"A=b"]), trace_state(&[b"a@1=b"]), trace_state(&[b"a="])), (None, None, None));
}

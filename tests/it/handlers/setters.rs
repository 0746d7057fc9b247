//! Fields and content that a handler sets, as they reach the wire: never more than was meant (RFC 9110 §5, §6). Rows
//! are numbered in `tests/regressions.md`.

use std::io;
use std::time::{Duration, SystemTime};

use corehttp::error::MessageError;
use corehttp::{Context, Headers, Method, Request, Response, Server, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};
use crate::support::{Served, status, undated};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
const OLD: &str = "GET / HTTP/1.0\r\n\r\n";

/// Checks that `request` is answered with what `handler` sets as `expected`, except for the date.
#[track_caller]
fn check(request: &str, handler: impl Fn(&mut Context) -> corehttp::Result + 'static, expected: &str) {
    let received = Wired::new(handler).ask_cut(request, Then::Waits);
    assert_eq!(undated(&received), expected);
    assert_eq!(received.matches("date: ").count(), 1);
}

/// Texts that end a line and begin another, or that some reader may take for that.
const INJECTIONS: [&str; 9] = [
    "a\r\nInjected: 1",
    "a\nInjected: 1",
    "a\rInjected: 1",
    "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "a\r\n b",
    "a\0b",
    "a\x0bb",
    "a\x7f",
    "\x1b[31m",
];

const NO_TOKENS: [&str; 14] =
    ["", " ", "a b", "a ", " a", "a:", ":", "a\r\nInjected: 1", "a\n", "a\0", "a\t", "a\x7f", "é", "a(b)"];

#[test]
fn row_61_no_value_adds_a_line_rfc9110_5_5() {
    for value in INJECTIONS {
        let (mut headers, mut response) = (Headers::new(), Response::new());
        assert!(matches!(headers.set("x", value), Err(MessageError::FieldValue(_))), "{value:?}");
        assert!(matches!(headers.set("x", value.as_bytes()), Err(MessageError::FieldValue(_))), "{value:?}");
        assert!(
            matches!(headers.append("x", value.to_owned()), Err(MessageError::FieldValue(_))),
            "{value:?}"
        );
        for name in [
            "content-type",
            "location",
            "set-cookie",
            "connection",
            "content-length",
            "transfer-encoding",
            "host",
        ] {
            assert!(
                matches!(headers.set(name, value), Err(MessageError::FieldValue(_))),
                "{name}: {value:?}"
            );
        }
        assert!(
            matches!(response.set_shared_bytes(value, "x"), Err(MessageError::FieldValue(_))),
            "{value:?}"
        );
        assert!(
            matches!(response.set_redirect(Status::FOUND, value), Err(MessageError::FieldValue(_))),
            "{value:?}"
        );
        assert!(matches!(response.trailers.set("x", value), Err(MessageError::FieldValue(_))), "{value:?}");
        assert_eq!((headers, response), (Headers::new(), Response::new()), "nothing was changed");
    }
}

/// Browsers drop tabs and ends of lines, and take a `\` for a `/`.
#[test]
fn a_location_is_a_uri_reference_rfc9110_10_2_2() {
    for (location, expected) in [
        ("/café?q=ü#é", Some("/caf%C3%A9?q=%C3%BC#%C3%A9")),
        ("/a b", Some("/a%20b")),
        // Browsers drop spaces at the ends, and would then read a host.
        (" //evil.example", Some("%20//evil.example")),
        (" https://evil.example/ ", Some("%20https://evil.example/%20")),
        ("/a ", Some("/a%20")),
        (" /\\evil.example", Some("%20/%5Cevil.example")),
        ("/a%20b?c[]=%d", Some("/a%20b?c[]=%25d")),
        ("https://[::1]:8443/é", Some("https://[::1]:8443/%C3%A9")),
        ("/\t/evil.example", None),
        ("\t//evil.example", None),
        ("/\\evil.example", None),
        ("\\\\evil.example", None),
        ("https:\\\\evil.example", None),
    ] {
        let mut response = Response::new();
        let outcome = response.set_redirect(Status::FOUND, location);
        assert_eq!(
            (outcome.is_ok(), response.headers.get("location")),
            (expected.is_some(), expected),
            "{location:?}"
        );
    }
    let refused = Response::new().set_redirect(Status::FOUND, "/\\evil.example").unwrap_err();
    assert_eq!(refused, MessageError::Reference("location".into()));
    assert_eq!(
        refused.to_string(),
        "the value of the field location has a `\\` that browsers take for a `/`"
    );
}

#[test]
fn row_61_a_name_is_a_token_rfc9110_5_1() {
    for name in NO_TOKENS {
        let mut headers = Headers::new();
        assert!(matches!(headers.set(name, "x"), Err(MessageError::FieldName(_))), "{name:?}");
        assert!(matches!(headers.append(name, 7), Err(MessageError::FieldName(_))), "{name:?}");
        assert!(
            matches!(headers.set_date(name, SystemTime::now()), Err(MessageError::FieldName(_))),
            "{name:?}"
        );
        assert!(headers.is_empty());
    }
}

#[test]
fn row_61_no_method_or_url_adds_a_line_rfc9112_3() {
    for method in NO_TOKENS {
        assert!(Request::new(method, "/").is_err() && method.parse::<Method>().is_err(), "{method:?}");
    }
    for url in
        ["http://a b\r\n/", "http://a%0d%0a/", "http://a:8\r\nInjected: 1/", "http://a:%0a@b/", "x\r\n"]
    {
        assert!(Request::get(url).is_err(), "{url:?}");
    }
    let urls = [
        "/ HTTP/1.1\r\nInjected: 1",
        "http://a/\r\n x",
        "http://a\r\nb/\0",
        "/ b",
        "/\t",
        "/é",
        "//\n?\r\n ",
    ];
    for url in urls {
        let request = Request::get(url).unwrap();
        assert!(request.target().as_str().bytes().all(|octet| octet.is_ascii_graphic()), "{request:?}");
    }
}

#[test]
fn row_61_no_server_name_adds_a_line_rfc9110_10_2_4() {
    assert!(Server::new().name("a\r\nInjected: 1").is_err());
}

#[test]
fn row_61_a_refused_field_is_not_on_the_wire() {
    let careless = |ctx: &mut Context| {
        for text in INJECTIONS {
            let _ = ctx.response.headers.set("x", text);
            let _ = ctx.response.headers.set(text, "x");
            let _ = ctx.response.set_redirect(Status::FOUND, text);
            let _ = ctx.response.set_shared_bytes(text, text);
            let _ = ctx.response.trailers.append(text, text);
        }
        Ok(())
    };
    check(GET, careless, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let echoing = |ctx: &mut Context| {
        let path = ctx.request.path_decoded()?.into_owned();
        Ok(ctx.response.set_redirect(Status::FOUND, &path)?)
    };
    let received =
        Wired::new(echoing).ask_cut("GET /%0d%0aInjected:%201 HTTP/1.1\r\nHost: a\r\n\r\n", Then::Waits);
    assert_eq!(status(&received), 500);
    assert!(!received.contains("Injected"));
}

#[test]
fn row_61_no_hint_or_protocol_adds_a_line() {
    let careless = async |ctx: &mut Context| -> corehttp::Result {
        let mut fields = Headers::new();
        assert!(fields.set("link", "</a>\r\n\r\nHTTP/1.1 200 OK").is_err());
        ctx.send_informational(Status::EARLY_HINTS, &fields).await?;
        for protocol in ["x\r\nInjected: 1", "", "x, y", "y"] {
            assert!(ctx.upgrade(protocol).await.is_err(), "{protocol:?}");
        }
        for code in [101, 200, 204, 404, 599] {
            let status = Status::new(code).unwrap();
            assert!(ctx.send_informational(status, &fields).await.is_err(), "{code}");
        }
        Ok(())
    };
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let received = Wired::new(careless).ask_cut(request, Then::Waits);
    assert_eq!(
        undated(&received),
        // A protocol that it could be upgraded to may be named (RFC 9110 §7.8), but nothing that is no protocol.
        "HTTP/1.1 103 Early Hints\r\n\r\n\
         HTTP/1.1 200 OK\r\nupgrade: y\r\ncontent-length: 0\r\nconnection: upgrade\r\n\r\n"
    );
}

#[test]
fn row_62_each_cookie_has_one_line_of_its_own_rfc6265_4_1() {
    let cookies = |ctx: &mut Context| {
        let headers = &mut ctx.response.headers;
        headers.append("set-cookie", "a=1; Path=/")?;
        assert!(headers.append("set-cookie", "b=2\r\nset-cookie: evil=1").is_err());
        headers.append("Set-Cookie", "c=3")?;
        Ok(())
    };
    let expected =
        "HTTP/1.1 200 OK\r\nset-cookie: a=1; Path=/\r\nSet-Cookie: c=3\r\ncontent-length: 0\r\n\r\n";
    check(GET, cookies, expected);
}

#[test]
fn row_63_large_heads_leave_whole() {
    let long = |ctx: &mut Context| {
        ctx.response.headers.set("x-long", "v".repeat(200_000))?;
        ctx.response.set_text("end");
        Ok(())
    };
    let text = "content-type: text/plain; charset=utf-8\r\ncontent-length: 3\r\n\r\nend";
    check(GET, long, &format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n{text}", "v".repeat(200_000)));
    let many = |ctx: &mut Context| {
        ctx.response.set_text("end");
        (0..1000).try_for_each(|number| ctx.response.headers.append(&format!("x-{number}"), number))?;
        Ok(())
    };
    let lines: String = (0..1000).map(|number| format!("x-{number}: {number}\r\n")).collect();
    let text = text.replacen("\r\n", &format!("\r\n{lines}"), 1);
    check(GET, many, &format!("HTTP/1.1 200 OK\r\n{text}"));
    let received = Served::new(many).ask([GET, OLD].concat());
    assert_eq!(
        responses(&received).iter().map(|response| response.fields.len()).collect::<Vec<_>>(),
        [1003, 1004]
    );
}

#[test]
fn framing_is_computed_whatever_was_set_rfc9112_6() {
    for (name, value) in [
        ("content-length", "5"),
        ("Content-Length", "0"),
        ("content-length", "x"),
        ("transfer-encoding", "chunked"),
        ("Transfer-Encoding", "gzip, chunked"),
        ("connection", "keep-alive"),
        ("Connection", ", ,Keep-Alive"),
    ] {
        let meddling = move |ctx: &mut Context| {
            ctx.response.headers.append(name, value)?;
            ctx.response.body.set_bytes("abc");
            ctx.response.headers.append(name, value)?;
            Ok(())
        };
        check(GET, meddling, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc");
        check(OLD, meddling, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc");
    }
    let trailing = |ctx: &mut Context| {
        ctx.response.body.set_bytes("abc");
        for name in ["content-length", "Transfer-Encoding", "connection", "x-sum"] {
            ctx.response.trailers.set(name, 7)?;
        }
        Ok(())
    };
    let chunks = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n";
    check(GET, trailing, &format!("HTTP/1.1 200 OK\r\n{chunks}"));
    check(HEAD, trailing, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    check(OLD, trailing, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc");
}

/// Whether the connection persists is computed, not set. But a handler that names protocols in `upgrade`, as with a
/// 426, needs the option for this hop.
#[test]
fn connection_options_stand_beside_the_computed_ones_rfc9110_7_6_1() {
    let check = |upgrade: &'static str, set: &'static [&'static str], to_1_1: &str, to_1_0: &str| {
        let refusing = move |ctx: &mut Context| {
            ctx.response.status = Status::UPGRADE_REQUIRED;
            set.iter().try_for_each(|options| ctx.response.headers.append("connection", *options))?;
            let protocols = Some(upgrade).filter(|protocols| !protocols.is_empty());
            protocols.map_or(Ok(()), |protocols| ctx.response.headers.set("upgrade", protocols))?;
            Ok(())
        };
        let head = |connection: &str| {
            let fields = [("upgrade", upgrade), ("content-length", "0"), ("connection", connection)];
            let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
            let lines: String = said.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            format!("HTTP/1.1 426 Upgrade Required\r\n{lines}\r\n")
        };
        check(GET, refusing, &head(to_1_1));
        check(OLD, refusing, &head(to_1_0));
    };
    for (set, to_1_1, to_1_0) in [
        (&[][..], "upgrade", "close, upgrade"),
        (&["upgrade"], "upgrade", "close, upgrade"),
        (&["Upgrade, keep-alive"], "upgrade", "close, upgrade"),
        (&["x-hop ,, Upgrade"], "upgrade, x-hop", "close, upgrade, x-hop"),
        (&["upgrade, CLOSE"], "close, upgrade", "close, upgrade"),
        (&["close", "upgrade", "close"], "close, upgrade", "close, upgrade"),
        (&["keep-alive"], "upgrade", "close, upgrade"),
    ] {
        check("websocket", set, to_1_1, to_1_0);
    }
    for (set, to_1_1, to_1_0) in [
        (&[][..], "", "close"),
        (&["x-hop"], "x-hop", "close, x-hop"),
        (&["x-hop", "x-jump"], "x-hop, x-jump", "close, x-hop, x-jump"),
        (&["closed"], "closed", "close, closed"),
        (&["keep-alive"], "", "close"),
        (&["KEEP-ALIVE,\tkeep-alive"], "", "close"),
        (&[" , "], "", "close"),
        (&["close"], "close", "close"),
        (&["upgrade"], "", "close"),
    ] {
        check("", set, to_1_1, to_1_0);
    }
}

#[test]
fn a_status_without_content_has_none_whatever_was_set_rfc9110_6_4_1() {
    let none = "content-length: 0\r\n";
    for (code, line, framing) in
        [(204, "204 No Content", ""), (205, "205 Reset Content", none), (304, "304 Not Modified", "")]
    {
        let meddling = move |ctx: &mut Context| {
            ctx.response.status = Status::new(code).expect("it is one");
            ctx.response.headers.set("transfer-encoding", "chunked")?;
            ctx.response.body.set_stream(io::Cursor::new("abc"), Some(3));
            Ok(())
        };
        check(GET, meddling, &format!("HTTP/1.1 {line}\r\n{framing}\r\n"));
        check(HEAD, meddling, &format!("HTTP/1.1 {line}\r\n{framing}\r\n"));
    }
    let sized = |code| {
        move |ctx: &mut Context| {
            ctx.response.status = Status::new(code).expect("it is one");
            Ok(ctx.response.headers.set("content-length", 12345)?)
        }
    };
    check(HEAD, sized(200), "HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n");
    check(HEAD, sized(304), "HTTP/1.1 304 Not Modified\r\ncontent-length: 12345\r\n\r\n");
    check(GET, sized(304), "HTTP/1.1 304 Not Modified\r\ncontent-length: 12345\r\n\r\n");
    check(HEAD, sized(204), "HTTP/1.1 204 No Content\r\n\r\n");
    check(GET, sized(200), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
}

#[test]
fn a_status_is_sent_with_its_reason_or_none_rfc9112_4() {
    for (code, line) in [(200, "200 OK"), (299, "299 "), (404, "404 Not Found"), (599, "599 ")] {
        let told = move |ctx: &mut Context| {
            ctx.response.status = Status::new(code).expect("it is one");
            Ok(())
        };
        check(GET, told, &format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n"));
    }
    for code in [0, 99, 600, 999, 1200, u16::MAX] {
        assert!(Status::new(code).is_none(), "{code}");
    }
}

#[test]
fn a_date_that_the_handler_sets_is_the_only_one_rfc9110_6_6_1() {
    let dated = |ctx: &mut Context| Ok(ctx.response.headers.set_date("Date", SystemTime::UNIX_EPOCH)?);
    let received = Wired::new(dated).ask_cut(GET, Then::Waits);
    assert_eq!(
        received,
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: 0\r\n\r\n"
    );
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Waits until this second is over.
async fn while_it_is(second: u64) {
    while seconds() == second {
        sleep(Duration::from_millis(5)).await;
    }
}

/// The date goes on while the server waits, although no other event reads the clock.
#[test]
fn the_date_is_the_time_of_the_response_rfc9110_6_6_1() {
    let start = seconds();
    let waits = async move |ctx: &mut Context| match ctx.request.path() {
        "/wait" => while_it_is(start).await,
        "/large" => ctx.response.body.set_bytes([b'x'; 50_000]),
        _ => {}
    };
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let ask = async |wire: &str, rest: &str| {
            // Each server has a clock of its own, or one would set that of all.
            let service = Server::new().half_close(true).service(waits);
            let (mut near, far) = duplex(1000);
            let peer = async move {
                near.write_all(wire.as_bytes()).await.unwrap();
                while_it_is(start).await;
                near.write_all(rest.as_bytes()).await.unwrap();
                near.shutdown().await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                let last = responses(&received).pop().unwrap();
                let date = httpdate::parse_http_date(last.field("date").unwrap()).unwrap();
                assert!(date > SystemTime::UNIX_EPOCH + Duration::from_secs(start), "{wire:?}: {date:?}");
            };
            let _ = tokio::join!(peer, service.serve_connection(far));
        };
        tokio::join!(
            ask("GET /wait HTTP/1.0\r\n\r\n", ""),
            ask("POST / HTTP/1.0\r\ncontent-length: 1\r\n\r\n", "x"),
            ask("GET / HTT", ""),
            // All of both requests is here before the first response, which the peer is slow to read.
            ask("GET /large HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n", ""),
        );
    });
}

#[test]
fn the_server_is_named_only_if_it_has_a_name_rfc9110_10_2_4() {
    let quiet = |_: &mut Context| {};
    let named = |server: Server| server.name("core/1 (test)").unwrap();
    let received = Wired::with(named, quiet).ask_cut([GET, "GET\r\n\r\n"].concat(), Then::Waits);
    assert_eq!(received.matches("\r\nserver: core/1 (test)\r\n").count(), 2, "{received}");
    let own = |ctx: &mut Context| Ok(ctx.response.headers.set("Server", "own")?);
    let received = Wired::with(named, own).ask_cut(GET, Then::Waits);
    assert_eq!(received.to_lowercase().matches("server: ").count(), 1, "{received}");
    for none in ["", " "] {
        let received =
            Wired::with(|server: Server| server.name(none).unwrap(), quiet).ask_cut(GET, Then::Waits);
        assert!(!received.contains("server"), "{received}");
    }
    assert!(!Wired::new(quiet).ask_cut([GET, "GET\r\n\r\n"].concat(), Then::Waits).contains("server"));
}

//! Files of recordings: all content comes back, and files that are none are refused.

use super::*;

fn exchange(content: &[u8]) -> RecordedExchange {
    let mut request = Request::post("https://a.example/b?c=d").unwrap();
    request.headers.set("Accept", "*/*").unwrap();
    request.body.set_bytes(content);
    let mut response = Response { status: Status::CREATED, ..Response::new() };
    response.headers.append("x-a", "").unwrap();
    response.headers.append("x-a", "b: c").unwrap();
    response.body.set_bytes(content);
    RecordedExchange { request, response }
}

#[track_caller]
fn check(content: &[u8], is_text: bool) {
    let file = [exchange(content).to_text(), exchange(b"last").to_text()].concat();
    assert_eq!(file.contains(IN_BASE64), !is_text, "{file}");
    let parsed = RecordedExchange::parse_all(&file).unwrap();
    let [first, last] = &*parsed else { panic!("{} exchanges in {file}", parsed.len()) };
    for (found, content) in [(first, content), (last, b"last")] {
        let expected = exchange(content);
        assert_eq!(found.request, expected.request, "{file}");
        assert_eq!(found.response.status, expected.response.status, "{file}");
        assert!(found.response.headers.iter().eq(expected.response.headers.iter()), "{file}");
        assert_eq!(found.response.body.bytes(), content, "{file}");
    }
}

#[test]
fn content_comes_back_octet_by_octet() {
    for text in
        ["", "a", "\n", "\n\n", "a\n", "a\n\nb", "a: b", "\tgr\u{fc}n", "== =", " === request\n", "==="]
    {
        check(text.as_bytes(), true);
    }
    for octets in [
        &b"\r\n"[..],
        b"a\r\nb",
        b"\xff",
        b"\0",
        b"=== request\nGET / HTTP/1.1\n\n",
        b"a\n=== response",
        "\u{85}".as_bytes(),
        &[0; 1000],
    ] {
        check(octets, false);
    }
}

/// Field values are octets (RFC 9110 §5.5). The ones that are no text once came back as U+FFFD.
#[test]
fn field_values_come_back_octet_by_octet_rfc9110_5_5() {
    for (value, written) in [
        (&b"gr\xc3\xbcn"[..], "gr\u{fc}n"),
        (b"gr\xfcn", r"gr\xFCn"),
        (b"\xff\xfe", r"\xFF\xFE"),
        (br"a\b \x \xfc \xFC \x5C", r"a\b \x5Cx \x5Cxfc \x5CxFC \x5Cx5C"),
        (b"a\xc2\xa0", "a\u{a0}"),
        (b"\xc2\x85", "\u{85}"),
    ] {
        let mut recorded = exchange(b"");
        recorded.request.headers.set("x-a", value).unwrap();
        recorded.response.headers.set("x-a", value).unwrap();
        let file = recorded.to_text();
        assert_eq!(file.matches(&format!("\nx-a: {written}\n")).count(), 2, "{file}");
        let parsed = RecordedExchange::parse_all(&file).unwrap();
        assert_eq!(parsed[0].request.headers.first(FieldName::new("x-a")), Some(value), "{file}");
        assert_eq!(parsed[0].response.headers.first(FieldName::new("x-a")), Some(value), "{file}");
        let wire = [b"GET / HTTP/1.1\r\nx-a: ", value, b"\r\n\r\n"].concat();
        let request = request_from_wire(&wire, "http://a").unwrap();
        assert_eq!(request.headers.first(FieldName::new("x-a")), Some(value), "{file}");
    }
    // An escape that was cut short is none.
    for text in [r"\x", r"\xF", r"\xFG", r"\"] {
        assert_eq!(unescape(text.as_bytes()), text.as_bytes());
    }
}

/// A length that was changed by hand, or that was left when the content was changed, once made the client wait.
#[test]
fn a_response_that_would_not_end_is_refused_rfc9110_8_6() {
    let file = |method: &str, response: &str| {
        format!("=== request\n{method} http://a/ HTTP/1.1\n\n=== response\n{response}")
    };
    for length in ["content-length: 9", "content-length: 1", "content-length: two"] {
        for (method, status, is_refused) in [
            ("GET", "200 OK", true),
            ("HEAD", "200 OK", false),
            ("GET", "304 Not Modified", false),
            ("GET", "204 No Content", false),
        ] {
            let file = file(method, &format!("HTTP/1.1 {status}\n{length}\n\nab\n"));
            let error = RecordedExchange::parse_all(&file).err().map(|error| error.to_string());
            let expected = "line 4: the content-length is wrong, for there are 2 octets of content";
            assert_eq!(error.as_deref(), is_refused.then_some(expected), "{file}");
        }
    }
    let interim = file("GET", "HTTP/1.1 100 Continue\n\n");
    let error = RecordedExchange::parse_all(&interim).unwrap_err();
    assert_eq!(error.to_string(), "line 4: an interim response cannot be played");
    let framed = file("GET", "HTTP/1.1 200 OK\ncontent-length: 2\ntransfer-encoding: chunked\n\nab\n");
    let [exchange] = &RecordedExchange::parse_all(&framed).unwrap()[..] else { panic!("{framed}") };
    assert!(exchange.response.headers.is_empty(), "{framed}");
}

/// A client takes them (RFC 9110 §15), so they are recorded. One of them once made a file unreadable.
#[test]
fn statuses_beyond_599_come_back() {
    for status in ["599", "600", "999"] {
        let file = exchange(b"a").to_text().replace("201 Created", status);
        let exchanges = RecordedExchange::parse_all(&file).unwrap();
        assert_eq!(exchanges[0].response.status.to_string(), status, "{file}");
        assert_eq!(exchanges[0].to_text(), file);
    }
}

#[test]
fn a_file_may_have_passed_through_an_editor() {
    let file = exchange(b"a").to_text();
    for file in [file.replace('\n', "\r\n"), file.trim_end().to_owned(), format!("{file}\n\n")] {
        let parsed = RecordedExchange::parse_all(&file).unwrap();
        assert_eq!(parsed[0].request.target().as_str(), "https://a.example/b?c=d");
        assert_eq!(parsed[0].response.body.text().unwrap().trim(), "a", "{file:?}");
    }
    assert!(RecordedExchange::parse_all("").unwrap().is_empty());
}

#[test]
fn a_file_that_is_none_is_refused_by_its_line() {
    let good = exchange(b"a").to_text();
    let second = good.lines().count() + 1;
    for (file, expected) in [
        ("GET / HTTP/1.1\n".to_owned(), "line 1: a message begins with `=== `".to_owned()),
        ("=== both\n".to_owned(), "line 1: a message is a request or a response".to_owned()),
        ("=== response\nHTTP/1.1 200 OK\n\n".to_owned(), "line 1: a response follows no request".to_owned()),
        (format!("{good}=== request\nGET /\n"), format!("line {second}: there is no request line")),
        (
            format!("{good}=== request\nGET http://a/ HTTP/1.1\nx\n"),
            format!("line {second}: a field has no colon"),
        ),
        (
            good.replace("=== response", "=== request"),
            "line 6: the request before has no response".to_owned(),
        ),
        (good.replace("201", "1000"), "line 6: there is no status line".to_owned()),
        (
            good.replace("=== response", "=== response, content in base64").replace("\na\n", "\na?\n"),
            "line 6: the content is not base64".to_owned(),
        ),
        (
            good[..good.find("=== response").unwrap()].to_owned(),
            "the last request has no response".to_owned(),
        ),
    ] {
        assert_eq!(RecordedExchange::parse_all(&file).unwrap_err().to_string(), expected, "{file}");
    }
}

#[test]
fn a_request_is_recorded_without_its_connection() {
    let wire = "PUT /b HTTP/1.1\r\nhost: a\r\nConnection: close\r\ntransfer-encoding: chunked\r\nX-A: b\r\n\r\n\
                5\r\n\r\n0\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    let request = request_from_wire(wire.as_bytes(), "http://a").unwrap();
    assert_eq!((request.target().as_str(), request.body.bytes()), ("http://a/b", &b"\r\n0\r\nab"[..]));
    assert!(request.headers.iter().eq([("X-A", &b"b"[..])]));
    for (wire, expected) in [
        ("GET / HTTP/1.1\r\nhost: a\r\n", "the request is cut short"),
        ("POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\na", "the request is cut short"),
        ("GET / HTTP/1.1\r\nupgrade: x\r\n\r\n", "a tunnel or another protocol cannot be recorded"),
    ] {
        assert_eq!(request_from_wire(wire.as_bytes(), "http://a").unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_response_is_sent_with_the_length_of_its_content() {
    let mut response = exchange(b"ab").response;
    let head = "HTTP/1.1 201 Created\r\nx-a: \r\nx-a: b: c\r\n";
    let sent = |method, response: &Response| String::from_utf8(response_to_wire(method, response)).unwrap();
    assert_eq!(sent(Method::Get, &response), format!("{head}content-length: 2\r\n\r\nab"));
    assert_eq!(sent(Method::Head, &response), format!("{head}\r\n"));
    response.headers.set("content-length", 7).unwrap();
    assert_eq!(sent(Method::Head, &response), format!("{head}content-length: 7\r\n\r\n"));
    strip_response(&mut response);
    assert!(response.headers.contains("content-length"));
    response.headers.set("content-length", 2).unwrap();
    strip_response(&mut response);
    assert!(!response.headers.contains("content-length"));
}

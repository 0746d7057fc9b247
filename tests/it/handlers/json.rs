//! JSON: how a handler reads and writes it, and how it answers what is none (RFC 8259; RFC 9110 §15.5).

use std::collections::BTreeMap;

use corehttp::middleware::{self, wrap};
use corehttp::{BodyPlan, Context, Request, Response, Status};
use serde::{Deserialize, Serialize};

use crate::support::{ErrorReports, Served, status};

#[derive(Deserialize, Serialize)]
struct Note<'a> {
    text: &'a str,
    stars: u8,
}

/// Answers with the note of the request, and one more star. The text is not copied.
fn praise(ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    let Note { text, stars } = request.json()?;
    Ok(response.set_json(&Note { text, stars: stars.saturating_add(1) })?)
}

fn post(fields: &str, content: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n{content}", content.len())
}

const JSON: &str = "Content-Type: application/json\r\n";
const NOTE: &str = r#"{"text":"milk","stars":1}"#;

/// A POST with these fields and this content is answered with this status, and the response ends with `told`.
#[track_caller]
fn check(fields: &str, content: &str, expected: u16, told: &str) {
    let received = Served::new(praise).ask(post(fields, content));
    assert_eq!(status(&received), expected, "{received}");
    assert!(received.ends_with(told), "{received}");
}

#[test]
fn json_is_read_and_answered() {
    let praised = r#"{"text":"milk","stars":2}"#;
    for fields in [
        JSON,
        "content-type: APPLICATION/Json ; charset=utf-8\r\n",
        "content-type: application/vnd.note+json\r\n",
        &format!("{JSON}content-encoding: identity\r\n"),
    ] {
        check(fields, NOTE, 200, praised);
    }
    check(JSON, " {\r\n\t\"stars\": 1, \"text\": \"milk\"} ", 200, praised);
    check(JSON, r#"{"text":"é","stars":255}"#, 200, r#"{"text":"é","stars":255}"#);
    let (open, close) = ("[".repeat(1 << 16), "]".repeat(1 << 16));
    check(JSON, &format!(r#"{{"skipped":[{open}{close},1e400],{}"#, &NOTE[1..]), 200, praised);
    let received = Served::new(praise).ask(post(JSON, NOTE));
    assert!(received.contains("\r\ncontent-type: application/json\r\n"), "{received}");
}

#[test]
fn other_content_is_415_rfc9110_15_5_16() {
    for fields in [
        "",
        "Content-Type:\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: text/json\r\n",
        "Content-Type: application/jsonl\r\n",
        "Content-Type: application/json, text/plain\r\n",
        "Content-Type: \"application/json\"\r\n",
        &format!("{JSON}{JSON}"),
    ] {
        check(fields, NOTE, 415, "\r\n\r\nthe field content-type is missing, or is not of JSON");
    }
    let coded = format!("{JSON}Content-Encoding: gzip\r\n");
    check(&coded, NOTE, 415, "\r\n\r\nthe content has a content coding, and was not decoded");
}

#[test]
fn malformed_json_is_400_rfc9110_15_5_1() {
    let deep = format!(r#"{{"sub":{}"#, "[".repeat(1 << 20));
    for (content, reason) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        (r#"{"text":"milk","stars":1} null"#, "trailing characters at line 1 column 27"),
        ("{'text':'milk'}", "key must be a string at line 1 column 2"),
        (r#"{"text":"milk","stars":01}"#, "invalid number at line 1 column 25"),
        (r#"{"text":"milk","stars":1e400}"#, "number out of range at line 1 column 28"),
        ("\u{feff}{}", "expected value at line 1 column 1"),
        (&deep, "EOF while parsing a list at line 1 column 1048583"),
    ] {
        check(JSON, content, 400, &format!("\r\n\r\nthe JSON is wrong: {reason}"));
    }
}

#[test]
fn json_of_another_shape_is_422_rfc9110_15_5_21() {
    const STARS: &str =
        "the JSON at `stars` is wrong: invalid value: integer, expected a whole number from 0 to 255";
    for (content, reason) in [
        ("null", "the JSON is wrong: invalid type: null, expected an object at line 1 column 4"),
        ("[]", "the JSON is wrong: invalid length 0, expected 2 elements at line 1 column 2"),
        ("{}", "the JSON is wrong: missing field `text` at line 1 column 2"),
        (r#"{"text":"milk"}"#, "the JSON is wrong: missing field `stars` at line 1 column 15"),
        (
            r#"{"text":1,"stars":1}"#,
            "the JSON at `text` is wrong: invalid type: integer, expected a borrowed string at line 1 column 9",
        ),
        (r#"{"text":"milk","stars":256}"#, &format!("{STARS} at line 1 column 26")),
        (r#"{"text":"milk","stars":-1}"#, &format!("{STARS} at line 1 column 25")),
        (r#"{"text":"milk","stars":1,"stars":2}"#, "duplicate field `stars` at line 1 column 32"),
        // An escaped text cannot be borrowed, and the value that was found is not shown.
        (
            r#"{"text":"\n","stars":1}"#,
            "the JSON at `text` is wrong: invalid type: string, expected a borrowed string at line 1 column 12",
        ),
    ] {
        check(JSON, content, 422, reason);
    }
}

#[test]
fn streamed_json_must_be_received_first() {
    let early = |_: &Request| BodyPlan::Stream;
    let served = Served::new(wrap(middleware::plan(early), praise));
    assert_eq!(status(&served.ask(post(JSON, NOTE))), 500);
    let served = Served::new(wrap(middleware::plan(early), async |ctx: &mut Context| -> corehttp::Result {
        ctx.buffer_body().await?;
        praise(ctx)
    }));
    assert_eq!(status(&served.ask(post(JSON, NOTE))), 200);
}

#[test]
fn the_reason_why_json_is_refused_is_for_the_peer_and_for_the_operator() {
    let refusals = ErrorReports::default();
    let served = Served::with(|server| refusals.attach(server), praise);
    for (content, expected, reason) in [
        ("{\"", 400, "the JSON is wrong: EOF while parsing a string at line 1 column 2"),
        ("{}", 422, "the JSON is wrong: missing field `text` at line 1 column 2"),
    ] {
        let received = served.ask(post(JSON, content));
        assert!(received.ends_with(&format!("\r\n\r\n{reason}")), "{received}");
        assert_eq!(refusals.take(), [(expected, reason.to_owned())]);
    }
}

#[test]
fn json_replaces_whatever_was_the_content() {
    let mut response = Response::new();
    response.set_text("old");
    response.set_json("new").unwrap();
    assert_eq!(
        (response.headers.content_type(), response.body.bytes()),
        (Some("application/json"), &br#""new""#[..])
    );
    response.body.set_stream(&b"old"[..], None);
    response.set_json(&[1, 2]).unwrap();
    assert_eq!(response.body.json::<[u8; 2]>().unwrap(), [1, 2]);
    let mut request = Request::post("http://a/").unwrap();
    request.set_json(&Note { text: "milk", stars: 1 }).unwrap();
    assert_eq!((request.body.bytes(), request.json::<Note>().unwrap().stars), (NOTE.as_bytes(), 1));
    request.body.set_stream(NOTE.as_bytes(), None);
    assert_eq!(
        request.json::<Note>().map_err(|error| error.status()).err(),
        Some(Status::INTERNAL_SERVER_ERROR)
    );
}

#[test]
fn json_that_is_read_nests_up_to_127_levels_rfc8259_9() {
    let mut request = Request::post("http://a/").unwrap();
    for (levels, is_read) in [(127, true), (128, false)] {
        request.set_json("").unwrap();
        request.body.set_bytes(["[".repeat(levels), "]".repeat(levels)].concat());
        let read = request.json::<serde_json::Value>();
        let expected = if is_read { None } else { Some(Status::BAD_REQUEST) };
        assert_eq!(read.err().map(|error| error.status()), expected, "{levels}");
    }
}

#[test]
fn a_value_that_cannot_be_written_leaves_no_half_of_it() {
    let unwritable = BTreeMap::from([((1, 2), 3)]);
    let mut response = Response::new();
    response.set_text("old");
    assert!(response.set_json(&(NOTE, &unwritable)).is_err());
    assert_eq!(
        (response.body.bytes(), response.headers.content_type()),
        (&b""[..], Some("text/plain; charset=utf-8"))
    );
    let served =
        Served::new(move |ctx: &mut Context| -> corehttp::Result { Ok(ctx.response.set_json(&unwritable)?) });
    assert_eq!(status(&served.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n")), 500);
}

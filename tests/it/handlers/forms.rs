//! Forms and cookies: how a handler reads them, and how it answers what is neither (RFC 9110 §15.5; the URL Standard,
//! §5; RFC 6265bis).

use corehttp::middleware::{self, wrap};
use corehttp::{BodyPlan, Context, Form, FormBuf, Request, SetCookie};

use crate::support::wired::{Then, Wired};
use crate::support::{ErrorReports, Served, status};

/// Answers with the pairs of the form, the page as a number, and the pairs of the query.
fn tell(ctx: &mut Context) -> corehttp::Result {
    let form = ctx.request.form()?;
    let page: Option<u32> = form.get_as("page")?;
    let told = format!("{:?} {page:?} {:?}", Vec::from_iter(form), Vec::from_iter(ctx.request.query()));
    ctx.response.set_text(told);
    Ok(())
}

fn post(fields: &str, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let head = format!("POST /?q=1 HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n", content.len());
    [head.as_bytes(), content].concat()
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// A POST with these fields and this content is answered with this status, and the response ends with `told`.
#[track_caller]
fn check(fields: &str, content: impl AsRef<[u8]>, expected: u16, told: &str) {
    let served = Served::new(tell);
    let received = served.ask(post(fields, content));
    assert_eq!(status(&received), expected, "{received}");
    assert!(received.ends_with(told), "{received}");
}

#[test]
fn a_form_is_read_in_the_order_it_came() {
    check(FORM, "", 200, r#"[] None [("q", "1")]"#);
    check(FORM, "b=2&a=1+%26&b=", 200, r#"[("b", "2"), ("a", "1 &"), ("b", "")] None [("q", "1")]"#);
    check(FORM, "page=42&é=ü", 200, r#"[("page", "42"), ("é", "ü")] Some(42) [("q", "1")]"#);
    // `identity` is not a coding, for `decode_body` neither.
    check(&format!("{FORM}Content-Encoding: Identity, identity\r\n"), "a", 200, r#"[("q", "1")]"#);
    check("content-type: APPLICATION/x-www-Form-urlencoded ; charset=utf-8\r\n", "a", 200, r#"[("q", "1")]"#);
}

#[test]
fn a_form_is_read_however_its_packets_are_cut() {
    let content = "page=7&name=J%C3%BCrgen+%26+Co&%66lag";
    let received = Wired::new(tell).ask_cut(post(FORM, content), Then::Waits);
    let told = r#"[("page", "7"), ("name", "Jürgen & Co"), ("flag", "")] Some(7) [("q", "1")]"#;
    assert!(received.ends_with(told), "{received}");
}

#[test]
fn other_content_is_415_rfc9110_15_5_16() {
    for fields in [
        "",
        "Content-Type:\r\n",
        "Content-Type: ;\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: multipart/form-data; boundary=a\r\n",
        "Content-Type: application/x-www-form-urlencoded2\r\n",
        "Content-Type: application/x-www-form-urlencoded, text/plain\r\n",
        "Content-Type: \"application/x-www-form-urlencoded\"\r\n",
        &format!("{FORM}{FORM}"),
        &format!("{FORM}Content-Type: text/plain\r\n"),
        &format!("{FORM}Content-Encoding: gzip\r\n"),
        &format!("{FORM}Content-Encoding: identity, br\r\n"),
        &format!("{FORM}Content-Encoding: identities\r\n"),
        &format!("{FORM}Content-Encoding: identity\r\nContent-Encoding: x\r\n"),
    ] {
        let reason = match fields.contains("Content-Encoding") {
            true => "\r\n\r\nthe content has a content coding, and was not decoded",
            false => "\r\n\r\nthe field content-type is missing, or is not application/x-www-form-urlencoded",
        };
        check(fields, "a=1", 415, reason);
    }
}

#[test]
fn a_malformed_form_is_400_rfc9110_15_5_1() {
    check(FORM, b"a=\xff", 400, "\r\n\r\nthe content of the request is not UTF-8");
    for page in ["", "x", "%2B5", "+5", "-1", "4294967296", "1.0", "0x1"] {
        let reason = "\r\n\r\nthe value of `page` is not a whole number from 0 to 4294967295";
        check(FORM, format!("page={page}&page=1"), 400, reason);
    }
    let pairs = |count: usize| vec!["a"; count].join("&");
    check(FORM, pairs(Form::PAIRS_MAX), 200, r#"[("q", "1")]"#);
    check(FORM, pairs(Form::PAIRS_MAX + 1), 400, "\r\n\r\nthe form has more than 1024 pairs");
    check(FORM, "&".repeat(100_000), 200, r#"[] None [("q", "1")]"#);
}

#[test]
fn a_streamed_form_must_be_received_first() {
    let early = |_: &Request| BodyPlan::Stream;
    let served = Served::new(wrap(middleware::plan(early), async |ctx: &mut Context| tell(ctx)));
    let chunked = |content| {
        format!("POST /?q=1 HTTP/1.1\r\nHost: a\r\n{FORM}Transfer-Encoding: chunked\r\n\r\n{content}")
    };
    let (some, none) = (chunked("3\r\na=1\r\n0\r\n\r\n"), chunked("0\r\n\r\n"));
    // Whether chunks hold any content is not known before they come.
    for unread in [post(FORM, "a=1"), some.clone().into(), none.clone().into()] {
        assert_eq!(status(&served.ask(&unread)), 500, "{}", String::from_utf8_lossy(&unread));
    }
    let served = Served::new(wrap(middleware::plan(early), async |ctx: &mut Context| -> corehttp::Result {
        ctx.buffer_body().await?;
        tell(ctx)
    }));
    assert!(served.ask(post(FORM, "a=1")).ends_with(r#"[("a", "1")] None [("q", "1")]"#));
    assert!(served.ask(some).ends_with(r#"[("a", "1")] None [("q", "1")]"#));
    assert!(served.ask(none).ends_with(r#"[] None [("q", "1")]"#));
    assert!(served.ask(post(FORM, "")).ends_with(r#"[] None [("q", "1")]"#));
}

#[test]
fn the_reason_why_a_form_is_refused_is_told_to_the_peer_and_to_the_operator() {
    let refusals = ErrorReports::default();
    let served = Served::with(|server| refusals.attach(server), tell);
    let received = served.ask(post("Content-Type: text/plain\r\n", "a=1"));
    let reason = "the field content-type is missing, or is not application/x-www-form-urlencoded";
    assert!(received.ends_with(&format!("\r\n\r\n{reason}")), "{received}");
    assert_eq!(refusals.take(), [(415, reason.to_owned())]);
}

#[test]
fn a_form_that_is_built_reads_as_it_was_meant() {
    let pairs = [("a b", "1&2=3"), ("é", "\r\n\0"), ("a b", "+%41")];
    let form: FormBuf = pairs.into_iter().collect();
    let mut request = Request::post("http://a/path?old").unwrap();
    request.headers.set("content-type", "text/plain").unwrap();
    request.set_form(&form);
    request.set_query(&form).unwrap();
    let expected = pairs.map(|(name, value)| (name.into(), value.into()));
    assert!(request.form().unwrap().iter().eq(expected.clone()));
    assert!(request.query().iter().eq(expected) && request.query().strict().is_ok());
    assert_eq!(request.path(), "/path");
    request.set_query("").unwrap();
    assert_eq!(request.target().as_str(), "http://a/path");
    request.body.set_stream(&b"a=1"[..], None);
    assert_eq!(request.form().unwrap_err().to_string(), "the content was not read yet");
    request.body.set_bytes("a".repeat(3) + "&b=%");
    assert_eq!(request.form().unwrap().strict().unwrap_err().name(), Some("b"));
}

#[test]
fn cookies_are_read_and_set_on_the_wire() {
    let served = Served::new(|ctx: &mut Context| -> corehttp::Result {
        let Context { request, response, .. } = ctx;
        let visits: u32 = request.cookies().get("visits").and_then(|text| text.parse().ok()).unwrap_or(0);
        response.set_cookie(&SetCookie::new("visits", &(visits + 1).to_string()))?;
        response.set_cookie(&SetCookie::new_session("__Host-sid", "x"))?;
        let evil = request.cookies().get("echo").unwrap_or("fine");
        Ok(response.set_cookie(&SetCookie::new("echo", evil))?)
    });
    let ask = |cookie: &str| served.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"));
    let received = ask("other=1; visits=41");
    let set = "set-cookie: visits=42\r\n\
               set-cookie: __Host-sid=x; Path=/; Secure; HttpOnly; SameSite=Lax\r\n\
               set-cookie: echo=fine\r\n";
    assert!(received.contains(set), "{received}");
    // A browser may send more than may be set: that is an error of the handler, and not an injection.
    for evil in ["a, Domain=evil", "a b", "\"a", "\\", "a\tb", "é"] {
        let received = ask(&format!("echo={evil}"));
        assert!(status(&received) == 500 && !received.contains("echo"), "{received}");
    }
}

//! Queries and forms as types of serde, and the whole text of the error that names the pair.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use corehttp::error::MessageError;
use corehttp::{Context, FormBuf, Request, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::support::{ErrorReports, Served, status};

#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
struct Search {
    #[serde(default)]
    q: String,
    #[serde(default)]
    tag: Vec<String>,
    page: Option<u32>,
    #[serde(default)]
    exact: bool,
    order: Option<Order>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Name,
    Date,
}

/// A request whose query and content are both this text.
fn request(text: &str) -> Request {
    let mut request = Request::post("/a").unwrap();
    request.set_query(text).unwrap();
    request.set_bytes("application/x-www-form-urlencoded", text).unwrap();
    request
}

#[track_caller]
fn check<T: DeserializeOwned + Debug + PartialEq>(text: &str, expected: T) {
    let request = request(text);
    assert_eq!(request.query_as::<T>().as_ref(), Ok(&expected), "{text}");
    assert_eq!(request.form_as::<T>(), Ok(expected), "{text}");
}

#[test]
fn pairs_are_read_as_the_fields_of_a_type() {
    let text = |text: &str| text.to_owned();
    check("", Search::default());
    check("&&other=1&", Search::default());
    check("q=green+tea%26&q2=x", Search { q: text("green tea&"), ..Search::default() });
    check("tag=b&q=x&tag=a", Search { q: text("x"), tag: vec![text("b"), text("a")], ..Search::default() });
    check("tag=b", Search { tag: vec![text("b")], ..Search::default() });
    check(
        "page=2&exact=true&order=date",
        Search { page: Some(2), exact: true, order: Some(Order::Date), ..Search::default() },
    );
    // As a form sends them that was left empty, or whose checkbox is ticked.
    check("q=&page=&exact=on", Search { exact: true, ..Search::default() });
    check("%71=%C3%A9", Search { q: text("é"), ..Search::default() });
    // As everywhere: a malformed escape stands for itself, and what is not UTF-8 is U+FFFD.
    check("q=%zz%ff", Search { q: text("%zz\u{fffd}"), ..Search::default() });
    check("b=2&a=1", BTreeMap::from([(text("a"), 1), (text("b"), 2)]));
    check("b=2&a=1&b=3", vec![(text("b"), 2), (text("a"), 1), (text("b"), 3)]);
    let borrowing = request("q=plain");
    assert_eq!(borrowing.query_as::<BTreeMap<&str, &str>>().unwrap()["q"], "plain");
    let escaped = request("q=two+words");
    assert_eq!(escaped.query_as::<Vec<(&str, Cow<str>)>>().unwrap(), [("q", Cow::from("two words"))]);
}

/// The text of the error, and its statuses for a query and for content.
#[track_caller]
fn check_refused<T: DeserializeOwned + Debug + PartialEq>(text: &str, expected: &str) {
    let request = request(text);
    let (query, form) = (request.query_as::<T>().unwrap_err(), request.form_as::<T>().unwrap_err());
    assert_eq!(format!("{query:#}"), format!("the query{expected}"), "{text}");
    assert_eq!(format!("{form:#}"), format!("the form{expected}"), "{text}");
    assert_eq!(
        (query.status(), form.status()),
        (Status::BAD_REQUEST, Status::UNPROCESSABLE_CONTENT),
        "{text}"
    );
    let shown = format!("{query:?} {form:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn the_pair_that_is_wrong_is_named_and_its_value_is_not() {
    #[derive(Debug, Deserialize, PartialEq)]
    struct Page {
        #[serde(rename = "per page")]
        per_page: u8,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    check_refused::<Page>("", " is wrong: missing field `per page`");
    for (value, reason) in [
        ("secret", "invalid digit found in string"),
        ("", "cannot parse integer from empty string"),
        ("-1", "invalid digit found in string"),
        ("256", "number too large to fit in target type"),
        ("1&per+page=2", "there are several values"),
    ] {
        check_refused::<Page>(&format!("per+page={value}"), &format!(" at `per page` is wrong: {reason}"));
    }
    check_refused::<Search>(
        "order=secret",
        " at `order` is wrong: unknown variant, expected `name` or `date`",
    );
    check_refused::<Search>(
        "exact=secret",
        " at `exact` is wrong: invalid value: string, expected \"true\", \"on\" or \"false\"",
    );
    check_refused::<Search>(
        "exact",
        " at `exact` is wrong: invalid value: string, expected \"true\", \"on\" or \"false\"",
    );
    check_refused::<BTreeMap<String, (u8, u8)>>(
        "a=secret",
        " at `a` is wrong: invalid type: string, expected a tuple of size 2",
    );
    check_refused::<BTreeMap<String, Vec<u8>>>(
        "a=1&a=secret",
        " at `a[1]` is wrong: invalid digit found in string",
    );
    check_refused::<Vec<(String, u8)>>(
        "a=1&b=secret",
        " at `[1][1]` is wrong: invalid digit found in string",
    );
    check_refused::<Nothing>(
        "a%0Ab=secret",
        r" at `a\nb` is wrong: unknown field `a\nb`, there are no fields",
    );
    check_refused::<BTreeMap<String, u8>>(
        &format!("{}=secret", "a".repeat(1000)),
        &format!(" at `{}…` is wrong: invalid digit found in string", "a".repeat(64)),
    );
}

#[test]
fn a_handler_answers_with_400_or_422_rfc9110_15_5() {
    let reports = ErrorReports::default();
    let served = Served::with(
        |server| reports.attach(server),
        |ctx: &mut Context| -> corehttp::Result {
            let Search { q, .. } = ctx.request.query_as()?;
            let found: Search = if q.is_empty() { ctx.request.form_as()? } else { Search::default() };
            ctx.response.set_text(format!("{q}{}", found.q));
            Ok(())
        },
    );
    let ask = |query: &str, kind: &str, content: &str| {
        let length = content.len();
        served.ask(format!(
            "POST /?{query} HTTP/1.1\r\nhost: a\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{content}"
        ))
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    for (query, kind, content, expected) in [
        ("q=tea", "text/plain", "", 200),
        ("", FORM, "q=milk", 200),
        ("page=x", FORM, "q=milk", 400),
        ("", FORM, "page=x", 422),
        ("", "text/plain", "q=milk", 415),
    ] {
        assert_eq!(status(&ask(query, kind, content)), expected, "{query} {content}");
    }
    let (query, form) = ("the query at `page` is wrong", "the form at `page` is wrong");
    let told = reports.take();
    assert_eq!(told[0], (400, format!("{query}: invalid digit found in string")));
    assert_eq!(told[1], (422, format!("{form}: invalid digit found in string")));
}

#[test]
fn a_streamed_form_must_be_received_first() {
    let mut unread = request("q=1");
    unread.body.set_stream(&b"q=1"[..], None);
    assert_eq!(unread.form_as::<Search>().unwrap_err().to_string(), "the content was not read yet");
}

#[test]
fn a_value_is_written_as_it_is_read() {
    let search = Search {
        q: "a b&é=\r\n".into(),
        tag: vec!["x".into(), "".into()],
        page: None,
        exact: true,
        order: Some(Order::Name),
    };
    let form = FormBuf::from_value(&search).unwrap();
    assert_eq!(form.as_str(), "q=a+b%26%C3%A9%3D%0D%0A&tag=x&tag=&exact=true&order=name");
    check(form.as_str(), search);
    for (form, expected) in [
        (FormBuf::from_value(&[("a", 1), ("b", 2), ("a", 3)]), Ok("a=1&b=2&a=3")),
        (FormBuf::from_value(&BTreeMap::from([("b", -1.5), ("a", 0.0)])), Ok("a=0.0&b=-1.5")),
        (FormBuf::from_value(&()), Ok("")),
        (FormBuf::from_value(&BTreeMap::from([("a", [("b", 1)])])), Err("unsupported value")),
        (FormBuf::from_value("text"), Err("top-level serializer supports only maps and structs")),
    ] {
        let expected = expected.map_err(|reason| {
            MessageError::Value(format!("the value cannot be written as a form: {reason}").into())
        });
        assert_eq!(form.as_ref().map(FormBuf::as_str), expected.as_ref().copied());
    }
}

//! Requests that are made and sent in one expression.

use std::time::Duration;

use corehttp::client::{ClientCause, ClientPhase, ClientTimeouts, Redirects};
use corehttp::{Client, ClientError, Method, RequestBuilder, Response, Status};

use crate::support::{OK, Stage};

const URL: &str = "http://a/b?c";

/// Checks that the request arrives like this, and is sent the same by `.await` and by `send_into`.
async fn check(request: impl Fn(&Client) -> RequestBuilder, expected: &str) {
    let stage = Stage::always(OK);
    let client = stage.client();
    assert_eq!(request(&client).await.unwrap().bytes(), b"ok");
    let mut response = Response::new();
    request(&client).send_into(&mut response).await.unwrap();
    assert_eq!(response.bytes(), b"ok");
    assert_eq!(stage.received(), [expected; 2]);
}

#[tokio::test(start_paused = true)]
async fn each_method_has_its_request() {
    for (method, request) in [
        ("GET", (|client| client.get(URL)) as fn(&Client) -> RequestBuilder),
        ("DELETE", |client| client.delete(URL)),
        ("OPTIONS", |client| client.request(Method::Options, URL)),
        ("BREW", |client| client.request("BREW", URL)),
    ] {
        check(request, &format!("{method} /b?c HTTP/1.1\r\nhost: a\r\n\r\n")).await;
    }
    for (method, request) in [
        ("POST", (|client| client.post(URL)) as fn(&Client) -> RequestBuilder),
        ("PUT", |client| client.put(URL)),
        ("PATCH", |client| client.patch(URL)),
        ("QUERY", |client| client.request(Method::Query, URL)),
    ] {
        check(request, &format!("{method} /b?c HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")).await;
    }
    let stage = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    assert!(stage.client().head(URL).await.unwrap().bytes().is_empty());
    assert_eq!(stage.received(), ["HEAD /b?c HTTP/1.1\r\nhost: a\r\n\r\n"]);
}

/// The last of two steps that set the same counts.
#[tokio::test(start_paused = true)]
async fn each_step_replaces_what_was_set_before() {
    let posted = |fields: &str, content: &str| {
        let length = content.len();
        format!("POST /b?c HTTP/1.1\r\nhost: a\r\n{fields}content-length: {length}\r\n\r\n{content}")
    };
    const TEXT: &str = "content-type: text/plain; charset=utf-8\r\n";
    check(|client| client.post(URL).header("x-a", 1).header("X-A", "2"), &posted("x-a: 2\r\n", "")).await;
    check(|client| client.post(URL).text("milk"), &posted(TEXT, "milk")).await;
    check(|client| client.post(URL).bytes("a/b", "milk").text("tea"), &posted(TEXT, "tea")).await;
    check(
        |client| client.post(URL).text("tea").bytes("a/b", vec![b'x']),
        &posted("content-type: a/b\r\n", "x"),
    )
    .await;
    check(
        |client| client.post(URL).text("milk").header("content-type", "text/csv"),
        &posted("content-type: text/csv\r\n", "milk"),
    )
    .await;
    check(
        |client| client.post(URL).bearer_auth("abc").basic_auth("Aladdin", "open sesame"),
        &posted("authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n", ""),
    )
    .await;
    check(|client| client.post(URL).bearer_auth("abc"), &posted("authorization: Bearer abc\r\n", "")).await;
    #[cfg(feature = "json")]
    check(
        |client| client.post(URL).json(&["milk"]),
        &posted("content-type: application/json\r\n", "[\"milk\"]"),
    )
    .await;
}

/// Checks the whole text of the error, for which nothing was dialed.
async fn check_refused(request: impl Fn(&Client) -> RequestBuilder, expected: &str) {
    let stage = Stage::always(OK);
    let built = request(&stage.client());
    let shown = format!("{built:?}");
    let error = built.await.unwrap_err();
    assert_eq!(format!("{error:#}"), expected);
    assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Prepare, false), "{expected}");
    for text in [shown, format!("{error:?}{error:#}")] {
        assert!(!text.contains("secret"), "{text}");
    }
    assert!(stage.dialed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_first_step_that_fails_is_the_error() {
    const SECRET: &str = "http://joe:secret@a/b?secret";
    const PREPARING: &str = "http://a/b: preparing the request failed";
    check_refused(
        |client| client.get("ftp://joe:secret@a/b?secret").header("x a", 1),
        "preparing the request failed: the url `ftp://a/b` is invalid: the scheme is neither http nor https",
    )
    .await;
    check_refused(
        |client| client.request("B D", SECRET),
        "preparing the request failed: the method `B D` is not a token",
    )
    .await;
    check_refused(
        |client| client.get(SECRET).header("x a", "secret").header("b", "\n"),
        &format!("{PREPARING}: the field name `x a` is not a token"),
    )
    .await;
    let control = format!("{PREPARING}: the value of the field");
    check_refused(
        |client| client.get(SECRET).header("x-a", "sec\nret").timeout(None),
        &format!("{control} x-a contains a control character"),
    )
    .await;
    check_refused(
        |client| client.get(SECRET).bytes("a\0b", "secret"),
        &format!("{control} content-type contains a control character"),
    )
    .await;
    check_refused(
        |client| client.get(SECRET).basic_auth("a:b", "secret").text("milk"),
        &format!("{PREPARING}: the user-id contains a colon"),
    )
    .await;
    check_refused(
        |client| client.get(SECRET).bearer_auth("secret secret"),
        &format!("{PREPARING}: the token is empty or malformed"),
    )
    .await;
    #[cfg(feature = "json")]
    check_refused(
        |client| client.get(SECRET).json(&std::collections::BTreeMap::from([(["secret"], 1)])),
        &format!("{PREPARING}: the value cannot be written as JSON: key must be a string"),
    )
    .await;
    #[cfg(feature = "form")]
    {
        let unfit = format!("{PREPARING}: the value cannot be written as a form");
        let nested = [("secret", [("secret", 1)])];
        check_refused(|client| client.get(SECRET).query(&nested), &format!("{unfit}: unsupported value"))
            .await;
        check_refused(
            |client| client.post(SECRET).form("secret"),
            &format!("{unfit}: top-level serializer supports only maps and structs"),
        )
        .await;
        check_refused(
            |client| client.request(Method::Connect, "http://a:1").query(&[("a", 1)]),
            "http://a:1: preparing the request failed: the url is invalid: the target has no form that fits the request",
        )
        .await;
    }
    let trace = "the method must not have content";
    check_refused(
        |client| client.request(Method::Trace, SECRET).text("secret"),
        &format!("{PREPARING}: {trace}"),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_has_a_time_limit_of_its_own() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        std::future::pending().await
    });
    let client = stage.builder().timeout(Duration::from_secs(9)).build();
    for (request, seconds) in
        [(client.get(URL), 9), (client.get(URL).timeout(Duration::from_secs(2)), 2), (client.get(URL), 9)]
    {
        let start = tokio::time::Instant::now();
        assert!(request.await.unwrap_err().is_timeout());
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_of_a_failure_is_an_error_on_request() {
    let stage = Stage::answering(|request| {
        let (_, path) = request.split_once("GET /").unwrap();
        let (status, location) = (&path[..3], "location: /404?secret\r\n");
        format!("HTTP/1.1 {status} x\r\n{location}content-length: 2\r\n\r\nno")
    });
    let client = stage.client();
    let ask = async |code: u16| client.get(&format!("http://a/{code}?secret")).await.unwrap();
    for code in [200, 204, 304, 399] {
        assert_eq!(ask(code).await.error_for_status().unwrap().status, code);
    }
    for (code, path, text) in [
        (404, 404, "404 Not Found"),
        (499, 499, "499"),
        (500, 500, "500 Internal Server Error"),
        (599, 599, "599"),
        (302, 404, "404 Not Found"),
    ] {
        let error = ask(code).await.error_for_status().unwrap_err();
        assert_eq!(format!("{error:#}"), format!("http://a/{path}: the server responded {text}"));
        let found = matches!(error.cause(), ClientCause::Status(status) if *status == path);
        assert!(found && error.is_sent() && !error.is_timeout(), "{error:?}");
        // A gateway reports a failure of the server behind it; another handler does not pass the status on.
        assert_eq!(error.status(), Status::BAD_GATEWAY);
        assert_eq!(corehttp::Error::from(error).status(), Status::INTERNAL_SERVER_ERROR);
    }
    let mut unnamed = ask(404).await;
    unnamed.url = None;
    assert_eq!(unnamed.error_for_status().unwrap_err().to_string(), "the server responded 404 Not Found");
}

#[tokio::test(start_paused = true)]
async fn a_response_names_the_url_that_it_came_from() {
    let stage = Stage::answering(|request| match request.starts_with("GET /b?c") {
        true => "HTTP/1.1 302 x\r\nlocation: /d?e\r\ncontent-length: 0\r\n\r\n".into(),
        false => OK.into(),
    });
    for (url, expected) in [(URL, "http://a/d?e"), ("http://joe:secret@a/f#g", "http://a/f")] {
        assert_eq!(stage.client().get(url).await.unwrap().url.as_deref(), Some(expected));
    }
}

/// It can be made in one task, and sent in another.
#[tokio::test(start_paused = true)]
async fn a_request_owns_what_it_needs() {
    let request = Stage::always(OK).client().get(URL);
    let response: Result<_, ClientError> = tokio::spawn(request.into_future()).await.unwrap();
    assert_eq!(response.unwrap().bytes(), b"ok");
}

#[tokio::test(start_paused = true)]
async fn a_body_may_be_a_stream_or_a_file() {
    let posted = |framing: &str, content: &str| {
        format!("POST /b?c HTTP/1.1\r\nhost: a\r\ncontent-type: a/b\r\n{framing}\r\n\r\n{content}")
    };
    let known = posted("content-length: 4", "milk");
    check(|client| client.post(URL).stream("a/b", &b"milk"[..], 4), &known).await;
    let chunked = posted("transfer-encoding: chunked", "4\r\nmilk\r\n0\r\n\r\n");
    check(|client| client.post(URL).stream("a/b", &b"milk"[..], None), &chunked).await;
    let path = std::env::temp_dir().join(format!("corehttp-builder-{}", std::process::id()));
    std::fs::write(&path, "milk").unwrap();
    check(|client| client.post(URL).file("a/b", std::fs::File::open(&path).unwrap()), &known).await;
    std::fs::remove_file(&path).unwrap();
    check_refused(
        |client| client.post(URL).stream("a\nb", &b"milk"[..], 4),
        "http://a/b: preparing the request failed: the value of the field content-type contains a control character",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_has_bounds_of_its_own() {
    let stage = Stage::answering(|request| match request.starts_with("GET /end") {
        true => OK.into(),
        false => "HTTP/1.1 302 x\r\nlocation: /end\r\ncontent-length: 2\r\n\r\nno".into(),
    });
    let client = stage.client();
    assert_eq!(client.get("http://a/").await.unwrap().status, Status::OK);
    let returned = client.get("http://a/").redirects(Redirects::Return).await.unwrap();
    assert_eq!(returned.status, Status::FOUND);
    let seconds = Duration::from_secs;
    let timeouts = ClientTimeouts { wait: seconds(7), ..ClientTimeouts::default() };
    for request in [
        client.get("http://a/").body_max(1),
        client.get("http://a/").body_max(1).timeouts(timeouts),
        client.get("http://a/").timeouts(timeouts).body_max(1),
    ] {
        let error = request.await.unwrap_err();
        assert_eq!((error.phase(), error.url()), (ClientPhase::Receive, Some("http://a/end")), "{error:#}");
    }
    assert_eq!(client.get("http://a/").body_max(2).await.unwrap().bytes(), b"ok");
}

#[tokio::test(start_paused = true)]
async fn urls_are_relative_to_that_of_the_client_rfc3986_5_2() {
    let stage = Stage::always(OK);
    let builder = || stage.builder().base_url("http://joe:secret@a/v1/x?y").unwrap();
    for (client, url, expected) in [
        (
            builder(),
            "notes",
            "GET /v1/notes HTTP/1.1\r\nhost: a\r\nauthorization: Basic am9lOnNlY3JldA==\r\n",
        ),
        (builder(), "/notes", "GET /notes HTTP/1.1\r\nhost: a\r\nauthorization: "),
        (builder(), "?z", "GET /v1/x?z HTTP/1.1\r\nhost: a\r\nauthorization: "),
        (builder(), "http://b/notes", "GET /notes HTTP/1.1\r\nhost: b\r\n\r\n"),
        (builder(), "//b/notes", "GET /notes HTTP/1.1\r\nhost: b\r\n\r\n"),
        (builder().default_query("key", "a b"), "n", "GET /v1/n?key=a+b HTTP/1.1\r\nhost: a\r\n"),
        (builder().default_query("key", 1), "n?o=2", "GET /v1/n?o=2&key=1 HTTP/1.1\r\nhost: a\r\n"),
    ] {
        client.build().get(url).await.unwrap();
        let received = stage.received();
        assert!(received[0].starts_with(expected), "{url}: {received:?}");
    }
    let error = builder().build().get("ftp://b/").await.unwrap_err();
    assert_eq!(error.phase(), ClientPhase::Prepare);
    for url in ["", "/v1", "v1", "ftp://a/", "http://"] {
        assert!(Client::builder().base_url(url).is_err(), "{url}");
    }
}

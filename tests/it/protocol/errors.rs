//! The whole text of every error of a server, of content and of files: one line that is understood without another.

use std::fmt::{Debug, Display};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::middleware::{self, wrap};
use corehttp::server::RespondError;
use corehttp::{
    BodyPlan, Context, Error, Form, Headers, Limits, Request, Response, Server, SetCookie, Status, Timeouts,
};
use tokio::io::AsyncReadExt;

use crate::support::Served;
use crate::support::wired::{Then, Wired};

const HEAD: &str = "host: a\r\ncookie: secret\r\nauthorization: Bearer secret\r\n";

fn post(path: &str, fields: &str, body: &str) -> String {
    format!("POST {path}?secret HTTP/1.1\r\n{HEAD}{fields}\r\n{body}")
}

fn sized(path: &str, body: &str) -> String {
    post(path, &format!("content-length: {}\r\n", body.len()), body)
}

async fn app(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/buffered" => ctx.response.set_text("fine"),
        "/fails" => return Err(io::Error::other("the database is gone").into()),
        "/chain" => return Err(Error::new(Status::BAD_GATEWAY, io::Error::other(Chain(Status::NOT_FOUND)))),
        "/panics" => std::panic::resume_unwind(Box::new("secret")),
        "/hangs" => std::future::pending().await,
        "/unfinished" => {
            ctx.response.headers.set("content-length", 9)?;
            ctx.body_writer().await?.write_all(b"half").await?;
        }
        "/source" => ctx.response.body.set_stream(&b"half"[..], Some(9)),
        "/reads" => _ = ctx.body_reader().read_to_end(&mut Vec::new()).await?,
        "/page" => _ = ctx.request.query().get_as::<i64>("page")?,
        "/form" => _ = ctx.request.form()?,
        "/text" => _ = ctx.request.text()?,
        "/path/%ff" => _ = ctx.request.path_decoded()?,
        "/upgrade" => _ = ctx.upgrade("echo").await?,
        "/protocol" => _ = ctx.upgrade("an echo\r\n").await?,
        "/tunnel" => _ = ctx.accept_tunnel().await?,
        "/hints" => ctx.send_informational(Status::OK, &Headers::new()).await?,
        "/coded" => ctx.decode_body_up_to(9).await?,
        #[cfg(feature = "multipart")]
        "/parts" => parts(ctx).await?,
        "/interim" => ctx.response.status = Status::CONTINUE,
        "/field" => ctx.response.headers.set("x-a", "se\ncret")?,
        "/name" => ctx.response.headers.set("x a", "secret")?,
        #[cfg(feature = "json")]
        "/json" => _ = ctx.request.json::<std::collections::HashMap<String, Vec<u8>>>()?,
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

/// Reads parts of up to 5 bytes, as text.
#[cfg(feature = "multipart")]
async fn parts(ctx: &mut Context) -> corehttp::Result {
    use corehttp::multipart::MultipartLimits;

    let limits = MultipartLimits { part_max: 5, ..MultipartLimits::default() };
    let mut parts = ctx.multipart_up_to(limits)?;
    while let Some(mut part) = parts.part().await? {
        part.text().await?;
    }
    Ok(())
}

/// An error with a cause of its own.
#[derive(Debug)]
struct Chain(Status);

impl Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shop does not answer")
    }
}

impl std::error::Error for Chain {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn plan(request: &Request) -> BodyPlan {
    match request.path() {
        "/reads" => BodyPlan::Stream,
        "/refused" => BodyPlan::Refuse(Status::FORBIDDEN),
        "/small" => BodyPlan::BufferUpTo(3),
        _ => BodyPlan::Buffer,
    }
}

fn settings(server: Server) -> Server {
    let timeouts = Timeouts { handler: Some(Duration::from_secs(5)), ..Timeouts::default() };
    server.timeouts(timeouts)
}

/// Checks that the server reports `wire` in this line, in which nothing is secret.
#[track_caller]
fn check(wire: &str, then: Then, expected: &str) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = lines.clone();
    let server = |server: Server| {
        settings(server).on_error(move |report| {
            let texts = [format!("{report}"), format!("{:?}", report.cause)];
            assert!(!texts.concat().contains("secret"), "{texts:?}");
            told.lock().unwrap().push(texts[0].clone());
        })
    };
    let received = Wired::with(server, wrap(middleware::plan(plan), app)).ask(&[wire.as_bytes()], then);
    assert!(!received.contains("secret"), "{received}");
    assert_eq!(*lines.lock().unwrap(), [expected], "{:?}", &wire[..wire.len().min(200)]);
}

#[test]
fn of_heads() {
    let many = "x-a: b\r\n".repeat(128);
    let large = format!("x-a: {}\r\n", "secret".repeat(11 << 10));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "secret".repeat(3 << 10));
    for (wire, expected) in [
        ("GET /secret\r\n\r\n", "400 Bad Request to memory: the request line is malformed"),
        (
            &long,
            "414 URI Too Long to memory: the request line is too long: more than 16384 bytes (`request_line_max`)",
        ),
        (
            "\x16\x03\x01\x02\0\x01\0\x01\x7c\x03\x03",
            "400 Bad Request to memory: the peer speaks TLS, as for `https`, where plain HTTP was expected",
        ),
        (
            "\r\n\r\n\r\nGET / HTTP/1.1\r\n",
            "400 Bad Request to memory: too many empty lines come before the request line: more than 1 lines (`EMPTY_LINES_MAX`)",
        ),
        (
            "GET /secret HTTP/3.0\r\n\r\n",
            "505 HTTP Version Not Supported to memory: the version is not supported",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nx a: secret\r\n\r\n",
            "400 Bad Request to memory: a field name is malformed: `x `",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncookie: se\0cret\r\n\r\n",
            "400 Bad Request to memory: a field value is malformed: `cookie`",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nauthorization: a\r\n secret\r\n\r\n",
            "400 Bad Request to memory: a field name is malformed: `authorization`",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncookie: secret\n\r\n",
            "400 Bad Request to memory: a line does not end with CRLF: `cookie`",
        ),
        (
            "GET / HTTP/1.1\r\ncookie: secret\r\n\r\n",
            "400 Bad Request to memory: the field host is missing, repeated or malformed",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: secret\r\n\r\n",
            "400 Bad Request to memory: the field content-length is malformed or repeated",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: secret\r\n\r\n",
            "400 Bad Request to memory: the field transfer-encoding is malformed or out of place",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\ntrailer: x, Cookie\r\n\r\n",
            "400 Bad Request to memory: a trailer field is malformed or forbidden: `Cookie`",
        ),
        (
            &format!("GET / HTTP/1.1\r\nhost: a\r\n{many}\r\n"),
            "431 Request Header Fields Too Large to memory: the head has too many fields: more than 128 fields (`fields_max`)",
        ),
        (
            &format!("GET / HTTP/1.1\r\nhost: a\r\n{large}\r\n"),
            "431 Request Header Fields Too Large to memory: the head is too large: more than 65536 bytes (`head_max`)",
        ),
        (
            "GET / HTTP/1.1\r\nhost: a\r\nexpect: secret\r\n\r\n",
            "417 Expectation Failed to memory, GET /: the field expect has an unknown expectation",
        ),
    ] {
        check(wire, Then::Waits, expected);
    }
    check(
        "GET /secret HT",
        Then::Ends,
        "400 Bad Request to memory: the peer closed before the message was complete",
    );
    check("GET /secret HT", Then::Waits, "408 Request Timeout to memory: the head took longer than 10 s");
}

#[test]
fn of_bodies() {
    let chunked = "transfer-encoding: chunked\r\n";
    let trailers = format!("0\r\n{}\r\n", "x: y\r\n".repeat(65));
    let extension = format!("1;{}\r\n", "secret".repeat(1 << 10));
    for (wire, expected) in [
        (
            post("/buffered", "content-length: 5000000\r\n", ""),
            "413 Content Too Large to memory, POST /buffered: the body is too large: 5000000 bytes, and at most 4194304 are allowed (`body_max`)",
        ),
        (
            sized("/small", "secret"),
            "413 Content Too Large to memory, POST /small: the body is too large: 6 bytes, and at most 3 are allowed (`body_max`)",
        ),
        (
            post("/small", chunked, "4\r\nabcd\r\n0\r\n\r\n"),
            "413 Content Too Large to memory, POST /small: the body is too large: more than 3 bytes (`body_max`)",
        ),
        (
            post("/buffered", chunked, "secret\r\n"),
            "400 Bad Request to memory, POST /buffered: a chunk size is malformed",
        ),
        (
            post("/buffered", chunked, &extension),
            "400 Bad Request to memory, POST /buffered: a chunk has too long extensions: more than 4096 bytes (`CHUNK_EXTENSION_MAX`)",
        ),
        (
            post("/buffered", chunked, "0\r\nset-cookie: secret\r\n\r\n"),
            "400 Bad Request to memory, POST /buffered: a trailer field is malformed or forbidden: `set-cookie`",
        ),
        (
            post("/buffered", chunked, &trailers),
            "431 Request Header Fields Too Large to memory, POST /buffered: the trailer section has too many fields: more than 64 fields (`trailer_fields_max`)",
        ),
        (
            post("/buffered", "content-length: 9\r\n", "half"),
            "408 Request Timeout to memory, POST /buffered: the body took longer than 30 s",
        ),
        (
            post("/reads", chunked, "secret\r\n"),
            "400 Bad Request to memory, POST /reads: a chunk size is malformed",
        ),
    ] {
        check(&wire, Then::Waits, expected);
    }
    for path in ["/buffered", "/reads"] {
        let cut = format!(
            "400 Bad Request to memory, POST {path}: the peer closed before the message was complete"
        );
        check(&post(path, "content-length: 9\r\n", "half"), Then::Ends, &cut);
    }
}

#[test]
fn of_handlers() {
    for (wire, expected) in [
        (
            sized("/fails", ""),
            "500 Internal Server Error to memory, POST /fails: the handler failed: the database is gone",
        ),
        (
            sized("/chain", ""),
            "502 Bad Gateway to memory, POST /chain: the handler failed: the shop does not answer",
        ),
        (sized("/panics", ""), "500 Internal Server Error to memory, POST /panics: the handler panicked"),
        (
            sized("/hangs", ""),
            "503 Service Unavailable to memory, POST /hangs: the handler took longer than 5 s",
        ),
        (
            sized("/refused", ""),
            "403 Forbidden to memory, POST /refused: the handler refused the request by its head",
        ),
        (
            sized("/unfinished", ""),
            "memory cut off, POST /unfinished: the handler did not finish the response that it had begun",
        ),
        (sized("/source", ""), "memory cut off, POST /source: the content is not as long as was announced"),
        (
            sized("/form", "secret"),
            "415 Unsupported Media Type to memory, POST /form: the field content-type is missing, or is not application/x-www-form-urlencoded",
        ),
        (
            sized("/path/%ff", ""),
            "400 Bad Request to memory, POST /path/%ff: the path of the request is not UTF-8",
        ),
        (
            sized("/upgrade", ""),
            "426 Upgrade Required to memory, POST /upgrade: the peer did not ask for the upgrade to echo",
        ),
        (
            sized("/protocol", ""),
            r"500 Internal Server Error to memory, POST /protocol: the handler failed: the name `an echo\r\n` of the protocol to upgrade to is malformed",
        ),
        (
            sized("/tunnel", ""),
            "400 Bad Request to memory, POST /tunnel: the peer did not ask for a tunnel, or sent content as well",
        ),
        (
            sized("/hints", ""),
            "500 Internal Server Error to memory, POST /hints: the handler failed: the status 200 does not fit the kind of response",
        ),
        (
            sized("/interim", ""),
            "500 Internal Server Error to memory, POST /interim: the handler failed: a final status of 1xx",
        ),
        (
            sized("/field", ""),
            "500 Internal Server Error to memory, POST /field: the handler failed: the value of the field x-a contains a control character",
        ),
        (
            sized("/name", ""),
            "500 Internal Server Error to memory, POST /name: the handler failed: the field name `x a` is not a token",
        ),
        (
            sized("/page", "").replace("?secret", "?page=secret"),
            "400 Bad Request to memory, POST /page: the value of `page` is not a whole number from -2^63 to 2^63 - 1",
        ),
    ] {
        check(&wire, Then::Waits, expected);
    }
}

#[cfg(feature = "json")]
#[test]
fn of_json() {
    const JSON: &str = "content-type: application/json\r\n";
    for (body, expected) in [
        (
            r#"{"items": [1, "secret"]}"#,
            "422 Unprocessable Content to memory, POST /json: the JSON at `items[1]` is wrong: invalid type: string, expected a whole number from 0 to 255 at line 1 column 22",
        ),
        (
            r#"{"items": [1, "secret"#,
            "400 Bad Request to memory, POST /json: the JSON is wrong: EOF while parsing a string at line 1 column 21",
        ),
    ] {
        check(
            &post("/json", &format!("{JSON}content-length: {}\r\n", body.len()), body),
            Then::Waits,
            expected,
        );
    }
    let other = "415 Unsupported Media Type to memory, POST /json: the field content-type is missing, or is not of JSON";
    check(&sized("/json", "{}"), Then::Waits, other);
    let response = {
        let mut response = Response::new();
        response.set_text(r#"{"a": "secret"}"#);
        response
    };
    let error = response.body.json::<std::collections::HashMap<String, bool>>().unwrap_err();
    let expected = "the JSON at `a` is wrong: invalid type: string, expected a boolean at line 1 column 14";
    check_text(&error, expected);
}

#[cfg(feature = "compress")]
#[test]
fn of_coded_bodies() {
    for (coding, body, expected) in [
        (
            "gzip",
            "secret",
            "400 Bad Request to memory, POST /coded: the content does not begin as gzip does: it is coded otherwise, or not at all",
        ),
        ("gzip", "\x1f", "400 Bad Request to memory, POST /coded: the coded content was cut short"),
        (
            "x-own",
            "secret",
            "415 Unsupported Media Type to memory, POST /coded: the content has an unknown coding",
        ),
        (
            "gzip, gzip, gzip, gzip, gzip",
            "secret",
            "415 Unsupported Media Type to memory, POST /coded: the content has too many codings",
        ),
    ] {
        let fields = format!("content-encoding: {coding}\r\ncontent-length: {}\r\n", body.len());
        check(&post("/coded", &fields, body), Then::Waits, expected);
    }
}

#[cfg(feature = "multipart")]
#[test]
fn of_multipart() {
    let part = |head: &str, content: &str| format!("--b\r\n{head}\r\n\r\n{content}\r\n--b--\r\n");
    let named = |content: &str| part("content-disposition: form-data; name=a", content);
    for (kind, body, expected) in [
        (
            "",
            named("1"),
            "415 Unsupported Media Type to memory, POST /parts: the field content-type is missing, or is not multipart/form-data",
        ),
        (
            "content-type: multipart/form-data\r\n",
            named("1"),
            "400 Bad Request to memory, POST /parts: the boundary is missing or malformed",
        ),
        (
            FORM,
            named("secret"),
            "413 Content Too Large to memory, POST /parts: the part `a` is too large: more than 5 bytes (`part_max`)",
        ),
        (
            FORM,
            "--b".to_owned(),
            "400 Bad Request to memory, POST /parts: the body ends before the first boundary",
        ),
        (
            FORM,
            named("1").replace("b--", "b"),
            "400 Bad Request to memory, POST /parts: the body ends in or after part 2, before the last boundary",
        ),
        (
            FORM,
            named("1").replace("--b--\r\n", ""),
            "400 Bad Request to memory, POST /parts: the body ends in or after part 1, before the last boundary",
        ),
        (FORM, part("secret", ""), "400 Bad Request to memory, POST /parts: the head of part 1 is malformed"),
        (
            FORM,
            part("x: secret", ""),
            "400 Bad Request to memory, POST /parts: the content disposition of part 1 is missing, repeated or malformed",
        ),
        (
            FORM,
            part("content-transfer-encoding: base64", ""),
            "415 Unsupported Media Type to memory, POST /parts: part 1 is in a transfer encoding",
        ),
        (
            FORM,
            "secret--b".to_owned(),
            "400 Bad Request to memory, POST /parts: the line of the first boundary is malformed, or misplaced",
        ),
        (
            FORM,
            named("1").replace("b--", "b-secret"),
            "400 Bad Request to memory, POST /parts: the line of the boundary after part 1 is malformed, or misplaced",
        ),
    ] {
        check(
            &post("/parts", &format!("{kind}content-length: {}\r\n", body.len()), &body),
            Then::Waits,
            expected,
        );
    }
    let coded = format!("{FORM}content-encoding: gzip\r\ncontent-length: 0\r\n");
    let expected = "415 Unsupported Media Type to memory, POST /parts: the body has a content coding, and was not decoded";
    check(&post("/parts", &coded, ""), Then::Waits, expected);
}

#[cfg(feature = "multipart")]
const FORM: &str = "content-type: multipart/form-data; boundary=b\r\n";

/// The peer is named, and a limit with its value.
#[test]
fn of_connections() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = lines.clone();
    let limits = Limits { connections_max: 0, ..Limits::default() };
    let served = Served::with(
        |server| server.limits(limits).on_error(move |report| told.lock().unwrap().push(report.to_string())),
        app,
    );
    let peer = served.connect();
    let who = peer.stream.local_addr().unwrap();
    { peer }.receive_all();
    let expected = format!(
        "503 Service Unavailable to {who}: the server has 0 connections, as many as it may have (`connections_max`)"
    );
    assert_eq!(*lines.lock().unwrap(), [expected]);
}

/// Checks that `error` is written like this, and shows no secret.
#[track_caller]
fn check_text(error: &(impl Display + Debug), expected: &str) {
    assert_eq!(format!("{error:#}"), expected);
    assert!(!format!("{error}{error:#}").contains("secret"));
}

#[test]
fn of_values() {
    let (mut headers, mut response) = (Headers::new(), Response::new());
    check_text(
        &headers.set("x-a", "se\ncret").unwrap_err(),
        "the value of the field x-a contains a control character",
    );
    check_text(&headers.set("x\r\na", "secret").unwrap_err(), r"the field name `x\r\na` is not a token");
    check_text(
        &response.set_redirect(Status::FOUND, "/\nsecret").unwrap_err(),
        "the value of the field location contains a control character",
    );
    check_text(
        &Form::new("per_page=secret").get_as::<i64>("per_page").unwrap_err(),
        "the value of `per_page` is not a whole number from -2^63 to 2^63 - 1",
    );
    check_text(&Form::new("a=1&b=%zz").strict().unwrap_err(), "an escape in `b` is malformed, or not UTF-8");
    check_text(&Form::new("a=1&b=2").up_to(1).unwrap_err(), "the form has more than 1 pairs");
    let url = "ftp://joe:secret@a/\u{1b}?secret";
    let invalid = r"the url `ftp://a/\u{1b}` is invalid: the scheme is neither http nor https";
    check_text(&Request::get(url).unwrap_err(), invalid);
    check_text(&Request::default().set_url(url).unwrap_err(), invalid);
    check_text(&Request::new("G\nT", "http://a/").unwrap_err(), r"the method `G\nT` is not a token");
    check_text(
        &"X".repeat(99).parse::<corehttp::Method>().unwrap_err(),
        &format!("the method `{}…` is too long", "X".repeat(64)),
    );
    let plain = SetCookie::new("a\tb", "secret");
    for (cookie, expected) in [
        (plain, r"the name of the cookie `a\tb` is not a token"),
        (
            SetCookie { name: "a", value: "se\ncret", ..plain },
            "the value of the cookie `a` contains a byte that must be encoded",
        ),
        (
            SetCookie { name: "a", value: &"x".repeat(4096), ..plain },
            "the cookie `a` is too long: more than 4096 bytes",
        ),
        (
            SetCookie { name: "a", domain: Some("secret;"), ..plain },
            "the domain of the cookie `a` is malformed",
        ),
        (SetCookie { name: "a", path: Some("secret"), ..plain }, "the path of the cookie `a` is malformed"),
        (
            SetCookie { name: "__Host-a", ..plain },
            "the cookie `__Host-a` does not keep what its prefix promises",
        ),
        (
            SetCookie { name: "a", partitioned: true, ..plain },
            "the cookie `a` is for other sites, but not secure",
        ),
    ] {
        check_text(&response.set_cookie(&cookie).unwrap_err(), expected);
    }
    check_text(
        &Request::default().append_cookie("a", "se cret").unwrap_err(),
        "the value of the cookie `a` contains a byte that must be encoded",
    );
    check_text(&io::Error::from(RespondError::Sent), "the response has been sent already");
}

#[test]
fn of_addresses() {
    for (address, why) in [
        ("192.0.2.1:80", "Cannot assign requested address (os error 99)"),
        ("localhost", "the port is missing: write `127.0.0.1:8080` or, for a path, `unix:/run/app.sock`"),
        ("./app.sock", "a path is written `unix:./app.sock`"),
        ("../app.sock", "a path is written `unix:../app.sock`"),
        ("~/app.sock", "a path is written `unix:./app.sock` or `unix:/run/app.sock`, and no `~` is expanded"),
        ("unix:/nowhere/socket", "No such file or directory (os error 2)"),
    ] {
        if cfg!(target_os = "linux") {
            let error = Server::bind(address).start(app).unwrap_err();
            check_text(&error, &format!("cannot listen on {address}: {why}"));
        }
    }
    check_text(&Server::new().start(app).unwrap_err(), "no address to listen on");
}

#[test]
fn of_logs() {
    let error = corehttp::server::ErrorLog::open("/nowhere/error.log").unwrap_err();
    if cfg!(target_os = "linux") {
        check_text(&error, "cannot open /nowhere/error.log: No such file or directory (os error 2)");
    }
}

#[test]
fn of_origins_and_paths() {
    use corehttp::middleware::{Cors, ForwardAuth};

    let any = "`*` is not an origin: `allow_any_origin()` allows all";
    check_text(&Cors::new().allow_origin("*").unwrap_err(), any);
    let servers = corehttp::Client::new().balance(["http://a"]).unwrap().build();
    let path = "the url `auth` is invalid: a path that begins with `/` is expected";
    assert_eq!(format!("{:#}", ForwardAuth::new(servers, "auth").unwrap_err()), path);
}

#[cfg(feature = "fs")]
#[test]
fn of_files() {
    use corehttp::fs::Files;

    let error = Files::new("/nowhere/public").unwrap_err();
    if cfg!(target_os = "linux") {
        check_text(&error, "cannot open /nowhere/public: No such file or directory (os error 2)");
    }
    let error = Files::from_embedded(&[]).cache_control("*", "se\ncret").unwrap_err();
    check_text(&error, "the value of the field cache-control contains a control character");
}

#[cfg(feature = "tls")]
#[test]
fn of_certificates() {
    use corehttp::tls;

    let error = tls::Identity::from_files("/nowhere/chain.pem", "/nowhere/key.pem").unwrap_err();
    if cfg!(target_os = "linux") {
        check_text(&error, "cannot read /nowhere/chain.pem: No such file or directory (os error 2)");
    }
}

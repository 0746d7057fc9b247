//! Problem details (RFC 9457): their content, the form that a client prefers, and what they do not show.

use std::fmt;
use std::io;

use corehttp::server::{error_page, problem_details};
use corehttp::{Context, Error, Problem, Request, Response, Server, Status, block_on};

use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};
use crate::support::{ErrorReports, get};

/// An error of an application, which a problem explains.
#[derive(Debug)]
struct Overdrawn(Problem);

impl fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("secret")
    }
}

impl std::error::Error for Overdrawn {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

fn overdrawn() -> Problem {
    Problem::new(Status::CONFLICT)
        .with_type("/probs/overdrawn")
        .with_title("Overdrawn")
        .with_detail("\"30\" < 50\r\n")
        .with_instance("urn:x:1")
}

fn app(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/bare" => Err(Problem::new(Status::CONFLICT).into()),
        "/full" => Err(overdrawn().into()),
        "/source" => Err(Overdrawn(overdrawn()).into()),
        "/io" => Err(io::Error::other(overdrawn()).into()),
        "/other" => Err(Error::new(Status::BAD_GATEWAY, overdrawn())),
        "/set" => {
            ctx.response.set_problem(&overdrawn());
            Ok(())
        }
        "/vary" => {
            ctx.response.headers.append("vary", "origin, Accept")?;
            Err(Status::NOT_FOUND.into())
        }
        "/moved" => {
            ctx.response.headers.set("location", "/full")?;
            Err(Status::PERMANENT_REDIRECT.into())
        }
        "/teapot" => Err(Status::new(418).unwrap().into()),
        "/unknown" => Err(Status::new(599).unwrap().into()),
        "/fails" => Err(Error::new(Status::BAD_REQUEST, "secret")),
        _ => Err(Status::NOT_FOUND.into()),
    }
}

fn respond(server: Server, path: &str, accept: &str) -> Response {
    let mut request = Request::get(path).unwrap();
    if !accept.is_empty() {
        request.headers.set("accept", accept).unwrap();
    }
    block_on(server.service(app).respond(request)).unwrap()
}

#[test]
fn a_handler_fails_with_a_problem_rfc9457_3() {
    const FULL: &str = r#"{"type":"/probs/overdrawn","title":"Overdrawn","detail":"\"30\" < 50\u000d\u000a","instance":"urn:x:1","status":409}"#;
    for server in [Server::new as fn() -> Server, || Server::new().error_response(problem_details)] {
        for (path, status, expected) in [
            ("/bare", 409, r#"{"title":"Conflict","status":409}"#),
            ("/full", 409, FULL),
            ("/source", 409, FULL),
            ("/io", 409, FULL),
            ("/other", 502, &*FULL.replace("409", "502")),
            ("/set", 409, FULL),
        ] {
            let response = respond(server(), path, "");
            assert_eq!((response.status.as_u16(), response.text().unwrap()), (status, expected), "{path}");
            assert_eq!(response.headers.content_type(), Some("application/problem+json"), "{path}");
            assert_eq!(response.headers.get("vary"), Some("accept").filter(|_| path != "/set"), "{path}");
        }
    }
    let reports = ErrorReports::default();
    respond(reports.attach(Server::new()), "/full", "");
    assert_eq!(reports.take(), [], "a problem alone is a response like any other");
    respond(reports.attach(Server::new()), "/source", "");
    assert_eq!(reports.take().len(), 1, "the error with a problem as its source is reported");
}

#[test]
fn the_form_is_the_one_that_the_client_prefers_rfc9110_12_5_1() {
    const JSON: &str = "application/problem+json";
    const HTML: &str = "text/html; charset=utf-8";
    const TEXT: &str = "text/plain; charset=utf-8";
    for (accept, with_details, with_page) in [
        ("", JSON, HTML),
        ("*/*", JSON, HTML),
        ("image/png", JSON, HTML),
        ("application/*", JSON, JSON),
        ("application/problem+json", JSON, JSON),
        ("application/json", JSON, JSON),
        ("application/json, text/plain, */*", JSON, HTML),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", HTML, HTML),
        ("text/*", TEXT, HTML),
        ("text/plain", TEXT, TEXT),
        ("text/html;q=0.5, application/problem+json;q=0.4", HTML, HTML),
        ("text/html;q=0.5, application/json;q=0.6", JSON, JSON),
        ("*/*, application/problem+json;q=0, application/json;q=0", TEXT, HTML),
        ("a/b;q=x", JSON, HTML),
    ] {
        for path in ["/full", "/none"] {
            let details = respond(Server::new().error_response(problem_details), path, accept);
            let page = respond(Server::new().error_response(error_page), path, accept);
            let found = [details, page].map(|response| response.headers.content_type().map(str::to_owned));
            assert_eq!(found, [with_details, with_page].map(|it| Some(it.into())), "{path} {accept:?}");
        }
        // Without a function, a problem is one, and any other error is its reason.
        assert_eq!(respond(Server::new(), "/full", accept).headers.content_type(), Some(with_details));
        let plain = respond(Server::new(), "/none", accept);
        assert_eq!((plain.text(), plain.headers.get("vary")), (Ok("Not Found"), None));
    }
}

#[test]
fn a_page_and_a_text_show_the_detail_escaped() {
    for (path, page, text) in [
        ("/full", "<h1>409 Overdrawn</h1>\n<p>&quot;30&quot; &lt; 50\r\n</p>\n", "\"30\" < 50\r\n"),
        ("/bare", "<h1>409 Conflict</h1>\n", "Conflict"),
        ("/unknown", "<h1>599</h1>\n", ""),
        ("/fails", "<h1>400 Bad Request</h1>\n", "Bad Request"),
    ] {
        let response = respond(Server::new().error_response(problem_details), path, "text/html");
        assert!(response.text().unwrap().ends_with(page), "{}", response.text().unwrap());
        let response = respond(Server::new().error_response(error_page), path, "text/plain");
        assert_eq!(response.text(), Ok(text));
    }
}

/// Fails by an error of this crate, which says what is wrong with the request.
fn explained(ctx: &mut Context) -> corehttp::Result {
    let page = ctx.request.query().get_as::<u32>("page");
    match ctx.request.path() {
        "/query" => drop(page?),
        "/form" => drop(ctx.request.form()?.strict()?),
        "/text" => drop(ctx.request.text()?),
        "/io" => page.map(drop).map_err(io::Error::other)?,
        "/other" => page.map(drop).map_err(|error| Error::new(Status::NOT_FOUND, error))?,
        "/server" => page.map(drop).map_err(|error| Error::new(Status::BAD_GATEWAY, error))?,
        _ => {}
    }
    Ok(())
}

/// A name that the peer sent may be in the explanation, but no browser takes it for a page.
#[test]
fn a_fault_of_the_request_is_explained_rfc9457_3_1_4() {
    const PAGE: &str = "the value of `page` is not a whole number from 0 to 4294967295";
    for (path, status, text, detail) in [
        ("/query", 400, PAGE, Some(PAGE)),
        ("/io", 400, PAGE, Some(PAGE)),
        ("/other", 404, PAGE, Some(PAGE)),
        ("/server", 502, "Bad Gateway", None),
        ("/text", 400, "is not UTF-8", Some("the content of the request is not UTF-8")),
        ("/form", 400, "`<b>`", Some("`<b>`")),
    ] {
        let ask = |server: Server, accept: &str| {
            let mut request = Request::post(&format!("{path}?page=<b>")).unwrap();
            request.headers.set("accept", accept).unwrap();
            request.headers.set("content-type", "application/x-www-form-urlencoded").unwrap();
            request.body.set_bytes(if path == "/text" { b"\xff".as_slice() } else { b"<b>=%zz" });
            block_on(server.service(explained).respond(request)).unwrap()
        };
        let plain = ask(Server::new(), "text/html");
        assert_eq!(plain.status.as_u16(), status, "{path}");
        assert!(plain.text().unwrap().contains(text), "{plain:?} {:?}", plain.text());
        assert_eq!(plain.headers.content_type(), Some("text/plain; charset=utf-8"));
        assert_eq!(plain.headers.get("x-content-type-options"), detail.map(|_| "nosniff"), "{path}");
        let page = ask(Server::new().error_response(error_page), "text/html");
        assert!(!page.text().unwrap().contains("<b>"), "{:?}", page.text());
        let problem = ask(Server::new().error_response(problem_details), "");
        let member = problem.text().unwrap().split(r#""detail":""#).nth(1).map(str::to_owned);
        assert_eq!(member.is_some(), detail.is_some(), "{path}");
        assert!(member.unwrap_or_default().contains(detail.unwrap_or_default()), "{:?}", problem.text());
    }
}

#[test]
fn a_redirect_is_no_problem_rfc9457_1() {
    for function in [problem_details, error_page] {
        let response = respond(Server::new().error_response(function), "/moved", "");
        assert_eq!((response.status.as_u16(), response.text()), (308, Ok("Permanent Redirect")));
        assert_eq!(response.headers.content_type(), Some("text/plain; charset=utf-8"));
        assert_eq!(response.headers.get("location"), Some("/full"));
    }
}

#[test]
fn other_members_of_vary_stay() {
    let response = respond(Server::new().error_response(problem_details), "/vary", "");
    assert!(response.headers.all("vary").eq([&b"origin, Accept"[..]]));
}

/// The cause of an error may hold secrets, and so may the request.
#[test]
fn no_ready_made_content_shows_the_cause_or_the_request() {
    for function in [problem_details, error_page] {
        let wired = Wired::with(|server| server.error_response(function), app);
        for wire in [
            get("/fails?secret"),
            get("/secret<b>"),
            "GET /secret HTTP/1.1\r\nhost: a\r\nx-a: secret\0\r\n\r\n".into(),
            "GET /secret".into(),
            "GET /secret HTTP/1.1\r\nhost: a\r\nexpect: secret\r\n\r\n".into(),
            "secret secret secret\r\n\r\n".into(),
        ] {
            let received = wired.ask_cut(&wire, Then::Ends);
            let [response] = &responses(&received)[..] else { panic!("{received}") };
            assert!(response.status >= 400 && !received.contains("secret"), "{wire:?}: {received}");
        }
    }
}

#[test]
fn a_problem_is_read() {
    let problem = overdrawn();
    assert_eq!((problem.type_uri(), problem.title()), ("/probs/overdrawn", "Overdrawn"));
    assert_eq!((problem.detail(), problem.instance()), (Some("\"30\" < 50\r\n"), Some("urn:x:1")));
    assert_eq!((problem.status(), problem.to_string()), (Status::CONFLICT, "\"30\" < 50\r\n".into()));
    let bare = Problem::from(Status::GONE);
    assert_eq!((bare.type_uri(), bare.title(), bare.to_string()), ("about:blank", "Gone", "Gone".into()));
    assert_eq!((bare.detail(), bare.instance()), (None, None));
}

#[cfg(feature = "json")]
#[test]
fn members_are_json_of_any_kind_and_no_standard_one_rfc9457_3_2() {
    let member = |problem: Problem, value: serde_json::Value| problem.with_member("a\"b", &value);
    let mut problem = member(Problem::new(Status::GONE), serde_json::json!(1)).unwrap();
    problem = member(problem, serde_json::json!({"c": ["d\n", null]})).unwrap();
    let mut response = Response::new();
    response.set_problem(&problem.with_member("e", "f").unwrap());
    let json: serde_json::Value = response.json().unwrap();
    let expected =
        serde_json::json!({"title": "Gone", "status": 410, "a\"b": {"c": ["d\n", null]}, "e": "f"});
    assert_eq!((json, response.status), (expected, Status::GONE));
    for name in ["type", "title", "status", "detail", "instance"] {
        let refused = Problem::new(Status::GONE).with_member(name, &1).unwrap_err();
        assert_eq!(refused.to_string(), format!("the member {name} of a problem is no extension"));
    }
    let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(Problem::new(Status::GONE).with_member("keys", &keys).is_err());
}

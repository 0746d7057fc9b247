//! Routers: which handler answers which request, alike in all kinds of routers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use corehttp::error::RouteError;
use corehttp::middleware::{self, Next, wrap};
use corehttp::routing::HandlerSet;
use corehttp::{
    BodyPlan, BoxHandler, Context, Handler, Limits, Request, Response, Router, Server, Service, Status,
    routes, with_state,
};

use crate::support::{Served, status};

/// Answers with the name of the route, its pattern and its parameters.
pub fn named(name: &'static str) -> impl Fn(&mut Context) + Clone + Send + Sync + 'static {
    move |ctx: &mut Context| {
        let Context { request, response, .. } = ctx;
        let params: Vec<String> =
            request.params().iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let pattern = request.matched_pattern().unwrap_or("none");
        response.set_text(format!("{name} {pattern}{}", params.concat()));
    }
}

/// Sends a request as it is written, and returns the status and the content, the location or the methods.
pub fn outcome(service: &Service<impl Handler>, method: &str, host: &str, path: &str) -> String {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let response = crate::support::paused(async {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let served = service.serve_connection(theirs);
        let asked = async {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut read, mut write) = tokio::io::split(ours);
            write.write_all(head.as_bytes()).await.unwrap();
            let mut received = String::new();
            read.read_to_string(&mut received).await.unwrap();
            received
        };
        tokio::join!(served, asked).1
    });
    let (head, content) = response.split_once("\r\n\r\n").unwrap();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    match status(head) {
        308 => format!("308 {}", field("location: ")),
        405 => format!("405 {}", field("allow: ")),
        204 => format!("204 {}", field("allow: ")),
        200 => content.to_owned(),
        other => other.to_string(),
    }
}

/// Checks rows of a method, a path and the outcome, with each of the routers.
#[track_caller]
fn check_all<A: HandlerSet, B: HandlerSet>(routers: (Router<A>, Router<B>), rows: &[(&str, &str, &str)]) {
    let (one, other) = (Server::new().service(routers.0), Server::new().service(routers.1));
    for (method, path, expected) in rows {
        assert_eq!(outcome(&one, method, "a", path), *expected, "{method} {path}, at compile time");
        assert_eq!(outcome(&other, method, "a", path), *expected, "{method} {path}, at run time");
    }
}

#[test]
fn a_static_segment_precedes_a_parameter_and_both_the_rest() {
    let fixed = routes! {
        GET "/" => named("root"),
        GET "/users" => named("list"),
        GET "/users/{id}" => named("show"),
        GET "/users/new" => named("new"),
        GET "/users/{id}/posts/{post}" => named("post"),
        GET "/users/{*rest}" => named("rest"),
        GET "/{a}/x" => named("a-x"),
        GET "/{a}/{b}/" => named("slash"),
        any "/any" => named("any"),
        PURGE "/any" => named("purge"),
        GET "/contacts" => named("contacts"),
        QUERY "/contacts" => named("search"),
    };
    let added = Router::new()
        .get("/", named("root"))
        .and_then(|router| router.get("/users", named("list")))
        .and_then(|router| router.get("/users/{id}", named("show")))
        .and_then(|router| router.get("/users/new", named("new")))
        .and_then(|router| router.get("/users/{id}/posts/{post}", named("post")))
        .and_then(|router| router.get("/users/{*rest}", named("rest")))
        .and_then(|router| router.get("/{a}/x", named("a-x")))
        .and_then(|router| router.get("/{a}/{b}/", named("slash")))
        .and_then(|router| router.any("/any", named("any")))
        .and_then(|router| router.route("PURGE".parse().unwrap(), "/any", named("purge")))
        .and_then(|router| router.get("/contacts", named("contacts")))
        .and_then(|router| router.query("/contacts", named("search")))
        .unwrap();
    assert_eq!(added.to_string(), fixed.to_string());
    check_all(
        (fixed, added),
        &[
            ("GET", "/", "root /"),
            ("GET", "/users", "list /users"),
            ("GET", "/users/7", "show /users/{id} id=7"),
            ("GET", "/users/new", "new /users/new"),
            ("GET", "/users/New", "show /users/{id} id=New"),
            ("GET", "/users/7/posts/x?q=1", "post /users/{id}/posts/{post} id=7 post=x"),
            ("GET", "/users/", "rest /users/{*rest} rest="),
            ("GET", "/users/7/", "rest /users/{*rest} rest=7/"),
            ("GET", "/users/7/posts", "rest /users/{*rest} rest=7/posts"),
            ("GET", "/users/x", "show /users/{id} id=x"),
            ("GET", "/b/x", "a-x /{a}/x a=b"),
            ("GET", "/b/c/", "slash /{a}/{b}/ a=b b=c"),
            ("GET", "/b/c", "404"),
            ("GET", "/b", "404"),
            ("GET", "/users/a%2Fb", "show /users/{id} id=a%2Fb"),
            ("GET", "http://other/users/7", "show /users/{id} id=7"),
            ("GET", "/any", "any /any"),
            ("DELETE", "/any", "any /any"),
            ("PURGE", "/any", "purge /any"),
            ("QUERY", "/contacts", "search /contacts"),
            ("QUERY", "/users", "405 GET, HEAD, OPTIONS"),
            ("OPTIONS", "/contacts", "204 GET, QUERY, HEAD, OPTIONS"),
            ("query", "/contacts", "405 GET, QUERY, HEAD, OPTIONS"),
            ("POST", "/users", "405 GET, HEAD, OPTIONS"),
            ("OPTIONS", "/users", "204 GET, HEAD, OPTIONS"),
            ("OPTIONS", "/any", "any /any"),
            ("OPTIONS", "/none", "404"),
            ("OPTIONS", "*", "204 "),
            ("HEAD", "/users/new", ""),
            ("get", "/users", "405 GET, HEAD, OPTIONS"),
        ],
    );
}

/// A guard around `/admin` must see each request that reaches its handlers, however the path is spelled.
#[test]
fn another_spelling_reaches_no_other_handler() {
    let fixed = routes! {
        mount "/admin" => wrap(guard, routes! { GET "/secret" => named("secret") }),
        GET "/files/{*path}" => named("file"),
        GET "/{name}" => named("name"),
        any "*" => named("fallback"),
    };
    let admin = Router::new().get("/secret", named("secret")).unwrap();
    let added = Router::new()
        .mount("/admin", wrap(guard, admin))
        .and_then(|router| router.get("/files/{*path}", named("file")))
        .and_then(|router| router.get("/{name}", named("name")))
        .and_then(|router| router.any("*", named("fallback")))
        .unwrap();
    let long = format!("/files/{}", "a/".repeat(4000));
    let expected = format!("file /files/{{*path}} path={}", &long["/files/".len()..]);
    check_all(
        (fixed, added),
        &[
            ("GET", "/admin/secret", "401"),
            ("GET", "/admin/other", "401"),
            ("GET", "/admin", "401"),
            ("GET", "/admin/", "401"),
            ("GET", "//admin/secret", "308 /admin/secret"),
            ("GET", "//admin//secret?a=b", "308 /admin/secret?a=b"),
            ("GET", "/%61dmin/secret", "308 /admin/secret"),
            ("GET", "/%61dmin", "308 /admin"),
            ("GET", "/x/../admin/secret", "308 /admin/secret"),
            ("GET", "/files/../admin/secret", "308 /admin/secret"),
            ("GET", "/files/%2e%2E/admin/secret", "308 /admin/secret"),
            ("GET", "/files/.%2e/.%2e/admin", "308 /admin"),
            ("GET", "/./admin/secret", "308 /admin/secret"),
            ("GET", "/admin/../files/a", "308 /files/a"),
            ("GET", "/admin%2Fsecret", "name /{name} name=admin%2Fsecret"),
            ("GET", "/admin%2fsecret", "name /{name} name=admin%2fsecret"),
            ("GET", "/Admin/secret", "fallback none"),
            ("GET", "/admin%00/secret", "fallback none"),
            ("GET", "/files//a", "file /files/{*path} path=/a"),
            ("GET", "/files/%7Ejoe", "file /files/{*path} path=%7Ejoe"),
            ("GET", "/files/./a", "308 /files/a"),
            ("GET", "/%6Eame", "name /{name} name=%6Eame"),
            ("GET", "///", "fallback none"),
            ("GET", "/%", "name /{name} name=%"),
            ("GET", "/;a=b/x", "fallback none"),
            ("GET", &long, &expected),
        ],
    );
}

async fn guard(_: &mut Context, _: Next<'_>) -> corehttp::Result {
    Err(Status::UNAUTHORIZED.into())
}

#[test]
fn routers_are_nested_merged_and_mounted_alike() {
    let rows = [
        ("GET", "/api/users/7", "show /api/users/{id} id=7"),
        ("GET", "/api", "index /api"),
        ("GET", "/api/", "index /api"),
        ("GET", "/api/users", "404"),
        ("POST", "/api", "405 GET, HEAD, OPTIONS"),
        ("GET", "/apis", "404"),
        ("GET", "/t/x/users/7", "show /t/{tenant}/users/{id} tenant=x id=7"),
        ("GET", "/t/x", "index /t/{tenant} tenant=x"),
        ("GET", "/t/", "404"),
    ];
    let inner = || {
        Router::new()
            .get("/", named("index"))
            .and_then(|router| router.get("/users/{id}", named("show")))
            .unwrap()
    };
    let nested =
        Router::new().nest("/api", inner()).and_then(|router| router.nest("/t/{tenant}", inner())).unwrap();
    let merged = Router::new().merge(Router::new().merge(nested).unwrap()).unwrap();
    let expected = "GET /api\nGET /api/users/{id}\nGET /t/{tenant}\nGET /t/{tenant}/users/{id}\n";
    assert_eq!(merged.to_string(), expected);
    let fixed = routes! {
        mount "" => routes! { mount "/api" => inner(), GET "/other" => named("other") },
    };
    let service = Server::new().service(fixed);
    for (method, path, expected) in &rows[1..6] {
        let expected = expected.replace("index /api", "index /api/");
        assert_eq!(outcome(&service, method, "a", path), expected, "{method} {path}");
    }
    check_all((merged, routes_of_two()), &rows);
}

fn routes_of_two() -> Router<impl HandlerSet> {
    routes! {
        GET "/api" => named("index"),
        GET "/api/users/{id}" => named("show"),
        GET "/t/{tenant}" => named("index"),
        GET "/t/{tenant}/users/{id}" => named("show"),
        GET "/api/" => |ctx: &mut Context| ctx.response.set_text("index /api"),
    }
}

#[test]
fn hosts_are_compared_in_any_case_and_with_any_port() {
    let router = routes! {
        GET "/" => named("any"),
        GET "api.example.com/" => named("api"),
        GET "{tenant}.example.com/{page}" => named("tenant"),
        GET "{tenant}.example.com/" => named("tenant"),
        mount "static.example.com" => named("static"),
        GET "[::1]/" => named("local"),
    };
    let service = Server::new().service(router);
    for (host, path, expected) in [
        ("other", "/", "any /"),
        ("api.example.com", "/", "api api.example.com/"),
        ("API.example.com:8080", "/", "api api.example.com/"),
        ("x.example.com", "/", "tenant {tenant}.example.com/ tenant=x"),
        ("x.example.com", "/a", "tenant {tenant}.example.com/{page} tenant=x page=a"),
        ("x.y.example.com", "/", "any /"),
        (".example.com", "/", "any /"),
        ("example.com", "/", "any /"),
        ("static.example.com", "/", "static static.example.com/{*rest} rest="),
        ("static.example.com", "/a/b", "static static.example.com/{*rest} rest=a/b"),
        ("[::1]:80", "/", "local [::1]/"),
        ("x.example.com", "/a/b", "404"),
    ] {
        assert_eq!(outcome(&service, "GET", host, path), expected, "{host}{path}");
    }
}

/// Calls `routes!` with each method on each path.
macro_rules! routes_of_all {
    ([$($routes:tt)*] [] $paths:tt $handler:ident) => { routes! { $($routes)* } };
    ([$($routes:tt)*] [$method:ident $($methods:ident)*] [$($path:literal)*] $handler:ident) => {
        routes_of_all!([$($routes)* $($method $path => $handler,)*] [$($methods)*] [$($path)*] $handler)
    };
}

/// So many that comparing each with each, or a macro that takes a few of them at each step, would not compile.
#[test]
fn thousands_of_routes_compile() {
    fn handler(ctx: &mut Context) {
        named("route")(ctx);
    }
    let router = routes_of_all!(
        []
        [
            GET POST PUT DELETE PATCH A B C D E F G H I J K L M N O P Q R S T U V W X Y Z AA AB AC AD AE AF AG AH AI AJ AK
            AL AM
        ]
        [
            "/" "/a" "/b" "/c" "/d" "/e" "/f" "/g" "/h" "/i" "/j" "/k" "/l" "/m" "/n" "/o" "/p" "/q" "/r" "/s" "/t" "/u"
            "/v" "/w" "/x" "/y" "/z" "/a/a" "/a/b" "/a/c" "/a/d" "/a/e" "/a/f" "/a/g" "/a/{id}" "/b/{id}" "/{*rest}"
            "a.example/" "b.example/" "c.example/" "{d}.example/" "/users/{id}/a/rather/long/path/for/this/user"
            "/users/{id}/a/rather/long/path/of/this/user" "/users/{id}/a/rather/long/path/by/this/user" "/users/{id}/{*rest}"
        ]
        handler
    );
    assert_eq!(router.to_string().lines().count(), 44 * 45);
    let service = Server::new().service(router);
    for (method, path, expected) in [
        ("GET", "/", "route /"),
        ("AM", "/a/g", "route /a/g"),
        ("Z", "/b/7", "route /b/{id} id=7"),
        ("AM", "/users/7/a", "route /users/{id}/{*rest} id=7 rest=a"),
        ("AN", "/", "405"),
    ] {
        assert!(outcome(&service, method, "other", path).starts_with(expected), "{method} {path}");
    }
}

#[test]
fn each_of_thousands_of_hosts_and_routes_is_found() {
    let router = (0..5_000).fold(Router::new(), |router, n| {
        let router = router.get(&format!("tenant{n}.example/"), named("host")).unwrap();
        let router = router.get(&format!("{{page}}.tenant{n}.example/"), named("page")).unwrap();
        router.get(&format!("/tenants/{n}/settings/profile"), named("path")).unwrap()
    });
    let service = Server::new().service(router);
    for n in [0, 1, 77, 4_999] {
        for (host, path, expected) in [
            (format!("tenant{n}.example"), "/".into(), format!("host tenant{n}.example/")),
            (format!("A.tenant{n}.example"), "/".into(), format!("page {{page}}.tenant{n}.example/ page=A")),
            ("unknown.example".into(), "/".into(), "404".into()),
            (
                "unknown.example".into(),
                format!("/tenants/{n}/settings/profile"),
                format!("path /tenants/{n}/settings/profile"),
            ),
        ] {
            assert_eq!(outcome(&service, "GET", &host, &path), expected, "{host}{path}");
        }
    }
}

/// Browsers take a `\` for a `/`, and what follows two of them for a host.
#[test]
fn no_redirect_leads_to_another_host() {
    let router = routes! { GET "/{page}" => named("page"), GET "/a/{page}/" => named("a") };
    let service = Server::new().service(router.redirect_slashes(true));
    for (path, expected) in [
        ("/\\evil.example/", "400"),
        ("/%5Cevil.example/", "308 /%5Cevil.example"),
        ("//evil.example/", "404"),
        ("/a/\\b", "400"),
        ("/a/%5Cb", "308 /a/%5Cb/"),
    ] {
        assert_eq!(outcome(&service, "GET", "a", path), expected, "{path}");
    }
}

/// The order in which they were added does not count.
#[test]
fn of_several_hosts_the_one_with_the_first_equal_label_is_preferred() {
    let router = routes! {
        GET "{a}.{b}.example/" => named("any"),
        GET "{a}.eu.example/" => named("eu"),
        GET "api.{b}.example/" => named("api"),
        GET "api.eu.example/status" => named("status"),
        GET "{a}.eu.example/status/{page}" => named("page"),
    };
    let service = Server::new().service(router);
    for (host, path, expected) in [
        ("api.eu.example", "/status", "status api.eu.example/status"),
        ("api.eu.example", "/", "api api.{b}.example/ b=eu"),
        ("api.eu.example", "/status/x", "page {a}.eu.example/status/{page} a=api page=x"),
        ("www.eu.example", "/", "eu {a}.eu.example/ a=www"),
        ("www.us.example", "/", "any {a}.{b}.example/ a=www b=us"),
        ("www.us.example", "/status", "404"),
    ] {
        assert_eq!(outcome(&service, "GET", host, path), expected, "{host}{path}");
    }
}

#[test]
fn slashes_are_redirected_on_request_alone() {
    let routes = || routes! { GET "/a" => named("a"), GET "/b/" => named("b"), GET "/c/{d}/" => named("c") };
    let (strict, lenient) = (routes(), routes().redirect_slashes(true));
    let services = (Server::new().service(strict), Server::new().service(lenient));
    for (path, expected) in [
        ("/a/", "308 /a"),
        ("/a/?q=1", "308 /a?q=1"),
        ("/b", "308 /b/"),
        ("/c/x?q", "308 /c/x/?q"),
        ("/c/x?é|\\", "308 /c/x/?%C3%A9%7C%5C"),
        ("/d", "404"),
        ("/", "404"),
        ("/a//", "404"),
    ] {
        assert_eq!(outcome(&services.0, "GET", "a", path), "404", "{path}");
        assert_eq!(outcome(&services.1, "GET", "a", path), expected, "{path}");
    }
}

#[test]
fn a_faulty_pattern_is_refused_where_it_is_added() {
    let add = |pattern: &str| Router::new().get(pattern, named("x")).map(drop);
    for (pattern, fault) in [
        ("", "a pattern is a path that begins with `/`, perhaps behind a host, as in `a.example/users`"),
        ("users", "a pattern is a path that begins with `/`, perhaps behind a host, as in `a.example/users`"),
        ("Example.com/", "a host is written in lower case, without a port"),
        ("a..b/", "an empty segment matches no path but at its end"),
        (".a/", "an empty segment matches no path but at its end"),
        ("//", "an empty segment matches no path but at its end"),
        ("/a//b", "an empty segment matches no path but at its end"),
        ("/a/./b", "the segments `.` and `..` match no path"),
        ("/..", "the segments `.` and `..` match no path"),
        ("/:id", "a parameter is written `{name}`, and the rest of a path `{*name}`"),
        ("/*rest", "a parameter is written `{name}`, and the rest of a path `{*name}`"),
        ("/<id>", "a parameter is written `{name}`, and the rest of a path `{*name}`"),
        ("/a/[id]", "a parameter is written `{name}`, and the rest of a path `{*name}`"),
        ("/{id", "a parameter is a whole segment, such as `{name}`"),
        ("/{id}.json", "a parameter is a whole segment, such as `{name}`"),
        ("/a{id}", "a parameter is a whole segment, such as `{name}`"),
        ("/{}", "a parameter has a name of letters, digits and `_`, which does not begin with a digit"),
        ("/{*}", "a parameter has a name of letters, digits and `_`, which does not begin with a digit"),
        ("/{a-b}", "a parameter has a name of letters, digits and `_`, which does not begin with a digit"),
        ("/{a?}", "a parameter has a name of letters, digits and `_`, which does not begin with a digit"),
        ("/{1}", "a parameter has a name of letters, digits and `_`, which does not begin with a digit"),
        ("/{a}/{b}/{a}", "two parameters have the same name"),
        ("{a}.b/{a}", "two parameters have the same name"),
        ("/{a}/{*a}", "two parameters have the same name"),
        ("/{*a}/b", "the rest of a path, `{*name}`, can only be last"),
        ("/a b", "a segment is written as it is sent, with `%XX` in upper case, and only where it is needed"),
        (
            "/caf\u{e9}",
            "a segment is written as it is sent, with `%XX` in upper case, and only where it is needed",
        ),
        ("/%61", "a segment is written as it is sent, with `%XX` in upper case, and only where it is needed"),
        ("/%2f", "a segment is written as it is sent, with `%XX` in upper case, and only where it is needed"),
        ("/a#b", "a segment is written as it is sent, with `%XX` in upper case, and only where it is needed"),
        ("/a?b={c}", "a pattern has no query, which `ctx.request.query()` reads"),
        ("/{a}?b={c}", "a pattern has no query, which `ctx.request.query()` reads"),
        ("/?b", "a pattern has no query, which `ctx.request.query()` reads"),
        ("http://a/b", "a pattern has no scheme, as in `a.example/users`"),
        ("https://A/{b}", "a pattern has no scheme, as in `a.example/users`"),
        ("*", "`*` takes the requests that match no route, with any method"),
    ] {
        let error = add(pattern).unwrap_err();
        assert_eq!(error.to_string(), format!("the pattern `{pattern}`: {fault}"));
    }
    for pattern in [
        "/",
        "/a/",
        "/{a}",
        "/{a}/{ab}",
        "/{ab}/{a}",
        "/{*a}",
        "/.well-known/x",
        "/%2F",
        "/a:b",
        "a-b.c/",
        "[::1]/",
    ] {
        add(pattern).unwrap();
    }
}

#[test]
fn a_conflict_names_both_routes() {
    let error = |added: Result<Router, RouteError>| {
        let error = added.unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
        error.to_string()
    };
    let one = |pattern| Router::new().get(pattern, named("x")).unwrap();
    let text =
        |route, other| format!("the route `{route}` conflicts with `{other}`: they match the same requests");
    for (pattern, other) in [("/a", "/a"), ("/{a}", "/{b}"), ("/{a}/{*b}", "/{c}/{*d}"), ("a/{b}", "a/{c}")] {
        let found = error(one(pattern).get(other, named("x")));
        assert_eq!(found, text(format!("GET {other}"), format!("GET {pattern}")));
    }
    let found = error(Router::new().any("*", named("x")).unwrap().any("*", named("x")));
    assert_eq!(found, text("any *".to_owned(), "any *".to_owned()));
    let found = error(Router::new().mount("/a", named("x")).unwrap().any("/a", named("x")));
    assert_eq!(found, text("any /a".to_owned(), "any /a/{*rest}".to_owned()));
    let found = error(one("/a/b").nest("/a", one("/b")));
    assert_eq!(found, text("GET /a/b".to_owned(), "GET /a/b".to_owned()));
    let found = error(Router::new().mount("/a/", named("x")));
    assert_eq!(found, "the pattern `/a/`: a prefix ends without a `/`");
    let found = error(Router::new().nest("a.example", one("b.example/")));
    assert_eq!(found, "the pattern `a.exampleb.example/`: a route has one host, and its prefix has another");
    for pattern in ["/b", "/{a}", "/{*a}", "/a/", "host/a"] {
        one("/a").get(pattern, named("x")).unwrap();
        one("/a").post("/a", named("x")).unwrap();
    }
}

/// The plan of the route that matches decides, and its limits and time limits count.
#[test]
fn plans_and_bounds_are_those_of_the_route() {
    let size = |ctx: &mut Context| ctx.response.set_text(ctx.request.body.len().to_string());
    let sleeps = async |_: &mut Context| tokio::time::sleep(Duration::from_secs(60)).await;
    let count = async |ctx: &mut Context| -> corehttp::Result {
        let (mut count, mut body) = (0, ctx.body_reader());
        while let Some(chunk) = body.chunk().await? {
            count += chunk.len();
        }
        ctx.response.set_text(count.to_string());
        Ok(())
    };
    let router = routes! {
        POST "/small" => size,
        mount "/large" => wrap(middleware::limits(|limits| limits.body_max = 100), routes! {
            POST "/" => size,
            POST "/larger" => wrap(middleware::limits(|limits| limits.body_max *= 10), size),
        }),
        POST "/stream" => wrap(BodyPlan::Stream, count),
        POST "/refused" => wrap(BodyPlan::Refuse(Status::FORBIDDEN), size),
        POST "/slow" => wrap(middleware::timeouts(|timeouts| timeouts.handler = Some(Duration::from_millis(1))), sleeps),
    };
    let limits = Limits { body_max: 10, ..Limits::default() };
    let served = Served::with(|server| server.limits(limits), router);
    let post = |path: &str, len: usize| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {len}\r\n\r\n{}", "x".repeat(len))
    };
    for (path, len, expected) in [
        ("/small", 10, 200),
        ("/small", 11, 413),
        ("/large", 100, 200),
        ("/large", 101, 413),
        ("/large/larger", 1000, 200),
        ("/large/larger", 1001, 413),
        ("/stream", 5000, 200),
        ("/refused", 5000, 403),
        ("/slow", 0, 503),
        ("/none", 5000, 404),
        ("/small", 11, 413),
    ] {
        assert_eq!(status(&served.ask(post(path, len))), expected, "{path} {len}");
    }
    // The bounds of one exchange are not those of the next one on its connection.
    let received = served.ask(post("/large", 100) + &post("/small", 10) + &post("/small", 11));
    assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 2, "{received}");
    assert_eq!(received.matches("HTTP/1.1 413 ").count(), 1, "{received}");
}

/// Middleware may give up a router, and call another one, which is not below the first.
#[test]
fn a_router_that_was_given_up_is_left() {
    let slow = routes! { mount "/a" => async |_: &mut Context| std::future::pending::<()>().await };
    let other = routes! { GET "/a/b" => |ctx: &mut Context| {
        let pattern = ctx.request.matched_pattern().unwrap_or_default().to_owned();
        ctx.response.set_text(format!("{} by {pattern}", ctx.request.mounted_path()));
    } };
    let first_or_other = async move |ctx: &mut Context| -> corehttp::Result {
        let late = tokio::time::timeout(Duration::from_millis(1), slow.handle(ctx)).await.is_err();
        assert!(late, "the handler waits");
        other.handle(ctx).await
    };
    let service = Server::new().service(first_or_other);
    let response = crate::support::paused(service.respond(Request::get("/a/b").unwrap()));
    assert_eq!(response.text().unwrap(), "/a/b by /a/b", "{response:?}");
}

/// A handler may have another target when it runs than when its plan was made.
#[test]
fn a_replaced_target_is_matched_again() {
    async fn rewrite(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        if ctx.request.path() == "/old" {
            ctx.request.set_url("/new/7")?;
        }
        next.handle(ctx).await
    }
    let inner = routes! { GET "/old" => named("old"), GET "/new/{id}" => named("new") };
    let service = Server::new().service(wrap(rewrite, inner));
    assert_eq!(outcome(&service, "GET", "a", "/old"), "new /new/{id} id=7");
    assert_eq!(outcome(&service, "GET", "a", "/new/8"), "new /new/{id} id=8");
}

/// A route that is found after the plan of another one is planned for: its guard is asked, its body is here.
#[test]
fn a_route_that_is_found_late_is_planned_late() {
    async fn put(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        ctx.request.set_method(corehttp::Method::Put);
        next.handle(ctx).await
    }
    let size = |ctx: &mut Context| ctx.response.set_text(ctx.request.bytes().len().to_string());
    let router = || {
        routes! {
            GET "/size" => named("get"),
            PUT "/size" => size,
            PUT "/guarded" => wrap(BodyPlan::Refuse(Status::UNAUTHORIZED), named("secret")),
            PUT "/small" => wrap(BodyPlan::BufferUpTo(3), size),
        }
    };
    let post = |path: &str| format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello");
    for served in [Served::new(wrap(put, router())), Served::new(BoxHandler::new(wrap(put, router())))] {
        assert!(served.ask(post("/size")).ends_with("\r\n\r\n5"));
        assert_eq!(status(&served.ask(post("/guarded"))), 401);
        assert_eq!(status(&served.ask(post("/small"))), 413);
        assert_eq!(status(&served.ask(post("/none"))), 404);
    }
}

/// Middleware that does not pass the head on has the default plan; the route is found all the same.
#[test]
fn a_router_behind_middleware_without_a_plan_matches() {
    struct Opaque<H>(H);
    impl<H: Handler> Handler for Opaque<H> {
        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            self.0.handle(ctx).await?;
            self.0.handle(ctx).await
        }
    }
    let service =
        Server::new().service(routes! { mount "/a" => Opaque(routes! { GET "/{b}" => named("b") }) });
    assert_eq!(outcome(&service, "GET", "a", "/a/x"), "b /a/{b} b=x");
    assert_eq!(outcome(&service, "GET", "a", "/a/x/y"), "404");
}

#[test]
fn middleware_goes_around_routes_and_groups() {
    async fn mark(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        ctx.response.headers.append("x-marks", ctx.request.matched_pattern().unwrap_or("none"))?;
        next.handle(ctx).await
    }
    let group = Router::new().get("/a", named("a")).unwrap().wrap(mark).get("/b", named("b")).unwrap();
    let router =
        Router::new().get("/c", wrap(mark, named("c"))).and_then(|router| router.merge(group)).unwrap();
    let service = Server::new().service(router);
    let marks = |path: &str| {
        let response: Response = corehttp::block_on(service.respond(Request::get(path).unwrap())).unwrap();
        response.headers.get("x-marks").map(str::to_owned)
    };
    assert_eq!((marks("/a"), marks("/b")), (Some("/a".to_owned()), None));
    assert_eq!((marks("/c"), marks("/d")), (Some("/c".to_owned()), None));
}

/// Files below a mount are found without its prefix.
#[cfg(feature = "fs")]
#[test]
fn files_are_mounted() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("sub")).unwrap();
    std::fs::write(root.path().join("index.html"), "index").unwrap();
    std::fs::write(root.path().join("sub/index.html"), "sub").unwrap();
    std::fs::write(root.path().join("sub/a.txt"), "text").unwrap();
    let files = || corehttp::fs::Files::new(root.path()).unwrap();
    let router = routes! {
        mount "/static" => files(),
        mount "/{user}/files" => files(),
    };
    let served = Served::new(router);
    for (path, expected) in [
        ("/static/", "\r\n\r\nindex"),
        ("/static/sub/a.txt", "\r\n\r\ntext"),
        ("/static", "location: /static/\r\n"),
        ("/static/sub", "location: /static/sub/\r\n"),
        ("/ada/files/sub/a.txt", "\r\n\r\ntext"),
        ("/static/none", "404"),
        ("/sub/a.txt", "404"),
        ("/static/../static/sub/a.txt", "location: /static/sub/a.txt\r\n"),
    ] {
        let received = served.ask(crate::support::get(path));
        assert!(received.contains(expected), "{path}: {received}");
    }
}

/// A router of one core holds handlers that are not `Send`.
#[test]
fn a_local_router_holds_handlers_of_one_core() {
    let count = std::rc::Rc::new(std::cell::Cell::new(0));
    let counts = move |ctx: &mut Context| {
        count.set(count.get() + 1);
        ctx.response.set_text(count.get().to_string());
    };
    let service = Server::new().service(Router::new_local().get("/", counts).unwrap());
    assert_eq!(
        (outcome(&service, "GET", "a", "/"), outcome(&service, "GET", "a", "/")),
        ("1".into(), "2".into())
    );
}

/// State of one core and of all, lent to plain and async functions, in routes of the program and in boxes.
#[test]
fn handlers_share_state() {
    let count = std::rc::Rc::new(std::cell::Cell::new(1));
    let show =
        |count: &std::cell::Cell<u32>, ctx: &mut Context| ctx.response.set_text(count.get().to_string());
    let double = async |count: &std::cell::Cell<u32>, _: &mut Context| -> corehttp::Result {
        count.set(count.get() * 2);
        Err(Status::CONFLICT.into())
    };
    let fixed = routes! { GET "/" => with_state(&count, show), POST "/" => with_state(&count, double) };
    let added = Router::new_local().get("/", with_state(&count, show)).unwrap();
    let added = added.post("/", with_state(&count, double)).unwrap();
    let services = (Server::new().service(fixed), Server::new().service(added));
    assert_eq!(outcome(&services.0, "POST", "a", "/"), "409");
    assert_eq!(outcome(&services.1, "POST", "a", "/"), "409");
    let seen = (outcome(&services.0, "GET", "a", "/"), outcome(&services.1, "GET", "a", "/"));
    assert_eq!(seen, ("4".into(), "4".into()));
    let text: std::sync::Arc<str> = "hi".into();
    let hi = with_state(&text, |text: &str, ctx: &mut Context| ctx.response.set_text(text));
    let boxed = Router::new().get("/", BoxHandler::new(hi)).unwrap();
    assert_eq!(outcome(&Server::new().service(boxed), "GET", "a", "/"), "hi");
}

/// State that is no smart pointer, and a smart pointer itself, lent to plain and async functions.
#[test]
fn handlers_share_handles() {
    trait Users {
        fn name(&self) -> &str;
    }
    struct Ada;
    impl Users for Ada {
        fn name(&self) -> &str {
            "Ada"
        }
    }
    #[derive(Clone)]
    struct Pool(&'static str);

    fn of_pointer(users: &std::sync::Arc<dyn Users>, ctx: &mut Context) {
        ctx.response.set_text(users.name());
    }
    async fn of_target(users: &(dyn Users + 'static), ctx: &mut Context) -> corehttp::Result {
        ctx.response.set_text(users.name());
        Ok(())
    }
    fn of_handle(pool: &Pool, ctx: &mut Context) -> corehttp::Result {
        ctx.response.set_text(pool.0);
        Ok(())
    }
    async fn of_handle_waiting(pool: &Pool, ctx: &mut Context) {
        tokio::task::yield_now().await;
        ctx.response.set_text(pool.0);
    }
    let users: std::sync::Arc<dyn Users> = std::sync::Arc::new(Ada);
    let pool = Pool("pool");
    let service = Server::new().service(routes! {
        GET "/pointer" => with_state(&users, of_pointer),
        GET "/target" => with_state(&users, of_target),
        GET "/handle" => with_state(&pool, of_handle),
        GET "/waiting" => with_state(&pool, of_handle_waiting),
        GET "/closure" => with_state(&pool, |pool: &Pool, ctx: &mut Context| {
            ctx.response.set_text(pool.0);
            Ok(())
        }),
    });
    for (path, expected) in [
        ("/pointer", "Ada"),
        ("/target", "Ada"),
        ("/handle", "pool"),
        ("/waiting", "pool"),
        ("/closure", "pool"),
    ] {
        assert_eq!(outcome(&service, "GET", "a", path), expected, "{path}");
    }
}

#[test]
fn a_plain_handler_in_a_box_needs_no_future() {
    let plain = BoxHandler::new(named("plain"));
    let waits = BoxHandler::new(async |_: &mut Context| {});
    let service = Server::new().service(move |ctx: &mut Context| {
        assert!(waits.handle_now(ctx).is_none());
        plain.handle_now(ctx).unwrap()
    });
    assert_eq!(outcome(&service, "GET", "a", "/"), "plain none");
}

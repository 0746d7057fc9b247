//! Routers asked for paths that are meant to get past them: other spellings, other hosts, requests that handlers change.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use corehttp::middleware::{self, Next, wrap};
use corehttp::{BodyPlan, Context, Handler, IntoHandler, Method, Request, Router, Server, Status, routes};

use crate::handlers::router::{named, outcome};

/// Octets that are none of a URI are spelled in two ways: as they are, which user agents do, and escaped.
#[test]
fn an_octet_that_must_be_escaped_is_no_other_path_rfc3986_2_1() {
    let service = Server::new().service(routes! {
        GET "/a%7Cb" => named("bar"),
        GET "/caf%C3%A9" => named("cafe"),
        GET "/x%5B1%5D/{y}" => named("index"),
        GET "/{name}" => named("name"),
        GET "/{name}/z" => named("z"),
    });
    for (path, expected) in [
        ("/a%7Cb", "bar /a%7Cb"),
        ("/a|b", "308 /a%7Cb"),
        ("/a%7cb", "308 /a%7Cb"),
        ("/caf\u{e9}?q", "308 /caf%C3%A9?q"),
        ("/caf%c3%a9", "308 /caf%C3%A9"),
        ("/x[1]/z", "308 /x%5B1%5D/z"),
        ("/x[2]/z", "z /{name}/z name=x[2]"),
        ("/c|d", "name /{name} name=c|d"),
        ("/aaaaaaa\u{e9}", "name /{name} name=aaaaaaa\u{e9}"),
        ("/aaaaaaa\u{20ac}/z", "z /{name}/z name=aaaaaaa\u{20ac}"),
        ("/\"", "name /{name} name=\""),
    ] {
        assert_eq!(outcome(&service, "GET", "a", path), expected, "{path}");
    }
}

#[test]
fn nested_mounts_are_reached_by_one_spelling() {
    let inner = routes! {
        GET "/" => named("index"),
        GET "/{id}" => named("show"),
        GET "/secret" => named("secret"),
        any "*" => named("inner"),
    };
    let service = Server::new().service(routes! {
        mount "/t/{tenant}" => routes! {
            mount "/api" => routes! { mount "" => inner },
            GET "/{id}" => named("tenant"),
        },
        GET "/t/{tenant}/api/secret/{more}" => named("outer"),
    });
    for (path, expected) in [
        ("/t/x/api", "index /t/{tenant}/api/ tenant=x"),
        ("/t/x/api/", "index /t/{tenant}/api/ tenant=x"),
        ("/t/x/api/7", "show /t/{tenant}/api/{id} tenant=x id=7"),
        ("/t/x/api/secret", "secret /t/{tenant}/api/secret tenant=x"),
        ("/t/x/api/%73ecret", "308 /t/x/api/secret"),
        ("/t/x/api//secret", "308 /t/x/api/secret"),
        ("/t/x/%61pi/secret", "308 /t/x/api/secret"),
        ("/t/%78/api/secret", "secret /t/{tenant}/api/secret tenant=%78"),
        ("/t//x/api/secret", "308 /t/x/api/secret"),
        ("/t/./x/api/secret", "308 /t/x/api/secret"),
        ("/t/x/y/../api/secret", "308 /t/x/api/secret"),
        ("/t/x/api/.%2E/api/secret", "308 /t/x/api/secret"),
        ("/t/x/api/..%2Fsecret", "show /t/{tenant}/api/{id} tenant=x id=..%2Fsecret"),
        ("/t/x/api/%252e%252e", "show /t/{tenant}/api/{id} tenant=x id=%252e%252e"),
        ("/t/x/api/;/secret", "inner /t/{tenant}/api tenant=x"),
        ("/t/x/api;/secret", "404"),
        ("/t/x;y/api/secret", "secret /t/{tenant}/api/secret tenant=x;y"),
        ("/t/x/api/%00", "show /t/{tenant}/api/{id} tenant=x id=%00"),
        ("/t/x/api/%5Csecret", "show /t/{tenant}/api/{id} tenant=x id=%5Csecret"),
        ("/t/x/api/\\secret", "400"),
        ("/t/x", "404"),
        ("/t/x/y", "tenant /t/{tenant}/{id} tenant=x id=y"),
        ("/t/x/api/secret/more", "outer /t/{tenant}/api/secret/{more} tenant=x more=more"),
        ("/t//api/secret", "tenant /t/{tenant}/{id} tenant=api id=secret"),
    ] {
        let expected = expected.replace("tenant /t/{tenant}/{id} tenant=api id=secret", "308 /t/api/secret");
        assert_eq!(outcome(&service, "GET", "a", path), expected, "{path}");
    }
}

/// A redirect stays on the host: a target that begins with `//`, or with `/\`, would leave it.
#[test]
fn no_redirect_leads_to_another_host() {
    let router = || {
        routes! {
            GET "/{a}" => named("a"),
            GET "/{a}/b/" => named("b"),
            mount "/m" => routes! { GET "/{a}/" => named("m") }.redirect_slashes(true),
            mount "/all" => routes! { GET "/{*a}" => named("all"), GET "/x/y/" => named("y") },
        }
    };
    let service = Server::new().service(routes! { mount "" => router().redirect_slashes(true) });
    for path in [
        "//evil.example",
        "//evil.example/",
        "///evil.example/b",
        "/.//evil.example/b",
        "/..//evil.example",
        "//evil.example/x/../b",
        "/%2F/evil.example/../b",
        "//m/evil.example",
        "/m//evil.example",
        "/m/%2F%2Fevil.example",
        "/all//evil.example/%2e",
        "/all/x/y//../",
        "/./%5Cevil.example",
        "/./\\evil.example",
    ] {
        let found = outcome(&service, "GET", "a", path);
        let location = found.strip_prefix("308 ").unwrap_or("/");
        assert!(location.starts_with('/') && !location.starts_with("//"), "{path}: {found}");
        assert!(!location.contains('\\'), "{path}: {found}");
    }
}

#[test]
fn the_host_of_the_target_is_the_one_that_counts_rfc9112_3_2_2() {
    let service = Server::new().service(routes! {
        mount "{tenant}.example.com" => routes! {
            GET "/whoami" => named("tenant"),
            GET "admin.example.com/whoami" => named("admin"),
        },
        mount "/api" => routes! { GET "{tenant}.example.org/{id}" => named("org") },
        GET "/whoami" => named("any"),
    });
    for (host, path, expected) in [
        ("a.example.com", "/whoami", "tenant {tenant}.example.com/whoami tenant=a"),
        ("A.EXAMPLE.com.", "/whoami", "tenant {tenant}.example.com/whoami tenant=A"),
        ("a.example.com..", "/whoami", "any /whoami"),
        ("admin.example.com:443", "/whoami", "admin admin.example.com/whoami"),
        ("a.example.com", "http://admin.example.com./whoami", "admin admin.example.com/whoami"),
        ("admin.example.com", "http://b.example.com/whoami", "tenant {tenant}.example.com/whoami tenant=b"),
        ("a.example.com", "http://user@admin.example.com/whoami", "400"),
        ("a.example.com", "http://admin.example.com@b.example.com/whoami", "400"),
        ("a.example.org", "/api/7", "org {tenant}.example.org/api/{id} tenant=a id=7"),
        ("other", "/api/7", "404"),
        ("a.example.com", "/other", "404"),
        ("", "/whoami", "any /whoami"),
    ] {
        assert_eq!(outcome(&service, "GET", host, path), expected, "{host} {path}");
    }
    // A request of HTTP/1.0 need not have a host.
    let response = corehttp::block_on(service.respond(Request::get("/whoami").unwrap())).unwrap();
    assert_eq!(response.text(), Ok("any /whoami"));
}

#[test]
fn methods_that_are_special_elsewhere_match_as_documented() {
    let tunnel = |_: &Request| BodyPlan::Tunnel;
    let service = Server::new().service(routes! {
        GET "/a" => named("a"),
        HEAD "/b" => named("head"),
        POST "/b" => named("post"),
        OPTIONS "/c" => named("options"),
        any "/d" => wrap(middleware::plan(tunnel), named("tunnel")),
    });
    for (method, path, expected) in [
        ("HEAD", "/a", ""),
        ("HEAD", "/b", ""),
        ("GET", "/b", "405 HEAD, POST, OPTIONS"),
        ("OPTIONS", "/c", "options /c"),
        ("GET", "/c", "405 OPTIONS"),
        ("OPTIONS", "*", "204 "),
        ("OPTIONS", "/../a", "308 /a"),
        ("CONNECT", "a:443", "501"),
        ("OPTIONS", "/nowhere", "404"),
    ] {
        let host = if method == "CONNECT" { "a:443" } else { "a" };
        assert_eq!(outcome(&service, method, host, path), expected, "{method} {path}");
    }
}

/// Ten thousand routes, of which the first segments are equal, and paths of thousands of segments.
#[test]
fn large_tables_and_long_paths_are_matched() {
    let mut router = Router::new().get("/{*rest}", named("rest")).unwrap();
    for number in 0..10_000_u32 {
        // A binary tree of texts and parameters, in which a look-up has as many ways as there are patterns.
        let segment = |bit: u32| if number >> bit & 1 == 0 { "a".to_owned() } else { format!("{{p{bit}}}") };
        let segments: Vec<String> = (0..14).map(segment).collect();
        router = router.get(&format!("/{}/end", segments.join("/")), named("end")).unwrap();
    }
    let service = Server::new().service(router);
    let way = "/a".repeat(14);
    let found = outcome(&service, "GET", "a", &format!("{way}/end"));
    assert_eq!(found, format!("end {way}/end"));
    let found = outcome(&service, "GET", "a", &format!("{way}/none"));
    assert_eq!(found, format!("rest /{{*rest}} rest={}/none", &way[1..]));
    for (unit, normal) in [("a/", "a/"), ("/", ""), ("%61/", "a/"), ("./", ""), ("a/../", ""), ("|/", "%7C/")]
    {
        let path = format!("/{}", unit.repeat(12_000 / unit.len()));
        let found = outcome(&service, "GET", "a", &path);
        let redirected = format!("308 /{}", normal.repeat(12_000 / unit.len()));
        let as_sent = format!("rest /{{*rest}} rest={}", &path[1..]);
        assert!(found == redirected || found == as_sent, "{unit}: {found:.80}");
        assert_eq!(found == redirected, unit.contains('.'), "{unit}: {found:.80}");
    }
}

/// Two routers that are called in turns: neither is inside of the other.
#[test]
fn a_router_that_has_returned_is_none_around_the_next_one() {
    async fn first_or_next(first: &impl Handler, next: &impl Handler, ctx: &mut Context) -> corehttp::Result {
        match first.handle(ctx).await {
            Err(error) if error.status() == Status::NOT_FOUND => next.handle(ctx).await,
            outcome => outcome,
        }
    }
    let shared = Arc::new(Router::new().get("/x", named("shared")).unwrap());
    let first = routes! { mount "/api" => routes! { GET "/a" => named("first") } };
    let next = routes! {
        GET "/api/b" => named("next"),
        mount "/api/c" => Arc::clone(&shared),
        mount "/api/d" => routes! { mount "/d" => Arc::clone(&shared), GET "/x" => named("d") },
    };
    let again = Arc::clone(&shared);
    let fallback = async move |ctx: &mut Context, next: Next<'_>| first_or_next(&*again, &next, ctx).await;
    let service = Server::new().service(wrap(fallback, {
        let both = async move |ctx: &mut Context, next: Next<'_>| first_or_next(&first, &next, ctx).await;
        wrap(both, next)
    }));
    for (path, expected) in [
        ("/x", "shared /x"),
        ("/api/a", "first /api/a"),
        ("/api/b", "next /api/b"),
        ("/api/c/x", "shared /api/c/x"),
        ("/api/d/d/x", "shared /api/d/d/x"),
        ("/api/d/x", "d /api/d/x"),
        ("/api/e", "404"),
    ] {
        assert_eq!(outcome(&service, "GET", "a", path), expected, "{path}");
    }
}

/// Middleware between two routers sees the place where it is mounted, before and after the inner one has matched.
#[test]
fn middleware_sees_its_own_mount() {
    async fn noting(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        let before = ctx.request.mounted_path().to_owned();
        let outcome = next.handle(ctx).await;
        let Context { request, response, .. } = ctx;
        let pattern = request.matched_pattern().unwrap_or("none");
        response.set_text(format!("{before} {} {pattern}", request.mounted_path()));
        outcome
    }
    let inner = routes! { mount "/b" => routes! { GET "/c" => named("c") } };
    let service = Server::new().service(wrap(noting, routes! { mount "/a" => wrap(noting, inner) }));
    assert_eq!(outcome(&service, "GET", "a", "/a/b/c"), "/a/b/c /a/b/c /a/b/c");
    let inner = routes! { mount "/b" => routes! { GET "/c" => named("c") } };
    let service = Server::new().service(routes! { mount "/a" => wrap(noting, inner) });
    assert_eq!(outcome(&service, "GET", "a", "/a/b/c"), "/b/c /b/c /a/b/c");
}

/// A handler whose future is dropped at the end of a time limit can be called again.
#[test]
fn a_handler_that_was_dropped_can_be_called_again() {
    async fn retry(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        let limited = tokio::time::timeout(Duration::from_millis(1), next.handle(ctx)).await;
        match limited {
            Ok(outcome) => outcome,
            Err(_) => {
                ctx.request.headers.set("x-again", 1)?;
                next.handle(ctx).await
            }
        }
    }
    let slow = async |ctx: &mut Context| {
        if !ctx.request.headers.contains("x-again") {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        ctx.response.set_text(format!("{:?} {}", ctx.request.matched_pattern(), ctx.request.mounted_path()));
    };
    let inner = routes! { mount "/b" => routes! { GET "/{c}" => slow } };
    let service = Server::new().service(routes! { mount "/a" => wrap(retry, inner) });
    assert_eq!(outcome(&service, "GET", "a", "/a/b/c"), "Some(\"/a/b/{c}\") /c");
}

/// Middleware in a mount may change the method, as some clients request it by a field, or the target.
#[test]
fn a_changed_request_is_matched_at_the_same_mount() {
    async fn change(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        if let Some(method) = ctx.request.query().get("method") {
            let method = Method::parse(method.as_bytes())?;
            ctx.request.set_method(method);
        }
        let url = match ctx.request.query().get("to") {
            Some(to) => to.into_owned(),
            None => return next.handle(ctx).await,
        };
        ctx.request.set_url(&url)?;
        next.handle(ctx).await
    }
    let inner = routes! {
        GET "/x" => named("get"),
        DELETE "/x" => named("delete"),
        GET "/y/{z}" => named("y"),
        GET "/apis/x" => named("apis"),
    };
    let service = Server::new().service(routes! { mount "/api" => wrap(change, inner) });
    for (path, expected) in [
        ("/api/x", "get /api/x"),
        ("/api/x?method=DELETE", "delete /api/x"),
        ("/api/x?to=/api/y/7", "y /api/y/{z} z=7"),
        ("/api/x?to=/y/7", "y /y/{z} z=7"),
        ("/api/x?to=/apis/x", "apis /apis/x"),
        ("/api/x?to=/api", "404"),
    ] {
        assert_eq!(outcome(&service, "GET", "a", path), expected, "{path}");
    }
}

/// A handler may put another request in the place of its own, and pass a request on to another service.
#[test]
fn a_request_that_moves_leaves_its_routes_behind() {
    let other = routes! { mount "/api" => routes! { GET "/x" => named("other") }, GET "/x" => named("x") };
    let other = Server::new().service(other);
    let passes = async move |ctx: &mut Context| -> corehttp::Result {
        let request = ctx.request.clone();
        ctx.response = other.respond(request).await;
        Ok(())
    };
    let replaces = |ctx: &mut Context| -> corehttp::Result {
        let mut other = Request::get("/other")?;
        std::mem::swap(&mut ctx.request, &mut other);
        ctx.response.set_text(format!("{:?} {}", ctx.request.matched_pattern(), other.mounted_path()));
        Ok(())
    };
    let inner = routes! { GET "/x" => passes, GET "/y" => replaces };
    let service = Server::new().service(routes! { mount "/api" => routes! { mount "" => inner } });
    assert_eq!(outcome(&service, "GET", "a", "/api/x"), "other /api/x");
    assert_eq!(outcome(&service, "GET", "a", "/api/y"), "None /y");
}

/// A plan may be made twice, as a guard does that waits before it receives the body.
#[test]
fn a_plan_is_made_as_often_as_it_is_asked_for() {
    struct Twice<H>(H);
    impl<H: Handler> Handler for Twice<H> {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            let (first, second) = (self.0.on_head(ctx), self.0.on_head(ctx));
            assert_eq!(first, second);
            second
        }

        async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
            assert_eq!(self.0.on_head(ctx), BodyPlan::Stream);
            self.0.handle(ctx).await
        }
    }
    let inner = Router::new().mount("/b", wrap(BodyPlan::Stream, named("c"))).unwrap();
    let inner = Twice(wrap(call, inner));
    let service = Server::new().service(Twice(routes! { mount "/a" => inner.into_handler() }));
    assert_eq!(outcome(&service, "GET", "a", "/a/b/c"), "c /a/b/{*rest} rest=c");
}

async fn call(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    next.handle(ctx).await
}

/// A parameter of an inner router hides one of the same name around it, so that a handler reads its own.
#[test]
fn an_inner_parameter_hides_an_outer_one() {
    let show = |ctx: &mut Context| -> corehttp::Result {
        let id: u32 = ctx.params().get_as("id")?;
        ctx.response.set_text(id.to_string());
        Ok(())
    };
    let service =
        Server::new().service(routes! { mount "/users/{id}" => routes! { GET "/notes/{id}" => show } });
    assert_eq!(outcome(&service, "GET", "a", "/users/7/notes/8"), "8");
}

//! Middleware: in which order it is called, and what it sees of requests that are refused beneath it.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::middleware::{
    Middleware, Next, RequestId, defer_body, guard, handle_deferred, limits, plan, timeouts, wrap,
};
use corehttp::{
    BodyPlan, BoxHandler, Context, Error, Handler, IntoHandler, Limits, Request, Router, Server, Status,
    Timeouts, routes,
};
use tokio::time::sleep;

use crate::support::wired::{Then, Wired};
use crate::support::{ErrorReports, Served, get, status, streaming};

/// Notes its name on the way in, and on the way out with the status.
#[derive(Clone)]
struct Noted(&'static str);

impl Middleware for Noted {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> corehttp::Result {
        ctx.response.headers.append("x-in", self.0)?;
        let outcome = next.handle(ctx).await;
        let status = outcome.as_ref().err().map_or(ctx.response.status, Error::status);
        ctx.response.headers.append("x-out", format!("{}{}", self.0, status.as_u16()))?;
        outcome
    }
}

/// The same, as a function.
async fn noted(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    Noted("f").call(ctx, &next).await
}

/// The values of all `x-in` and `x-out`, in order.
fn notes(received: &str) -> String {
    let values =
        received.lines().filter_map(|line| line.strip_prefix("x-in: ").or(line.strip_prefix("x-out: ")));
    values.collect::<Vec<_>>().join(" ")
}

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

async fn waits(ctx: &mut Context) -> corehttp::Result {
    sleep(Duration::from_millis(1)).await;
    hello(ctx);
    Ok(())
}

#[track_caller]
fn check_notes(handler: impl Handler + Send + Sync + 'static, path: &str, expected: &str) {
    assert_eq!(notes(&Served::new(handler).ask(get(path))), expected, "{path}");
}

#[test]
fn requests_pass_in_the_order_of_the_list() {
    let all = "a b f f200 b200 a200";
    check_notes(wrap((Noted("a"), Noted("b"), noted), hello), "/", all);
    check_notes(wrap((Noted("a"), Noted("b"), noted), waits), "/", all);
    check_notes(wrap((Noted("a"), (Noted("b"), noted)), hello), "/", all);
    check_notes(wrap(Noted("a"), wrap((Noted("b"), noted), waits).boxed()), "/", all);
    check_notes(wrap((Noted("a"),), wrap((), wrap(BodyPlan::Stream, hello))), "/", "a a200");
    let captured = Arc::new(Noted("c"));
    let closure = async move |ctx: &mut Context, next: Next<'_>| captured.call(ctx, &next).await;
    check_notes(wrap((closure, noted), hello), "/", "c f f200 c200");
}

#[test]
fn a_group_of_routes_is_wrapped_and_the_others_are_not() {
    let router = || {
        routes! {
            GET "/" => hello,
            wrap (Noted("a"), noted) => {
                GET "/a" => waits,
                wrap Noted("b") => { GET "/b" => hello },
                wrap BodyPlan::Stream => {},
                GET "/c/{name}" => |ctx: &mut Context| {
                    let name = ctx.params().get("name").unwrap().into_owned();
                    ctx.response.set_text(name);
                },
                GET "/d" => hello, GET "/e" => hello, GET "/f" => hello, GET "/g" => hello, mount "/h" => routes! {
                    wrap Noted("h") => { GET "/" => hello }
                },
            },
            any "*" => hello,
        }
    };
    for (path, expected) in [
        ("/", ""),
        ("/a", "a f f200 a200"),
        ("/b", "a f b b200 f200 a200"),
        ("/c/x", "a f f200 a200"),
        ("/g", "a f f200 a200"),
        ("/h", "a f h h200 f200 a200"),
        ("/none", ""),
    ] {
        check_notes(router(), path, expected);
    }
    let received = Served::new(router()).ask(get("/c/Ada"));
    assert!(received.ends_with("Ada"), "{received}");
    assert_eq!(router().to_string().lines().count(), 10);
}

#[test]
fn the_routes_that_a_router_has_are_wrapped() {
    let router = Router::new().get("/a", waits).unwrap().wrap((Noted("a"), noted)).get("/b", hello).unwrap();
    let served = Served::new(router);
    for (path, expected) in [("/a", "a f f200 a200"), ("/b", ""), ("/none", "")] {
        assert_eq!(notes(&served.ask(get(path))), expected);
    }
}

/// Each further layer is a type in the type of the one around it, and no more than that.
#[test]
fn twenty_layers_compile() {
    let many = || {
        (
            Noted("a"),
            noted,
            Noted("b"),
            Noted("c"),
            noted,
            Noted("d"),
            Noted("e"),
            Noted("f"),
            noted,
            Noted("g"),
        )
    };
    let received = Served::new(wrap((many(), many()), waits)).ask(get("/"));
    assert_eq!(notes(&received).split(' ').count(), 40, "{received}");
    const fn types(_: &(impl Handler, impl Handler)) {}
    types(&(wrap((Noted("a"), Noted("b")), hello), wrap((many(), many()), waits)));
    let a = || Noted("a");
    let ten = || (a(), a(), a(), a(), a(), a(), a(), a(), a(), a());
    let twenty = wrap(ten(), wrap(ten(), waits));
    assert_eq!(notes(&Served::new(twenty).ask(get("/"))).split(' ').count(), 40);
}

mod refusals {
    use super::*;

    const LARGE: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n123456789";
    const CHUNKS: &str =
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n";
    const MALFORMED: &str =
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n";
    const SMALL: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx";
    const CONNECT: &str = "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n";

    /// A handler that is called only where a request is not refused.
    fn uncalled(_: &mut Context) {
        panic!("a refused request has reached its handler");
    }

    /// Checks the notes of middleware around a handler, however it is put there, and what is reported.
    #[track_caller]
    fn check<H>(make: impl Fn() -> H, wire: &str, expected: u16, report: Option<&str>)
    where
        H: Handler + Send + Sync + 'static,
    {
        let outer = || (Noted("a"), noted, Noted("b"));
        let all = format!("a f b b{expected} f{expected} a{expected}");
        let routed = Router::new().any("/", make()).unwrap().any("*", make()).unwrap().wrap(outer());
        check_one(wrap(outer(), make()), wire, &all, expected, report);
        check_one(wrap(outer(), make().boxed()), wire, &all, expected, report);
        check_one(Arc::new(wrap(outer(), make())), wire, &all, expected, report);
        check_one(wrap(Noted("a"), wrap((noted, Noted("b")), make()).boxed()), wire, &all, expected, report);
        check_one(
            wrap(outer(), routes! { any "/" => make(), any "*" => make() }),
            wire,
            &all,
            expected,
            report,
        );
        check_one(
            routes! { wrap outer() => { any "/" => make(), any "*" => make() } },
            wire,
            &all,
            expected,
            report,
        );
        check_one(
            wrap(Noted("a"), routes! { wrap (noted, Noted("b")) => { any "*" => make() } }),
            wire,
            &all,
            expected,
            report,
        );
        check_one(routed, wire, &all, expected, report);
    }

    #[track_caller]
    fn check_one(
        handler: impl Handler + Send + Sync + 'static,
        wire: &str,
        expected_notes: &str,
        expected: u16,
        report: Option<&str>,
    ) {
        let reports = ErrorReports::default();
        let served = Served::with(|server| reports.attach(server), handler);
        let received = served.ask(wire);
        assert_eq!((status(&received), &*notes(&received)), (expected, expected_notes), "{received}");
        assert_eq!(received.matches("HTTP/1.1 ").count(), 1, "{received}");
        let reports = reports.take();
        assert_eq!(reports.len(), usize::from(report.is_some()), "{reports:?}");
        assert!(report.is_none_or(|report| reports[0].1.contains(report)), "{reports:?}");
    }

    #[test]
    fn a_body_that_cannot_be_received_is_an_error_for_middleware_rfc9110_15_5_14() {
        let bounded = || wrap(limits(|limits| limits.body_max = 8), uncalled);
        check(bounded, LARGE, 413, Some("at most 8 are allowed"));
        check(bounded, CHUNKS, 413, Some("more than 8 bytes"));
        check(bounded, MALFORMED, 400, Some(""));
        check(|| wrap(BodyPlan::BufferUpTo(8), uncalled), LARGE, 413, Some("at most 8 are allowed"));
    }

    #[test]
    fn a_plan_that_refuses_is_an_error_for_middleware() {
        let planned = || wrap(BodyPlan::Refuse(Status::LOCKED), uncalled);
        check(planned, SMALL, 423, Some("by its head"));
        check(planned, LARGE, 423, Some("by its head"));
        let by_type = || wrap(plan(|_| BodyPlan::Refuse(Status::LOCKED)), uncalled);
        check(by_type, SMALL, 423, Some("by its head"));
        let refuses =
            || wrap(guard(|_: &mut Context| Err(Error::new(Status::FORBIDDEN, "not today"))), uncalled);
        check(refuses, SMALL, 403, Some("not today"));
        check(refuses, &get("/"), 403, Some("not today"));
        check(|| wrap(guard(|_: &mut Context| Err(Status::FORBIDDEN.into())), uncalled), SMALL, 403, None);
        check(|| uncalled.into_handler(), CONNECT, 501, Some("by its head"));
    }

    #[test]
    fn a_panic_is_an_error_for_middleware() {
        let at_once =
            || (|_: &mut Context| -> () { resume_unwind(Box::new("without a trace")) }).into_handler();
        check(at_once, &get("/"), 500, Some("the handler panicked"));
        let later = || {
            (async |_: &mut Context| {
                sleep(Duration::from_millis(1)).await;
                if true {
                    resume_unwind(Box::new("without a trace"));
                }
            })
            .into_handler()
        };
        check(later, &get("/"), 500, Some("the handler panicked"));
    }

    fn panics() -> corehttp::Result {
        resume_unwind(Box::new("without a trace"))
    }

    /// As a panic of the handler is.
    #[test]
    fn a_panic_of_middleware_is_an_error_for_that_around_it() {
        let at_call = || wrap(async |_: &mut Context, _: Next<'_>| panics(), uncalled);
        let check_panics = || wrap(guard(|_: &mut Context| panics()), uncalled);
        let late_check_panics = || wrap(guard(async |_: &mut Context| panics()), uncalled);
        let plan_panics =
            || wrap(plan(|_| panics().map_or(BodyPlan::Buffer, |()| BodyPlan::Stream)), uncalled);
        for wire in [SMALL, &get("/")] {
            check(at_call, wire, 500, Some("the handler panicked"));
            check(check_panics, wire, 500, Some("the handler panicked"));
            check(late_check_panics, wire, 500, Some("the handler panicked"));
            check(plan_panics, wire, 500, Some("the handler panicked"));
        }
        // While a refusal passes it.
        let at_refusal = || wrap((then_panics, limits(|limits| limits.body_max = 8)), uncalled);
        check(at_refusal, LARGE, 500, Some("the handler panicked"));
    }

    async fn then_panics(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
        let _ = next.handle(ctx).await;
        panics()
    }

    #[test]
    fn the_end_of_the_time_limit_is_an_error_for_middleware() {
        let stuck = || {
            let limit = timeouts(|timeouts| timeouts.handler = Some(Duration::from_millis(20)));
            wrap(limit, async |_: &mut Context| pending::<()>().await)
        };
        check(stuck, &get("/"), 503, Some("handler"));
        let limit = || timeouts(|timeouts| timeouts.handler = Some(Duration::from_millis(20)));
        let check_is_stuck = || wrap((limit(), guard(async |_: &mut Context| pending().await)), uncalled);
        check(check_is_stuck, &get("/"), 503, Some("handler"));
    }

    /// Middleware has as long again as the handler to finish, and not longer.
    #[test]
    fn middleware_finishes_after_the_time_limit_and_is_ended_then() {
        let limit = || timeouts(|timeouts| timeouts.handler = Some(Duration::from_millis(200)));
        let app = |after: Duration| {
            let finishes = async move |ctx: &mut Context, next: Next<'_>| {
                let outcome = next.handle(ctx).await;
                sleep(after).await;
                outcome
            };
            Served::new(wrap((Noted("a"), finishes, limit()), async |_: &mut Context| pending::<()>().await))
        };
        let received = app(Duration::from_millis(10)).ask(get("/"));
        assert_eq!((status(&received), &*notes(&received)), (503, "a a503"), "{received}");
        let received = app(Duration::from_secs(60)).ask(get("/"));
        // The one that waits is ended like a handler, with what is around it.
        assert_eq!((status(&received), &*notes(&received)), (503, "a"), "{received}");
    }

    /// Only middleware around the one that has refused a request by its head sees the request.
    #[test]
    fn what_is_beneath_a_guard_sees_nothing() {
        let refuses = || {
            guard(|ctx: &mut Context| match ctx.request.headers.contains("x-let-in") {
                true => Ok(()),
                false => Err(Status::UNAUTHORIZED.into()),
            })
        };
        for served in [
            Served::new(wrap((Noted("a"), refuses(), Noted("b")), hello)),
            Served::new(wrap(
                (Noted("a"), refuses(), Noted("b")),
                wrap(BodyPlan::Refuse(Status::LOCKED), hello),
            )),
            Served::new(
                routes! { wrap Noted("a") => { wrap (refuses(), Noted("b")) => { any "/" => hello } } },
            ),
            Served::new(wrap(Noted("a"), wrap((refuses(), Noted("b")), hello).boxed())),
        ] {
            for wire in [SMALL, LARGE, &get("/")] {
                let received = served.ask(wire);
                assert_eq!((status(&received), &*notes(&received)), (401, "a a401"), "{received}");
            }
        }
        let let_in = "POST / HTTP/1.1\r\nhost: a\r\nx-let-in: 1\r\ncontent-length: 1\r\n\r\nx";
        let received = Served::new(wrap((Noted("a"), refuses(), Noted("b")), hello)).ask(let_in);
        assert_eq!(notes(&received), "a b b200 a200");
        let locked = wrap(BodyPlan::Refuse(Status::LOCKED), hello);
        let received = Served::new(wrap((Noted("a"), refuses(), Noted("b")), locked)).ask(let_in);
        assert_eq!(notes(&received), "a b b423 a423");
    }

    #[test]
    fn a_refusal_waits_for_no_permit() {
        let entered = std::sync::Arc::new(tokio::sync::Notify::new());
        let limit = corehttp::middleware::ConcurrencyLimit::new(1).wait(Duration::from_secs(600));
        let enters = {
            let entered = entered.clone();
            async move |_: &mut Context| {
                entered.notify_one();
                pending::<()>().await
            }
        };
        let refuses = guard(|ctx: &mut Context| match ctx.request.headers.contains("x-let-in") {
            true => Ok(()),
            false => Err(Status::UNAUTHORIZED.into()),
        });
        let served = Served::new(wrap((limit, limits(|limits| limits.body_max = 8), refuses), enters));
        let mut holder = served.connect();
        holder.send("GET / HTTP/1.1\r\nhost: a\r\nx-let-in: 1\r\n\r\n");
        corehttp::block_on(entered.notified()).unwrap();
        assert_eq!(status(&served.ask(SMALL)), 401);
        assert_eq!(status(&served.ask(LARGE)), 401);
        assert_eq!(status(&served.ask(LARGE.replace("host", "x-let-in: 1\r\nhost"))), 413);
    }

    /// A check that waits refuses before the body is received, and what is beneath has the body as its plan says.
    #[test]
    fn a_guard_that_waits_receives_no_body_in_vain() {
        async fn checks(ctx: &mut Context) -> corehttp::Result {
            sleep(Duration::from_millis(1)).await;
            match ctx.request.headers.contains("x-let-in") {
                true => Ok(()),
                false => Err(Status::UNAUTHORIZED.into()),
            }
        }
        let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
        let guarded = || wrap((Noted("a"), guard(checks), Noted("b")), echo);
        let large =
            || wrap((Noted("a"), guard(checks), Noted("b"), limits(|limits| limits.body_max = 4)), echo);
        let locked =
            || wrap((Noted("a"), guard(checks), Noted("b")), wrap(BodyPlan::Refuse(Status::LOCKED), echo));
        let streamed = || {
            wrap((Noted("a"), guard(checks), Noted("b"), BodyPlan::Stream), async |ctx: &mut Context| {
                assert!(ctx.request.body.is_empty(), "the plan is to stream it");
                ctx.buffer_body().await?;
                std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
                Ok(())
            })
        };
        let group = || routes! { wrap (Noted("a"), guard(checks), Noted("b")) => { any "/" => echo } };
        let sized = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
        let chunked =
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        let expects = sized.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
        let head = expects.strip_suffix("hello").unwrap();
        for (served, status_in, notes_in) in [
            (Served::new(guarded()), 200, "a b b200 a200"),
            (Served::new(group()), 200, "a b b200 a200"),
            (Served::new(streamed()), 200, "a b b200 a200"),
            (Served::new(large()), 413, "a b b413 a413"),
            (Served::new(locked()), 423, "a b b423 a423"),
        ] {
            for wire in [sized, chunked, head, &get("/")] {
                let received = served.ask(wire);
                assert_eq!((status(&received), &*notes(&received)), (401, "a a401"), "{wire} {received}");
            }
            for wire in [sized, chunked] {
                let received = served.ask(wire.replace("host", "x-let-in: 1\r\nhost"));
                assert_eq!(
                    (status(&received), &*notes(&received)),
                    (status_in, notes_in),
                    "{wire} {received}"
                );
                assert_eq!(received.ends_with("\r\n\r\nhello"), status_in == 200, "{received}");
            }
        }
    }

    /// The user whom a guard has found.
    struct User;

    async fn finds_the_user(ctx: &mut Context) -> corehttp::Result {
        sleep(Duration::from_millis(1)).await;
        ctx.extensions.insert(User);
        Ok(())
    }

    /// As `guard(finds_the_user)`, by hand.
    #[derive(Clone)]
    struct FindsTheUser;

    impl Middleware for FindsTheUser {
        fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
            defer_body(ctx, next)
        }

        async fn call(&self, ctx: &mut Context, next: &impl Handler) -> corehttp::Result {
            finds_the_user(ctx).await?;
            handle_deferred(ctx, next).await
        }
    }

    /// Refuses users by the head, as a handler and as middleware.
    #[derive(Clone)]
    struct KeepsUsersOut;

    impl Handler for KeepsUsersOut {
        fn on_head(&self, ctx: &mut Context) -> BodyPlan {
            match ctx.extensions.get() {
                Some(User) => BodyPlan::Refuse(Status::FORBIDDEN),
                None => BodyPlan::Buffer,
            }
        }

        async fn handle(&self, _: &mut Context) -> corehttp::Result {
            unreachable!("a refused request reaches no handler")
        }
    }

    impl Middleware for KeepsUsersOut {
        fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
            match ctx.extensions.get() {
                Some(User) => ctx.refuse(Error::new(Status::FORBIDDEN, "no users")),
                None => next.on_head(ctx),
            }
        }

        async fn call(&self, _: &mut Context, _: &impl Handler) -> corehttp::Result {
            unreachable!("a refused request is not passed on")
        }
    }

    /// A handler beneath a guard that waits makes another plan once it has let the request pass.
    #[test]
    fn a_plan_may_refuse_by_what_a_guard_has_learned() {
        let found = || guard(finds_the_user);
        let moves = async |ctx: &mut Context, next: Next<'_>| {
            ctx.extensions.insert(User);
            ctx.request.set_url("/late")?;
            next.handle(ctx).await
        };
        for served in [
            Served::new(wrap((Noted("a"), found(), Noted("b")), KeepsUsersOut)),
            Served::new(wrap((Noted("a"), FindsTheUser, Noted("b")), KeepsUsersOut)),
            Served::new(wrap((Noted("a"), found(), Noted("b"), KeepsUsersOut, Noted("c")), uncalled)),
            Served::new(wrap((Noted("a"), FindsTheUser, Noted("b")), wrap(KeepsUsersOut, uncalled).boxed())),
            Served::new(wrap(
                (Noted("a"), found()),
                routes! { wrap Noted("b") => { any "/" => KeepsUsersOut } },
            )),
            Served::new(
                routes! { wrap (Noted("a"), FindsTheUser, Noted("b"), KeepsUsersOut) => { any "/" => uncalled } },
            ),
            Served::new(wrap(
                (Noted("a"), moves),
                routes! { any "/late" => wrap((Noted("b"), KeepsUsersOut), uncalled) },
            )),
        ] {
            let post = "POST / HTTP/1.1\r\nhost: a\r\n";
            let sized = format!("{post}content-length: 2\r\n\r\nhi");
            let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
            for wire in [&sized, &chunked, &get("/")] {
                let received = served.ask(wire);
                let expected = (403, "a b b403 a403");
                assert_eq!((status(&received), &*notes(&received)), expected, "{wire} {received}");
            }
        }
    }

    /// A guard that waits has the plan made twice, and each function of `limits` counts once.
    #[test]
    fn bounds_are_changed_once_beneath_guards_that_wait() {
        let tell = |ctx: &mut Context| {
            let text = format!("{} {:?}", ctx.limits().body_max, ctx.timeouts().body);
            ctx.response.set_text(text);
        };
        let doubled = || (limits(|limits| limits.body_max *= 2), timeouts(|timeouts| timeouts.body *= 2));
        let found = || guard(finds_the_user);
        // The limits of a guard's own are those that are changed.
        let generous = guard(async |ctx: &mut Context| -> corehttp::Result {
            ctx.set_limits(Limits { body_max: 50, ..ctx.limits() });
            Ok(())
        });
        let moves = guard(async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.request.set_url("/b")?) });
        for (app, expected) in [
            (BoxHandler::new(wrap(doubled(), tell)), "20 2s"),
            (BoxHandler::new(wrap((found(), doubled()), tell)), "20 2s"),
            (BoxHandler::new(wrap((FindsTheUser, found(), doubled()), tell)), "20 2s"),
            (BoxHandler::new(wrap((found(), doubled(), found(), doubled()), tell)), "40 4s"),
            (BoxHandler::new(wrap((doubled(), found(), doubled(), found()), tell)), "40 4s"),
            (BoxHandler::new(routes! { wrap found() => { wrap doubled() => { any "/" => tell } } }), "20 2s"),
            (BoxHandler::new(wrap((generous, doubled()), tell)), "100 2s"),
            // Another route is planned for, and the bounds of the first one are none of its own.
            (
                BoxHandler::new(wrap(moves, routes! { any "/" => wrap(doubled(), tell), any "/b" => tell })),
                "10 1s",
            ),
        ] {
            let server = Server::new()
                .limits(Limits { body_max: 10, ..Limits::default() })
                .timeouts(Timeouts { body: Duration::from_secs(1), ..Timeouts::default() });
            let mut request = Request::post("/").unwrap();
            request.set_text("hi");
            let response = corehttp::block_on(server.service(app).respond(request)).unwrap();
            assert_eq!(response.text(), Ok(expected));
        }
    }

    /// Bodies of requests that are no CONNECT are buffered by that plan as well.
    #[test]
    fn a_plan_for_a_tunnel_is_followed_late() {
        let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
        let late = async |ctx: &mut Context, next: Next<'_>| {
            ctx.request.set_url("/late")?;
            next.handle(ctx).await
        };
        let tunnel = || wrap(BodyPlan::Tunnel, echo);
        let wire = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";
        for served in [
            Served::new(wrap(guard(finds_the_user), tunnel())),
            Served::new(wrap(late, routes! { any "/late" => tunnel() })),
        ] {
            assert!(served.ask(wire).ends_with("\r\n\r\nhi"));
        }
    }

    /// A handler that buffers the body, again and again, although that fails.
    async fn insists(ctx: &mut Context) {
        for _ in 0..2 {
            ctx.buffer_body().await.unwrap_err();
            assert_eq!(ctx.request.body.bytes(), b"");
        }
        ctx.decode_body().await.unwrap_err();
        let mut reader = ctx.body_reader();
        while let Ok(chunk) = reader.chunk().await {
            assert_eq!(chunk.expect("the end is not reached"), b"");
        }
    }

    #[test]
    fn a_part_of_a_body_does_not_pass_for_the_whole_rfc9112_8() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let texts = seen.clone();
        let sees = async move |ctx: &mut Context, next: Next<'_>| {
            let outcome = next.handle(ctx).await;
            texts.lock().unwrap().push(ctx.request.text().unwrap_or_default().to_owned());
            outcome
        };
        let late = async |ctx: &mut Context, next: Next<'_>| {
            ctx.request.set_url("/late")?;
            next.handle(ctx).await
        };
        let bounded = || limits(|limits| limits.body_max = 8);
        let app = routes! {
            POST "/guarded" => wrap((sees.clone(), guard(finds_the_user), bounded()), uncalled),
            POST "/by-hand" => wrap((sees.clone(), FindsTheUser, bounded()), uncalled),
            POST "/moved" => wrap((sees.clone(), late, bounded()), routes! { any "/late" => uncalled }),
            POST "/ignored" => wrap((sees.clone(), bounded(), BodyPlan::Stream), insists),
            POST "/planned" => wrap((sees, bounded()), uncalled),
        };
        let wired = Wired::new(app);
        for path in ["guarded", "by-hand", "moved", "ignored", "planned"] {
            for (body, then) in [
                ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\n", Then::Waits),
                ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", Then::Ends),
                ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", Then::Waits),
                ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nhost: a\r\n\r\n", Then::Waits),
                ("transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n", Then::Waits),
                ("content-length: 8\r\n\r\nhello", Then::Ends),
                ("content-length: 8\r\n\r\nhello", Then::Waits),
            ] {
                let wire = format!("POST /{path} HTTP/1.1\r\nhost: a\r\n{body}");
                wired.ask_cut(&wire, then);
                let texts = std::mem::take(&mut *seen.lock().unwrap());
                assert!(texts.iter().all(String::is_empty), "{wire:?} {then:?} {texts:?}");
                assert!(!texts.is_empty(), "{wire:?}");
            }
        }
    }

    #[test]
    fn a_body_that_was_discarded_is_not_received_in_part() {
        let answers_first = async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"answered").await?;
            out.finish().await?;
            let received = ctx.buffer_body().await;
            assert!(ctx.request.body.is_empty() || received.is_ok() && ctx.request.body.bytes() == b"hello");
            Ok(())
        };
        let wired = Wired::new(wrap(BodyPlan::Stream, answers_first));
        wired.ask_cut("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", Then::Ends);
    }

    /// A guard holds where a handler between does not pass the head on.
    #[test]
    fn a_guard_refuses_without_the_head() {
        let guarded = wrap(guard(|_: &mut Context| Err(Status::UNAUTHORIZED.into())), uncalled);
        let holds = async move |ctx: &mut Context| guarded.handle(ctx).await;
        assert_eq!(status(&Served::new(streaming(holds)).ask(SMALL)), 401);
    }

    #[test]
    fn middleware_may_answer_in_place_of_a_refusal() {
        let explains = async |ctx: &mut Context, next: Next<'_>| match next.handle(ctx).await {
            Err(error) => {
                assert!(ctx.request.body.is_empty(), "no part of a body is taken for the whole");
                ctx.response.status = error.status();
                ctx.response.set_text("explained");
                Ok(())
            }
            Ok(()) => Ok(()),
        };
        let panics = |_: &mut Context| -> () { resume_unwind(Box::new("without a trace")) };
        let reports = ErrorReports::default();
        let small = wrap(limits(|limits| limits.body_max = 8), uncalled);
        let served = Served::with(
            |server| reports.attach(server),
            wrap(
                explains,
                routes! {
                    POST "/" => small,
                    GET "/" => panics,
                    PUT "/" => wrap(BodyPlan::Refuse(Status::LOCKED), uncalled),
                },
            ),
        );
        let put = "PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx";
        for (wire, expected) in [(LARGE, 413), (MALFORMED, 400), (&get("/"), 500), (put, 423)] {
            let received = served.ask(wire);
            assert!(status(&received) == expected && received.ends_with("explained"), "{received}");
        }
        assert!(reports.take().is_empty());
        // A request whose body was not received is the last one of its connection.
        let received = served.ask(format!("{LARGE}{}", get("/")));
        assert!(
            received.contains("connection: close\r\n") && received.matches("explained").count() == 1,
            "{received}"
        );
        let received = served.ask(format!("{put}{put}"));
        assert_eq!(received.matches("explained").count(), 2, "{received}");
    }

    #[test]
    fn a_service_refuses_as_a_server_does() {
        let service = Server::new().service(wrap(
            (Noted("a"), limits(|limits| limits.body_max = 8)),
            routes! { POST "/" => uncalled, PUT "/" => wrap(BodyPlan::Refuse(Status::LOCKED), uncalled) },
        ));
        for (method, body, expected) in [("POST", "123456789", 413), ("PUT", "1", 423)] {
            let mut request = Request::new(method, "/").unwrap();
            request.set_text(body);
            let response = corehttp::block_on(service.respond(request)).unwrap();
            assert_eq!(response.status.as_u16(), expected);
            assert_eq!(response.headers.get("x-in"), Some("a"));
        }
    }

    /// The route that is noted for logs, of a request that is refused by its head, is no plan.
    #[test]
    fn a_request_that_is_let_in_after_all_has_its_body() {
        #[derive(Clone)]
        struct LetsIn;

        impl Middleware for LetsIn {
            fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
                match next.on_head(ctx) {
                    BodyPlan::Refuse(_) => BodyPlan::Stream,
                    plan => plan,
                }
            }

            async fn call(&self, ctx: &mut Context, next: &impl Handler) -> corehttp::Result {
                ctx.request.headers.set("x-let-in", "1")?;
                next.handle(ctx).await
            }
        }

        let refuses = guard(|ctx: &mut Context| match ctx.request.headers.contains("x-let-in") {
            true => Ok(()),
            false => Err(Status::UNAUTHORIZED.into()),
        });
        let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
        let inner = routes! { POST "/b/{c}" => echo };
        let app = wrap(LetsIn, routes! { mount "/a" => wrap(refuses, inner) });
        let wire = "POST /a/b/c HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello";
        let received = Served::new(app).ask(wire);
        assert!(status(&received) == 200 && received.ends_with("\r\n\r\nhello"), "{received}");
    }

    /// The plan of a route that only `handle` finds is made late, and its refusals pass as well.
    #[test]
    fn a_route_that_is_found_late_refuses_through_its_group() {
        #[derive(Clone)]
        struct Rewrites;

        impl Middleware for Rewrites {
            fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
                defer_body(ctx, next)
            }

            async fn call(&self, ctx: &mut Context, next: &impl Handler) -> corehttp::Result {
                ctx.request.set_url("/late")?;
                next.handle(ctx).await
            }
        }

        let router = || {
            routes! {
                any "/" => hello,
                wrap Noted("a") => {
                    POST "/late" => wrap(limits(|limits| limits.body_max = 8), uncalled),
                    PUT "/late" => wrap(BodyPlan::Refuse(Status::LOCKED), uncalled),
                },
            }
        };
        let served = Served::new(wrap(Rewrites, router()));
        for (wire, expected) in [(LARGE, "a a413"), (&*LARGE.replace("POST", "PUT"), "a a423")] {
            let received = served.ask(wire);
            assert_eq!(notes(&received), expected, "{received}");
        }
    }

    /// A log that is middleware, also one behind a pointer, sees each request once.
    #[test]
    fn a_log_has_one_line_for_each_request() {
        let lines: Arc<Mutex<Vec<u16>>> = Arc::default();
        let written = lines.clone();
        let log = async move |ctx: &mut Context, next: Next<'_>| {
            let outcome = next.handle(ctx).await;
            let status = outcome.as_ref().err().map_or(ctx.response.status, Error::status);
            written.lock().unwrap().push(status.as_u16());
            outcome
        };
        let app = routes! { GET "/" => hello, POST "/" => wrap(BodyPlan::BufferUpTo(8), hello) };
        let served = Served::new(wrap(log, BoxHandler::new(app)));
        for wire in [&get("/"), LARGE, SMALL, &get("/none")] {
            served.ask(wire);
        }
        assert_eq!(*lines.lock().unwrap(), [200, 413, 200, 404]);
    }
}

/// A gateway and the server behind it both give ids, and a response has the one of the gateway.
#[test]
fn a_forwarded_response_has_one_id() {
    let listener = corehttp::net::MemoryListener::new();
    let hi = |ctx: &mut Context| ctx.response.set_text("hi");
    let behind = Server::bind(&listener).cores(1).start(wrap(RequestId::new(), hi)).unwrap();
    let host = corehttp::Client::builder().connect_to(&listener).build().host("http://behind").unwrap();
    let pass = async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to("/")?;
        ctx.forward(host.open_call(&onward)).await
    };
    let service = Server::new().service(wrap(RequestId::new(), pass));
    let response = corehttp::block_on(service.respond(Request::get("/").unwrap())).unwrap();
    assert_eq!(response.text(), Ok("hi"));
    assert_eq!(response.headers.all("x-request-id").count(), 1);
    behind.stop(Duration::ZERO);
}

//! Whose plan for a body counts when several are made for one request: the outermost, unless one beneath it refuses.

use std::sync::Arc;
use std::time::Duration;

use corehttp::middleware::{Next, guard, limits, plan, timeouts, wrap};
use corehttp::{BodyPlan, Context, Error, Handler, Limits, Status, Timeouts, routes};
use tokio::time::sleep;

use crate::support::{Served, get, status};

/// A body larger than [`BODY_MAX`], which is answered with 413 if it is buffered, and with 200 if it is not.
const LARGE: &str = "content-length: 10\r\n\r\n0123456789";

const BODY_MAX: usize = 4;

fn tells(ctx: &mut Context) {
    let text = format!("{} {:?}", ctx.limits().body_max, ctx.timeouts().handler);
    ctx.response.set_text(text);
}

async fn passes(_: &mut Context) -> corehttp::Result {
    sleep(Duration::from_millis(1)).await;
    Ok(())
}

async fn moves(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    let path = ctx.request.path().replace("first", "second");
    ctx.request.set_url(&path)?;
    next.handle(ctx).await
}

fn serve(app: impl Handler + Send + Sync + 'static) -> Served {
    let limits = Limits { body_max: BODY_MAX, ..Limits::default() };
    Served::with(|server| server.limits(limits), app)
}

#[test]
fn the_outermost_plan_counts() {
    let stream = || BodyPlan::Stream;
    let buffer = || plan(|_| BodyPlan::Buffer);
    let waits = || guard(passes);
    let any = || routes! { any "/{name}" => tells };
    let first_streams = || routes! { any "/first" => wrap(BodyPlan::Stream, tells), any "/second" => tells };
    let second_streams = || routes! { any "/first" => tells, any "/second" => wrap(BodyPlan::Stream, tells) };
    let inner = Arc::new(second_streams());
    let chooses = async move |ctx: &mut Context| -> corehttp::Result { inner.handle(ctx).await };
    for (name, app, expected) in [
        ("a handler", wrap(stream(), tells).boxed(), 200),
        ("a router", wrap(stream(), any()).boxed(), 200),
        ("a router that streams", wrap(buffer(), first_streams()).boxed(), 413),
        ("a plan around a plan", wrap((stream(), buffer()), tells).boxed(), 200),
        ("a plan around a stream", wrap((buffer(), stream()), tells).boxed(), 413),
        ("around a guard", wrap((stream(), waits()), tells).boxed(), 200),
        ("beneath a guard", wrap((waits(), stream()), tells).boxed(), 200),
        ("around a guard and a plan", wrap((stream(), waits(), buffer()), tells).boxed(), 200),
        ("around two guards", wrap((stream(), waits(), waits(), buffer()), tells).boxed(), 200),
        ("between guards", wrap((waits(), stream(), waits(), buffer()), tells).boxed(), 200),
        ("to buffer between guards", wrap((waits(), buffer(), waits(), stream()), tells).boxed(), 413),
        (
            "on a route with a guard",
            routes! { any "/first" => wrap((stream(), waits()), tells) }.boxed(),
            200,
        ),
        ("of another route", wrap(moves, first_streams()).boxed(), 413),
        ("of a route that is found too late", wrap(moves, second_streams()).boxed(), 413),
        ("around a route that is found late", wrap((stream(), moves), first_streams()).boxed(), 200),
        ("to buffer, around such a route", wrap((buffer(), moves), second_streams()).boxed(), 413),
        ("of another route, beneath a guard", wrap((waits(), moves), first_streams()).boxed(), 413),
        ("around a guard and such a route", wrap((stream(), waits(), moves), first_streams()).boxed(), 200),
        ("around a function that chooses", wrap(stream(), chooses.clone()).boxed(), 200),
        ("around one that buffers", wrap((buffer(), moves), chooses).boxed(), 413),
    ] {
        let received = serve(app).ask(format!("POST /first HTTP/1.1\r\nhost: a\r\n{LARGE}"));
        assert_eq!(status(&received), expected, "a plan {name}: {received}");
    }
}

/// A router in a route of another one sees the plans around it, and not those of its own routes.
#[test]
fn a_plan_counts_for_the_routers_within() {
    let within = || routes! { any "/first" => wrap(BodyPlan::Stream, tells), any "/second" => tells };
    for (app, expected) in [
        (routes! { mount "/api" => wrap((BodyPlan::Stream, moves), within()) }.boxed(), 200),
        (routes! { mount "/api" => wrap(moves, within()) }.boxed(), 413),
        (wrap(BodyPlan::Stream, routes! { mount "/api" => wrap(moves, within()) }).boxed(), 200),
    ] {
        let received = serve(app).ask(format!("POST /api/first HTTP/1.1\r\nhost: a\r\n{LARGE}"));
        assert_eq!(status(&received), expected, "{received}");
    }
}

/// Bounds are none of the plan's business, so those beneath it are in force, once.
#[test]
fn bounds_beneath_a_plan_are_in_force() {
    let doubled = || {
        let longer = |timeouts: &mut Timeouts| timeouts.handler = Some(Duration::from_secs(5));
        (limits(|limits| limits.body_max *= 2), timeouts(longer))
    };
    let expected = format!("{} Some(5s)", BODY_MAX * 2);
    for app in [
        wrap((BodyPlan::Stream, doubled()), tells).boxed(),
        wrap((plan(|_| BodyPlan::Buffer), doubled()), tells).boxed(),
        wrap((BodyPlan::Buffer, doubled(), guard(passes)), tells).boxed(),
        wrap((BodyPlan::Buffer, guard(passes), doubled()), tells).boxed(),
        wrap(BodyPlan::Buffer, routes! { any "/" => wrap(doubled(), tells) }).boxed(),
    ] {
        let received = serve(app).ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi");
        assert!(received.ends_with(&expected), "{received}");
    }
}

/// It is made before the body is received, and so it does whatever plan is around it.
#[test]
fn a_refusal_beneath_a_plan_stays() {
    let refuses = |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("www-authenticate", "Bearer")?;
        Err(Error::new(Status::UNAUTHORIZED, "who?"))
    };
    let gone = || wrap(BodyPlan::Refuse(Status::GONE), tells);
    for (app, expected) in [
        (wrap((BodyPlan::Stream, guard(refuses)), tells).boxed(), 401),
        (wrap((BodyPlan::Buffer, guard(refuses)), tells).boxed(), 401),
        (wrap(plan(|_| BodyPlan::Buffer), gone()).boxed(), 410),
        (wrap((BodyPlan::Stream, guard(passes)), gone()).boxed(), 410),
        (wrap((BodyPlan::Refuse(Status::FORBIDDEN), guard(refuses)), tells).boxed(), 403),
    ] {
        let served = serve(app);
        let mut peer = served.connect();
        // The body is not waited for.
        peer.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        let received = peer.receive_all();
        assert_eq!(status(&received), expected, "{received}");
    }
}

/// Leaves the plan for its handler to be made late.
struct Late<H>(H);

impl<H: Handler> Handler for Late<H> {
    fn on_head(&self, _: &mut Context) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        self.0.handle(ctx).await
    }
}

#[test]
fn a_plan_is_that_of_one_request() {
    let served = serve(routes! {
        any "/first" => wrap(BodyPlan::Stream, tells),
        any "/second" => Late(routes! { any "/second" => tells }),
    });
    let first = get("/first");
    let received = served.ask(format!("{first}POST /second HTTP/1.1\r\nhost: a\r\n{LARGE}"));
    assert_eq!(status(&received), 200, "{received}");
    assert!(received.contains("HTTP/1.1 413 "), "{received}");
}

/// A handler that takes the place of another one, which has found no route.
struct Either<A, B>(A, B);

impl<A: Handler, B: Handler> Handler for Either<A, B> {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        self.0.on_head(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        match self.0.handle(ctx).await {
            Err(error) if error.status() == Status::NOT_FOUND => self.1.handle(ctx).await,
            outcome => outcome,
        }
    }
}

#[test]
fn a_plan_is_that_of_what_it_surrounds() {
    let len = |ctx: &mut Context| ctx.response.set_text(ctx.request.body.len().to_string());
    let first = || routes! { any "/first" => len };
    let second = || routes! { any "/second" => len };
    for app in [
        Either(wrap(BodyPlan::Stream, first()), second()).boxed(),
        Either(wrap(plan(|_| BodyPlan::Stream), first()), second()).boxed(),
        Either(wrap(BodyPlan::Stream, first()), wrap(guard(passes), second())).boxed(),
        Either(first(), wrap(BodyPlan::Buffer, second())).boxed(),
        Either(wrap(BodyPlan::Stream, first()), wrap(plan(|_| BodyPlan::Buffer), second())).boxed(),
    ] {
        let received = serve(app).ask("POST /second HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi");
        assert!(received.ends_with("\r\n\r\n2"), "{received}");
    }
}

//! Guards: which requests they refuse, and that nothing is received for these.

use corehttp::{BoxHandler, Context, CrossOriginProtection, Handler, IntoHandler, Status, around};

use super::support::{ErrorReports, Served, status, streaming};

/// The response to `post`, whose body is not there yet, from a server that protects `handler`.
#[track_caller]
fn protected<Kind, H>(handler: H, fields: &str) -> (String, Vec<(u16, String)>)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    let reports = ErrorReports::default();
    let served = Served::with(|server| reports.attach(server), handler);
    let mut peer = served.connect();
    peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}content-length: 5000000\r\n\r\n"));
    let received = peer.receive();
    drop(peer);
    (received, reports.take())
}

fn untouched(_: &mut Context) {
    unreachable!("a refused request reaches no handler");
}

const CROSS: &str = "sec-fetch-site: cross-site\r\norigin: https://b\r\n";

#[test]
fn a_forged_request_is_refused_before_its_body_is_received() {
    for expect in ["", "expect: 100-continue\r\n"] {
        let guarded = CrossOriginProtection::new().around(untouched);
        let (received, reports) = protected(guarded, &format!("{expect}{CROSS}"));
        assert_eq!(status(&received), 403, "{received}");
        assert_eq!(reports[0].0, 403);
        assert!(reports[0].1.contains("by its sec-fetch-site"), "{reports:?}");
    }
    let (received, reports) =
        protected(CrossOriginProtection::new().around(untouched), "origin: https://b\r\n");
    assert!(status(&received) == 403 && reports[0].1.contains("by its origin"), "{received} {reports:?}");
}

#[test]
fn middleware_outside_of_a_guard_sees_what_it_refuses() {
    let log = async |app: &BoxHandler, ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("x-own", 1)?;
        let outcome = app.handle(ctx).await;
        assert_eq!(outcome.as_ref().unwrap_err().status(), Status::FORBIDDEN);
        outcome
    };
    let app = CrossOriginProtection::new().around(untouched).boxed();
    let (received, _) = protected(around(log, app), CROSS);
    assert!(received.contains("x-own: 1\r\n") && status(&received) == 403, "{received}");
}

#[test]
fn a_guard_refuses_even_behind_a_handler_that_does_not_pass_the_head_on() {
    let guarded = CrossOriginProtection::new().around(untouched);
    let holds = async move |ctx: &mut Context| guarded.handle(ctx).await;
    let served = Served::new(streaming(holds));
    let received = served.ask(format!("POST / HTTP/1.1\r\nhost: a\r\n{CROSS}content-length: 4\r\n\r\nbody"));
    assert_eq!(status(&received), 403, "{received}");
}

#[test]
fn the_body_of_an_admitted_request_is_received_as_the_handler_plans() {
    let protection = CrossOriginProtection::new();
    let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    let reads = async |ctx: &mut Context| -> corehttp::Result {
        assert!(ctx.request.body.is_empty(), "it is not received yet");
        let chunk = ctx.body_reader().chunk().await?.map(<[u8]>::to_vec);
        ctx.response.body.set_bytes(chunk.unwrap_or_default());
        Ok(())
    };
    let post = "POST / HTTP/1.1\r\nhost: a\r\nsec-fetch-site: same-origin\r\ncontent-length: 4\r\n\r\nbody";
    assert!(Served::new(protection.around(echo)).ask(post).ends_with("\r\n\r\nbody"));
    assert!(Served::new(protection.around(streaming(reads))).ask(post).ends_with("\r\n\r\nbody"));
    // One guard around another.
    let twice = protection.around(protection.around(echo));
    assert!(Served::new(twice).ask(post).ends_with("\r\n\r\nbody"));
}

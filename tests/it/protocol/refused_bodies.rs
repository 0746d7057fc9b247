//! A body that could not be received is over: each further read fails, and nothing inside of it becomes a request.

use corehttp::coding::Flush;
use corehttp::middleware::{guard, wrap};
use corehttp::server::BodyFilter;
use corehttp::{BodyPlan, Context, Handler, Limits, Result, Status};
use tokio::io::AsyncReadExt;

use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};

const BODY_MAX: usize = 100;

/// How a handler reads on after its first attempt has failed.
#[derive(Clone, Copy, Debug)]
enum Again {
    Buffers,
    Pulls,
    Sips,
    /// As [`Again::Buffers`], but the first octet was read before the first attempt.
    BuffersTheRest,
    /// As [`Again::Pulls`], likewise.
    PullsTheRest,
    /// As [`Again::Pulls`], of a body that is filtered.
    PullsFiltered,
}

impl Handler for Again {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        assert_eq!(ctx.request.path(), "/", "no request is inside of a body");
        BodyPlan::Stream
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        match self {
            Again::BuffersTheRest | Again::PullsTheRest => drop(ctx.body_reader().read_u8().await?),
            Again::PullsFiltered => ctx.filter_body(Same).await?,
            Again::Buffers | Again::Pulls | Again::Sips => {}
        }
        let refused = ctx.buffer_body_up_to(BODY_MAX).await.expect_err("the body is refused");
        assert!(ctx.request.body.is_empty());
        let again = match self {
            Again::Buffers | Again::BuffersTheRest => ctx.buffer_body_up_to(10 * BODY_MAX).await,
            Again::Sips => ctx.body_reader().read_u8().await.map(drop),
            _ => ctx.body_reader().chunk().await.map(drop),
        };
        assert!(again.is_err(), "{self:?} reads on");
        assert!(ctx.request.body.is_empty());
        Err(refused.into())
    }
}

struct Same;

impl BodyFilter for Same {
    fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(data);
        Ok(())
    }
}

/// Content that is a request, if the reader has lost its place: after the octet at its front, or after that of a chunk.
fn content() -> Vec<u8> {
    let mut content = b"A\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n".to_vec();
    content.resize(2 * BODY_MAX, b'x');
    content
}

/// Requests whose bodies are refused, with the status.
fn requests() -> Vec<(Vec<u8>, u16)> {
    let content = content();
    let (half, head) = (content.len() / 4, b"POST / HTTP/1.1\r\nhost: a\r\n");
    let sized = [&head[..], b"content-length: 200\r\n\r\n", &content].concat();
    let chunked =
        |pieces: &[&[u8]]| [&head[..], b"transfer-encoding: chunked\r\n\r\n", &pieces.concat()].concat();
    let in_two = [b"32\r\n", &content[..half], b"\r\nc8\r\n", &content, b"\r\n0\r\n\r\n"];
    vec![
        (sized, 413),
        (chunked(&[b"c8\r\n", &content, b"\r\n0\r\n\r\n"]), 413),
        (chunked(&in_two), 413),
        (
            chunked(&[
                b"32\r\n",
                &content[..half],
                b"A\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
            ]),
            400,
        ),
    ]
}

/// The only answer is that of the refusal, wherever the packets end, and the connection ends with it.
#[track_caller]
fn check<H: Handler + 'static>(name: &str, wired: &Wired<H>) {
    for (wire, expected) in requests() {
        for at in (1..wire.len()).step_by(7).chain([wire.len()]) {
            let (front, rest) = wire.split_at(at);
            let packets = [front, rest];
            let packets = if rest.is_empty() { &packets[..1] } else { &packets };
            let received = wired.ask(packets, Then::Ends);
            let answers = Vec::from_iter(
                responses(&received).iter().map(|response| (response.status, response.is_last())),
            );
            assert_eq!(
                answers,
                [(expected, true)],
                "{name}, cut at {at}: {received}\n{}",
                wire.escape_ascii()
            );
        }
    }
}

fn wired<Kind, H: corehttp::IntoHandler<Kind>>(handler: H) -> Wired<H::Handler> {
    Wired::with(|server| server.limits(Limits { body_max: BODY_MAX, ..Limits::default() }), handler)
}

#[test]
fn a_handler_cannot_read_on() {
    let ways = [
        Again::Buffers,
        Again::Pulls,
        Again::Sips,
        Again::BuffersTheRest,
        Again::PullsTheRest,
        Again::PullsFiltered,
    ];
    for way in ways {
        check(&format!("{way:?}"), &wired(way));
    }
}

/// Middleware gets the refusal of what is beneath it, and reads on.
#[test]
fn middleware_cannot_read_on() {
    let reads_on = async |ctx: &mut Context, next: corehttp::middleware::Next<'_>| -> Result {
        let refused = next.handle(ctx).await;
        assert!(ctx.buffer_body_up_to(10 * BODY_MAX).await.is_err() || refused.is_ok(), "it reads on");
        refused
    };
    let never = |ctx: &mut Context| ctx.response.status = Status::OK;
    check("middleware", &wired(wrap(reads_on, never)));
    check(
        "middleware around a guard",
        &wired(wrap((reads_on, guard(async |_: &mut Context| Ok(()))), never)),
    );
}

#[cfg(feature = "tower")]
#[test]
fn layers_cannot_read_on() {
    use corehttp::tower::layer;
    use tower_http::decompression::RequestDecompressionLayer;
    use tower_http::limit::RequestBodyLimitLayer;

    let waits = || guard(async |_: &mut Context| Ok(()));
    let never = |ctx: &mut Context| ctx.response.status = Status::OK;
    for most in [BODY_MAX / 10, 10 * BODY_MAX] {
        let limit = || layer(RequestBodyLimitLayer::new(most));
        check("limit", &wired(wrap(limit(), never)));
        check("limit in a guard", &wired(wrap((waits(), limit()), never)));
    }
    check("decompression", &wired(wrap(layer(RequestDecompressionLayer::new()), never)));
    check(
        "decompression in a guard",
        &wired(wrap((waits(), layer(RequestDecompressionLayer::new())), never)),
    );
}

/// Readers that take content ahead of what they yield.
#[cfg(feature = "multipart")]
mod taken_ahead {
    use std::io;

    use corehttp::multipart::MultipartLimits;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum First {
        DecodesTooMuch,
        DecodesSome,
        PartIsTooLarge,
        ReadsOnePart,
        ReadsAllParts,
        ReadsOneByte,
    }

    #[derive(Clone, Copy, Debug)]
    enum Second {
        Buffers,
        Pulls,
        Decodes,
        ReadsParts,
    }

    async fn first(ctx: &mut Context, first: First) -> Result {
        let tight = MultipartLimits { part_max: 9, ..MultipartLimits::default() };
        match first {
            First::DecodesTooMuch => {
                let mut body = ctx.body_reader().decoded_up_to(20)?;
                assert!(body.read_to_end(&mut Vec::new()).await.is_err() && body.read_u8().await.is_err());
            }
            First::DecodesSome => _ = ctx.body_reader().decoded_up_to(usize::MAX)?.read_u8().await?,
            First::PartIsTooLarge => {
                let mut parts = ctx.multipart_up_to(tight)?;
                assert!(parts.part().await?.is_some());
                assert!(parts.part().await.is_err() && parts.part().await.is_err());
            }
            First::ReadsOnePart => assert!(ctx.multipart()?.part().await?.is_some()),
            First::ReadsAllParts => {
                let mut parts = ctx.multipart()?;
                while parts.part().await?.is_some() {}
            }
            First::ReadsOneByte => _ = ctx.body_reader().read_u8().await?,
        }
        Ok(())
    }

    async fn second(ctx: &mut Context, second: Second) -> io::Result<()> {
        match second {
            Second::Buffers => ctx.buffer_body().await,
            Second::Pulls => ctx.body_reader().chunk().await.map(drop),
            Second::Decodes => ctx.body_reader().decoded_up_to(usize::MAX)?.read(&mut [0]).await.map(drop),
            Second::ReadsParts => {
                let mut parts = ctx.multipart()?;
                while parts.part().await?.is_some() {}
                Ok(())
            }
        }
    }

    /// Reads the same body twice. The second reader never gets a rest that passes for the whole, unless the body is in memory.
    #[test]
    fn is_not_missing_for_the_next_reader() {
        for len in [10, 15_000] {
            let part = |name| {
                format!("--b\r\ncontent-disposition: form-data; name={name}\r\n\r\n{}\r\n", "x".repeat(len))
            };
            let content = ["a", "b", "c", "d", "e"].map(part).concat() + "--b--\r\n";
            let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-type: multipart/form-data; boundary=b\r\n";
            let sized = format!("{head}content-length: {}\r\n\r\n{content}", content.len());
            let chunked = format!(
                "{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{content}\r\n0\r\n\r\n",
                content.len()
            );
            for wire in [&sized, &chunked] {
                check(wire);
            }
        }
    }

    #[track_caller]
    fn check(wire: &str) {
        use First as F;
        use Second as S;

        for one in [
            F::DecodesTooMuch,
            F::DecodesSome,
            F::PartIsTooLarge,
            F::ReadsOnePart,
            F::ReadsAllParts,
            F::ReadsOneByte,
        ] {
            for other in [S::Buffers, S::Pulls, S::Decodes, S::ReadsParts] {
                for plan in [BodyPlan::Buffer, BodyPlan::Stream] {
                    let goes_on = match (plan, one, other) {
                        (BodyPlan::Buffer, _, _) => true,
                        (_, F::ReadsAllParts | F::ReadsOneByte, S::ReadsParts) => false,
                        (_, F::ReadsAllParts | F::ReadsOneByte, _) => true,
                        (_, _, _) => false,
                    };
                    let handler = async move |ctx: &mut Context| -> Result {
                        first(ctx, one).await?;
                        let read = second(ctx, other).await;
                        assert_eq!(read.is_ok(), goes_on, "{read:?}");
                        assert!(goes_on || second(ctx, other).await.is_err(), "it stays so");
                        Ok(())
                    };
                    let received = Wired::new(wrap(plan, handler)).ask(&[wire.as_bytes()], Then::Ends);
                    assert!(
                        received.starts_with("HTTP/1.1 200 "),
                        "{plan:?}, {one:?}, {other:?}: {received}"
                    );
                }
            }
        }
    }
}

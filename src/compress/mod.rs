//! Floor 5: answers are coded as the peer likes best (RFC 9110 §8.4, §12.5.3).

mod encoded;
mod encoding;
mod rules;

use std::pin::Pin;

use self::encoding::Encoding;
use self::rules::Rules;
use crate::coding::Coding;
use crate::message::{Body, Request};
use crate::runtime::Seats;
use crate::server::{BodyPlan, Context, Handler, IntoHandler, Result};

/// A handler whose answers are compressed with the coding that the peer prefers (RFC 9110 §8.4, §12.5.3).
///
/// ```no_run
/// use corehttp::{Compress, Context, Server};
///
/// fn main() -> corehttp::Result {
///     Server::bind("127.0.0.1:8080").run(Compress::new(|ctx: &mut Context| ctx.response.text("Hello! ".repeat(1000))))
/// }
/// ```
///
/// # Which coding
///
/// The one with the highest weight in `accept-encoding`; among equals the first of `br`, `zstd`, `gzip` and `deflate`,
/// or of the order that was set. A peer that names none gets none, and so does one that would rather have `identity`.
/// A peer that refuses `identity`, and all that there is, gets the content as it is and not 406: the RFC allows
/// both, and an answer is more use than none.
///
/// # Which answers
///
/// Those whose content is of a type that shrinks, and not small. Left alone is what is coded already, a part of
/// something (`content-range`), forbidden to be changed (`cache-control: no-transform`), or has no content. What could
/// be coded says so in `vary`, also to a peer that did not ask, and so do parts of it. What is coded has no strong
/// `etag` any more, no `content-length` of before, no `accept-ranges` and no digests. HEAD is answered as GET, but
/// without a length.
///
/// # Streams
///
/// What a handler writes by [`Context::stream`] and what a body's source yields is coded as it passes, and flushed
/// when it is: by [`Writer::flush`](crate::Writer::flush), or when the source has no more for now. So server-sent events
/// arrive at once. Each open stream holds an encoder: about 300 KiB for `gzip`, and 1 to 2 MiB for the others. A
/// [transform](Context::transform) that middleware in front has put into the context gets what was coded.
///
/// # What not to compress
///
/// A compressed page that contains both a secret and text that somebody else may choose gives the secret away by its
/// size (the attack is called BREACH). Set `ctx.transform = None` in its handler, and it is not compressed.
///
/// # Examples
///
/// ```
/// use corehttp::{Coding, Compress, Context, Request, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = |ctx: &mut Context| ctx.response.html("<p>again</p>".repeat(1000));
/// let service = Server::new().service(Compress::new(page).codings(&[Coding::Gzip]).level(Coding::Gzip, 9));
/// let mut request = Request::get("/")?;
/// request.headers.set("accept-encoding", "br, gzip;q=0.5")?;
/// let response = service.respond(request).await;
/// assert_eq!(response.headers.text("content-encoding"), Some("gzip"));
/// assert!(response.body.len() < 200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Compress<H> {
    handler: H,
    rules: Rules,
}

impl<H: Handler> Compress<H> {
    /// Compresses what `handler` answers.
    pub fn new<Kind>(handler: impl IntoHandler<Kind, Handler = H>) -> Compress<H> {
        Compress { handler: handler.into_handler(), rules: Rules::default() }
    }

    /// The codings to choose from, the preferred first. Those that the crate was built without are passed over.
    /// Default: all there are.
    pub fn codings(mut self, codings: &[Coding]) -> Compress<H> {
        self.rules.offer(codings);
        self
    }

    /// The compression level: for gzip and deflate 0 to 9, for br 0 to 11, for zstd 1 to 22. A level out of range
    /// counts as the end of the range. Default: 6, 4 and 3.
    pub fn level(mut self, coding: Coding, level: u32) -> Compress<H> {
        self.rules.set_level(coding, level);
        self
    }

    /// Content of fewer bytes is not compressed. Default: 1 KiB. A stream of unknown length is taken to be longer.
    pub fn size_min(mut self, bytes: usize) -> Compress<H> {
        self.rules.size_min = bytes;
        self
    }

    /// Content of up to so many bytes is compressed on the core that answers, which serves nobody else meanwhile;
    /// larger content is compressed on another thread. Default: 256 KiB.
    pub fn inline_max(mut self, bytes: usize) -> Compress<H> {
        self.rules.inline_max = bytes;
        self
    }

    /// Whether content of a type shrinks: `judge` is told the type without its parameters, and answers none where it
    /// leaves it to the default, by which text, JSON, XML, JavaScript, WebAssembly, plain fonts and the like do.
    pub fn types(mut self, judge: fn(&str) -> Option<bool>) -> Compress<H> {
        self.rules.judge = judge;
        self
    }
}

impl<H: Handler> Handler for Compress<H> {
    fn on_head(&self, request: &Request) -> BodyPlan {
        self.handler.on_head(request)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        Encoding::put(ctx, self.rules);
        let outcome = self.handler.handle(ctx).await;
        // An idle connection has the room that this takes, so what is seldom needed is in a box.
        if let Some(large) = finish(ctx, outcome)? {
            ctx.response.body = large.await?;
        }
        Ok(())
    }
}

/// Codes an answer, unless the handler has streamed it or failed. What would hold up the core is coded elsewhere, and
/// to be waited for.
fn finish(ctx: &mut Context, outcome: Result) -> Result<Option<Elsewhere>> {
    let Some(mut own) = Encoding::take(ctx) else { return outcome.map(|()| None) };
    let finished = outcome.and_then(|()| Ok(own.finish(&mut ctx.response)?));
    own.give();
    Ok(finished?.map(|large| Box::pin(async { Ok(SEATS.work(|| large.encode()).await??) }) as Elsewhere))
}

/// Where large bodies are coded.
static SEATS: Seats = Seats::new();

/// A body that is being coded on another thread.
type Elsewhere = Pin<Box<dyn Future<Output = Result<Body>>>>;

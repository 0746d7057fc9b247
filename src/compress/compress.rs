//! [`Compress`]: compresses the responses of a handler (RFC 9110 §8.4, §12.5.3).

use std::io;
use std::mem;
use std::pin::Pin;

use super::compress_transform::{CompressRules, CompressTransform};
use crate::coding::Coding;
use crate::message::Body;
use crate::runtime::BlockingLimit;
use crate::server::{Context, Handler, Middleware, Result};

/// Middleware that compresses responses with the peer's preferred coding (RFC 9110 §8.4, §12.5.3).
///
/// ```no_run
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Server};
/// use corehttp::middleware::Compress;
///
/// fn main() -> corehttp::Result {
///     Server::bind("127.0.0.1:8080").run(wrap(Compress::new(), |ctx: &mut Context| ctx.response.set_text("Hello! ".repeat(1000))))
/// }
/// ```
///
/// # Which coding
///
/// The coding with the highest weight in `accept-encoding`. Among equals it is the first of `zstd`, `gzip`, `br` and `deflate`,
/// or of the [order that was set](Compress::codings). Content is not compressed for a peer that names no coding or prefers
/// `identity`. The same holds for a peer that refuses `identity` and all available codings. The RFC allows that in place of
/// 406.
///
/// # Which responses
///
/// Responses of a [minimum size](Compress::size_min), with content of a type that shrinks. For a peer that refuses `identity`,
/// all others too. Never compressed is content with a coding, with a `content-range`, or with `cache-control: no-transform`.
///
/// A response that could be compressed has `accept-encoding` in its `vary`, even for a peer without codings. So has a part of
/// it (206). The `etag` of a compressed response becomes weak, and its `content-length`, `accept-ranges` and digests are
/// removed. HEAD is answered like GET, but without a length.
///
/// Compressed content has the same date as the same content uncompressed. So a `range` with a date in `if-range` is removed
/// from the request of a peer that accepts a coding. The whole content is sent.
///
/// # Streams
///
/// Content of a [`Context::body_writer`] or of the source of a body is compressed as it passes. The encoder is flushed with
/// [`BodyWriter::flush`](crate::BodyWriter::flush), and at a pause of the source. So server-sent events arrive at once. Each
/// open stream holds an encoder: about 300 KiB for `gzip`, and 1 to 2 MiB for the others. With much content between flushes,
/// `br` takes up to 8 MiB. A [transform](Context::transform) that outer middleware has put into the context receives the
/// compressed content.
///
/// # What not to compress
///
/// A compressed page with both a secret and text of an attacker reveals the secret by its size (BREACH). A handler prevents
/// compression with `ctx.transform = None`.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Request, Server};
/// use corehttp::coding::Coding;
/// use corehttp::middleware::Compress;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let page = |ctx: &mut Context| ctx.response.set_html("<p>again</p>".repeat(1000));
/// let service = Server::new().service(wrap(Compress::new().codings(&[Coding::Gzip]).level(Coding::Gzip, 9), page));
/// let mut request = Request::get("/")?;
/// request.headers.set("accept-encoding", "br, gzip;q=0.5")?;
/// let response = service.respond(request).await;
/// assert_eq!(response.headers.get("content-encoding"), Some("gzip"));
/// assert!(response.body.len() < 200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Compress {
    rules: CompressRules,
}

impl Compress {
    /// Compresses with all codings, at their default levels.
    pub fn new() -> Compress {
        Compress::default()
    }

    /// Sets the codings to choose from, in order of preference. Codings that the crate was built without are ignored.
    /// Default: all available ones.
    ///
    /// At their default levels, `gzip` takes half to a tenth of the time of `br`, and content is of about the same size.
    pub fn codings(mut self, codings: &[Coding]) -> Compress {
        self.rules.offer(codings);
        self
    }

    /// Sets the compression level of a coding: 0 to 9 for gzip and deflate, 0 to 11 for br, 1 to 22 for zstd. A level
    /// out of range becomes the nearest one. Default: 6 for gzip and deflate, 4 for br, 3 for zstd.
    ///
    /// High levels take much memory for each open stream. Some of it is kept. The memory is 40 MiB for br at level 9, for
    /// example, 80 MiB for zstd at 19, and 650 MiB at 22.
    pub fn level(mut self, coding: Coding, level: u32) -> Compress {
        self.rules.set_level(coding, level);
        self
    }

    /// Sets the least size, in bytes, of content that is compressed. Streams of unknown length always are. Default: 1
    /// KiB.
    pub fn size_min(mut self, bytes: usize) -> Compress {
        self.rules.size_min = bytes;
        self
    }

    /// Sets up to which size, in bytes, content is compressed on the core of the connection. The core serves nothing else
    /// meanwhile. Larger content is compressed on another thread. Default: 256 KiB.
    pub fn inline_max(mut self, bytes: usize) -> Compress {
        self.rules.inline_max = bytes;
        self
    }

    /// Sets a function that chooses the types of content to compress.
    ///
    /// `decide` gets the media type without its parameters, and returns `None` for the default. By default, text, JSON, XML,
    /// JavaScript, WebAssembly, uncompressed fonts and the like are compressed.
    pub fn types(mut self, decide: fn(&str) -> Option<bool>) -> Compress {
        self.rules.decide = decide;
        self
    }
}

impl Middleware for Compress {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        CompressTransform::put(ctx, self.rules);
        let within = TransformWithin(ctx);
        let outcome = next.handle(within.0).await;
        // `finish` takes it.
        mem::forget(within);
        // The future is boxed because it is rare: without the box, the future of each request would have room for it.
        if let Some(large) = finish(ctx, outcome)? {
            ctx.response.body = large.await?;
            ctx.give_back_unused();
        }
        Ok(())
    }
}

/// A context with a [`CompressTransform`], which is taken back if middleware around the call drops it.
struct TransformWithin<'c>(&'c mut Context);

impl Drop for TransformWithin<'_> {
    fn drop(&mut self) {
        if let Some(transform) = CompressTransform::take(self.0) {
            transform.give();
        }
    }
}

/// Compresses a response, unless the handler has streamed it or failed. A large body is compressed on another thread,
/// by the returned future.
fn finish(ctx: &mut Context, outcome: Result) -> Result<Option<OffloadedBody>> {
    let Some(mut transform) = CompressTransform::take(ctx) else { return outcome.map(|()| None) };
    let finished = outcome.and_then(|()| Ok(transform.finish(&mut ctx.response)?));
    transform.give();
    let large = finished?;
    if let Some(large) = &large {
        // Many may wait for their turn on a thread.
        ctx.reserve_response(large.memory_held()).map_err(io::Error::from)?;
    }
    Ok(large.map(|large| Box::pin(async { Ok(LIMIT.run(|| large.encode()).await??) }) as OffloadedBody))
}

/// The threads on which large bodies are compressed.
static LIMIT: BlockingLimit = BlockingLimit::new();

/// A body that is being compressed on another thread.
type OffloadedBody = Pin<Box<dyn Future<Output = Result<Body>>>>;

//! [`Context::decode_body`]: undoes the content codings of a body in memory (RFC 9110 §8.4).

use std::future::poll_fn;
use std::io;

use super::context::Context;
use crate::coding::{CODED_CONTENT_FIELDS, DECODED_PER_STEP, DecoderChain};
use crate::message::Body;
use crate::runtime::{Budget, MemoryShare};
use crate::server::exchange::SharedConn;

impl Context {
    /// Decodes the request's body, undoing its content codings such as `gzip`. The fields about the coded form are
    /// removed: `content-encoding` and digests. A `content-length` becomes that of the decoded body.
    ///
    /// A body without codings stays as it is. If the plan was to stream the body, it is received first.
    ///
    /// # Errors
    ///
    /// Fails with these, answered with a status if passed on with `?`:
    ///
    /// - corrupt or truncated content (400)
    /// - content beyond [`Limits::body_max`](crate::Limits::body_max) when decoded (413)
    /// - an unknown coding (415, with the known ones in `accept-encoding`)
    ///
    /// Such an error, or a drop of the future, leaves the received body unchanged. Fails like [`Context::buffer_body`] if
    /// the body has yet to be received.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Result};
    ///
    /// async fn save(ctx: &mut Context) -> Result {
    ///     ctx.decode_body().await?;
    ///     println!("{} bytes", ctx.request.body.len());
    ///     Ok(())
    /// }
    /// ```
    pub async fn decode_body(&mut self) -> io::Result<()> {
        self.decode_body_up_to(self.limits().body_max).await
    }

    /// Decodes the request's body as [`Context::decode_body`] does, up to `limit` bytes of decoded content.
    ///
    /// # Errors
    ///
    /// As [`Context::decode_body`], with `limit` for the decoded content. The body as received may have
    /// [`Limits::body_max`](crate::Limits::body_max) bytes.
    pub async fn decode_body_up_to(&mut self, limit: usize) -> io::Result<()> {
        let decoders = DecoderChain::from_headers(&self.request.headers, limit)?;
        self.buffer_body().await?;
        let Some(decoders) = decoders else { return Ok(()) };
        self.free_spare();
        let mut memory = MemoryShare::default();
        let coded = self.request.body.bytes();
        let decoded = decode(decoders, limit, coded, &self.exchange.conn, &mut memory).await?;
        self.request.headers.remove_each(&CODED_CONTENT_FIELDS);
        self.request.trailers.remove_each(&CODED_CONTENT_FIELDS);
        self.replace_body(decoded, memory);
        Ok(())
    }
}

/// Decodes the whole of a body that is in memory, yielding to other tasks now and then: a small input may decode to a
/// lot, and much input may decode to nothing and still take time. Takes `memory` for what is decoded: for content that is not
/// small all that may come, as a body of unknown length does.
async fn decode(
    mut decoders: DecoderChain,
    limit: usize,
    coded: &[u8],
    conn: &SharedConn,
    memory: &mut MemoryShare,
) -> io::Result<Body> {
    let mut body = Body::new();
    let mut budget = Budget::default();
    let content = body.receive();
    let most = limit.saturating_add(DECODED_PER_STEP);
    for mut piece in coded.chunks(PIECE) {
        budget.spend(piece.len());
        loop {
            poll_fn(|cx| budget.poll_proceed(cx)).await;
            let memory_len = decoders.memory_len(piece);
            let needed = content.capacity().max(content.len() + DECODED_PER_STEP) + memory_len;
            if needed > memory.len() {
                let needed_max = most.saturating_add(decoders.memory_max(most).max(memory_len));
                let target = conn.bounds(|bounds| bounds.memory.growth_target(needed, needed_max));
                poll_fn(|cx| conn.poll_memory(cx, memory, target)).await?;
            }
            let capacity_max = match memory.len() {
                0 => most,
                taken => capacity_within(taken, content.len(), memory_len, &decoders).min(most),
            };
            content.spare_within(DECODED_PER_STEP, capacity_max.saturating_sub(content.len()));
            match decoders.pull(&mut piece, content)? {
                0 => break,
                count => budget.spend(count),
            }
        }
    }
    decoders.end()?;
    memory.shrink_to(content.capacity());
    Ok(body)
}

/// The capacity that content of `len` bytes may grow to within the memory `taken`. Decoders have `memory_len` of that.
/// Windows that still grow are left up to half of it.
fn capacity_within(taken: usize, len: usize, memory_len: usize, decoders: &DecoderChain) -> usize {
    let beside_decoders = taken - decoders.memory_max(taken / 2).min(taken);
    match beside_decoders >= len + DECODED_PER_STEP {
        true => beside_decoders,
        false => taken - memory_len,
    }
}

/// How many bytes of the coded content are decoded in one step.
const PIECE: usize = 16 << 10;

//! [`Context::decode_body`]: undoes the codings of a request's body (RFC 9110 §8.4, §15.5.16).

use std::io;
use std::mem;

use super::Context;
use crate::coding::{CodingError, Decoders, OF_CODED};
use crate::message::Body;

impl Context {
    /// Undoes the content codings of the request's body, `gzip` for one, and removes the fields that spoke of them:
    /// `content-encoding`, `content-length` and digests. A body that is not coded stays as it is; one that was planned
    /// to be streamed is received first.
    ///
    /// # Errors
    ///
    /// Content that is corrupt or cut short, for which 400 is owed; content larger than
    /// [`Limits::body_max`](crate::Limits::body_max) when it is decoded: 413; a coding that is not known, for which
    /// 415 is owed, with the known ones in `accept-encoding`. The body is as it was received then.
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
        self.decode_body_up_to(self.shared.bounds.limits.body_max).await
    }

    /// [`Context::decode_body`] with another limit, in bytes of decoded content.
    ///
    /// # Errors
    ///
    /// As [`Context::decode_body`].
    pub async fn decode_body_up_to(&mut self, limit: usize) -> io::Result<()> {
        let decoders = Decoders::of(&self.request.headers, limit)?;
        self.buffer_body().await?;
        let Some(decoders) = decoders else { return Ok(()) };
        decode(decoders, &mut self.request.body)?;
        self.request.headers.remove_each(&OF_CODED);
        Ok(())
    }
}

fn decode(mut decoders: Decoders, body: &mut Body) -> Result<(), CodingError> {
    let coded = mem::take(body);
    let out = body.receive();
    let decoded = decoders.feed(coded.bytes(), out).and_then(|()| decoders.end());
    decoded.inspect_err(|_| *body = coded)
}

//! [`Context::decode_body`]: undoes the codings of a request's body (RFC 9110 §8.4, §15.5.16).

use std::future::poll_fn;
use std::io;

use super::Context;
use crate::coding::{CodingError, Decoders, OF_CODED};
use crate::message::Body;
use crate::runtime::Turn;

impl Context {
    /// Undoes the content codings of the request's body, `gzip` for one, and removes the fields that spoke of them:
    /// `content-encoding`, `content-length` and digests. A body that is not coded stays as it is; one that was planned
    /// to be streamed is received first.
    ///
    /// # Errors
    ///
    /// Content that is corrupt or cut short, for which 400 is owed; content larger than
    /// [`Limits::body_max`](crate::Limits::body_max) when it is decoded: 413; a coding that is not known, for which
    /// 415 is owed, with the known ones in `accept-encoding`. The body is as it was received then, and also if the future
    /// is dropped.
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
        self.request.body = decode(decoders, self.request.body.bytes()).await?;
        self.request.headers.remove_each(&OF_CODED);
        Ok(())
    }
}

/// Decodes all of `coded`, while others have their turns: decoding makes much of little, and takes its time where it makes
/// nothing.
async fn decode(mut decoders: Decoders, coded: &[u8]) -> Result<Body, CodingError> {
    let (mut body, mut turn) = (Body::new(), Turn::default());
    let content = body.receive();
    for mut piece in coded.chunks(PIECE) {
        turn.note(piece.len());
        loop {
            poll_fn(|cx| turn.poll(cx)).await;
            match decoders.pull(&mut piece, content)? {
                0 => break,
                count => turn.note(count),
            }
        }
    }
    decoders.end()?;
    Ok(body)
}

/// What is put in at once.
const PIECE: usize = 16 << 10;

//! [`send_response`]: sends the response of a service.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};

use super::body_pump::BodyPump;
use super::header_map::append_header_map;
use crate::exchange::ExchangeError;
use crate::message::{Headers, Response, Status};
use crate::runtime::join_first;
use crate::server::{Context, Error, InvalidAnswer, Result, Writer};

/// Sends `answered`, whose body may still read that of the request.
pub(super) async fn send_response<B>(
    ctx: &mut Context,
    pump: &BodyPump,
    response: http::Response<B>,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    let (head, body) = response.into_parts();
    let (mut body, is_head_request, response) = (pin!(body), ctx.is_head_request(), &mut ctx.response);
    let status = head.status.as_u16();
    response.status = Status::new(status).ok_or(InvalidAnswer::Status(status))?;
    append_header_map(&mut response.headers, &head.headers)?;
    let exact = body.size_hint().exact();
    if is_head_request || has_no_content(response.status) {
        // Services that know of HEAD have said how long the content would be, and have none.
        return set_length(response, exact.filter(|length| is_head_request && *length > 0));
    }
    let length = exact.or(response.headers.content_length());
    let mut first_frame = match poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await {
        Poll::Ready(None) => return set_whole(response, length, Bytes::new()),
        Poll::Ready(Some(frame)) => Some(frame.map_err(Error::other)?),
        Poll::Pending => None,
    };
    if let Some(data) = first_frame.as_mut().and_then(Frame::data_mut)
        && body.is_end_stream()
    {
        return set_whole(response, length, data.copy_to_bytes(data.remaining()));
    }
    // Trailers come behind chunks only.
    match response.headers.contains("trailer") {
        true => _ = response.headers.remove("content-length"),
        false => set_length(response, exact)?,
    }
    if !pump.is_body_wanted() {
        return relay(body, first_frame, ctx.stream().await?).await;
    }
    let (reader, out) = ctx.duplex().await?;
    pump.run_beside(&mut reader.skip_buffered(), relay(body, first_frame, out)).await
}

/// Whether nothing of the content is sent (RFC 9110 §15.3.5, §15.3.6, §15.4.5).
fn has_no_content(status: Status) -> bool {
    [Status::NO_CONTENT, Status::RESET_CONTENT, Status::NOT_MODIFIED].contains(&status)
}

fn set_length(response: &mut Response, length: Option<u64>) -> Result {
    Ok(length.map_or(Ok(()), |length| response.headers.set("content-length", length))?)
}

/// Makes `data` the content, which was announced to have this `length`.
fn set_whole(response: &mut Response, length: Option<u64>, data: Bytes) -> Result {
    if length.is_some_and(|length| length != data.len() as u64) {
        return Err(ExchangeError::Length.into());
    }
    response.body.set_shared(data);
    Ok(())
}

/// Sends the frame with which `body` has begun, and all others.
async fn relay<B>(
    mut body: Pin<&mut B>,
    mut first_frame: Option<Frame<B::Data>>,
    mut out: Writer<'_>,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    loop {
        let frame = match first_frame.take() {
            Some(frame) => frame,
            None => match next(body.as_mut(), &mut out).await? {
                Some(frame) => frame,
                None => return Ok(out.finish().await?),
            },
        };
        match frame.into_data() {
            Ok(data) => write(&mut out, data).await?,
            Err(frame) => {
                let mut trailers = Headers::new();
                frame.into_trailers().map_or(Ok(()), |map| append_header_map(&mut trailers, &map))?;
                return Ok(out.finish_with(&trailers).await?);
            }
        }
    }
}

/// Returns the next frame of `body`. While it pauses, everything before it is sent, and the peer is watched.
async fn next<B>(mut body: Pin<&mut B>, out: &mut Writer<'_>) -> Result<Option<Frame<B::Data>>>
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    let frame = poll_fn(|cx| body.as_mut().poll_frame(cx));
    let pause = async {
        out.flush().await?;
        out.peer_gone().await
    };
    join_first(async { frame.await.transpose().map_err(Error::other) }, pause).await
}

async fn write(out: &mut Writer<'_>, mut data: impl Buf) -> Result {
    while data.has_remaining() {
        let count = data.chunk().len();
        out.write_all(data.chunk()).await?;
        data.advance(count);
    }
    Ok(())
}

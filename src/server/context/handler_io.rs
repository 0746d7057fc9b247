//! How a handler talks to the peer while it runs: it reads the request, writes the answer, and learns that the peer has
//! closed.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use super::peer_closed::{poll_peer_closed, poll_peer_gone};
use super::transform_writer::TransformWriter;
use super::{BodyReader, BodyWriter, Context, TransformAction, UnreadBody};
use crate::exchange::{Expectation, Incoming, poll_flush};
use crate::message::{BodyLength, Headers, Status, Version};
use crate::server::{InvalidResponse, Result};
use crate::wire::encode;

/// Conversation with the peer, while the handler runs.
impl Context {
    /// Returns a [`BodyReader`], which reads the request's body as it arrives. If the body was buffered, it reads the
    /// buffer.
    ///
    /// What the handler leaves unread is read and discarded afterwards, or while the answer waits for its peer. Beyond
    /// [`Limits::drain_max`](crate::Limits::drain_max), the connection is closed after the answer.
    ///
    /// # Examples
    ///
    /// A file that is uploaded with PUT or POST. The plan lets the handler start before the body has arrived:
    ///
    /// ```no_run
    /// use corehttp::{BodyPlan, Context, Server, with_plan};
    /// use tokio::io::AsyncWriteExt;
    ///
    /// async fn save(ctx: &mut Context) -> corehttp::Result {
    ///     let mut file = tokio::fs::File::create("/var/tmp/upload").await?;
    ///     let mut body = ctx.body_reader();
    ///     while let Some(chunk) = body.chunk().await? {
    ///         file.write_all(chunk).await?;
    ///     }
    ///     Ok(file.flush().await?)
    /// }
    ///
    /// fn main() -> corehttp::Result {
    ///     Server::bind("127.0.0.1:8080").run(with_plan(|_| BodyPlan::Stream, save))
    /// }
    /// ```
    pub fn body_reader(&mut self) -> BodyReader<'_> {
        let Context { request, incoming, conn, shared, .. } = self;
        BodyReader::new(request, incoming.get_mut(), conn, &shared.bounds)
    }

    /// Receives the rest of a body that the plan was to stream: its bytes into `ctx.request.body`, and its trailers
    /// into `ctx.request.trailers`. A body that has already been received stays as it is.
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed, too slow, or larger than
    /// [`Limits::body_max`](crate::Limits::body_max).
    ///
    /// # Examples
    ///
    /// A guard that cannot decide by the head alone, because it needs the address of the peer or has to wait for an
    /// answer. It receives no body in vain:
    ///
    /// ```
    /// use corehttp::{BodyPlan, Context, Handler, Request, Result, Status};
    /// # async fn may_ask(_: corehttp::PeerAddr) -> bool { true }
    ///
    /// struct Guarded<H>(H);
    ///
    /// impl<H: Handler> Handler for Guarded<H> {
    ///     fn on_head(&self, request: &Request) -> BodyPlan {
    ///         match self.0.on_head(request) {
    ///             BodyPlan::Buffer | BodyPlan::BufferUpTo(_) => BodyPlan::Stream, // `handle` buffers it
    ///             plan => plan,
    ///         }
    ///     }
    ///
    ///     async fn handle(&self, ctx: &mut Context) -> Result {
    ///         if !may_ask(ctx.peer_addr()).await {
    ///             return Err(Status::TOO_MANY_REQUESTS.into());
    ///         }
    ///         match self.0.on_head(&ctx.request) {
    ///             BodyPlan::Buffer => ctx.buffer_body().await?,
    ///             BodyPlan::BufferUpTo(most) => ctx.buffer_body_up_to(most).await?,
    ///             _ => {}
    ///         }
    ///         self.0.handle(ctx).await
    ///     }
    /// }
    /// # let echo = corehttp::BoxHandler::new(|ctx: &mut Context| {
    /// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    /// # });
    /// # let service = corehttp::Server::new().service(Guarded(echo));
    /// # let mut request = Request::post("/")?;
    /// # request.body.set_bytes("body");
    /// # assert_eq!(corehttp::block_on(service.respond(request))?.body.bytes(), b"body");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn buffer_body(&mut self) -> io::Result<()> {
        self.buffer_body_up_to(self.shared.bounds.limits.body_max).await
    }

    /// Receives the rest of a body as [`Context::buffer_body`] does, up to `most` bytes.
    ///
    /// # Errors
    ///
    /// As [`Context::buffer_body`], or if the body is larger than that.
    pub async fn buffer_body_up_to(&mut self, most: usize) -> io::Result<()> {
        let buffered = poll_fn(|cx| self.poll_body(cx, most)).await;
        let incoming = self.incoming.get_mut();
        match buffered {
            // A reader that has come to the end before has left them behind.
            Ok(()) if self.request.trailers.is_empty() => {
                std::mem::swap(&mut self.request.trailers, &mut incoming.trailers);
            }
            Ok(()) => {}
            Err(_) => incoming.poison(),
        }
        Ok(buffered?)
    }

    /// Begins the answer, and returns a [`BodyWriter`] for its body.
    ///
    /// The head leaves with the first bytes of the body, or as soon as the handler waits for something;
    /// [`BodyWriter::flush`] sends it at once.
    ///
    /// The body is sent in chunks, or with the `content-length` that was set. To an HTTP/1.0 peer, a body without a
    /// length ends when the connection closes. If the body is not [finished](BodyWriter::finish), the connection is
    /// aborted.
    ///
    /// The rest of the request's body may be discarded from here on, because many peers take nothing of an answer before
    /// they have sent all of their request; to read it is then an error. [`Context::duplex`] is for handlers that read
    /// it while they write.
    ///
    /// # Errors
    ///
    /// Fails with an [`InvalidResponse`] if an answer has already been sent, or if the status is 1xx.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// async fn squares(ctx: &mut Context) -> corehttp::Result {
    ///     ctx.response.headers.set("content-type", "text/csv")?;
    ///     let mut out = ctx.body_writer().await?;
    ///     for n in 1..=1000u64 {
    ///         out.write_all(format!("{n},{}\n", n * n).as_bytes()).await?;
    ///     }
    ///     Ok(out.finish().await?)
    /// }
    /// # let service = corehttp::Server::new().service(squares);
    /// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/")?))?;
    /// # assert!(response.body.text()?.ends_with("\n1000,1000000\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn body_writer(&mut self) -> io::Result<BodyWriter<'_>> {
        let action = self.begin_stream(UnreadBody::Discard)?;
        let (mut writer, incoming) = self.writer(action);
        writer.incoming = Some(incoming);
        Ok(writer)
    }

    /// Begins the answer, and returns a [`BodyReader`] for the request's body and a [`BodyWriter`] for the answer's, to use
    /// both at the same time. See [`Context::body_writer`].
    ///
    /// # Errors
    ///
    /// As [`Context::body_writer`], or if the connection fails.
    pub async fn duplex(&mut self) -> io::Result<(BodyReader<'_>, BodyWriter<'_>)> {
        if self.incoming.get_mut().expectation == Expectation::Continue {
            // A peer that has begun to send the body, or has sent it, does not wait for 100.
            if self.incoming.get_mut().input.is_empty() && !self.is_read() {
                self.informational(Status::CONTINUE, &Headers::new()).await?;
            }
            self.incoming.get_mut().expectation = Expectation::None;
        }
        let action = self.begin_stream(UnreadBody::Keep)?;
        let (writer, incoming) = self.writer(action);
        Ok((BodyReader::new(writer.request, incoming.get_mut(), writer.conn, writer.bounds), writer))
    }

    /// Sends an interim answer, such as 103 with `link` fields (RFC 9110 §15.2, RFC 8297). A peer that speaks HTTP/1.0
    /// gets none.
    ///
    /// # Errors
    ///
    /// Fails if the connection does, or with an [`InvalidResponse`] if the status is 101 or not 1xx, or if a final answer
    /// has already been sent.
    #[doc(alias = "early_hints")]
    pub async fn informational(&mut self, status: Status, fields: &Headers) -> io::Result<()> {
        self.check_unsent()?;
        if !status.is_informational() || status == Status::SWITCHING_PROTOCOLS {
            return Err(InvalidResponse::Status(status.as_u16()).into());
        }
        if self.info.request_info.version == Version::Http10 || self.info.detached {
            return Ok(());
        }
        self.write(|out| encode::interim(out, status, fields, None))?;
        self.flush().await
    }

    /// Waits until the peer has closed the connection, or its sending half, which looks the same: a peer that closes
    /// only that half still waits for its answer (RFC 9112 §9.6), so answer it, if only in short, or do not wait for
    /// this. See [`Server::half_close`](crate::Server::half_close).
    ///
    /// Use it alongside work that is pointless once the peer is gone, because a handler that does not write would not
    /// notice otherwise. A handler that streams uses [`BodyWriter::peer_closed`].
    ///
    /// What the peer sends meanwhile is kept, up to 64 KiB. A close that comes after more than that is not noticed.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// # async fn work() -> String { String::new() }
    ///
    /// async fn report(ctx: &mut Context) {
    ///     tokio::select! {
    ///         report = work() => ctx.response.set_text(report),
    ///         () = ctx.peer_closed() => {} // no answer would arrive
    ///     }
    /// }
    /// # let _ = corehttp::Server::new().service(report);
    /// ```
    pub async fn peer_closed(&self) {
        poll_fn(|cx| poll_peer_closed(cx, &self.conn, &mut self.incoming.borrow_mut())).await;
    }

    /// Fails once the peer does not wait for an answer any more ([`poll_peer_gone`]).
    pub(crate) async fn peer_gone(&self) -> Result {
        let Context { conn, incoming, shared, .. } = self;
        let left = poll_fn(|cx| poll_peer_gone(cx, conn, &mut incoming.borrow_mut(), &shared.bounds)).await;
        Err(io::Error::from(left).into())
    }

    /// Whether the peer expects `100 Continue`, by the fields of the request (RFC 9110 §10.1.1).
    pub(crate) fn expects_continue(&self) -> bool {
        Expectation::from_headers(&self.request.headers) == Ok(Expectation::Continue)
    }

    pub(crate) fn check_unsent(&self) -> io::Result<()> {
        if self.outgoing.is_unsent() { Ok(()) } else { Err(InvalidResponse::Sent.into()) }
    }

    pub(super) fn write(&self, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut conn = self.conn.borrow_mut();
        encode(conn.as_mut().ok_or(io::ErrorKind::NotConnected)?.write_buffer().bytes());
        Ok(())
    }

    /// Writes the head, and returns which way the body goes.
    fn begin_stream(&mut self, unread: UnreadBody) -> io::Result<TransformAction> {
        self.check_unsent()?;
        if self.response.status.is_informational() {
            return Err(InvalidResponse::Status(self.response.status.as_u16()).into());
        }
        let Context { transform, response, .. } = self;
        let action =
            transform.as_mut().map_or(TransformAction::Bypass, |transform| transform.begin(response));
        let content = match (self.response.status, self.response.headers.content_length()) {
            // A length that was given is that of another answer (RFC 9110 §8.6).
            (Status::NOT_MODIFIED, _) => BodyLength::NoContent,
            (_, Some(given)) => BodyLength::Known(given),
            (_, None) => BodyLength::Unknown,
        };
        self.write_head(content, unread);
        // A body that is not sent, such as that of a HEAD, need not be transformed.
        Ok(if self.outgoing.is_empty() { TransformAction::Bypass } else { action })
    }

    /// Returns the writer, once the head was written, and what its reader would read from.
    fn writer(&mut self, action: TransformAction) -> (BodyWriter<'_>, &mut RefCell<Incoming>) {
        let Context { request, response, transform, transformed, incoming, outgoing, conn, shared, .. } =
            self;
        let transform = transform.as_deref_mut().filter(|_| action == TransformAction::Apply);
        let transform = transform.map(|transform| TransformWriter::new(transform, transformed));
        (
            BodyWriter::new(request, &mut response.trailers, transform, outgoing, conn, &shared.bounds),
            incoming,
        )
    }

    pub(super) async fn flush(&self) -> io::Result<()> {
        let flushed = poll_fn(|cx| match self.conn.borrow_mut().as_mut() {
            Some(conn) => poll_flush(cx, conn, &self.shared.bounds),
            None => Poll::Ready(Ok(())),
        });
        Ok(flushed.await?)
    }
}

//! [`Context::forward`]: answers with the response of another server (RFC 9110 §3.7, §7.6).

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::pin;
use std::task::{self, Poll, ready};

use super::forward_auth::CopiedNames;
use super::forwarded_fields::merge_heads;
use super::relay::{Relay, gateway_error};
use super::tunnel::{End, join};
use crate::client::{Call, CallExchange, ClientError};
use crate::message::{Headers, Response, Status};
use crate::runtime::join_first;
use crate::server::{BodyReader, Context, Error, ForwardReport, IntoResult, Result};

impl Context {
    /// Forwards the request's body through `call`, and answers with the response.
    ///
    /// Both bodies flow at the same time, piece by piece, and may be of any size. The server behind may answer while it reads.
    /// Once it reads no more, the rest of the request's body is not forwarded. Trailers are forwarded, except under the name of
    /// a field that this server has set in the forwarded request or in `ctx.response`. Names that a
    /// [`ForwardAuth`](crate::middleware::ForwardAuth) copies are left out as well. Interim responses, such as 103, are sent as
    /// they arrive (RFC 9110 §15.2), but not to a peer with HTTP/1.0. The ones that are not sent may have
    /// [`ClientLimits::head_max`](crate::client::ClientLimits::head_max) bytes together. Fields that are already set in
    /// `ctx.response` are added to those of the response.
    ///
    /// Open the call with the head to forward, as [`Request::forwarded_to`](crate::Request::forwarded_to) makes it, on a
    /// [`Client`](crate::Client::open_call), a [`Host`](crate::client::Host::open_call) or a
    /// [`Balancer`](crate::client::Balancer::open_call). Pass it without awaiting it, as in the example. To open a call may
    /// take as long as a response, and this method watches the peer meanwhile. To keep the body out of memory, plan to stream
    /// it ([`BodyPlan::Stream`](crate::BodyPlan::Stream)). A streamed body can be forwarded only once, and only before a part
    /// of it was read.
    ///
    /// A WebSocket passes by itself. Both connections are joined once the server behind has agreed. When this server stops, the
    /// peer is sent a close frame with code 1001 between two frames of the server behind. That server gets the peer's answer. A
    /// frame that does not end within the grace is cut with the connection. Either side may be silent for ever. A peer that
    /// takes no bytes for [`Timeouts::write`](crate::Timeouts::write) ends both connections. So does a server behind that takes
    /// none for [`ClientTimeouts::send`](crate::client::ClientTimeouts::send). Once one side has ended, the other has
    /// [`Timeouts::linger`](crate::Timeouts::linger) to do so. A server behind that still sends to a departed peer is cut off
    /// after half a second.
    ///
    /// Other upgrades are not forwarded, nor is that of a request with content. The latter may be answered with 426, whose
    /// `upgrade` is passed on (RFC 9110 §15.5.22).
    ///
    /// A server behind that lets in only pages of its own origin sees the host of its own URL. Set [`Context::set_forwarded`]
    /// and trust this gateway there ([`Server::trusted_proxies`](crate::Server::trusted_proxies)), or few browsers get in.
    ///
    /// A peer that takes the response slowly keeps the server behind, and the connection to it, for as long.
    /// [`Limits::forward_buffer_max`](crate::Limits::forward_buffer_max) lets both go once the whole response is here, with a
    /// part of it in memory. Nothing is ever held back from a peer that reads.
    ///
    /// [`ExchangeReport::forward`](crate::server::ExchangeReport::forward) has the server that has answered, and the number of
    /// attempts. So has the access log as JSON.
    ///
    /// A close by the peer before the end of the response closes the connection to the server behind, too. See
    /// [`Server::half_close`](crate::Server::half_close).
    ///
    /// # Errors
    ///
    /// Fails if the request's body is cut short, malformed or too slow. Otherwise fails with:
    /// - 504 if the call took too long, 502 after another failure of it ([`ClientError::status`](crate::ClientError::status))
    /// - 500 if the client is [lenient](crate::ClientBuilder::lenient). Others may understand the response otherwise (RFC 9112
    ///   §11.2).
    /// - [`RespondError::Sent`](crate::server::RespondError::Sent) if a response has been sent, even in part. The call is not
    ///   awaited then, and no request is sent in vain.
    /// - [`ExchangeError::NoCloseFrame`](crate::error::ExchangeError::NoCloseFrame) if the peer of a WebSocket leaves without a
    ///   close frame
    ///
    /// # Examples
    ///
    /// A reverse proxy:
    ///
    /// ```
    /// use corehttp::middleware::wrap;
    /// use corehttp::{BodyPlan, Client, Context, Server};
    ///
    /// async fn pass(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.forwarded_to("http://127.0.0.1:9000")?;
    ///     onward.add_via(ctx.request.version(), "front")?;
    ///     ctx.forward(client.open_call(&onward)).await
    /// }
    ///
    /// let client = Client::new();
    /// let handler = wrap(BodyPlan::Stream, async move |ctx: &mut Context| pass(&client, ctx).await);
    /// let server = Server::bind("127.0.0.1:8080");
    /// # let _ = || -> corehttp::Result {
    /// server.run(handler)
    /// # };
    /// ```
    ///
    /// In front of several servers that are checked. Their responses may wait for slow clients in memory, up to 256 KiB of
    /// each:
    ///
    /// ```
    /// # use corehttp::net::MemoryListener;
    /// # use corehttp::{Request, Server};
    /// use corehttp::client::HealthCheck;
    /// use corehttp::error::MessageError;
    /// use corehttp::middleware::{limits, wrap};
    /// use corehttp::{BodyPlan, Client, Context, Handler};
    ///
    /// fn gateway(client: Client) -> Result<impl Handler, MessageError> {
    ///     let pages = client
    ///         .balance(["http://10.0.0.2:8080", "http://10.0.0.3:8080"])?
    ///         .health_check(HealthCheck::get("/health")?)
    ///         .build();
    ///     let kept = limits(|limits| limits.forward_buffer_max = 256 << 10);
    ///     Ok(wrap((kept, BodyPlan::Stream), async move |ctx: &mut Context| {
    ///         let onward = ctx.request.forwarded_to("/")?; // the balancer chooses the host
    ///         ctx.forward(pages.open_call(&onward)).await
    ///     }))
    /// }
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("hi"))?;
    /// # let service = Server::new().service(gateway(client)?);
    /// # let response = corehttp::block_on(service.respond(Request::get("/")?))?;
    /// # assert_eq!(response.text()?, "hi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("proxy_buffering", "reverse_proxy"))]
    pub async fn forward(&mut self, call: impl IntoFuture<Output = Result<Call, ClientError>>) -> Result {
        self.forward_unless(call, |_| None::<()>).await.map(drop)
    }

    /// Forwards the request's body and the response as [`Context::forward`] does, but first lets `change` change the
    /// response's status and fields. If `change` fails, the peer gets its error instead, without any field of the
    /// response. Interim responses are sent unchanged.
    ///
    /// # Errors
    ///
    /// As [`Context::forward`], or with the error of `change`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Request, Response};
    /// use corehttp::client::Host;
    ///
    /// async fn pass(ctx: &mut Context, api: &Host, onward: Request) -> corehttp::Result {
    ///     let change = |response: &mut Response| {
    ///         response.headers.remove("x-powered-by");
    ///     };
    ///     ctx.forward_with(api.open_call(&onward), change).await
    /// }
    /// ```
    pub async fn forward_with<O: IntoResult>(
        &mut self,
        call: impl IntoFuture<Output = Result<Call, ClientError>>,
        change: impl FnOnce(&mut Response) -> O,
    ) -> Result {
        let refused = self.forward_unless(call, |response| change(response).into_result().err()).await?;
        refused.map_or(Ok(()), Err)
    }

    /// Forwards like [`Context::forward_with`], unless `choose` returns a value for the head of the response.
    ///
    /// With a value, nothing is sent and the value is returned. `ctx.response` is as the handler has left it, without a field
    /// of the server behind. A small content of the response behind that comes soon is discarded. Then the connection can be
    /// used again.
    ///
    /// So the server behind may decide, and leave the work to this one. The module `fs` shows it for files that another server names,
    /// like nginx's `x-accel-redirect`.
    ///
    /// `choose` may change a response that passes. It does not see interim responses and trailers. They pass unchanged, but
    /// without an `x-accel-redirect`, because no client is to learn the path in it. Of the request's body, nothing may be left
    /// to forward to another server: see [`Context::forward`].
    ///
    /// # Errors
    ///
    /// As [`Context::forward`].
    ///
    /// # Examples
    ///
    /// A page of its own for what the server behind does not find:
    ///
    /// ```
    /// # use corehttp::{Client, Request, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Context, Response, Status};
    /// use corehttp::client::Host;
    ///
    /// async fn pass(ctx: &mut Context, api: &Host) -> corehttp::Result {
    ///     let onward = ctx.request.forwarded_to("/")?;
    ///     let is_missing = |response: &mut Response| (response.status == Status::NOT_FOUND).then_some(());
    ///     if let Some(()) = ctx.forward_unless(api.open_call(&onward), is_missing).await? {
    ///         ctx.response.status = Status::NOT_FOUND;
    ///         ctx.response.set_html("<h1>Here is nothing.</h1>");
    ///     }
    ///     Ok(())
    /// }
    /// # let listener = MemoryListener::new();
    /// # let api = Client::builder().connect_to(&listener).build().host("http://api")?;
    /// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| match ctx.request.path() {
    /// #     "/" => ctx.response.set_text("hi"),
    /// #     _ => ctx.response.status = Status::NOT_FOUND,
    /// # })?;
    /// # let service = Server::new().service(async move |ctx: &mut Context| pass(ctx, &api).await);
    /// # corehttp::block_on(async {
    /// # assert_eq!(service.respond(Request::get("/")?).await.text()?, "hi");
    /// # assert_eq!(service.respond(Request::get("/x")?).await.text()?, "<h1>Here is nothing.</h1>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("proxy_intercept_errors", "x-accel-redirect", "x-sendfile"))]
    pub async fn forward_unless<T>(
        &mut self,
        call: impl IntoFuture<Output = Result<Call, ClientError>>,
        choose: impl FnOnce(&mut Response) -> Option<T>,
    ) -> Result<Option<T>> {
        // Checked before the call is awaited: the server behind would work for a response that cannot be sent.
        self.check_unsent()?;
        if self.body_reader().has_begun() {
            // The server behind would take the rest of the body for the whole of it.
            return Err(Error::new(Status::BAD_GATEWAY, "a part of the body was read before"));
        }
        let opened = pin!(call.into_future()).await;
        self.note_forward(|forward| note_opened(forward, &opened));
        let call = RefCell::new(opened.map_err(gateway_error)?.into_exchange());
        if call.borrow().is_lenient() {
            // The peer, or a proxy between, may understand the response otherwise (RFC 9112 §11.2).
            return Err(Error::other("a lenient client must not forward responses"));
        }
        call.borrow_mut().set_memory_budget(self.memory_budget());
        let copied = self.extensions.get().cloned().unwrap_or_default();
        let mut pump = Pump::new(&call, copied);
        // A request without content was sent with its head.
        let is_request_sent = call.borrow().is_sent() && self.body_reader().is_at_end();
        self.forward_interim(&call, &mut pump).await?;
        poll_fn(|cx| call.borrow_mut().poll_own_head(cx)).await.map_err(gateway_error)?;
        let connection_options = merge_heads(call.borrow_mut().response_head(), &self.response.headers);
        self.note_status(&call);
        call.borrow_mut().adjust_decoded_head();
        // If `choose` panics, the context still has the handler's own head.
        let chosen = choose(call.borrow_mut().response_head());
        if let Some(chosen) = chosen {
            call.into_inner().discard().await;
            return Ok(Some(chosen));
        }
        if call.borrow_mut().response_head().status == Status::SWITCHING_PROTOCOLS {
            self.pass_upgraded(call.into_inner()).await?;
            return Ok(None);
        }
        self.swap_head(&call);
        let limits = self.limits();
        if is_request_sent || !pump.is_body_wanted() {
            let out = match self.body_writer().await {
                Ok(out) => out,
                Err(error) => return Err(self.restore_head(error, &call)),
            };
            let mut relay = Relay::new(out, &limits);
            let received = relay.receive(&call).await?;
            relay.finish(end_behind(received, call, &connection_options)).await?;
            return Ok(None);
        }
        let (body, out) = match self.duplex().await {
            Ok(begun) => begun,
            Err(error) => return Err(self.restore_head(error, &call)),
        };
        let mut body = body.skip_to(pump.buffered);
        let mut relay = Relay::new(out, &limits);
        let received = join_first(pin!(relay.receive(&call)), pin!(pump.run_and_discard(&mut body))).await?;
        if received.is_err() || call.borrow().is_sent() || !pump.is_body_wanted() {
            let ended = end_behind(received, call, &connection_options);
            join_first(pin!(relay.finish(ended)), pin!(discard(&mut body))).await?;
            return Ok(None);
        }
        // Many servers answer while they still read the request.
        let trailers = response_trailers(&mut call.borrow_mut(), &connection_options);
        join_first(pin!(relay.finish(Ok(trailers))), pin!(pump.run_and_discard(&mut body))).await?;
        pump.run(&mut body).await?;
        call.into_inner().release();
        Ok(None)
    }
}

impl Context {
    /// Swaps the head of the context with the one in `call`: one is the handler's, the other is the one behind.
    fn swap_head(&mut self, call: &RefCell<CallExchange>) {
        mem::swap(&mut self.response, call.borrow_mut().response_head());
    }

    /// Restores the handler's own head after the one behind could not be sent, and passes `error` on.
    #[cold]
    fn restore_head(&mut self, error: io::Error, call: &RefCell<CallExchange>) -> Error {
        self.swap_head(call);
        error.into()
    }

    /// Forwards the interim responses of the server behind, and meanwhile the body of the request.
    async fn forward_interim(&mut self, call: &RefCell<CallExchange>, pump: &mut Pump<'_>) -> Result {
        let mut dropped = 0;
        // Pinned here, since a future of this size would be copied at each call that it is passed to.
        while !call.borrow().has_response()
            && join_first(
                next_interim(call),
                pin!(pump.run_and_discard(&mut self.body_reader().skip_to(pump.buffered))),
            )
            .await?
        {
            let (status, fields) = {
                let mut call = call.borrow_mut();
                let Response { status, headers, .. } = call.response_head();
                // A peer that expects a 100 gets it from this server, as soon as its body is wanted (RFC 9110 §10.1.1).
                let is_own = *status == Status::CONTINUE && self.expects_continue();
                if is_own || !self.takes_informational() {
                    dropped += headers.text_received().len();
                    call.check_dropped_interim(dropped).map_err(gateway_error)?;
                    continue;
                }
                let mut fields = headers.forwarded();
                fields.remove(ACCEL_REDIRECT);
                (*status, fields)
            };
            self.send_informational(status, &fields).await?;
        }
        Ok(())
    }

    /// Notes the status of the response behind.
    fn note_status(&mut self, call: &RefCell<CallExchange>) {
        let status = call.borrow_mut().response_head().status;
        self.note_forward(|forward| forward.status = Some(status));
    }

    /// Answers 101, as the server behind has, and passes bytes on from then on. A WebSocket that is silent is a matter of
    /// its two ends; one that takes nothing would have this server keep its bytes for ever.
    async fn pass_upgraded(&mut self, mut call: CallExchange) -> Result {
        let timeouts = self.timeouts();
        let stopping = self.stopping();
        self.check_upgrade_to("websocket")?;
        let own = Box::new(mem::replace(&mut self.response, mem::take(call.response_head())));
        let (conn, early, send, _in_flight) = call.into_upgraded();
        let behind = End::new(*conn, early, send);
        let upgraded = self.upgrade_with_guard("websocket").await;
        let (conn, early, _guard) = upgraded.inspect_err(|_| self.response = *own)?;
        // The guard is dropped after the connection, which counts until then.
        Ok(join(End::new(conn, early, timeouts.write), behind, timeouts.linger, stopping).await?)
    }
}

/// Notes how a call was opened, or was not.
fn note_opened(forward: &mut ForwardReport, opened: &Result<Call, ClientError>) {
    let retries = opened.as_ref().map_or_else(ClientError::retries, Call::retries);
    forward.attempts = 1 + retries.len() as u32;
    forward.peer_addr = opened.as_ref().map_or_else(ClientError::peer_addr, Call::peer_addr);
    forward.status = None;
}

/// Takes the next interim response. Returns false once the final one has come.
async fn next_interim(call: &RefCell<CallExchange>) -> Result<bool> {
    poll_fn(|cx| call.borrow_mut().poll_interim(cx)).await.map_err(gateway_error)
}

/// The field that names a file to a server in front, and to no client. It counts in a final head alone.
const ACCEL_REDIRECT: &str = "x-accel-redirect";

/// Gives the connection to the server behind back, once its response was `received`, and returns the trailers. One that has
/// failed is closed. Inlined, since a call is large.
#[inline]
fn end_behind(
    received: Result,
    call: RefCell<CallExchange>,
    connection_options: &Headers,
) -> Result<Headers> {
    received?;
    let trailers = response_trailers(&mut call.borrow_mut(), connection_options);
    call.into_inner().release();
    Ok(trailers)
}

/// The trailers of the response, except those that its `connection_options` name (RFC 9110 §7.6.1).
fn response_trailers(call: &mut CallExchange, connection_options: &Headers) -> Headers {
    let mut trailers = call.received_trailers().forwarded_trailers(connection_options);
    trailers.remove(ACCEL_REDIRECT);
    // The fields that the handler had set are still there.
    remove_sent(&mut trailers, &call.response_head().headers);
    trailers
}

/// Removes the trailers whose names are those of fields of the gateway: a recipient that takes trailers for fields would
/// have two values, of which one is not the gateway's.
fn remove_sent(trailers: &mut Headers, fields: &Headers) {
    if trailers.is_empty() {
        return;
    }
    for (name, _) in fields {
        trailers.remove(name);
    }
}

/// Forwards the body of a request to the server behind. A pump can be stopped at any time, and continues where it was.
struct Pump<'c> {
    call: &'c RefCell<CallExchange>,
    piece: Vec<u8>,
    /// How many bytes of `piece` have been sent.
    sent: usize,
    /// How many bytes of a body that was received before have come into `piece`.
    buffered: usize,
    copied: CopiedNames,
}

impl Pump<'_> {
    fn new(call: &RefCell<CallExchange>, copied: CopiedNames) -> Pump<'_> {
        Pump { call, piece: Vec::new(), sent: 0, buffered: 0, copied }
    }

    /// Runs as [`Pump::run`] does, and then discards the rest of the body.
    async fn run_and_discard(&mut self, body: &mut BodyReader<'_>) -> Result {
        self.run(body).await?;
        discard(body).await
    }

    /// Whether the server behind still reads the body.
    fn is_body_wanted(&self) -> bool {
        self.call.borrow().is_body_wanted()
    }

    /// Runs until all that is still to come of `body` has been sent, or the server reads no more of it.
    async fn run(&mut self, body: &mut BodyReader<'_>) -> Result {
        while self.is_body_wanted() {
            while self.sent < self.piece.len() {
                let piece = &self.piece[self.sent..];
                self.sent += self.poll_call(|call, cx| call.poll_data(cx, piece)).await?;
                debug_assert!(self.sent <= self.piece.len(), "no more is sent than the piece has");
            }
            let piece = async { Ok(body.chunk().await?) };
            // A peer that pauses may wait for a response to the part that it has sent.
            let flush = self.poll_call(CallExchange::poll_sent);
            let Some(piece) = join_first(piece, flush).await? else {
                let mut trailers = body.trailers().forwarded_trailers(&body.request.headers);
                trailers.remove_ambiguous();
                self.copied.remove_from(&mut trailers);
                if let Some(fields) = self.call.borrow().sent_fields() {
                    remove_sent(&mut trailers, fields);
                }
                return self.finish(&trailers).await;
            };
            self.piece.clear();
            self.piece.extend_from_slice(piece);
            self.sent = 0;
            self.buffered = self.buffered.max(body.buffered_read());
        }
        Ok(())
    }

    /// Ends the request.
    async fn finish(&self, trailers: &Headers) -> Result {
        let end = |call: &mut CallExchange, cx: &mut task::Context<'_>| {
            let ended = ready!(call.poll_end(cx, trailers));
            if !call.has_response() {
                // The task that awaits the response must be polled, since the time limit of the response begins now.
                cx.waker().wake_by_ref();
            }
            Poll::Ready(ended)
        };
        self.poll_call(end).await
    }

    /// Polls the call until `poll` is ready.
    async fn poll_call<T>(
        &self,
        mut poll: impl FnMut(&mut CallExchange, &mut task::Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Result<T> {
        poll_fn(|cx| poll(&mut self.call.borrow_mut(), cx)).await.map_err(gateway_error)
    }
}

/// Discards the rest of a body, since many peers read no response before they have sent the whole request.
async fn discard(body: &mut BodyReader<'_>) -> Result {
    while let Ok(Some(_)) = body.chunk().await {}
    Ok(())
}

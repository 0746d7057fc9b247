//! [`Context`]: one exchange, as its handler sees it.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use super::body_filter::FilteredBody;
use super::body_reader::BodyReader;
use super::body_writer::BodyWriter;
use super::extensions::Extensions;
use super::head_filter::{HeadFilters, SentKind};
use super::transform::Transform;
use crate::exchange::{Cancel, ExchangeError, Expectation, Incoming, Timeouts};
use crate::memory::{Reset, clear_cold};
use crate::message::{Headers, PathParams, Request, Response, Status, Version};
use crate::net::{PeerAddr, PeerCredentials, Transport};
use crate::server::core_state::CoreState;
use crate::server::exchange::{Exchange, UnreadBody};
use crate::server::forwarded::{Forwarded, client_ip};
use crate::server::{RespondError, TrustedProxies};
use crate::wire::{Limits, encode};

/// One exchange: a request, its response, and the connection between client and server.
///
/// A handler borrows it. The response that the handler leaves in it is sent:
///
/// ```
/// use corehttp::{Context, Status};
///
/// fn greet(ctx: &mut Context) -> corehttp::Result {
///     let Context { request, response, .. } = ctx; // so that one can be read while the other is written
///     let name = request.query().get("name").ok_or(Status::BAD_REQUEST)?;
///     response.set_text(format!("Hello, {name}!"));
///     Ok(())
/// }
/// # let _ = corehttp::Server::new().service(greet);
/// ```
///
/// A body that is too large for memory is read with [`Context::body_reader`], and written with
/// [`Context::body_writer`].
///
/// A path, a field, or borrowed JSON is a view of the request. While one is in use, the context as a whole cannot be
/// lent on, neither to a function nor to one of its methods (error E0502). There are three ways around that:
///
/// ```
/// use corehttp::{Context, Response};
///
/// async fn answer(ctx: &mut Context, name: &str) -> corehttp::Result {
///     ctx.response.set_text(format!("Hello, {name}!"));
///     Ok(())
/// }
///
/// async fn with_a_copy(ctx: &mut Context) -> corehttp::Result {
///     let name = ctx.request.path()[1..].to_owned(); // a number, by `parse`, is a copy, too
///     answer(ctx, &name).await
/// }
///
/// async fn with_the_parts(ctx: &mut Context) {
///     let Context { request, response, .. } = ctx;
///     let write = async |response: &mut Response, name: &str| response.set_text(format!("Hello, {name}!"));
///     write(response, &request.path()[1..]).await;
/// }
///
/// async fn with_the_request_taken_out(ctx: &mut Context) -> corehttp::Result {
///     let request = std::mem::take(&mut ctx.request);
///     let outcome = answer(ctx, &request.path()[1..]).await;
///     ctx.request = request; // so that its memory is used again
///     outcome
/// }
/// # let check = |response: Response| assert_eq!(response.body.text(), Ok("Hello, Ada!"));
/// # let server = corehttp::Server::new;
/// # corehttp::block_on(async {
/// #     let request = || corehttp::Request::get("/Ada").unwrap();
/// #     check(server().service(with_a_copy).respond(request()).await);
/// #     check(server().service(with_the_parts).respond(request()).await);
/// #     check(server().service(with_the_request_taken_out).respond(request()).await);
/// # }).unwrap();
/// ```
///
/// Everything in it is reused for the next exchange. So a view of the request cannot be kept longer, as the compiler
/// ensures:
///
/// ```compile_fail
/// use corehttp::{Context, Server};
///
/// let kept = std::sync::Mutex::new(Vec::new());
/// Server::bind("127.0.0.1:8080").run(move |ctx: &mut Context| {
///     kept.lock().unwrap().push(ctx.request.path());
/// });
/// ```
#[doc(alias = "RequestCtx")]
pub struct Context {
    /// The request, with its body unless the [plan](crate::BodyPlan) is to stream.
    pub request: Request,
    /// The response, unless the handler sends it itself, for example with [`Context::body_writer`].
    pub response: Response,
    /// Values that middleware passes on to the handlers it wraps.
    pub extensions: Extensions,
    /// Changes the response on its way to the peer, if the handler streams it. Set by middleware.
    pub transform: Option<Box<dyn Transform>>,
    /// Change the head of a response that the handler sends itself. Set by middleware.
    pub(crate) head_filters: HeadFilters,
    /// The connection, and both sides of the exchange on it.
    pub(in crate::server) exchange: Exchange,
}

/// For the connection's loop.
impl Context {
    pub(in crate::server) fn new(core: Rc<CoreState>) -> Box<Context> {
        Box::new(Context {
            request: Request::default(),
            response: Response::default(),
            extensions: Extensions::default(),
            transform: None,
            head_filters: HeadFilters::default(),
            exchange: Exchange::new(core),
        })
    }

    /// Forgets the exchange, to be ready for the next head.
    #[inline(always)]
    pub(in crate::server) fn begin_next(&mut self) {
        self.request.reset();
        self.response.reset();
        self.exchange.begin_next();
        self.give_back_large(|_| false);
    }
}

impl Context {
    /// Returns a [`BodyReader`], to read the request's body as it arrives. If the body was buffered, the buffer is
    /// read, by each reader from its start.
    ///
    /// The unread part is discarded after the handler, or during the writes of the response. Beyond
    /// [`Limits::drain_max`](crate::Limits::drain_max), the connection is closed after the response.
    ///
    /// # Examples
    ///
    /// An upload of a file with PUT or POST. The plan lets the handler start before the body has arrived. After an
    /// error, or a drop of the handler, a part of the file is left for the handler to remove. `Part::save`, for uploads
    /// of forms, removes it.
    ///
    /// ```no_run
    /// use corehttp::middleware::wrap;
    /// use corehttp::{BodyPlan, Context, Server};
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
    ///     Server::bind("127.0.0.1:8080").run(wrap(BodyPlan::Stream, save))
    /// }
    /// ```
    pub fn body_reader(&mut self) -> BodyReader<'_> {
        let Context { request, extensions, exchange: Exchange { incoming, conn, .. }, .. } = self;
        BodyReader::new(request, incoming.get_mut(), conn, extensions.get_mut())
    }

    /// Receives the rest of a body that the plan was to stream: its bytes into `ctx.request.body`, and its trailers
    /// into `ctx.request.trailers`. A body that has already been received is not changed. See
    /// [`middleware`](crate::middleware#guards-that-wait) for a guard that decides first, with the body left for later.
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed, too slow, or larger than
    /// [`Limits::body_max`](crate::Limits::body_max). Then `ctx.request.body` is empty, and each further call fails.
    /// After the beginning of a response, a call fails if a part of the body is lost.
    ///
    /// A dropped future leaves the content so far in `ctx.request.body`. Another call receives the rest.
    pub async fn buffer_body(&mut self) -> io::Result<()> {
        self.buffer_body_up_to(self.limits().body_max).await
    }

    /// Receives the rest of a body as [`Context::buffer_body`] does, up to `most` bytes.
    ///
    /// # Errors
    ///
    /// As [`Context::buffer_body`], with `most` in place of [`Limits::body_max`](crate::Limits::body_max).
    pub async fn buffer_body_up_to(&mut self, most: usize) -> io::Result<()> {
        let incoming = self.exchange.incoming.get_mut();
        if incoming.has_discarded() || incoming.taken.is_claimed {
            return Err(ExchangeError::Discarded.into());
        }
        let buffered = self.receive_body(most).await;
        let Context { request, exchange: Exchange { incoming, .. }, .. } = self;
        let incoming = incoming.get_mut();
        match buffered {
            // A reader that has come to the end before has left the trailers behind.
            Ok(()) if request.trailers.is_empty() => {
                mem::swap(&mut request.trailers, &mut incoming.trailers);
            }
            Ok(()) => {}
            Err(_) => {
                incoming.give_up();
                request.body.clear();
            }
        }
        buffered
    }

    /// Begins the response, and returns a [`BodyWriter`] for its body.
    ///
    /// The head leaves with the first bytes of the body, with [`BodyWriter::flush`], or as soon as the handler waits.
    ///
    /// The body is sent in chunks, or with the `content-length` that was set. To an HTTP/1.0 peer, a body without a
    /// length ends when the connection closes. If the body is not [finished](BodyWriter::finish), the connection is
    /// aborted.
    ///
    /// From here on, the rest of the request's body may be discarded, and to read it is an error. Many peers take
    /// nothing of a response before they have sent all of their request. To read the body meanwhile, use
    /// [`Context::duplex`].
    ///
    /// # Errors
    ///
    /// Fails with a [`RespondError`] after another response, or with a status of 1xx.
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
        if !self.head_filters.is_empty() {
            self.pass_head(SentKind::Stream).await?;
        }
        let (mut writer, incoming, _) = self.writer(UnreadBody::Drain)?;
        writer.incoming = Some(incoming);
        Ok(writer)
    }

    /// Begins the response, and returns a [`BodyReader`] for the request's body and a [`BodyWriter`] for the response's, to
    /// use at the same time. See [`Context::body_writer`].
    ///
    /// The handler must read the body beside its writes, as with `tokio::try_join!`. Many peers take nothing of a
    /// response before they have sent all of their request. Without reads, a large body and a large response then stand
    /// still, and the write fails after [`Timeouts::write`](crate::Timeouts::write). To discard the body, use
    /// [`Context::body_writer`].
    ///
    /// # Errors
    ///
    /// Fails as [`Context::body_writer`] does. Also fails if the connection fails.
    pub async fn duplex(&mut self) -> io::Result<(BodyReader<'_>, BodyWriter<'_>)> {
        let incoming = self.exchange.incoming.get_mut();
        if incoming.expectation == Expectation::Continue {
            // A peer that has begun to send the body, or has sent it, does not wait for 100.
            if incoming.input.is_empty() && !incoming.is_end_stream() {
                self.send_informational(Status::CONTINUE, &Headers::new()).await?;
            }
            self.exchange.incoming.get_mut().expectation = Expectation::None;
        }
        self.pass_head(SentKind::Stream).await?;
        let (writer, incoming, filtered) = self.writer(UnreadBody::Keep)?;
        Ok((BodyReader::new(writer.request, incoming.get_mut(), writer.conn, filtered), writer))
    }

    /// Sends an interim response, such as 103 with `link` fields (RFC 9110 §15.2, RFC 8297). A peer that speaks
    /// HTTP/1.0 gets none.
    ///
    /// # Errors
    ///
    /// Fails if the connection does. Fails with a [`RespondError`] for a status of 101 or outside of 1xx, and after a
    /// final response.
    #[doc(alias = "early_hints")]
    pub async fn send_informational(&mut self, status: Status, fields: &Headers) -> io::Result<()> {
        self.check_unsent()?;
        if !status.is_informational() || status == Status::SWITCHING_PROTOCOLS {
            return Err(RespondError::Status(status.as_u16()).into());
        }
        if !self.takes_informational() {
            return Ok(());
        }
        self.exchange.write_head(|out| encode::interim(out, status, fields, None))?;
        self.exchange.flush().await
    }

    /// Returns the parameters of the matched route, as [`Request::params`] does. The result borrows the whole context.
    /// That of `ctx.request.params()` leaves the response free.
    pub fn params(&self) -> PathParams<'_> {
        self.request.params()
    }

    /// Returns the limits of this exchange: those of the server, unless they were changed.
    pub fn limits(&self) -> Limits {
        self.exchange.conn.bounds(|bounds| bounds.limits)
    }

    /// Changes the limits of content, chunks and trailers of this exchange alone. See [`limits`](crate::middleware::limits).
    pub fn set_limits(&mut self, limits: Limits) {
        self.exchange.change_bounds(|bounds| bounds.limits = limits.capped());
    }

    /// Returns the time limits of this exchange: those of the server, unless they were changed.
    pub fn timeouts(&self) -> Timeouts {
        self.exchange.conn.bounds(|bounds| bounds.timeouts)
    }

    /// Changes the time limits of this exchange alone, from here on, but not [`Timeouts::head`], [`Timeouts::idle`] and
    /// [`Timeouts::connection_age`]. See [`middleware::timeouts`](crate::middleware::timeouts).
    pub fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.exchange.change_bounds(|bounds| bounds.timeouts = timeouts);
    }

    /// Lets the handler run to its end although its peer may be gone. See
    /// [`middleware::uncancelled`](crate::middleware::uncancelled).
    pub fn set_uncancelled(&mut self) {
        self.exchange.change_bounds(|bounds| bounds.cancel = Cancel::Never);
        self.exchange.conn.forget_waits();
    }

    /// Waits until the peer has closed the connection, or its sending half. The two look the same.
    ///
    /// By default, a waiting handler is dropped then. The method is for handlers that go on:
    /// [uncancelled](Context::set_uncancelled) ones, and those at [`Server::half_close`](crate::Server::half_close).
    ///
    /// Over a stream other than a socket, up to 64 KiB of input are kept meanwhile. A close after more than that is not
    /// noticed.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// # async fn search() -> String { String::new() }
    /// # async fn note_aborted() {}
    ///
    /// async fn report(ctx: &mut Context) {
    ///     ctx.set_uncancelled();
    ///     tokio::select! {
    ///         found = search() => ctx.response.set_text(found),
    ///         () = ctx.peer_closed() => note_aborted().await,
    ///     }
    /// }
    /// # let _ = corehttp::Server::new().service(report);
    /// ```
    pub async fn peer_closed(&self) {
        poll_fn(|cx| self.exchange.conn.poll_peer_closed(cx)).await;
    }

    /// Whether the peer expects `100 Continue`, by the fields of the request (RFC 9110 §10.1.1).
    pub(crate) fn expects_continue(&self) -> bool {
        Expectation::from_headers(&self.request.headers) == Ok(Expectation::Continue)
    }

    /// Whether interim responses reach the peer. One that speaks HTTP/1.0 gets none, nor is there one without a connection.
    pub(crate) fn takes_informational(&self) -> bool {
        let Exchange { info, .. } = &self.exchange;
        info.request_info.version != Version::Http10 && !info.is_captured
    }

    pub(crate) fn check_unsent(&self) -> io::Result<()> {
        if self.exchange.outgoing.has_begun() { Err(RespondError::Sent.into()) } else { Ok(()) }
    }

    /// Writes the head, and returns the writer, with the receiving side and the filter for a reader.
    fn writer(
        &mut self,
        unread: UnreadBody,
    ) -> io::Result<(BodyWriter<'_>, &mut RefCell<Incoming>, Option<&mut FilteredBody>)> {
        self.check_unsent()?;
        let Context { request, response, extensions, transform, exchange, .. } = self;
        let (writer, incoming) =
            BodyWriter::begin(request, response, transform.as_deref_mut(), exchange, unread)?;
        Ok((writer, incoming, extensions.get_mut()))
    }

    /// Returns the address of the peer that connected. Behind a proxy that is the proxy's address: see
    /// [`Context::client_ip`].
    #[doc(alias("remote_addr", "ConnectInfo"))]
    pub fn peer_addr(&self) -> PeerAddr {
        self.exchange.peer().addr
    }

    /// Returns the local address that the peer connected to. `None` without TCP, after an upgrade, and at a
    /// [`Service`](crate::Service).
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.exchange.conn.with(|conn| conn.transport.local_addr()).flatten()
    }

    /// Returns which process has connected through a Unix socket, by the report of the system (`SO_PEERCRED`,
    /// `getpeereid`). `None` on other connections, and after an upgrade.
    #[doc(alias("ucred", "uid", "SO_PEERCRED"))]
    pub fn peer_credentials(&self) -> Option<PeerCredentials> {
        self.exchange.conn.with(|conn| conn.transport.peer_credentials()).flatten()
    }

    /// Returns whether the connection is over TLS. `Context::tls`, with feature `tls`, returns its session. A proxy may
    /// have a secure connection to the client, and one in the clear to this server.
    pub fn is_secure(&self) -> bool {
        self.exchange.conn.with(|conn| matches!(conn.transport, Transport::Tls(_))).unwrap_or_default()
    }

    /// Whether the connection began with a PROXY header, if only with one that names no client.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn has_proxy_header(&self) -> bool {
        self.exchange.rare_state().is_some_and(|rare_state| rare_state.proxy_header.is_some())
    }

    /// Returns the connection's state from [`Server::on_connect`](crate::Server::on_connect), if it is of this type.
    /// `None` after an upgrade.
    pub fn connection_state<T: 'static>(&self) -> Option<Rc<T>> {
        self.exchange.rare_state()?.state()
    }

    /// Returns the number of the connection, unique within this server. With [`Context::exchange_number`] it identifies
    /// the request, in logs for example. An [`ErrorReport`](crate::server::ErrorReport) has both, too.
    #[doc(alias = "request id")]
    pub fn connection_id(&self) -> u64 {
        self.exchange.peer().id
    }

    /// Returns the number of this exchange on its connection, counted from 1.
    pub fn exchange_number(&self) -> u64 {
        self.exchange.info.exchange_count
    }

    /// Returns when the last bytes of the request's head arrived. For a pipelined request, the time may be as late as
    /// the end of the exchanges before it.
    pub fn arrived_at(&self) -> Instant {
        self.exchange.info.arrived
    }

    /// Returns whether the response has begun, for example with [`Context::body_writer`](super::Context::body_writer)
    /// or [`Context::forward`](super::Context::forward). From then on it is too late to change the response.
    #[doc(alias("headers_sent", "is_committed"))]
    pub fn has_responded(&self) -> bool {
        self.exchange.outgoing.has_begun()
    }

    /// Returns whether a stop has been ordered. This response is then the last one of its connection, unless its head
    /// was sent before.
    ///
    /// From then on, [`Health::ready`](crate::health::Health::ready) refuses. New connections are accepted until
    /// [`Server::stop_delay`](crate::Server::stop_delay) is over. Work that lasts waits for [`Context::stopping`].
    pub fn is_stop_ordered(&self) -> bool {
        self.exchange.conn.core().connections.is_stop_ordered()
    }

    /// Waits for the stop of the server, after its [`stop_delay`](crate::Server::stop_delay).
    ///
    /// The future does not borrow the context. So a long stream, or an upgraded connection, can wait for it alongside
    /// other work, and finish within the grace period.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{pin::pin, time::Duration};
    /// use corehttp::Context;
    ///
    /// async fn ticks(ctx: &mut Context) -> corehttp::Result {
    ///     let mut stopping = pin!(ctx.stopping());
    ///     let mut out = ctx.body_writer().await?;
    ///     loop {
    ///         tokio::select! {
    ///             () = &mut stopping => break,
    ///             () = tokio::time::sleep(Duration::from_secs(60)) => out.write_all(b"tick\n").await?,
    ///         }
    ///         out.flush().await?;
    ///     }
    ///     Ok(out.finish().await?)
    /// }
    /// # let _ = corehttp::Server::new().service(ticks);
    /// ```
    pub fn stopping(&self) -> impl Future<Output = ()> + use<> {
        let connections = self.exchange.conn.core().connections.clone();
        async move { connections.stopping().await }
    }

    /// Returns the IP address of the client, even behind your own proxies.
    ///
    /// Only a peer that [`Server::trusted_proxies`](crate::Server::trusted_proxies) covers counts as a proxy, by its
    /// address or on a Unix socket. Any other peer is the client. Behind a proxy, the client is the last address in the
    /// request's `x-forwarded-for` fields that is not a proxy's. Each proxy appends the address of its own peer, and
    /// anything before that may be made up. If all of the addresses are proxies', the first one is the client's.
    /// Without the field, the peer is the client. So let your proxies append to that field, as nginx does with
    /// `$proxy_add_x_forwarded_for`. Or let them append to `forwarded` ([`TrustedProxies::headers`]), which has the
    /// same rules. `None` for an unknown client, such as a peer without an address, or a client hidden by a proxy.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Server, Status, TrustedProxies};
    ///
    /// fn greet(ctx: &mut Context) -> corehttp::Result {
    ///     let client = ctx.client_ip().ok_or(Status::FORBIDDEN)?;
    ///     Ok(ctx.response.set_text(format!("Hello, {client}!")))
    /// }
    ///
    /// # let _ = || -> corehttp::Result {
    /// let proxies = TrustedProxies::new(["10.0.0.0/8"])?;
    /// Server::bind("[::]:8080").trusted_proxies(proxies).run(greet)
    /// # };
    /// ```
    #[doc(alias("realip_remote_addr", "x-forwarded-for", "real ip"))]
    pub fn client_ip(&self) -> Option<IpAddr> {
        client_ip(self.peer_addr(), &self.request.headers, self.trusted_proxies())
    }

    /// Returns the request as its client has sent it, even behind your own proxies: its address, scheme and host.
    ///
    /// Of `forwarded` (RFC 7239), the member of the first proxy counts. Of `x-forwarded-host`, the last value counts,
    /// since others may be the client's. Of `x-forwarded-proto`, [the value of the client's
    /// hop](crate::server::ForwardedHeader::XForwardedProto) counts. So a proxy behind another one passes on the values
    /// of that one. Fields outside of [`TrustedProxies::headers`] are ignored. So are those of a peer that is no proxy.
    /// The scheme of a connection whose PROXY header describes TLS is `https`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// fn base(ctx: &Context) -> Option<String> {
    ///     let forwarded = ctx.forwarded();
    ///     Some(format!("{}://{}/", forwarded.scheme?, forwarded.authority?))
    /// }
    /// ```
    #[doc(alias("x-forwarded-proto", "x-forwarded-host", "scheme"))]
    pub fn forwarded(&self) -> Forwarded<'_> {
        let is_secure = self.is_secure_in_front();
        Forwarded::from_request(&self.request, self.peer_addr(), is_secure, self.trusted_proxies())
    }

    pub(crate) fn trusted_proxies(&self) -> &TrustedProxies {
        &self.exchange.conn.core().proxies.trusted
    }

    /// Whether the peer has a secure connection: to this server, or to the proxy whose PROXY header describes it.
    pub(crate) fn is_secure_in_front(&self) -> bool {
        let header = || self.exchange.rare_state()?.proxy_header.clone();
        self.is_secure() || header().is_some_and(|header| header.has_tls())
    }
}

impl Reset for Context {
    fn reset(&mut self) {
        let Context { request, response, extensions, transform, head_filters, exchange } = self;
        request.reset();
        response.reset();
        extensions.clear();
        clear_cold(transform);
        clear_cold(&mut head_filters.first);
        clear_cold(&mut head_filters.fields);
        clear_cold(&mut head_filters.saver);
        exchange.reset();
        self.give_back_large(CoreState::may_keep_large);
    }

    fn shrink(&mut self) -> usize {
        size_of::<Context>() + self.request.shrink() + self.response.shrink() + self.exchange.shrink()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("request", &self.request)
            .field("response", &self.response)
            .field("extensions", &self.extensions)
            .field("info", &self.exchange.info)
            .finish_non_exhaustive()
    }
}

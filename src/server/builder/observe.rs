//! `Server::observe`, and its shorthands for a single event.

use std::sync::Arc;

use super::server::Server;
use crate::server::error::ErrorReport;
use crate::server::opening::OpenedConnection;
use crate::server::report::{ConnectionReport, CoreEvents, ExchangeReport, Observer};

impl Server {
    /// Adds an observer, such as an access log or metrics. Default: none, which costs nothing. Observers are called in
    /// the order in which they were added.
    pub fn observe(mut self, observer: impl Observer) -> Server {
        self.settings.observers.push(Arc::new(observer));
        self
    }

    /// Adds a function that is called with each refused request and each failed exchange. Failures without a
    /// [`request`](ErrorReport::request), such as bad handshakes and malformed heads, are reported at most once a
    /// second for each kind and core. If a connection fails with its refusal unsent, no second call follows. Default:
    /// none.
    ///
    /// For lines in a log, use an [`ErrorLog`](crate::server::ErrorLog). A function is for anything else, such as an
    /// alarm. The log has the reports that [are faults of the server](ErrorReport::is_fault). The others are refusals
    /// of peers, or their failures. Peers cause those without a request as fast as they connect. So the next report has
    /// the number of those left out ([`ErrorReport::suppressed`]). The kinds are those of
    /// [`ErrorCounts`](crate::server::ErrorCounts), bad PROXY headers, refusals of a TLS resolver, connections beyond
    /// the limit, and peers with too many. Certificates are all reported. Each failure is counted by
    /// [`ServerHandle::counts`](crate::ServerHandle::counts). Each malformed head goes to [`Server::on_exchange`], and
    /// each connection to [`Server::on_disconnect`], for instance to ban its peer.
    ///
    /// The function is not called for:
    ///
    /// - a handler that fails with a bare [`Status`](crate::Status), except in the middle of a response
    /// - a peer that got an error and then closes before the end of its body
    /// - a connection that is cut at the end of a stop's grace period
    ///   ([`CoreCounts::aborted`](crate::server::CoreCounts::aborted))
    ///
    /// The function runs on the core of the error, so it should return quickly.
    pub fn on_error(self, on_error: impl Fn(&ErrorReport<'_>) + Send + Sync + 'static) -> Server {
        let on_error = Arc::new(on_error);
        self.observe(move |core: &mut CoreEvents| {
            let on_error = on_error.clone();
            core.on_error(move |report| on_error(report));
        })
    }

    /// Adds a function that is called at the end of each exchange, for access logs, traces and metrics. Default: none,
    /// which costs nothing.
    ///
    /// An exchange ends when the operating system has taken all of its response, or with a [cut](ExchangeReport::cut).
    /// The function is called for streams, files, upgrades (when the handler ends) and services of tower as for other
    /// responses. Requests that were refused before a handler count as well. Responses to pipelined requests then leave
    /// one by one. The function runs on the core of the exchange, so it should return quickly. A panic of it is
    /// ignored.
    pub fn on_exchange(self, on_exchange: impl Fn(&ExchangeReport<'_>) + Send + Sync + 'static) -> Server {
        let on_exchange = Arc::new(on_exchange);
        self.observe(move |core: &mut CoreEvents| {
            let on_exchange = on_exchange.clone();
            core.on_exchange(move |report| on_exchange(report));
        })
    }

    /// Adds a function that is called with each new connection before its first request, after its PROXY header and its
    /// TLS handshake. It may refuse the connection, or give it a state. Default: none, which costs nothing.
    ///
    /// The function runs on the core of the connection, so it should return quickly. A panic of it refuses the
    /// connection.
    ///
    /// # Examples
    ///
    /// The requests of one connection share a count, without locks:
    ///
    /// ```
    /// use std::cell::Cell;
    /// use corehttp::{Client, Context, Server};
    /// use corehttp::net::MemoryListener;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// Server::bind(listener)
    ///     .on_connect(|connection| connection.set_state(Cell::new(0u32)))
    ///     .start(|ctx: &mut Context| {
    ///         let count = ctx.connection_state::<Cell<u32>>().expect("each connection has one");
    ///         count.set(count.get() + 1);
    ///         ctx.response.set_text(format!("request {} of its connection", count.get()));
    ///     })?;
    /// # client.get("http://a/").await?;
    /// # assert_eq!(client.get("http://a/").await?.text()?, "request 2 of its connection");
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("ConnState", "ConnContext", "on_open", "into_make_service_with_connect_info"))]
    pub fn on_connect(
        self,
        on_connect: impl Fn(&mut OpenedConnection<'_>) + Send + Sync + 'static,
    ) -> Server {
        let on_connect = Arc::new(on_connect);
        self.observe(move |core: &mut CoreEvents| {
            let on_connect = on_connect.clone();
            core.on_connect(move |connection| on_connect(connection));
        })
    }

    /// Adds a function that is called at the end of each connection, even after a panic, a reset or a stop. The
    /// function also gets refused connections and failed handshakes, which [`Server::on_connect`] has not seen
    /// ([`ConnectionReport::has_opened`]). Default: none, which costs nothing.
    ///
    /// An upgraded connection ends when its [`Upgraded`](crate::server::Upgraded) is dropped. At a
    /// [`Service`](crate::Service), the end is the return of its handler. The function runs on the core of the
    /// connection, so it should return quickly. A panic of it is ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use corehttp::{Context, Server};
    /// use corehttp::server::ConnectionEnd;
    ///
    /// // A thread of the application takes the lines, and writes them.
    /// let (lines, taken) = mpsc::sync_channel(1_000);
    /// let server = Server::new().on_disconnect(move |connection| {
    ///     if connection.end != ConnectionEnd::Idle {
    ///         let _ = lines.try_send(connection.to_string());
    ///     }
    /// });
    /// # drop(taken);
    /// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
    /// ```
    #[doc(alias("ConnState", "on_close"))]
    pub fn on_disconnect(self, on_disconnect: impl Fn(&ConnectionReport) + Send + Sync + 'static) -> Server {
        let on_disconnect = Arc::new(on_disconnect);
        self.observe(move |core: &mut CoreEvents| {
            let on_disconnect = on_disconnect.clone();
            core.on_disconnect(move |report| on_disconnect(report));
        })
    }
}

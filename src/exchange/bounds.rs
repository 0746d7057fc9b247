//! [`Bounds`]: how much an exchange may take, in bytes and in time; [`Cancel`]: whether it ends when its peer leaves.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{ExchangeError, Phase};
use crate::message::Body;
use crate::net::{Conn, PeerEnd, TimerSlot};
use crate::runtime::{MemoryBudget, MemoryShare};
use crate::wire::Limits;

/// All bounds of an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) cancel: Cancel,
    /// The memory that all peers share.
    pub(crate) memory: MemoryBudget,
}

impl Bounds {
    /// Drops what bounds a peer, for an exchange that has none: nobody leaves, and nobody fills memory.
    pub(crate) fn without_peer(&mut self) {
        self.cancel = Cancel::Never;
        self.memory = MemoryBudget::default();
    }

    /// Waits until `share` has at least so many bytes of memory.
    ///
    /// # Errors
    ///
    /// - 413: a share never has so many.
    /// - 503: others have held them for [`Timeouts::body`], or need those of this share.
    /// - 408: others wait, and `share` has had some for longer than [`Timeouts::body`].
    pub(crate) fn poll_memory(
        &self,
        cx: &mut Context<'_>,
        share: &mut MemoryShare,
        bytes: usize,
    ) -> Poll<Result<(), ExchangeError>> {
        let limit = self.timeouts.body;
        if share.is_overdue(&self.memory, limit) {
            return Poll::Ready(Err(ExchangeError::TimedOut(Phase::Body, limit.into())));
        }
        let grown = share.poll_grow_to(cx, &self.memory, bytes, limit);
        grown.map_err(ExchangeError::from_memory)
    }

    /// Ready with the error of a response in memory that was not taken within [`Timeouts::write`] of its first poll, if less than
    /// half of the memory is free: it alone may be why others are refused. One without a share has no such limit.
    pub(crate) fn poll_response_timeout(
        &self,
        cx: &mut Context<'_>,
        conn: &mut Conn,
        body: &Body,
        share: &MemoryShare,
    ) -> Poll<ExchangeError> {
        let limit = self.timeouts.write;
        // The share may be that of the request alone.
        if share.len() == 0 || body.memory_held() == 0 {
            return Poll::Pending;
        }
        let error = ready!(conn.poll_timeout(cx, TimerSlot::Other, limit));
        match self.memory.is_plentiful() {
            // The next progress, or the end of the time for a single write, polls again.
            true => Poll::Pending,
            false => Poll::Ready(ExchangeError::during(Phase::Write, limit)(error)),
        }
    }
}

/// Which way a peer ends cancels a handler that waits, and a response whose content is still made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// An end of any kind. Most peers that close their sending half have closed the connection.
    #[default]
    OnClose,
    /// A reset. A peer that closes its sending half waits for its response (RFC 9112 §9.6).
    OnReset,
    /// Nothing.
    Never,
}

impl Cancel {
    /// Ready with the error of a peer that is gone. While a write waits, only a reset counts: a peer that has closed its
    /// sending half may still read.
    pub(crate) fn poll_gone(self, cx: &mut Context<'_>, conn: &mut Conn) -> Poll<ExchangeError> {
        if self == Cancel::Never {
            return Poll::Pending;
        }
        let end = ready!(conn.poll_peer_end(cx));
        let is_written_to = conn.is_armed(TimerSlot::Write) && end == PeerEnd::Eof;
        match self.applies_to(end) && !is_written_to {
            true => Poll::Ready(ExchangeError::PeerClosed),
            // Deliberately no waker: such a peer sends nothing more, and the next write meets a reset that follows.
            false => Poll::Pending,
        }
    }

    /// The same for a response that a peer which has closed its sending half may still read.
    pub(crate) fn only_on_reset(self) -> Cancel {
        if self == Cancel::Never { Cancel::Never } else { Cancel::OnReset }
    }

    /// Whether a peer that has ended like this is gone.
    pub(crate) fn applies_to(self, end: PeerEnd) -> bool {
        match self {
            Cancel::OnClose => true,
            Cancel::OnReset => end == PeerEnd::Failed,
            Cancel::Never => false,
        }
    }
}

/// The time limits of a server, for peers and handlers. A limit that a server can do without is an `Option`. `None` is no
/// limit.
///
/// The cores of a server check them four times a second. A timeout is never early, and up to half a second late.
///
/// All fields are public and stay so. A later release may add fields. Literals with `..Timeouts::default()` and patterns with
/// `..` work with both.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Timeouts;
///
/// let timeouts = Timeouts { idle: Duration::from_secs(30), ..Timeouts::default() };
/// # assert_eq!(timeouts.head, Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Receiving a whole head, from its first byte, or from the accept for the first head of a connection. Then: close, with
    /// 408 for a begun head. Default: 10 s.
    pub head: Duration,
    /// How long a request may wait for its turn on a busy core. Then: 503 with `retry-after`, before its body is received.
    /// Default: 400 ms.
    ///
    /// A server with more requests than its cores can handle lets them wait. In the end hardly any response is in time, and the
    /// peers of most have given up. A refusal takes about 7 us of a core, and leaves its time to those who are not late. It
    /// counts as an error of the kind `overload`. A good limit is a fifth of the time for which clients wait.
    ///
    /// The wait is that of the connection's task in the queue of its core, while the core is behind. It is known to within a
    /// factor of two. Most peers that are served have waited for up to twice the limit. Connections that are not accepted yet
    /// wait longer. A core that keeps up refuses nothing, at any rate of requests. It finds out within a quarter of a second that
    /// it is behind.
    ///
    /// A few handlers that compute for long are no overload. So the longest turn does not count, and up to sixteen turns
    /// refuse nobody.
    ///
    /// Waits for a database or another server are none for the core. For those, use a
    /// [`ConcurrencyLimit`](crate::middleware::ConcurrencyLimit). Probes of [`Health`](crate::health::Health) and pages of
    /// metrics wait in the same queue, but are never refused. Other [routes](crate::middleware::timeouts) may have a limit of
    /// their own, or none. A [`Service`](crate::Service), whose runtime is the application's, refuses nothing.
    pub queue: Option<Duration>,
    /// The wait for each next byte of a body, unless the response has to leave first. Then: 408, close. Default: 30 s.
    ///
    /// Only the time counts in which the server waits for the body. Time that a handler spends otherwise does not count, even
    /// after a given-up read.
    pub body: Duration,
    /// How long the server waits for a body in all before [`Timeouts::body_rate_min`] applies. A body that came faster may then
    /// pause for as long. Default: 10 s.
    pub body_grace: Duration,
    /// How many bytes per second of a body must arrive on average, after [`Timeouts::body_grace`]. Below: 408, close. Default:
    /// 500.
    ///
    /// The average is over the time that the server has waited for the body. With zero, a body may be as slow as
    /// [`Timeouts::body`] allows. Zero suits peers that converse with a handler during its response.
    ///
    /// The last seconds decide. Faster bytes are credited for the next [`Timeouts::body_grace`] only. Megabytes that come at
    /// once do not let the rest come octet by octet.
    ///
    /// All bytes after the head count, even those in its packet. Bytes that complete the body are never refused. So a late body
    /// that comes whole is good, in one packet or in successive ones.
    pub body_rate_min: u64,
    /// The wait between requests. Then: close without a response. Default: 60 s.
    pub idle: Duration,
    /// How long a connection may stay open. Then: `connection: close` in the response in progress, or close of an idle
    /// connection. Default: no limit.
    ///
    /// Each connection has up to a tenth less. So connections that opened together are not closed together. With a limit,
    /// long-lived clients turn to other servers in time, such as new ones of a load balancer. The limit has no effect on a
    /// connection that was upgraded, nor for a single [route](crate::middleware::timeouts).
    pub connection_age: Option<Duration>,
    /// How long the peer may take nothing of what is written to it. Then: close. Default: 60 s, as nginx's
    /// `send_timeout`.
    ///
    /// Over a socket, bytes count as taken once the peer's operating system has acknowledged them. Some programs read a lot at
    /// once and then pause, such as `curl --limit-rate` for up to 100 s. Such a peer gets the time once more, after at least
    /// 256 KiB since the last such limit.
    ///
    /// While less than half of [`Limits::memory_max`](crate::Limits::memory_max) is free, a response with a share of it has
    /// this time in all.
    pub write: Duration,
    /// The handler, with all its waits. Default: no limit. Then: its future is dropped, 503, close. A response that has begun
    /// is cut.
    ///
    /// The handler's own sleep counts. So does a peer that sends or reads all the time. Middleware around the handler gets an
    /// error, and has as long again to finish.
    ///
    /// The time ends with an upgrade, such as that to WebSocket, and with the head of a stream of events (`text/event-stream`).
    /// These last as long as both sides like. As in nginx, HAProxy and Go, only silence ends them. All other responses count
    /// until they are sent, streamed ones as well. To end a WebSocket or a stream, use `tokio::time::timeout`.
    ///
    /// For a part of the application, such as a single route, there is
    /// [`middleware::timeouts`](crate::middleware::timeouts).
    pub handler: Option<Duration>,
    /// The time for a peer that may still be sending to read the last response of its connection and close. Then: close.
    /// Default: 30 s, as nginx's `lingering_time`.
    ///
    /// Many clients read a response only once they have sent their whole body. So the sending half is closed first. The rest of
    /// their input is read and discarded, however much it is. An earlier close would reset the connection, which fails the
    /// peer's writes and can take the response away (RFC 9112 §9.6). [`Limits::drain_max`](crate::Limits::drain_max) bounds
    /// only the input that is read to keep a connection.
    pub linger: Duration,
    /// The wait, within [`Timeouts::linger`], for each next byte. Then: close. Default: 5 s, as nginx's `lingering_timeout`.
    /// While the server stops, at most 250 ms.
    pub linger_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(10),
            queue: Some(Duration::from_millis(400)),
            body: Duration::from_secs(30),
            body_grace: Duration::from_secs(10),
            body_rate_min: 500,
            idle: Duration::from_secs(60),
            connection_age: None,
            write: Duration::from_secs(60),
            handler: None,
            linger: Duration::from_secs(30),
            linger_idle: Duration::from_secs(5),
        }
    }
}

//! [`ProxyProtocol`]: from which peers a PROXY header is read, and how.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use crate::exchange::{ExchangeError, Phase};
use crate::net::{Conn, PeerAddr, ProxyHeader, TimerSlot, poll_peek};
use crate::runtime;
use crate::server::error::{ErrorCause, ProxyHeaderFault};

/// From which peers a server reads a PROXY header, version 1 or 2, before anything else.
///
/// # Examples
///
/// Behind a load balancer in 10.0.0.0/8. The crate `ipnet` has types for networks.
///
/// ```no_run
/// use std::net::IpAddr;
/// use corehttp::{Context, Server};
/// use corehttp::proxy_protocol::ProxyProtocol;
///
/// fn main() -> corehttp::Result {
///     let balancers = |ip| matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 10);
///     Server::bind("[::]:80")
///         .proxy_protocol(ProxyProtocol::required(balancers))
///         .run(|ctx: &mut Context| ctx.response.set_text(format!("Hello, {}", ctx.peer_addr())))
/// }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ProxyProtocol {
    is_source: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    presence: Presence,
    on_unix_sockets: bool,
}

/// Whether a source may begin without a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

impl ProxyProtocol {
    /// Requires a header of the peers whose addresses `is_source` accepts. A connection of theirs without one is closed
    /// without a response, and reported.
    ///
    /// The header of any other peer is malformed HTTP or TLS, and refused as such: it could contain any address.
    pub fn required(is_source: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> ProxyProtocol {
        ProxyProtocol { is_source: Arc::new(is_source), presence: Presence::Required, on_unix_sockets: false }
    }

    /// Reads headers, if any, from the peers whose addresses `is_source` accepts. The mode is for a time in which only
    /// some proxies send headers.
    ///
    /// A client behind a proxy that sends none can write a header itself, with any address. So headers should be
    /// [required](ProxyProtocol::required) as soon as all proxies send them.
    pub fn optional(is_source: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> ProxyProtocol {
        ProxyProtocol { presence: Presence::Optional, ..ProxyProtocol::required(is_source) }
    }

    /// Sets whether a header is read on Unix sockets as well, required or optional as elsewhere. Default: no.
    pub fn on_unix_sockets(mut self, is_on: bool) -> ProxyProtocol {
        self.on_unix_sockets = is_on;
        self
    }

    /// Whether a connection of this peer may begin with a header.
    pub(in crate::server) fn expects(&self, peer: PeerAddr) -> bool {
        match peer.ip() {
            Some(ip) => (self.is_source)(ip),
            None => self.on_unix_sockets && peer == PeerAddr::Unix,
        }
    }

    /// Receives the header, within the time of the first head. `None` if there is none, and none is required. Fails
    /// without a cause if the peer merely goes away, or the server stops.
    pub(in crate::server) async fn receive(
        &self,
        conn: &mut Conn,
        limit: Duration,
        poll_stop: PollStop,
    ) -> Result<Option<ProxyHeader>, Option<ErrorCause>> {
        let mut wait = HeaderWait { conn, limit, poll_stop };
        let mut read = Vec::with_capacity(LEN_USUAL);
        if self.presence == Presence::Optional && !wait.begins_with_header().await? {
            return Ok(None);
        }
        loop {
            if !ProxyHeader::begins(&read) {
                return Err(Some(ProxyHeaderFault::Missing.into()));
            }
            match ProxyHeader::missing_len(&read).ok_or(ProxyHeaderFault::Malformed)? {
                0 => return Ok(Some(ProxyHeader::parse(&read).ok_or(ProxyHeaderFault::Malformed)?)),
                missing => wait.read_more(&mut read, missing).await?,
            }
        }
    }
}

/// Room for the headers of most proxies.
const LEN_USUAL: usize = 128;

/// Ready when a new connection should close because the server stops.
pub(in crate::server) type PollStop = fn(&mut Conn, &mut task::Context<'_>) -> Poll<()>;

/// A connection while its header is awaited.
struct HeaderWait<'c> {
    conn: &'c mut Conn,
    limit: Duration,
    poll_stop: PollStop,
}

impl HeaderWait<'_> {
    /// Reads up to `missing` bytes more.
    async fn read_more(&mut self, read: &mut Vec<u8>, missing: usize) -> Result<(), Option<ErrorCause>> {
        let start = read.len();
        read.resize(start + missing, 0);
        let count = poll_fn(|cx| {
            let mut room = ReadBuf::new(&mut read[start..]);
            match Pin::new(&mut self.conn.transport).poll_read(cx, &mut room) {
                Poll::Ready(received) => {
                    Poll::Ready(received.map(|()| room.filled().len()).map_err(|_| None))
                }
                Poll::Pending => self.poll_given_up(cx).map(Err),
            }
        });
        match (count.await?, start) {
            // Some peers only probe the port.
            (0, 0) => Err(None),
            (0, _) => Err(Some(ProxyHeaderFault::Malformed.into())),
            (count, _) => {
                read.truncate(start + count);
                Ok(())
            }
        }
    }

    /// Whether the connection begins with a header, which stays unread.
    async fn begins_with_header(&mut self) -> Result<bool, Option<ErrorCause>> {
        let mut pause = LOOK_AGAIN_MIN;
        loop {
            let mut seen = [0; SEEN_LEN];
            match poll_fn(|cx| self.poll_peek(cx, &mut seen)).await? {
                0 => return Err(None),
                count if !ProxyHeader::begins(&seen[..count]) => return Ok(false),
                SEEN_LEN => return Ok(true),
                // A few bytes that may begin a header or another message. No event reports that more have arrived,
                // since these were not taken.
                _ => {
                    runtime::sleep(pause).await;
                    pause = (2 * pause).min(LOOK_AGAIN_MAX);
                }
            }
            let mut given_up = |cx: &mut task::Context<'_>| match self.poll_given_up(cx) {
                Poll::Ready(cause) => Poll::Ready(Err(cause)),
                Poll::Pending => Poll::Ready(Ok(())),
            };
            poll_fn(&mut given_up).await?;
        }
    }

    /// Looks at the bytes that have arrived.
    fn poll_peek(
        &mut self,
        cx: &mut task::Context<'_>,
        seen: &mut [u8],
    ) -> Poll<Result<usize, Option<ErrorCause>>> {
        match poll_peek(&mut self.conn.transport, cx, seen) {
            Poll::Ready(count) => Poll::Ready(count.map_err(|_| None)),
            Poll::Pending => self.poll_given_up(cx).map(Err),
        }
    }

    /// Ready when the time for the first head is over, or the server stops.
    fn poll_given_up(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<ErrorCause>> {
        match self.conn.poll_timeout(cx, TimerSlot::Read, self.limit) {
            Poll::Ready(_) => {
                Poll::Ready(Some(ExchangeError::TimedOut(Phase::Head, self.limit.into()).into()))
            }
            Poll::Pending => (self.poll_stop)(self.conn, cx).map(|()| None),
        }
    }
}

/// So many bytes decide whether they begin a header.
const SEEN_LEN: usize = 12;
/// The pauses between two looks, at first and at most: a peer that sends one byte must not cost much.
const LOOK_AGAIN_MIN: Duration = Duration::from_millis(10);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(250);

impl From<ProxyHeaderFault> for Option<ErrorCause> {
    fn from(fault: ProxyHeaderFault) -> Option<ErrorCause> {
        Some(fault.into())
    }
}

impl fmt::Debug for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProxyProtocol { is_source: _, presence, on_unix_sockets } = self;
        f.debug_struct("ProxyProtocol")
            .field("presence", presence)
            .field("on_unix_sockets", on_unix_sockets)
            .finish_non_exhaustive()
    }
}

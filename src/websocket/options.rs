//! [`Options`]: the bounds of a WebSocket, and its part in the opening handshake.

use std::borrow::Cow;
use std::time::Duration;

/// The bounds of a WebSocket, and its part in the opening handshake. The time limits of a server are checked four times
/// a second.
///
/// All fields are public and stay so. As a later release may add some, end literals in `..Options::default()`, and
/// patterns in `..`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::websocket;
///
/// let options = websocket::Options {
///     message_max: 64 << 10,
///     ping_interval: Some(Duration::from_secs(60)),
///     protocols: vec!["chat.v2".into(), "chat.v1".into()],
///     ..websocket::Options::default()
/// };
/// # assert_eq!(options.frame_max, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// How many bytes a message may have, decompressed. Beyond that, the WebSocket is closed with 1009. Default: 1 MiB.
    /// A message that is received [in parts](crate::websocket::Reader::receive_part) may be of any size.
    pub message_max: usize,
    /// How many bytes a frame of a message may have on the wire. Beyond that, the WebSocket is closed with 1009.
    /// Default: 1 MiB. Does not apply to a message that is received in parts.
    pub frame_max: usize,
    /// How many frames a message may have. Beyond that, the WebSocket is closed with 1008. Default: 4096. Does not
    /// apply to a message that is received in parts.
    pub fragments_max: u32,
    /// How many bytes may wait to be sent. They come from [`Writer::feed`](crate::websocket::Writer::feed), from a
    /// [`Broadcast`](crate::websocket::Broadcast), or were held back by
    /// [`Writer::send`](crate::websocket::Writer::send). Beyond that, the sender waits for all to be sent. Default: 64
    /// KiB. A message may exceed the bound by its own size.
    pub buffer_max: usize,
    /// How many control frames may come in a second, on average. Beyond that, the WebSocket is closed with 1008.
    /// Default: 100. A burst of ten times as many is allowed. Pongs that answer pings of this end do not count.
    pub control_rate_max: u32,
    /// How long a peer may send nothing. Then it gets a ping, and as much time again to send anything, such as a pong.
    /// Then: the connection is closed. Default: 30 s. `None` is no limit, and no pings. Within a message of more than
    /// 64 KiB, a ping is sent after 30 s at the latest. A peer that takes some of the bytes waiting to be written is
    /// not silent. Bytes that the system has taken do not wait.
    pub ping_interval: Option<Duration>,
    /// How long the peer may take nothing of what is written to it. Then: the connection is closed. Default: 60 s.
    pub write_timeout: Duration,
    /// How long a close may take, from sending a close frame to receiving the peer's. Then: the connection is closed.
    /// Default: 5 s.
    pub close_timeout: Duration,
    /// The compression of messages (RFC 7692) with peers that support it. Default: `None`. Compression costs time. A
    /// message that mixes secrets with text of others reveals them by its length.
    pub deflate: Option<DeflateOptions>,
    /// The subprotocols that are spoken, in order of preference (RFC 6455 §1.9). A client offers all of them. A server
    /// takes the first of its own that the client offers. Default: none.
    pub protocols: Vec<Cow<'static, str>>,
    /// The origins whose pages may open a WebSocket to a server. Default: [`Origins::Own`]. Without meaning for a
    /// client. [Other lists of origins](crate::middleware::CrossOriginProtection#pages-of-other-origins) count as well.
    pub origins: Origins,
}

impl Options {
    pub(super) fn message_bounds(&self) -> MessageBounds {
        let Options { message_max, frame_max, fragments_max, .. } = *self;
        MessageBounds { message_max, frame_max, fragments_max }
    }

    pub(super) fn link_bounds(&self) -> LinkBounds {
        let Options { buffer_max, ping_interval, write_timeout, close_timeout, .. } = *self;
        let silence = ping_interval.unwrap_or(Duration::MAX);
        LinkBounds { buffer_max, silence, write: write_timeout, close: close_timeout }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            message_max: 1 << 20,
            frame_max: 1 << 20,
            fragments_max: 4096,
            buffer_max: 64 << 10,
            control_rate_max: 100,
            ping_interval: Some(Duration::from_secs(30)),
            write_timeout: Duration::from_secs(60),
            close_timeout: Duration::from_secs(5),
            deflate: None,
            protocols: Vec::new(),
            origins: Origins::Own,
        }
    }
}

/// The bounds of messages that are received whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageBounds {
    pub(super) message_max: usize,
    pub(super) frame_max: usize,
    pub(super) fragments_max: u32,
}

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkBounds {
    pub(super) buffer_max: usize,
    pub(super) silence: Duration,
    pub(super) write: Duration,
    pub(super) close: Duration,
}

/// The origins whose pages may open a WebSocket to a server (RFC 6455 §10.2).
///
/// Browsers send the origin of the page, and send cookies whatever the origin is. Other programs usually send no
/// origin, and are always let in.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Origins {
    /// Pages from the host and port that the client has used ([`Context::forwarded`](crate::Context::forwarded)). Also
    /// those of the same origin by the browser's own word (`sec-fetch-site: same-origin`), which no page can forge.
    ///
    /// Not all browsers send that word for a WebSocket. So a proxy that replaces the host, as with
    /// [`Request::forwarded_to`](crate::Request::forwarded_to), must report the host. A gateway reports it by
    /// [`Context::set_forwarded`](crate::Context::set_forwarded). The server reads a field of
    /// [`Server::trusted_proxies`](crate::Server::trusted_proxies), such as
    /// [`XForwardedHost`](crate::server::ForwardedHeader::XForwardedHost).
    #[default]
    Own,
    /// As [`Origins::Own`], and these, each such as `https://app.example.com`, in lower case and without the default port. No
    /// `*` stands for hosts here.
    OwnAnd(Vec<Cow<'static, str>>),
    /// All of them. Do not take cookies for a proof of the user's will then.
    Any,
}

/// The compression of messages (permessage-deflate, RFC 7692).
///
/// A client may ask for a smaller window (`server_max_window_bits`, §7.1.2.1), from 2^9 bytes on, and gets it. An offer
/// with a window of 2^8 bytes is declined, because zlib has none. The client takes any window of its server
/// (`client_max_window_bits`, §7.1.2.2). With one of 2^8 bytes, it sends messages uncompressed. Without
/// `context_takeover`, the states of compression belong to the core and not to the connections. A core keeps four at
/// most.
///
/// All fields are public and stay so. As a later release may add some, end literals in `..DeflateOptions::default()`,
/// and patterns in `..`.
#[derive(Clone, Copy, Debug)]
pub struct DeflateOptions {
    /// Messages of fewer bytes are sent as they are. Default: 512.
    pub message_min: usize,
    /// The level, from 1 (fast) to 9 (small). Default: 1.
    pub level: u32,
    /// Whether a message may refer to earlier ones. Similar messages become smaller, but each connection keeps up to
    /// 300 KiB, in both directions together. Default: false. Without it, a message cut short is refused, unless just
    /// the last four bytes of a stored block are missing. With it, such a cut is not noticed.
    pub context_takeover: bool,
}

impl Default for DeflateOptions {
    fn default() -> DeflateOptions {
        DeflateOptions { message_min: 512, level: 1, context_takeover: false }
    }
}

//! [`Limits`]: bounds on every size and count that a peer can determine.

use crate::memory::machine_memory;

/// Bounds on every size and count that a peer can determine. Exceeding one results in a refusal or a close, never in a
/// panic.
///
/// All fields are public and stay so. As a later release may add some, end literals in `..Limits::default()`, and
/// patterns in `..`.
///
/// Some bounds are constants, because no peer has a reason to exceed them. Beyond them: 400.
///
/// | constant | bounds | value |
/// |---|---|---|
/// | [`Limits::EMPTY_LINES_MAX`] | empty lines before a request line | 1 |
/// | [`Limits::CHUNK_DIGITS_MAX`] | digits of a chunk size | 16 |
/// | [`Limits::CHUNK_EXTENSION_MAX`] | bytes of the extensions of one chunk | 4 KiB |
/// | [`Limits::CHUNK_OVERHEAD_MAX`] | bytes of chunk framing that its data does not excuse | 16 KiB |
///
/// # Examples
///
/// ```
/// use corehttp::Limits;
///
/// let limits = Limits { body_max: 64 << 20, ..Limits::default() };
/// # assert_eq!(limits.head_max, 64 << 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request line, without its CRLF. Beyond: 414. Default: 16 KiB.
    pub request_line_max: usize,
    /// Bytes of a head: start-line and fields. Beyond: 431. Default: 64 KiB. Maximum: 1 GiB.
    pub head_max: usize,
    /// Fields in a head. Beyond: 431. Default: 128. Maximum: 1,024.
    pub fields_max: usize,
    /// Bytes of a body that is buffered. Beyond: 413. Default: 4 MiB. [`middleware::limits`](crate::middleware::limits)
    /// sets it for a route.
    ///
    /// A body with a greater Content-Length is refused before a byte of it is stored. A chunk beyond the bound is
    /// refused once its size has arrived. The buffer grows with the arrived bytes. The announced length is only taken
    /// from [`Limits::memory_max`].
    pub body_max: usize,
    /// Bytes of all chunk extensions of a body. Beyond: 400. Default: 16 KiB.
    pub chunk_extensions_total_max: usize,
    /// Bytes of a trailer section. Beyond: 431. Default: 16 KiB. Maximum: 1 GiB.
    pub trailers_max: usize,
    /// Fields in a trailer section. Beyond: 431. Default: 64. Maximum: 1,024.
    pub trailer_fields_max: usize,
    /// Bytes of an unread body that are read and discarded to keep the connection. Beyond: close, once the peer has had
    /// the time to read the response ([`Timeouts::linger`](crate::Timeouts::linger)). Default: 256 KiB.
    ///
    /// A body whose length was unknown at the beginning of the response has the same time to end first. So has one for
    /// the handler to read meanwhile. If it ends in time, the connection is kept.
    pub drain_max: usize,
    /// Bytes of a forwarded response that are kept for a slow peer ([`Context::forward`](crate::Context::forward)).
    /// Beyond: the server behind has to wait for the peer. Default: none.
    /// [`middleware::limits`](crate::middleware::limits) sets it for a route. nginx has 64 KiB.
    ///
    /// The connection to the server behind is free again once the whole response is here. The bytes are taken from
    /// [`Limits::memory_max`] at need, but only while at least half is free.
    pub forward_buffer_max: usize,
    /// Bytes of forwarded responses that one core keeps in this way, for all its connections. Beyond: the server behind has to
    /// wait for the peer. Default: 64 MiB. Several servers on one thread share the count.
    pub forward_buffers_per_core_max: usize,
    /// Bytes of responses gathered while more pipelined requests wait. Then they are written together. Default: 64 KiB.
    pub pipeline_bytes_max: usize,
    /// Responses gathered while more pipelined requests wait. Then they are written together. Default: 64.
    pub pipeline_responses_max: usize,
    /// Connections of the server, over all cores. Beyond: 503 with `retry-after`. Over TLS, or with very many refused
    /// at once, close without a response. Default: 65,536, or one for each 128 KiB of memory if the machine, or the
    /// control group of the process, has less than 8 GiB. A busy connection takes up to some 50 KiB beside
    /// [`Limits::memory_max`], an idle one 1 KiB.
    ///
    /// While less than a sixteenth of them is left, some of those that have been idle for longest close, so that there is room
    /// for new ones: after at least 100 ms, or a second before the first request. Each core looks at its own twice a second,
    /// and ten times while new ones come.
    pub connections_max: usize,
    /// Connections of one peer: an IPv4 address, also one that an IPv6 address stands for, or an IPv6 /64. Beyond: 429, or
    /// close as above. Default: no limit.
    pub connections_per_peer_max: Option<usize>,
    /// Bytes of memory that peers may fill, over all connections of the server. Default: a quarter of the memory of the
    /// machine, or of the control group of the process, whichever is less. 512 MiB if the system reports neither.
    ///
    /// Counted are buffered bodies, responses that wait for their peers, kept forwarded responses, decoded content and the
    /// windows of its decoders, bodies that layers of tower wrap, parts of multipart content, messages of WebSockets, the
    /// states of codings, heads of more than 16 KiB, and reads of more. Not counted are smaller heads, bodies up to 16 KiB and
    /// responses up to 64 KiB, because [`Limits::connections_max`] bounds their number. Nor is the memory of handlers, even
    /// while they write it to a slow peer. An allocator may keep as much again or more: see [operation](crate::guide). The
    /// system takes its part for each connection.
    ///
    /// A body of more than 16 KiB takes its memory before it is received. Others wait in turn meanwhile. A quarter is
    /// for bodies of up to 256 KiB alone, which do not wait behind large ones. A body that can never fit into the rest
    /// is refused at once (413). After a wait of [`Timeouts::body`](crate::Timeouts::body), a body is refused with 503
    /// and `retry-after`. A body in chunks may outgrow the quarter. It then waits for up to a second, and for longer
    /// only while no other wants the quarter. Bodies of unknown length may come to hold all that they wait for. Then
    /// the last of them are refused with 503, and the others go on. While others wait, a body with memory has
    /// [`Timeouts::body`](crate::Timeouts::body) to arrive, and 5 s without a byte (408). The first limit goes for its parts and
    /// the window of its decoder as well. Streamed responses are not compressed if less than half of the memory would stay free.
    ///
    /// A response of more than 64 KiB in memory takes its memory until the system has all of it to send. The response
    /// is there already, and does not wait. If even the content of its request makes too little room, the response is
    /// freed. The peer then gets 503 with `retry-after`. A response that can never fit takes all of the memory. While
    /// less than half is free, a response with memory has [`Timeouts::write`](crate::Timeouts::write) in all to be
    /// taken. Shared bytes, such as a clone of a [`Bytes`](crate::Body::set_shared_bytes) for all peers, take none.
    ///
    /// Messages of more than 64 KiB that a WebSocket keeps for a slow peer take memory likewise. Without room, the
    /// sender gets [`ExchangeError::NoMemory`](crate::error::ExchangeError::NoMemory), and the sending ends.
    pub memory_max: usize,
    /// Requests on one connection. The last response carries `connection: close`. Default: no limit. Zero counts as
    /// one.
    pub requests_per_connection_max: Option<u64>,
}

impl Limits {
    /// Empty lines before a request line (RFC 9112 §2.2): 1.
    pub const EMPTY_LINES_MAX: usize = 1;

    /// Digits of a chunk size, including leading zeros (RFC 9112 §7.1): 16, as many as a `u64` has.
    pub const CHUNK_DIGITS_MAX: u32 = 16;

    /// Bytes of the extensions of one chunk (RFC 9112 §7.1.1): 4 KiB.
    pub const CHUNK_EXTENSION_MAX: usize = 4 << 10;

    /// Bytes of chunk framing in a body, not counting 16 for each chunk and twice its data: 16 KiB. Tiny chunks waste more
    /// than that.
    pub const CHUNK_OVERHEAD_MAX: usize = 16 << 10;

    /// Returns these limits, lowered to the length of text that spans can address.
    pub(crate) fn capped(self) -> Limits {
        let (head_max, trailers_max) = (self.head_max.min(TEXT_MAX), self.trailers_max.min(TEXT_MAX));
        Limits { head_max, trailers_max, ..self }
    }
}

/// Spans have 32 bits, and what was read after a head is part of the text while the head is parsed.
const TEXT_MAX: usize = 1 << 30;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_line_max: 16 << 10,
            head_max: 64 << 10,
            fields_max: 128,
            body_max: 4 << 20,
            chunk_extensions_total_max: 16 << 10,
            trailers_max: 16 << 10,
            trailer_fields_max: 64,
            drain_max: 256 << 10,
            forward_buffer_max: 0,
            forward_buffers_per_core_max: 64 << 20,
            pipeline_bytes_max: 64 << 10,
            pipeline_responses_max: 64,
            connections_max: (machine_memory() / (128 << 10)).min(65_536),
            connections_per_peer_max: None,
            memory_max: machine_memory() / 4,
            requests_per_connection_max: None,
        }
    }
}

//! [`Limits`]: bounds on every size and count that a peer can determine.

use crate::memory::machine_memory;

/// Bounds on every size and count that a peer can determine. Exceeding one results in a refusal or a close, never in a
/// panic.
///
/// All fields are public, and stay so; there may be more of them in a later release. A literal that ends in
/// `..Limits::default()`, and a pattern that ends in `..`, work with both.
///
/// Some bounds are constants, since no peer has a reason to exceed them. Beyond them: 400.
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
    /// Bytes of a head: start-line and fields. Beyond: 431. Default: 64 KiB; at most 1 GiB.
    pub head_max: usize,
    /// Fields in a head. Beyond: 431. Default: 128; at most 1,024.
    pub fields_max: usize,
    /// Bytes of a body that is buffered. Beyond: 413. Default: 4 MiB. [`middleware::limits`](crate::middleware::limits)
    /// sets it for a route.
    ///
    /// A body whose Content-Length exceeds this is refused before a byte of it is stored, and a chunk that would go
    /// beyond it as soon as its size is here. The buffer grows with the bytes that have arrived, not with the announced
    /// length, which is only taken from [`Limits::memory_max`].
    pub body_max: usize,
    /// Bytes of all chunk extensions of a body. Beyond: 400. Default: 16 KiB.
    pub chunk_extensions_total_max: usize,
    /// Bytes of a trailer section. Beyond: 431. Default: 16 KiB; at most 1 GiB.
    pub trailers_max: usize,
    /// Fields in a trailer section. Beyond: 431. Default: 64; at most 1,024.
    pub trailer_fields_max: usize,
    /// Bytes of an unread body that are read and discarded to keep the connection. Beyond: close, once the peer has had
    /// the time to read the response ([`Timeouts::linger`](crate::Timeouts::linger)). A body whose length was unknown
    /// when the response began, or that the handler was to read meanwhile, has the same time to end first, and the
    /// connection is kept if it does. Default: 256 KiB.
    pub drain_max: usize,
    /// Bytes of a forwarded response that are kept for a peer which does not take them yet, so that the connection to the
    /// server behind is free again once the whole response is here ([`Context::forward`](crate::Context::forward)).
    /// Beyond: the server behind has to wait for the peer. Default: none. nginx has 64 KiB
    /// ([`middleware::limits`](crate::middleware::limits) sets it for a route).
    ///
    /// They are taken from [`Limits::memory_max`] as they are needed, and only while at least half of that is free.
    pub forward_buffer_max: usize,
    /// Bytes of forwarded responses that one core keeps in this way, for all its connections. Beyond: the server behind has to
    /// wait for the peer. Default: 64 MiB. Several servers on one thread share the count.
    pub forward_buffers_per_core_max: usize,
    /// Bytes of responses that are gathered while more pipelined requests are waiting, and then written together.
    /// Default: 64 KiB.
    pub pipeline_bytes_max: usize,
    /// Responses that are gathered while more pipelined requests are waiting, and then written together. Default: 64.
    pub pipeline_responses_max: usize,
    /// Connections of the server, over all cores. Beyond: 503 with `retry-after`; or close without a response, over TLS
    /// or when very many are refused at once. Default: 65,536, or one for each 128 KiB of memory if the machine, or the
    /// control group of the process, has less than 8 GiB. A busy connection takes up to some 50 KiB beside
    /// [`Limits::memory_max`], an idle one 1 KiB.
    pub connections_max: usize,
    /// Connections of one peer: an IPv4 address, also one that an IPv6 address stands for, or an IPv6 /64. Beyond: 429, or
    /// close as above. Default: no limit.
    pub connections_per_peer_max: Option<usize>,
    /// Bytes of memory that peers may fill, over all connections of the server: with buffered bodies, responses that wait for
    /// their peers, forwarded responses that are kept, decoded content and the windows of its decoders, parts of multipart
    /// content, messages of WebSockets, the states of codings, and heads of more than 16 KiB.
    /// Default: a quarter of the memory of the machine, or of the control group of the process if that may take less; 512 MiB
    /// where the system does not tell. An allocator may keep as much again, and the system takes its part for each connection.
    ///
    /// A body of more than 16 KiB takes its memory before it is received, and others wait in turn meanwhile. A quarter is
    /// for bodies of up to 256 KiB alone, so that they do not stand behind large ones. A body that can never fit into the rest is
    /// refused at once (413); one that has waited for [`Timeouts::body`](crate::Timeouts::body) is
    /// refused with 503 and `retry-after`. A body in chunks that has outgrown the quarter waits for more than a second only as
    /// long as no other waits for that. While others wait, a body that holds memory has that long to arrive (408), and so have
    /// its parts and the window of its decoder.
    /// Streamed responses whose compression would leave less than half of the memory free are not compressed.
    ///
    /// A response of more than 64 KiB that a handler leaves in memory takes its memory until the system has all of it to
    /// send. It is there already, so it does not wait: if even the content of its request does not make enough room, it is freed,
    /// and the peer gets 503 with `retry-after`. One that can never fit takes all there is. While less than half is
    /// free, a response that holds memory has [`Timeouts::write`](crate::Timeouts::write) in all to be taken. Bytes that
    /// others share, such as a clone of a [`Bytes`](crate::Body::set_shared_bytes) that is kept for all peers, take none.
    /// Messages of more than 64 KiB that a WebSocket keeps for a peer which is behind take theirs likewise; without any, the
    /// sender gets [`ExchangeError::NoMemory`](crate::error::ExchangeError::NoMemory), and the sending ends.
    ///
    /// Not counted are heads and bodies up to 16 KiB, and smaller responses, since [`Limits::connections_max`] bounds how many
    /// there are; and all that handlers keep, even while they write it to a slow peer.
    pub memory_max: usize,
    /// Requests on one connection. The last response carries `connection: close`. Default: no limit; zero counts as one.
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

//! [`ProxyProtocol`]: from which peers a PROXY header is read, and how; [`ProxyHeader`]: such a header.
//!
//! The crate `proxy-header` parses whole headers. How many bytes belong to a header, and what has to be refused although
//! it parses, is decided here.

use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use proxy_header::{ParseConfig, Protocol, ProxiedAddress, ProxyHeader as Parsed};
use tokio::io::{AsyncRead, ReadBuf};

use crate::exchange::{ExchangeError, Phase};
use crate::net::{Conn, PeerAddr, TimerSlot, Transport};
use crate::runtime;
use crate::server::error_report::{ErrorCause, InvalidProxyHeader};

/// From which peers a server reads a PROXY header, version 1 or 2, before anything else.
///
/// # Examples
///
/// Behind a load balancer in 10.0.0.0/8. The crate `ipnet` has types for networks.
///
/// ```no_run
/// use std::net::IpAddr;
/// use corehttp::{Context, ProxyProtocol, Server};
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
    unix: bool,
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
        ProxyProtocol { is_source: Arc::new(is_source), presence: Presence::Required, unix: false }
    }

    /// Reads a header from the peers whose addresses `is_source` accepts, if they send one: for the time in which some
    /// proxies send headers already and others do not yet.
    ///
    /// A client behind a proxy that sends none can write a header itself, with any address. So headers should be
    /// [required](ProxyProtocol::required) as soon as all proxies send them.
    pub fn optional(is_source: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> ProxyProtocol {
        ProxyProtocol { presence: Presence::Optional, ..ProxyProtocol::required(is_source) }
    }

    /// Sets whether a header is required on Unix sockets. Default: no.
    pub fn unix(mut self, unix: bool) -> ProxyProtocol {
        self.unix = unix;
        self
    }

    /// Whether a connection of this peer may begin with a header.
    pub(in crate::server) fn expects(&self, peer: PeerAddr) -> bool {
        match peer.ip() {
            Some(ip) => (self.is_source)(ip),
            None => self.unix && peer == PeerAddr::Unix,
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
            match ProxyHeader::missing_len(&read)? {
                0 => return Ok(Some(ProxyHeader::parse(&read)?)),
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
            (0, _) => Err(Some(InvalidProxyHeader::Malformed.into())),
            (count, _) => {
                read.truncate(start + count);
                Ok(())
            }
        }
    }

    /// Whether the connection begins with a header, which stays unread. Only TCP can look ahead, so elsewhere a header
    /// is required.
    async fn begins_with_header(&mut self) -> Result<bool, Option<ErrorCause>> {
        let mut pause = LOOK_AGAIN_MIN;
        loop {
            let mut seen = [0; SEEN_LEN];
            match poll_fn(|cx| self.poll_peek(cx, &mut seen)).await? {
                None => return Ok(true),
                Some(0) => return Err(None),
                Some(count) if ProxyHeader::missing_len(&seen[..count]).is_err() => return Ok(false),
                Some(SEEN_LEN) => return Ok(true),
                // A few bytes that may begin a header or another message. No event reports that more have arrived,
                // since these were not taken.
                Some(_) => {
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

    /// Looks at the bytes that have arrived. `None` if this transport cannot.
    fn poll_peek(
        &mut self,
        cx: &mut task::Context<'_>,
        seen: &mut [u8],
    ) -> Poll<Result<Option<usize>, Option<ErrorCause>>> {
        let Transport::Tcp(stream) = &self.conn.transport else { return Poll::Ready(Ok(None)) };
        match stream.poll_peek(cx, &mut ReadBuf::new(seen)) {
            Poll::Ready(count) => Poll::Ready(count.map(Some).map_err(|_| None)),
            Poll::Pending => self.poll_given_up(cx).map(Err),
        }
    }

    /// Ready when the time for the first head is over, or the server stops.
    fn poll_given_up(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<ErrorCause>> {
        match self.conn.poll_expired(cx, TimerSlot::Read, self.limit) {
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

impl From<InvalidProxyHeader> for Option<ErrorCause> {
    fn from(invalid: InvalidProxyHeader) -> Option<ErrorCause> {
        Some(invalid.into())
    }
}

impl fmt::Debug for ProxyProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProxyProtocol { is_source: _, presence, unix } = self;
        f.debug_struct("ProxyProtocol")
            .field("presence", presence)
            .field("unix", unix)
            .finish_non_exhaustive()
    }
}

/// The header with which a proxy began a connection: the addresses of its client's connection and, in version 2, what
/// else it has written about it.
///
/// # Examples
///
/// A client that begins its connections with a header, by a [`Dialer`](crate::Dialer), as a proxy does that passes on
/// the bytes of one client:
///
/// ```
/// use std::io;
/// use std::net::SocketAddr;
/// use corehttp::{Client, Dialer, ProxyHeader};
/// use tokio::io::AsyncWriteExt;
/// use tokio::net::TcpStream;
///
/// struct OnBehalfOf(SocketAddr);
///
/// impl Dialer for OnBehalfOf {
///     type Stream = TcpStream;
///
///     async fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream> {
///         let mut stream = TcpStream::connect((host, port)).await?;
///         let header = ProxyHeader::new(self.0, stream.peer_addr()?);
///         stream.write_all(&header.to_bytes_v2()).await?;
///         Ok(stream)
///     }
/// }
///
/// let client = Client::builder().dialer(OnBehalfOf(([192, 0, 2, 1], 4711).into())).build();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyHeader(Parsed<'static>);

impl ProxyHeader {
    /// Creates a header to send: the address of the client, and the one that it has connected to.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> ProxyHeader {
        ProxyHeader(Parsed::with_address(ProxiedAddress::stream(source, destination)))
    }

    /// Returns the address of the client. `None` if the proxy connects for itself, as for a health check, does not know
    /// the address, or has accepted the client on a Unix socket.
    pub fn source(&self) -> Option<SocketAddr> {
        Some(self.0.proxied_address()?.source)
    }

    /// Returns the address that the client has connected to.
    pub fn destination(&self) -> Option<SocketAddr> {
        Some(self.0.proxied_address()?.destination)
    }

    /// Returns the host that the client asked the proxy for, such as by SNI (`PP2_TYPE_AUTHORITY`).
    pub fn authority(&self) -> Option<&str> {
        self.0.authority()
    }

    /// Returns the protocol that client and proxy have agreed on (`PP2_TYPE_ALPN`).
    pub fn alpn(&self) -> Option<&[u8]> {
        self.0.alpn()
    }

    /// Returns the identifier that the proxy has given the connection, for logs (`PP2_TYPE_UNIQUE_ID`).
    pub fn unique_id(&self) -> Option<&[u8]> {
        self.0.unique_id()
    }

    /// Returns the TLS between client and proxy (`PP2_TYPE_SSL`). `None` if the client's connection is in the clear, or
    /// the proxy has not said.
    pub fn tls(&self) -> Option<ProxyTls> {
        let tls = self.0.ssl().filter(proxy_header::SslInfo::client_ssl)?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(ProxyTls {
            version: owned(tls.version()),
            cipher: owned(tls.cipher()),
            common_name: owned(tls.cn()),
            verified: tls.client_cert_sess() && tls.verify() == 0,
        })
    }

    /// Returns the value of the first field (TLV) of this type, such as 0xEA of AWS, or one of your own. `None` if
    /// there is none, or if the specification defines the type.
    pub fn value(&self, kind: u8) -> Option<Vec<u8>> {
        self.0.tlvs().find_map(|field| match field {
            Ok(proxy_header::Tlv::Custom(found, value)) if found == kind => Some(value.into_owned()),
            _ => None,
        })
    }

    /// Returns the header as text, version 1. A header whose addresses are of two families is `UNKNOWN`.
    pub fn to_bytes_v1(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let addresses = Parsed::with_address(match self.0.proxied_address() {
            Some(addresses) => addresses.clone(),
            None => return UNKNOWN.to_vec(),
        });
        match addresses.encode_v1(&mut bytes) {
            Ok(()) => bytes,
            Err(_) => UNKNOWN.to_vec(),
        }
    }

    /// Returns the header in binary, version 2. A header that was received keeps its fields (TLVs); one that
    /// [`ProxyHeader::new`] made has none. A header without addresses, or with addresses of two families, is `LOCAL`,
    /// so the peer sees the address of the socket.
    pub fn to_bytes_v2(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.0.encode_v2(&mut bytes).is_err() {
            bytes.clear();
            Parsed::with_local().encode_v2(&mut bytes).expect("a header without addresses can be written");
        }
        bytes
    }

    /// The address that takes the place of the socket's.
    pub(in crate::server) fn peer(&self) -> Option<PeerAddr> {
        self.source().map(PeerAddr::Tcp)
    }

    /// Whether the connection between client and proxy is secure.
    pub(in crate::server) fn has_tls(&self) -> bool {
        self.0.ssl().is_some_and(|tls| tls.client_ssl())
    }

    /// How many bytes of the header are missing behind those that have been read, or fewer; 0 if it is complete. A read
    /// of so many never reaches beyond the header.
    fn missing_len(read: &[u8]) -> Result<usize, InvalidProxyHeader> {
        let begins = |signature: &[u8]| {
            let len = read.len().min(signature.len());
            read[..len] == signature[..len]
        };
        match (begins(V1), begins(V2)) {
            (false, false) => Err(InvalidProxyHeader::Missing),
            _ if read.len() < UNKNOWN.len() => Ok(UNKNOWN.len() - read.len()),
            (true, _) => missing_len_v1(read),
            (false, true) => missing_len_v2(read),
        }
    }

    /// Parses a complete header.
    fn parse(read: &[u8]) -> Result<ProxyHeader, InvalidProxyHeader> {
        // A proxy that connects for itself may write anything for the family, and its addresses are ignored.
        if read.starts_with(V2) && read.get(V2.len()) == Some(&LOCAL) {
            return Ok(ProxyHeader(Parsed::with_local()));
        }
        if read.starts_with(V1) && !is_canonical_v1(read) {
            return Err(InvalidProxyHeader::Malformed);
        }
        let (parsed, len) =
            Parsed::parse(read, ParseConfig::default()).map_err(|_| InvalidProxyHeader::Malformed)?;
        let is_stream = parsed.proxied_address().is_none_or(|found| found.protocol == Protocol::Stream);
        if len != read.len() || !is_stream || parsed.tlvs().any(|field| field.is_err()) {
            return Err(InvalidProxyHeader::Malformed);
        }
        Ok(ProxyHeader(parsed.into_owned()))
    }
}

/// The TLS between a proxy and its client, as the proxy has described it in a [`ProxyHeader`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyTls {
    /// The version, such as `TLSv1.3`.
    pub version: Option<String>,
    /// The cipher suite, by the name of the proxy's library.
    pub cipher: Option<String>,
    /// The common name in the client's certificate.
    pub common_name: Option<String>,
    /// Whether the client has shown a certificate in this session, and the proxy has verified it.
    pub verified: bool,
}

/// The version 1 header with the fewest bytes. None of version 2 has fewer.
const UNKNOWN: &[u8] = b"PROXY UNKNOWN\r\n";

const V1: &[u8] = b"PROXY ";
/// The longest header of version 1, by its specification.
const V1_LEN_MAX: usize = 107;
/// The spaces of a header of version 1 with addresses.
const V1_SPACES: usize = 5;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the command, the family and the length of the rest.
const V2_FIXED_LEN: usize = 16;
/// The rest of a version 2 header may be longer by its format; what proxies write is not.
const V2_REST_LEN_MAX: usize = 16 << 10;
/// Version 2, and the command for a connection of the proxy itself.
const LOCAL: u8 = 0x20;

fn missing_len_v1(read: &[u8]) -> Result<usize, InvalidProxyHeader> {
    match memchr::memchr(b'\n', read) {
        Some(end) if end + 1 == read.len() => return Ok(0),
        Some(_) => return Err(InvalidProxyHeader::Malformed),
        None if read.len() >= V1_LEN_MAX => return Err(InvalidProxyHeader::Malformed),
        None => {}
    }
    if read.ends_with(b"\r") {
        return Ok(1);
    }
    let spaces = memchr::memchr_iter(b' ', read).count();
    // Behind each space that is missing, there is an octet at least.
    let fields = if read.starts_with(b"PROXY UNKNOWN") { 0 } else { V1_SPACES.saturating_sub(spaces) };
    Ok((2 * fields + b"\r\n".len()).min(V1_LEN_MAX - read.len()))
}

fn missing_len_v2(read: &[u8]) -> Result<usize, InvalidProxyHeader> {
    let Some(fixed) = read.get(..V2_FIXED_LEN) else { return Ok(V2_FIXED_LEN - read.len()) };
    let rest = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    match rest {
        0..=V2_REST_LEN_MAX => Ok(V2_FIXED_LEN + rest - read.len()),
        _ => Err(InvalidProxyHeader::Malformed),
    }
}

/// Whether the line has no octets but those of addresses, and ports without signs and leading zeros. Anything may stand
/// behind `UNKNOWN`.
fn is_canonical_v1(read: &[u8]) -> bool {
    let Some(line) = read.strip_suffix(b"\r\n") else { return false };
    if let Some(rest) = line.strip_prefix(b"PROXY UNKNOWN") {
        return rest.is_empty() || rest.starts_with(b" ");
    }
    let is_port = |field: &[u8]| match field {
        b"0" => true,
        [b'1'..=b'9', more @ ..] => more.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let fields = || line.split(|&octet| octet == b' ');
    fields().count() == V1_SPACES + 1 && fields().skip(4).all(is_port)
}

#[cfg(test)]
mod tests {
    use proxy_header::{SslInfo, Tlv};

    use super::*;
    use InvalidProxyHeader::{Malformed, Missing};

    /// Reads from `wire` as a connection would, and never more than belongs to the header, which is all but `rest`.
    fn read(wire: &[u8], rest: usize) -> Result<ProxyHeader, InvalidProxyHeader> {
        let mut read = 0;
        loop {
            match ProxyHeader::missing_len(&wire[..read])? {
                0 => break,
                missing if read + missing > wire.len() => return Err(Malformed),
                missing => read += missing,
            }
        }
        assert_eq!(read, wire.len() - rest, "exactly the header is read");
        ProxyHeader::parse(&wire[..read])
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        [V2, &[command, family], &(rest.len() as u16).to_be_bytes(), rest].concat()
    }

    const IPV4: &[u8] = &[192, 0, 2, 1, 10, 0, 0, 1, 0x12, 0x67, 0x01, 0xbb];

    #[test]
    fn each_form_is_read_to_its_end_and_no_further() {
        let ipv6 = [&[0x20, 1, 0x0d, 0xb8][..], &[0; 12], &[0; 15], &[1], &[0x12, 0x67, 0, 80]].concat();
        for (header, source) in [
            (b"PROXY TCP4 192.0.2.1 10.0.0.1 4711 443\r\n".to_vec(), Some("192.0.2.1:4711")),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 0 1\r\n".to_vec(), Some("1.1.1.1:0")),
            (b"PROXY TCP6 2001:db8:: ::1 4711 80\r\n".to_vec(), Some("[2001:db8::]:4711")),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            (v2(0x21, 0x11, IPV4), Some("192.0.2.1:4711")),
            (v2(0x21, 0x21, &ipv6), Some("[2001:db8::]:4711")),
            (v2(0x21, 0x00, b""), None),
            (v2(0x21, 0x31, &[0; 216]), None),
            (v2(0x20, 0x00, b""), None),
            (v2(0x20, 0x11, IPV4), None),
            (v2(0x20, 0xff, b"anything"), None),
        ] {
            let wire = [&header[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
            let found = read(&wire, wire.len() - header.len()).unwrap();
            assert_eq!(found.source(), source.map(|source| source.parse().unwrap()), "{header:?}");
            // Cut anywhere, it is incomplete, and never another header.
            (0..header.len()).for_each(|cut| assert_eq!(read(&header[..cut], 0), Err(Malformed), "{cut}"));
        }
    }

    #[test]
    fn what_lies_or_is_spelled_otherwise_is_refused() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        for (wire, expected) in [
            (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), Missing),
            (b"PROXYTCP4 1.1.1.1 1.1.1.1 1 1\r\n".to_vec(), Missing),
            (b"POST / HTTP/1.1\r\n\r\n".to_vec(), Missing),
            (b"\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_vec(), Missing),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03____".to_vec(), Missing),
            (long.into_bytes(), Malformed),
            (vec![b'P'; 15], Missing),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 +1 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 01 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 1.1.1.01 1.1.1.1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 ::1 ::1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP6 1.1.1.1 1.1.1.1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\n".to_vec(), Malformed),
            (b"PROXY TCP4  1.1.1.1 1.1.1.1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 1.1.1.1\r1.1.1.1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n".to_vec(), Malformed),
            (b"PROXY UNKNOWNS\r\n".to_vec(), Malformed),
            (v2(0x11, 0x11, IPV4), Malformed),
            (v2(0x22, 0x11, IPV4), Malformed),
            (v2(0x21, 0x12, IPV4), Malformed),
            (v2(0x21, 0x41, IPV4), Malformed),
            (v2(0x21, 0x11, &IPV4[1..]), Malformed),
            (v2(0x21, 0x21, IPV4), Malformed),
            (v2(0x21, 0x31, IPV4), Malformed),
            (v2(0x21, 0x11, &[IPV4, &[0x05, 0, 9, 1]].concat()), Malformed),
            (v2(0x21, 0x11, &[IPV4, &[0x02, 0, 1, 0xff]].concat()), Malformed),
            (v2(0x21, 0x11, &[IPV4, &[0x20, 0, 1, 1]].concat()), Malformed),
            ([V2, &[0x21, 0x11, 0xff, 0xff]].concat(), Malformed),
        ] {
            let text = String::from_utf8_lossy(&wire).into_owned();
            assert_eq!(read(&wire, 0), Err(expected), "{text}");
        }
    }

    #[test]
    fn fields_of_version_2_are_read() {
        let mut tls = SslInfo::new(true, true, true, 0);
        tls.append_tlv(Tlv::SslVersion("TLSv1.3".into()));
        tls.append_tlv(Tlv::SslCn("me".into()));
        let address = ProxiedAddress::stream(([192, 0, 2, 1], 1).into(), ([10, 0, 0, 1], 2).into());
        let fields = [
            Tlv::Authority("a.example".into()),
            Tlv::UniqueId(b"\x01\xff"[..].into()),
            Tlv::Alpn(b"http/1.1"[..].into()),
            Tlv::Noop(3),
            Tlv::Custom(0xea, b"vpce"[..].into()),
            Tlv::Ssl(tls),
        ];
        let mut wire = Vec::new();
        Parsed::with_tlvs(Some(address), fields).encode_v2(&mut wire).unwrap();
        let header = read(&wire, 0).unwrap();
        assert_eq!((header.authority(), header.unique_id()), (Some("a.example"), Some(&b"\x01\xff"[..])));
        assert_eq!((header.alpn(), header.value(0xea)), (Some(&b"http/1.1"[..]), Some(b"vpce".to_vec())));
        let tls = header.tls().unwrap();
        assert_eq!((tls.version.as_deref(), tls.common_name.as_deref()), (Some("TLSv1.3"), Some("me")));
        assert!(tls.verified && tls.cipher.is_none());
    }

    #[test]
    fn a_header_that_was_written_is_read_again() {
        let (four, six) = (([192, 0, 2, 1], 4711).into(), ([1, 2, 3, 4, 5, 6, 7, 8], 80).into());
        for (source, destination, expected) in
            [(four, four, Some(four)), (six, six, Some(six)), (four, six, None)]
        {
            let header = ProxyHeader::new(source, destination);
            for wire in [header.to_bytes_v1(), header.to_bytes_v2()] {
                assert_eq!(read(&wire, 0).unwrap().source(), expected);
            }
        }
    }
}

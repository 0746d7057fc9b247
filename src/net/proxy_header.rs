//! [`ProxyHeader`]: the first bytes of a connection from a proxy, by the PROXY protocol.
//!
//! The crate `proxy-header` parses whole headers. Their length, and refusals of those that parse, are decided here.

use std::net::SocketAddr;

use proxy_header::{ParseConfig, ProxiedAddress, ProxyHeader as Parsed};

use super::address::PeerAddr;

/// The header of a connection from a proxy. It has the addresses of the client's connection and, in version 2, further
/// fields about it.
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use corehttp::proxy_protocol::ProxyHeader;
///
/// let (client, server) = (SocketAddr::from(([192, 0, 2, 1], 4711)), SocketAddr::from(([192, 0, 2, 80], 443)));
/// let header = ProxyHeader::new(client, server);
/// assert_eq!(header.to_bytes_v1(), b"PROXY TCP4 192.0.2.1 192.0.2.80 4711 443\r\n");
/// assert_eq!(ProxyHeader::local().to_bytes_v1(), b"PROXY UNKNOWN\r\n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyHeader(Parsed<'static>);

impl ProxyHeader {
    /// Creates a header to send, from the addresses of the client and of its destination.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> ProxyHeader {
        ProxyHeader(Parsed::with_address(ProxiedAddress::stream(source, destination)))
    }

    /// Creates a header for a connection that a proxy opens for itself, such as for a health check: `LOCAL` in version 2,
    /// `UNKNOWN` in version 1.
    pub fn local() -> ProxyHeader {
        ProxyHeader(Parsed::with_local())
    }

    /// Returns the address of the client. `None` for a connection of the proxy itself, as for a health check, for an
    /// unknown address, and for a client on a Unix socket.
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

    /// Returns the proxy's identifier of the connection, for logs (`PP2_TYPE_UNIQUE_ID`). Logs find it by
    /// [`ExchangeReport::proxy_header`](crate::server::ExchangeReport::proxy_header).
    pub fn unique_id(&self) -> Option<&[u8]> {
        self.0.unique_id()
    }

    /// Returns the TLS between client and proxy (`PP2_TYPE_SSL`). `None` if the client's connection is in the clear or
    /// nothing is known of it.
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
    /// there is none or the specification defines the type.
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

    /// Returns the header in binary, version 2. A received header keeps its fields (TLVs), and a header of
    /// [`ProxyHeader::new`] has none. A header without addresses, or with addresses of two families, is `LOCAL`. The
    /// peer then sees the address of the socket.
    pub fn to_bytes_v2(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.0.encode_v2(&mut bytes).is_err() {
            bytes.clear();
            Parsed::with_local().encode_v2(&mut bytes).expect("a header without addresses can be written");
        }
        bytes
    }

    /// The address that takes the place of the socket's.
    pub(crate) fn peer(&self) -> Option<PeerAddr> {
        self.source().map(PeerAddr::Tcp)
    }

    /// Whether the connection between client and proxy is secure.
    pub(crate) fn has_tls(&self) -> bool {
        self.0.ssl().is_some_and(|tls| tls.client_ssl())
    }

    /// Whether the bytes that have been read, which may be none, begin a header.
    pub(crate) fn begins(read: &[u8]) -> bool {
        let agrees = |signature: &[u8]| read.iter().zip(signature).all(|(one, other)| one == other);
        agrees(V1) || agrees(V2)
    }

    /// How many bytes of the header that these begin are missing, or fewer; 0 if it is complete. A read of so many never
    /// reaches beyond the header. `None` if it is malformed.
    pub(crate) fn missing_len(read: &[u8]) -> Option<usize> {
        debug_assert!(ProxyHeader::begins(read), "the caller has checked the signature");
        match read {
            _ if read.len() < UNKNOWN.len() => Some(UNKNOWN.len() - read.len()),
            [b'P', ..] => missing_len_v1(read),
            _ => missing_len_v2(read),
        }
    }

    /// Parses a complete header. `None` if it is malformed.
    pub(crate) fn parse(read: &[u8]) -> Option<ProxyHeader> {
        // A proxy that connects for itself may write anything for the family, and its addresses are ignored.
        if read.starts_with(V2) && read.get(V2.len()) == Some(&LOCAL) {
            return Some(ProxyHeader(Parsed::with_local()));
        }
        if read.starts_with(V1) && !is_canonical_v1(read) {
            return None;
        }
        let (parsed, len) = Parsed::parse(read, ParseConfig::default()).ok()?;
        // The library passes over the transport where it passes over the addresses, those of Unix sockets.
        let is_stream =
            !read.starts_with(V2) || read.get(V2.len() + 1).is_some_and(|octet| octet & 0x0f != DATAGRAM);
        let is_whole = len == read.len() && is_stream && parsed.tlvs().all(|field| field.is_ok());
        is_whole.then(|| ProxyHeader(parsed.into_owned()))
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
    /// Whether the proxy has verified a certificate of the client in this session.
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
/// The transport of datagrams, in the low half of the octet behind the command.
const DATAGRAM: u8 = 2;

fn missing_len_v1(read: &[u8]) -> Option<usize> {
    match memchr::memchr(b'\n', read) {
        Some(end) => return (end + 1 == read.len()).then_some(0),
        None if read.len() >= V1_LEN_MAX => return None,
        None => {}
    }
    if read.ends_with(b"\r") {
        return Some(1);
    }
    let spaces = memchr::memchr_iter(b' ', read).count();
    // Behind each space that is missing, there is an octet at least.
    let fields = if read.starts_with(b"PROXY UNKNOWN") { 0 } else { V1_SPACES.saturating_sub(spaces) };
    Some((2 * fields + b"\r\n".len()).min(V1_LEN_MAX - read.len()))
}

fn missing_len_v2(read: &[u8]) -> Option<usize> {
    let Some(fixed) = read.get(..V2_FIXED_LEN) else { return Some(V2_FIXED_LEN - read.len()) };
    let rest = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    (rest <= V2_REST_LEN_MAX).then(|| V2_FIXED_LEN + rest - read.len())
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
    use Invalid::{Malformed, Missing};

    #[derive(Debug, PartialEq)]
    enum Invalid {
        Missing,
        Malformed,
    }

    /// Reads from `wire` as a connection would, and never more than belongs to the header, which is all but `rest`.
    fn read(wire: &[u8], rest: usize) -> Result<ProxyHeader, Invalid> {
        let mut read = 0;
        loop {
            if !ProxyHeader::begins(&wire[..read]) {
                return Err(Missing);
            }
            match ProxyHeader::missing_len(&wire[..read]).ok_or(Malformed)? {
                0 => break,
                missing if read + missing > wire.len() => return Err(Malformed),
                missing => read += missing,
            }
        }
        assert_eq!(read, wire.len() - rest, "exactly the header is read");
        ProxyHeader::parse(&wire[..read]).ok_or(Malformed)
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
            (v2(0x21, 0x32, &[0; 216]), Malformed),
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

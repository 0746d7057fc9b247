//! The handshake with a SOCKS5 proxy (RFC 1928, RFC 1929), and [`SocksError`]: why the proxy did not connect.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error_text::write_error;
use crate::net::{InvalidHost, UriHost};

/// Has the proxy at the other end of `stream` connect to `destination`.
///
/// Afterwards `stream` is a connection to the destination: not one byte beyond the proxy's reply has been read.
///
/// # Errors
///
/// Fails if the proxy does not connect, with its reason. The stream is then of no use.
pub(super) async fn connect<S>(
    stream: &mut S,
    destination: &Destination<'_>,
    login: Option<&Login>,
) -> Result<(), SocksError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match login {
        None => send(stream, &[VERSION, 1, NO_AUTHENTICATION]).await?,
        // The proxy chooses: some identify clients by their address.
        Some(_) => send(stream, &[VERSION, 2, NO_AUTHENTICATION, USERNAME_PASSWORD]).await?,
    }
    match (receive(stream, VERSION).await?, login) {
        (NO_AUTHENTICATION, _) => {}
        (USERNAME_PASSWORD, Some(login)) => log_in(stream, login).await?,
        _ => return Err(SocksError::Method),
    }
    let mut request = vec![VERSION, CONNECT, RESERVED];
    destination.encode(&mut request);
    send(stream, &request).await?;
    match receive(stream, VERSION).await? {
        SUCCEEDED => receive_bound(stream).await,
        code => Err(SocksError::Refused(SocksReply::from_code(code))),
    }
}

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USERNAME_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const RESERVED: u8 = 0;
const SUCCEEDED: u8 = 0;

/// The kinds of addresses (RFC 1928 §5).
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Username and password (RFC 1929 §2).
async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, login: &Login) -> Result<(), SocksError> {
    send(stream, &login.message).await?;
    match receive(stream, LOGIN_VERSION).await? {
        SUCCEEDED => Ok(()),
        _ => Err(SocksError::Login),
    }
}

const LOGIN_VERSION: u8 = 1;

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, message: &[u8]) -> Result<(), SocksError> {
    stream.write_all(message).await?;
    stream.flush().await?;
    Ok(())
}

/// Receives the code that follows the proxy's `version`, with which each of its replies begins.
async fn receive<S: AsyncRead + Unpin>(stream: &mut S, version: u8) -> Result<u8, SocksError> {
    let [spoken, code] = read(stream).await?;
    if spoken == version { Ok(code) } else { Err(SocksError::Malformed) }
}

/// Receives the rest of a reply: the address that the proxy connects from. The address is not needed, but must be read.
async fn receive_bound<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(), SocksError> {
    match read(stream).await? {
        [RESERVED, IPV4] => read::<_, { 4 + PORT }>(stream).await.map(drop),
        [RESERVED, IPV6] => read::<_, { 16 + PORT }>(stream).await.map(drop),
        [RESERVED, NAME] => {
            let [len] = read(stream).await?;
            let mut bound = [0; u8::MAX as usize + PORT];
            stream.read_exact(&mut bound[..usize::from(len) + PORT]).await?;
            Ok(())
        }
        _ => Err(SocksError::Malformed),
    }
}

const PORT: usize = 2;

async fn read<S: AsyncRead + Unpin, const N: usize>(stream: &mut S) -> Result<[u8; N], SocksError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Where a proxy should connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination<'a> {
    host: UriHost<'a>,
    port: u16,
}

impl<'a> Destination<'a> {
    /// The destination `host`, which the proxy looks up if it is a name.
    ///
    /// # Errors
    ///
    /// Fails if it is neither a name nor an address.
    pub(super) fn new(host: &'a str, port: u16) -> Result<Destination<'a>, InvalidHost> {
        Ok(Destination { host: UriHost::parse(host)?, port })
    }

    fn encode(&self, request: &mut Vec<u8>) {
        match self.host {
            UriHost::Address(IpAddr::V4(address)) => {
                request.push(IPV4);
                request.extend(address.octets());
            }
            UriHost::Address(IpAddr::V6(address)) => {
                request.push(IPV6);
                request.extend(address.octets());
            }
            UriHost::Name(name) => {
                request.push(NAME);
                push_counted(request, name.as_bytes()).expect("a host's name is shorter than 256 octets");
            }
        }
        request.extend(self.port.to_be_bytes());
    }
}

impl From<SocketAddr> for Destination<'_> {
    fn from(address: SocketAddr) -> Self {
        Destination { host: UriHost::Address(address.ip()), port: address.port() }
    }
}

/// The credentials for a proxy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Login {
    /// The message that is sent (RFC 1929 §2).
    message: Box<[u8]>,
}

impl Login {
    /// Returns `None` if one of the two is longer than its length octet can say. Either may be empty, although RFC 1929
    /// has no such length: proxies take a token as the username, and ignore the password.
    pub(super) fn new(user: &[u8], password: &[u8]) -> Option<Login> {
        let mut message = vec![LOGIN_VERSION];
        for part in [user, password] {
            push_counted(&mut message, part)?;
        }
        Some(Login { message: message.into() })
    }
}

/// Appends the number of `octets`, at most 255, and the octets.
fn push_counted(message: &mut Vec<u8>, octets: &[u8]) -> Option<()> {
    message.push(u8::try_from(octets.len()).ok()?);
    message.extend(octets);
    Some(())
}

/// Why a SOCKS5 proxy did not connect.
#[derive(Debug)]
#[non_exhaustive]
pub enum SocksError {
    /// The connection to the proxy failed, or ended too early.
    Io(io::Error),
    /// The proxy does not speak SOCKS5.
    Malformed,
    /// The proxy requires an authentication method that was not offered (RFC 1928 §3).
    Method,
    /// The proxy refused the username and password (RFC 1929 §2).
    Login,
    /// The proxy refused to connect, or could not.
    Refused(SocksReply),
}

/// The reason that a SOCKS5 proxy gives for not connecting (RFC 1928 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocksReply {
    /// X'01': a general failure.
    GeneralFailure,
    /// X'02': the rules of the proxy forbid it.
    NotAllowed,
    /// X'03': the network is unreachable.
    NetworkUnreachable,
    /// X'04': the host is unreachable or unknown.
    HostUnreachable,
    /// X'05': the host refused the connection.
    ConnectionRefused,
    /// X'06': the route is too long.
    TtlExpired,
    /// X'07': the proxy does not support connecting.
    CommandNotSupported,
    /// X'08': the proxy does not support this kind of address.
    AddressTypeNotSupported,
    /// A code that RFC 1928 does not define.
    Unassigned(u8),
}

impl SocksReply {
    fn from_code(code: u8) -> SocksReply {
        match code {
            1 => SocksReply::GeneralFailure,
            2 => SocksReply::NotAllowed,
            3 => SocksReply::NetworkUnreachable,
            4 => SocksReply::HostUnreachable,
            5 => SocksReply::ConnectionRefused,
            6 => SocksReply::TtlExpired,
            7 => SocksReply::CommandNotSupported,
            8 => SocksReply::AddressTypeNotSupported,
            code => SocksReply::Unassigned(code),
        }
    }
}

impl fmt::Display for SocksReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SocksReply::GeneralFailure => "it failed",
            SocksReply::NotAllowed => "its rules forbid it",
            SocksReply::NetworkUnreachable => "the network cannot be reached",
            SocksReply::HostUnreachable => "the host cannot be reached",
            SocksReply::ConnectionRefused => "the host refused the connection",
            SocksReply::TtlExpired => "the route is too long",
            SocksReply::CommandNotSupported => "it cannot connect",
            SocksReply::AddressTypeNotSupported => "it does not support this kind of address",
            SocksReply::Unassigned(code) => return write!(f, "code {code}"),
        })
    }
}

impl fmt::Display for SocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            SocksError::Io(_) => f.write_str("the connection to the proxy failed"),
            SocksError::Malformed => f.write_str("the proxy does not speak SOCKS5"),
            SocksError::Method => f.write_str("the proxy wants another kind of authentication"),
            SocksError::Login => f.write_str("the proxy refused username and password"),
            SocksError::Refused(reply) => write!(f, "the proxy did not connect: {reply}"),
        })
    }
}

impl Error for SocksError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SocksError::Io(error) => Some(error),
            SocksError::Malformed | SocksError::Method | SocksError::Login | SocksError::Refused(_) => None,
        }
    }
}

impl From<io::Error> for SocksError {
    fn from(error: io::Error) -> SocksError {
        SocksError::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::error::Error;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::ReadBuf;

    use super::*;

    /// A proxy whose replies arrive in these pieces, each after one vain read, and then end.
    struct ScriptedProxy {
        pieces: VecDeque<Vec<u8>>,
        is_due: bool,
        received: Vec<u8>,
    }

    impl AsyncRead for ScriptedProxy {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.is_due = !self.is_due;
            if self.is_due {
                return Poll::Pending;
            }
            if let Some(piece) = self.pieces.front_mut() {
                buf.put_slice(&piece.drain(..piece.len().min(buf.remaining())).collect::<Vec<_>>());
            }
            self.pieces.retain(|piece| !piece.is_empty());
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for ScriptedProxy {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            // A byte at a time, as no writer may rely on more.
            self.received.extend(bytes.first());
            Poll::Ready(Ok(bytes.len().min(1)))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Returns the bytes that a proxy that answers in `pieces` receives, the end of the handshake, and the part of the
    /// replies that is not read.
    fn run_handshake(
        destination: &Destination<'_>,
        login: Option<&Login>,
        pieces: &[&[u8]],
    ) -> (Vec<u8>, String, Vec<u8>) {
        let pieces = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).collect();
        let mut proxy = ScriptedProxy { pieces, is_due: false, received: Vec::new() };
        let mut connects = Box::pin(connect(&mut proxy, destination, login));
        let mut cx = Context::from_waker(Waker::noop());
        let end = loop {
            if let Poll::Ready(end) = connects.as_mut().poll(&mut cx) {
                break end;
            }
        };
        drop(connects);
        let text = |error: SocksError| {
            assert_eq!(error.source().is_some(), matches!(error, SocksError::Io(_)));
            error.to_string()
        };
        let end = end.map_or_else(text, |()| "connected".to_owned());
        (proxy.received, end, proxy.pieces.into_iter().flatten().collect())
    }

    const JOE: (&[u8], &[u8]) = (b"joe", b"pw");

    /// Returns the bytes that the client sends to a proxy that gives `replies`. The handshake ends with `end`, wherever
    /// the replies are cut.
    #[track_caller]
    fn check_sent(host: &str, login: Option<(&[u8], &[u8])>, replies: &[u8], end: &str) -> Vec<u8> {
        let destination = Destination::new(host, 443).unwrap();
        let login = login.map(|(user, password)| Login::new(user, password).unwrap());
        let talk = |pieces: &[&[u8]]| run_handshake(&destination, login.as_ref(), pieces);
        let whole = talk(&[replies]);
        assert_eq!(whole.1, end, "{replies:?}");
        for cut in 0..=replies.len() {
            let (first, second) = replies.split_at(cut);
            assert_eq!(talk(&[first, second]), whole, "{replies:?} cut at {cut}");
        }
        assert_eq!(talk(&replies.chunks(1).collect::<Vec<_>>()), whole, "{replies:?} byte for byte");
        whole.0
    }

    #[track_caller]
    fn check(login: Option<(&[u8], &[u8])>, replies: &[u8], end: &str) {
        check_sent("a", login, replies, end);
    }

    const OK_V4: &[u8] = b"\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";

    #[test]
    fn the_request_names_the_destination_rfc1928_4() {
        for (host, expected) in [
            ("a.example", &b"\x05\x01\x00\x03\x09a.example\x01\xbb"[..]),
            ("192.0.2.1", b"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb"),
            ("[::1]", b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb"),
        ] {
            assert_eq!(check_sent(host, None, OK_V4, "connected"), [b"\x05\x01\x00", expected].concat());
        }
        for host in ["", "a b", "127.1", "a\r\nb", &"a".repeat(254)] {
            assert!(Destination::new(host, 80).is_err(), "{host:?}");
        }
        let longest = format!("{}.", "a".repeat(253));
        let sent_bytes = check_sent(&longest, None, OK_V4, "connected");
        assert_eq!(sent_bytes[3..8], *b"\x05\x01\x00\x03\xfe");
        let address = SocketAddr::from(([192, 0, 2, 1], 443));
        assert_eq!(Destination::from(address), Destination::new("192.0.2.1", 443).unwrap());
    }

    #[test]
    fn no_byte_beyond_the_reply_is_read_rfc1928_6() {
        for bound in [&b"\x01abcdPP"[..], b"\x04abcdefghijklmnopPP", b"\x03\x00PP", b"\x03\x03abcPP"] {
            let reply = [b"\x05\x00\x05\x00\x00", bound].concat();
            for rest in [&b""[..], b"H", b"HTTP/1.1 200 OK\r\n"] {
                let replies = [&reply, rest].concat();
                check(None, &replies, "connected");
                let (_, end, left) = run_handshake(&Destination::new("a", 1).unwrap(), None, &[&replies]);
                assert_eq!((&*end, &*left), ("connected", rest));
            }
            for len in 0..reply.len() {
                check(None, &reply[..len], "the connection to the proxy failed");
            }
        }
    }

    #[test]
    fn credentials_are_sent_only_if_the_proxy_asks_for_them_rfc1929() {
        let greeting = b"\x05\x02\x00\x02";
        let sent_bytes = check_sent("a", Some(JOE), OK_V4, "connected");
        assert_eq!(sent_bytes, [&greeting[..], b"\x05\x01\x00\x03\x01a\x01\xbb"].concat());
        let replies = [b"\x05\x02\x01\x00", &OK_V4[2..]].concat();
        let sent_bytes = check_sent("a", Some(JOE), &replies, "connected");
        let login = b"\x01\x03joe\x02pw";
        assert_eq!(sent_bytes, [&greeting[..], login, b"\x05\x01\x00\x03\x01a\x01\xbb"].concat());

        let refused = "the proxy refused username and password";
        check(Some(JOE), b"\x05\x02\x01\x01", refused);
        check(Some(JOE), b"\x05\x02\x01\xff", refused);
        check(Some(JOE), b"\x05\x02\x05\x00", "the proxy does not speak SOCKS5");
        let long = [b'x'; 256];
        for (user, password) in [(&long[..], &b"pw"[..]), (b"joe", &long)] {
            assert!(Login::new(user, password).is_none());
        }
        let longest = [&b"\x01\xff"[..], &long[1..], b"\xff", &long[1..]].concat();
        for (user, password, login) in [
            (&b"joe"[..], &b""[..], &b"\x01\x03joe\x00"[..]),
            (b"", b"pw", b"\x01\x00\x02pw"),
            (b"", b"", b"\x01\x00\x00"),
            (&long[1..], &long[1..], &longest),
        ] {
            let sent_bytes = check_sent("a", Some((user, password)), &replies, "connected");
            assert_eq!(sent_bytes, [&greeting[..], login, b"\x05\x01\x00\x03\x01a\x01\xbb"].concat());
        }
    }

    #[test]
    fn a_refusal_says_why_rfc1928_3_6() {
        let method = "the proxy wants another kind of authentication";
        for (login, chosen) in [(None, 0xff), (None, 2), (None, 1), (Some(JOE), 0xff), (Some(JOE), 1)] {
            check(login, &[5, chosen], method);
        }
        let replies = [
            (1, "it failed"),
            (2, "its rules forbid it"),
            (3, "the network cannot be reached"),
            (4, "the host cannot be reached"),
            (5, "the host refused the connection"),
            (6, "the route is too long"),
            (7, "it cannot connect"),
            (8, "it does not support this kind of address"),
            (9, "code 9"),
            (255, "code 255"),
        ];
        for (code, why) in replies {
            check(None, &[5, 0, 5, code], &format!("the proxy did not connect: {why}"));
        }
    }

    #[test]
    fn another_protocol_than_socks5_is_refused() {
        for greeting in [&b"\x04\x00"[..], b"\x00\x5a", b"\x01\x00", b"HT"] {
            check(None, greeting, "the proxy does not speak SOCKS5");
        }
        for reply in [
            &b"\x04\x00"[..],
            b"\x05\x00\x01\x01",
            b"\x05\x00\xff\x03",
            b"\x05\x00\x01\x04",
            b"\x05\x00\x00\x00",
            b"\x05\x00\x00\x02",
            b"\x05\x00\x00\x05",
        ] {
            check(None, &[b"\x05\x00", reply].concat(), "the proxy does not speak SOCKS5");
        }
    }
}

//! [`Address`]: where to listen, or to connect to; [`PeerAddr`]: where a connection comes from; [`Peer`]: that address,
//! with the connection's number.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpListener};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::net::memory_listener::MemoryListener;

/// The address that a server listens on, or a client connects to. Usually converted from text, which is checked at its
/// use.
///
/// # Examples
///
/// ```
/// use corehttp::Address;
///
/// assert_eq!(Address::from("127.0.0.1:80").to_string(), "127.0.0.1:80");
/// assert_eq!(Address::from(([127, 0, 0, 1], 80)).to_string(), "127.0.0.1:80");
/// assert_eq!(Address::from("localhost:80").to_string(), "localhost:80"); // resolved when bound
/// assert_eq!(Address::from(("localhost", 80)).to_string(), "localhost:80");
/// assert_eq!(Address::from(":8080").to_string(), "[::]:8080"); // every address, IPv4 too
/// assert_eq!(Address::from("*:8080").to_string(), "[::]:8080");
/// assert_eq!(Address::from(8080).to_string(), "[::]:8080");
/// assert_eq!(Address::from("unix:/run/app.sock").to_string(), "unix:/run/app.sock");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Address {
    /// An IP address and a port. Port 0 stands for any free one, and `[::]` accepts IPv4 peers as well.
    Tcp(SocketAddr),
    /// A name and a port, such as `localhost:80`. Every address of the name is bound, except those of other machines.
    Host(String),
    /// A Unix domain socket. An error on systems without them.
    ///
    /// Every process that may write to its file may connect. The umask determines the mode of the file, unless
    /// [`Server::unix_mode`](crate::Server::unix_mode) sets it. The file is removed when the server ends. A file of a
    /// dead process is replaced. Any other file is left alone.
    Unix(PathBuf),
    /// A listener in memory, for tests and benchmarks.
    Memory(MemoryListener),
    /// A TCP socket that is already bound, such as one opened by a test or passed on by systemd. One core accepts for
    /// all, and [`Server::dual_stack`](crate::Server::dual_stack) has no effect on it.
    TcpListener(Arc<TcpListener>),
    /// A Unix domain socket that is already bound. Its file stays when the server ends. One core accepts for all.
    #[cfg(unix)]
    UnixListener(Arc<UnixListener>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Host(name) => name.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Memory(_) => f.write_str("memory"),
            Address::TcpListener(listener) => match listener.local_addr() {
                Ok(address) => address.fmt(f),
                Err(_) => f.write_str("a socket without an address"),
            },
            #[cfg(unix)]
            Address::UnixListener(listener) => {
                match listener.local_addr().as_ref().map(|it| it.as_pathname()) {
                    Ok(Some(path)) => write!(f, "unix:{}", path.display()),
                    Ok(None) | Err(_) => f.write_str("a socket without a path"),
                }
            }
        }
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        if let Some(path) = text.strip_prefix("unix:") {
            return Address::Unix(path.into());
        }
        if let Ok(address) = text.parse() {
            return Address::Tcp(address);
        }
        match text.strip_prefix('*').unwrap_or(text).strip_prefix(':').map(str::parse::<u16>) {
            Some(Ok(port)) => port.into(),
            _ => Address::Host(text.into()),
        }
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<&String> for Address {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

/// Every address of this machine, as `":8080"`.
impl From<u16> for Address {
    fn from(port: u16) -> Self {
        Address::Tcp((Ipv6Addr::UNSPECIFIED, port).into())
    }
}

/// A name or an IP address, and a port.
impl From<(&str, u16)> for Address {
    fn from((host, port): (&str, u16)) -> Self {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return (ip, port).into();
        }
        let text = format!("{host}:{port}"); // an IPv6 address with its brackets, or a name
        text.parse().map_or_else(|_| Address::Host(text), Address::Tcp)
    }
}

impl From<(String, u16)> for Address {
    fn from((host, port): (String, u16)) -> Self {
        (host.as_str(), port).into()
    }
}

impl From<(&String, u16)> for Address {
    fn from((host, port): (&String, u16)) -> Self {
        (host.as_str(), port).into()
    }
}

impl From<&SocketAddr> for Address {
    fn from(address: &SocketAddr) -> Self {
        Address::Tcp(*address)
    }
}

macro_rules! socket_addresses {
    ($($type:ty),*) => {$(
        impl From<$type> for Address {
            fn from(address: $type) -> Self {
                Address::Tcp(address.into())
            }
        }
    )*};
}

socket_addresses!(SocketAddr, SocketAddrV4, SocketAddrV6);
socket_addresses!((IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16), ([u8; 4], u16), ([u16; 8], u16));

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Address::Unix(path.into())
    }
}

impl From<PathBuf> for Address {
    fn from(path: PathBuf) -> Self {
        Address::Unix(path)
    }
}

impl From<TcpListener> for Address {
    fn from(listener: TcpListener) -> Self {
        Address::TcpListener(Arc::new(listener))
    }
}

#[cfg(unix)]
impl From<UnixListener> for Address {
    fn from(listener: UnixListener) -> Self {
        Address::UnixListener(Arc::new(listener))
    }
}

impl From<&MemoryListener> for Address {
    fn from(listener: &MemoryListener) -> Self {
        Address::Memory(listener.clone())
    }
}

impl From<MemoryListener> for Address {
    fn from(listener: MemoryListener) -> Self {
        Address::Memory(listener)
    }
}

/// Checks that the text of an [`Address::Host`] is no URL and no path.
///
/// # Errors
///
/// Fails with `InvalidInput`, and says what to write.
pub(crate) fn check_host(text: &str) -> io::Result<()> {
    let advice = match text.split_once("://") {
        Some((_, address)) => {
            let address = address.trim_end_matches('/');
            let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
                let is_number = !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit());
                is_number && !host.is_empty() && !host.contains(['@', '/'])
            });
            format!("an address has no scheme: write `{}`", if has_port { address } else { "127.0.0.1:8080" })
        }
        None if ["/", "./", "../"].iter().any(|front| text.starts_with(front)) => {
            format!("a path is written `unix:{text}`")
        }
        None if text.starts_with("~/") => {
            "a path is written `unix:./app.sock` or `unix:/run/app.sock`, and no `~` is expanded".to_owned()
        }
        None => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, advice))
}

/// The address of the other end of a connection. `{}` writes an IPv4 peer of a dual-stack socket as IPv4.
///
/// # Examples
///
/// ```
/// use std::net::{IpAddr, SocketAddr};
///
/// use corehttp::PeerAddr;
///
/// let peer = PeerAddr::Tcp(SocketAddr::from(([192, 0, 2, 1], 4711)));
/// assert_eq!(peer.to_string(), "192.0.2.1:4711");
/// assert_eq!(peer.ip(), Some(IpAddr::from([192, 0, 2, 1])));
/// assert_eq!(PeerAddr::Unix.ip(), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerAddr {
    /// An IP address and a port, as reported by the socket.
    Tcp(SocketAddr),
    /// A process on this machine, which has no address.
    Unix,
    /// A stream in memory, or one that the caller supplied.
    #[default]
    Memory,
}

impl PeerAddr {
    /// Returns the IP address of the peer, if it has one. An IPv4 peer of a dual-stack socket is reported as IPv4.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            PeerAddr::Tcp(address) => Some(address.ip().to_canonical()),
            PeerAddr::Unix | PeerAddr::Memory => None,
        }
    }

    /// The address by which the connections of one peer are counted: see [`subscriber`].
    pub(crate) fn subscriber(&self) -> Option<IpAddr> {
        self.ip().map(subscriber)
    }
}

/// The address by which all addresses of one subscriber are counted: an IPv4 address, or an IPv6 network.
///
/// A single subscriber has a whole /64, so counting single IPv6 addresses would limit nothing. Where an IPv6 address
/// stands for an IPv4 address, it counts as that: mapped (RFC 4291 §2.5.5.2), behind a translator with the well-known
/// prefix, of which all clients would be one (RFC 6052 §2.1), by 6to4 (RFC 3056 §2) and by Teredo (RFC 4380 §4).
pub(crate) fn subscriber(ip: IpAddr) -> IpAddr {
    let ip = match ip.to_canonical() {
        IpAddr::V4(ip) => return ip.into(),
        IpAddr::V6(ip) => ip,
    };
    let embedded = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into();
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0, .., high, low] => embedded(!high, !low),
        _ => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddr::Tcp(address) => match address.ip().to_canonical() {
                ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()).fmt(f),
                IpAddr::V6(_) => address.fmt(f),
            },
            PeerAddr::Unix => f.write_str("unix"),
            PeerAddr::Memory => f.write_str("memory"),
        }
    }
}

impl From<SocketAddr> for PeerAddr {
    fn from(address: SocketAddr) -> Self {
        PeerAddr::Tcp(address)
    }
}

/// The process at the other end of a Unix socket when it connected. See
/// [`Context::peer_credentials`](crate::Context::peer_credentials).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PeerCredentials {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// The process. `None` on systems that do not report it. The number may be another's by now.
    pub pid: Option<i32>,
}

/// The other end of a connection of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) addr: PeerAddr,
    /// The number of the connection.
    pub(crate) id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_tells_the_kind_of_an_address() {
        for (text, expected) in [
            ("127.0.0.1:80", "Tcp(127.0.0.1:80)"),
            ("[::1]:80", "Tcp([::1]:80)"),
            (":8080", "Tcp([::]:8080)"),
            (":0", "Tcp([::]:0)"),
            ("localhost:80", "Host(\"localhost:80\")"),
            ("127.0.0.1", "Host(\"127.0.0.1\")"),
            (":65536", "Host(\":65536\")"),
            ("", "Host(\"\")"),
            ("unix:/run/a.sock", "Unix(\"/run/a.sock\")"),
            ("unix:a.sock", "Unix(\"a.sock\")"),
        ] {
            assert_eq!(format!("{:?}", Address::from(text)), expected, "{text}");
        }
    }

    #[test]
    fn an_address_is_made_of_many_types() {
        let text = String::from("127.0.0.1:80");
        for address in [
            Address::from(&text),
            Address::from(text.clone()),
            Address::from(([127, 0, 0, 1], 80)),
            Address::from((IpAddr::from([127, 0, 0, 1]), 80)),
            Address::from((Ipv4Addr::LOCALHOST, 80)),
            Address::from(SocketAddr::from(([127, 0, 0, 1], 80))),
            Address::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80)),
            Address::from(("127.0.0.1", 80)),
            Address::from((String::from("127.0.0.1"), 80)),
        ] {
            assert_eq!(address.to_string(), text);
        }
        for address in [
            Address::from(("::1", 80)),
            Address::from(("[::1]", 80)),
            Address::from((Ipv6Addr::LOCALHOST, 80)),
            Address::from(([0, 0, 0, 0, 0, 0, 0, 1], 80)),
            Address::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 80, 0, 0)),
        ] {
            assert!(matches!(address, Address::Tcp(address) if address.to_string() == "[::1]:80"));
        }
        for (address, expected) in [
            (Address::from(("localhost", 80)), "Host(\"localhost:80\")"),
            (Address::from(("", 80)), "Host(\":80\")"),
            (Address::from(("unix:/a", 80)), "Host(\"unix:/a:80\")"),
            (Address::from(8080), "Tcp([::]:8080)"),
        ] {
            assert_eq!(format!("{address:?}"), expected);
        }
        assert_eq!(Address::from(Path::new("/a")).to_string(), "unix:/a");
        assert_eq!(Address::from(PathBuf::from("/a")).to_string(), "unix:/a");
        assert_eq!(Address::from(MemoryListener::new()).to_string(), "memory");
    }

    #[test]
    fn a_peer_is_an_ipv4_address_or_an_ipv6_64_prefix() {
        for (peer, expected) in [
            ("192.0.2.1:1", "192.0.2.1"),
            ("192.0.2.2:1", "192.0.2.2"),
            ("[::ffff:192.0.2.1]:9", "192.0.2.1"),
            ("[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::"),
            ("[2001:db8:1:2:ffff::1]:2", "2001:db8:1:2::"),
            ("[2001:db8:1:3::1]:1", "2001:db8:1:3::"),
        ] {
            let address: SocketAddr = peer.parse().unwrap();
            assert_eq!(PeerAddr::from(address).subscriber(), Some(expected.parse().unwrap()), "{peer}");
        }
        for (peer, expected) in [
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("[::ffff:192.0.2.1]:9", "192.0.2.1:9"),
            ("[2001:db8::1]:1", "[2001:db8::1]:1"),
            ("[fe80::1%3]:1", "[fe80::1%3]:1"),
        ] {
            assert_eq!(PeerAddr::from(peer.parse::<SocketAddr>().unwrap()).to_string(), expected);
        }
        assert_eq!(PeerAddr::Unix.subscriber(), None);
        assert_eq!(PeerAddr::Memory.subscriber(), None);
    }
}

//! [`Peer`]: the other end of a connection, and its [`PeerAddr`].

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address of the other end of a connection.
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

    /// The key by which the connections of one peer are counted: its IPv4 address, or its IPv6 network.
    ///
    /// A single subscriber has a whole /64, so counting single IPv6 addresses would limit nothing.
    pub(crate) fn bucket(&self) -> Option<IpAddr> {
        self.ip().map(|ip| match ip {
            IpAddr::V4(_) => ip,
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        })
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddr::Tcp(address) => address.fmt(f),
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
            assert_eq!(PeerAddr::from(address).bucket(), Some(expected.parse().unwrap()), "{peer}");
        }
        assert_eq!(PeerAddr::Unix.bucket(), None);
        assert_eq!(PeerAddr::Memory.bucket(), None);
    }
}

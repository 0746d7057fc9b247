//! [`DialAddress`]: an [`Address`] that connections lead to.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use crate::net::{Address, MemoryConnector};

/// Where connections lead.
#[derive(Clone, Default)]
pub(crate) enum DialAddress {
    /// To the host of each URL.
    #[default]
    OwnHost,
    Tcp(SocketAddr),
    /// To a name, or an address with brackets; without a port, to that of the URL.
    Host(Arc<str>, Option<u16>),
    Unix(Arc<Path>),
    Memory(MemoryConnector),
    /// To a socket that no peer can name.
    Nowhere,
}

impl DialAddress {
    /// The host and the port to connect to, for a URL with these.
    pub(super) fn host_and_port<'a>(&'a self, host: &'a str, port: u16) -> (Cow<'a, str>, u16) {
        match self {
            DialAddress::Tcp(address) => (address.ip().to_string().into(), address.port()),
            DialAddress::Host(host, own_port) => ((**host).into(), own_port.unwrap_or(port)),
            _ => (host.into(), port),
        }
    }
}

impl From<Address> for DialAddress {
    /// Keeps no listener, since a listener that is kept is not closed.
    fn from(address: Address) -> DialAddress {
        match address {
            Address::Tcp(address) => DialAddress::from(address),
            Address::Host(name) => match name.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
                Some((host, Ok(port))) => DialAddress::Host(host.into(), Some(port)),
                _ => DialAddress::Host(name.into(), None),
            },
            Address::Unix(path) => DialAddress::Unix(path.into()),
            Address::Memory(listener) => DialAddress::Memory(listener.connector()),
            Address::TcpListener(listener) => {
                listener.local_addr().map_or(DialAddress::Nowhere, DialAddress::from)
            }
            #[cfg(unix)]
            Address::UnixListener(listener) => match listener.local_addr().ok() {
                Some(address) => {
                    address.as_pathname().map_or(DialAddress::Nowhere, |path| DialAddress::Unix(path.into()))
                }
                None => DialAddress::Nowhere,
            },
        }
    }
}

impl From<SocketAddr> for DialAddress {
    /// A server on every address of this machine is reached at its loopback address.
    fn from(mut address: SocketAddr) -> DialAddress {
        match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        DialAddress::Tcp(address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::net::MemoryListener;

    fn check(address: impl Into<Address>, expected: (&str, u16)) {
        let address = address.into();
        let dialed = DialAddress::from(address.clone());
        let (host, port) = dialed.host_and_port("example.com", 80);
        assert_eq!((&*host, port), expected, "{address}");
    }

    #[test]
    fn an_address_replaces_the_host_of_a_url() {
        check("192.0.2.1:8080", ("192.0.2.1", 8080));
        check("[2001:db8::1]:8080", ("2001:db8::1", 8080));
        check("0.0.0.0:8080", ("127.0.0.1", 8080));
        check(":8080", ("::1", 8080));
        check(8080, ("::1", 8080));
        check("localhost:8080", ("localhost", 8080));
        check(("localhost", 8080), ("localhost", 8080));
        check("localhost", ("localhost", 80));
        check("[::1]", ("[::1]", 80));
        check("unix:/run/app.sock", ("example.com", 80));
        check(MemoryListener::new(), ("example.com", 80));
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = bound.local_addr().unwrap().port();
        check(bound, ("127.0.0.1", port));
    }
}

//! [`Source`]: who has sent a request, as logs write it.

use std::fmt;
use std::net::IpAddr;

use crate::net::PeerAddr;

/// The client of a request, and the peer that has passed it on, if that is another: `192.0.2.1 through 10.0.0.1:50000`. A
/// peer that is the client has its port, too.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    /// The address of the client, as [`Context::client_ip`](crate::Context::client_ip) returns it.
    pub(crate) client: Option<IpAddr>,
    pub(crate) peer: PeerAddr,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { client, peer } = self;
        match client {
            same if *same == peer.ip() => peer.fmt(f),
            Some(client) => write!(f, "{client} through {peer}"),
            None => write!(f, "an unknown client through {peer}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[track_caller]
    fn check(client: Option<&str>, peer: &str, expected: &str) {
        let client = client.map(|ip| ip.parse().unwrap());
        let peer = peer.parse::<SocketAddr>().map_or(PeerAddr::Unix, PeerAddr::from);
        assert_eq!(Source { client, peer }.to_string(), expected);
    }

    #[test]
    fn a_peer_that_is_the_client_has_its_port() {
        check(Some("192.0.2.1"), "192.0.2.1:5000", "192.0.2.1:5000");
        check(Some("2001:db8::1"), "[2001:db8::1]:5000", "[2001:db8::1]:5000");
        check(None, "unix", "unix");
    }

    #[test]
    fn an_ipv4_peer_of_a_dual_stack_socket_is_written_as_such() {
        check(Some("192.0.2.1"), "[::ffff:192.0.2.1]:5000", "192.0.2.1:5000");
        check(Some("192.0.2.1"), "[::ffff:10.0.0.1]:5000", "192.0.2.1 through 10.0.0.1:5000");
    }

    #[test]
    fn a_client_behind_another_peer_is_named_with_it() {
        check(Some("2001:db8::1"), "[::1]:5000", "2001:db8::1 through [::1]:5000");
        check(Some("192.0.2.1"), "unix", "192.0.2.1 through unix");
        check(None, "10.0.0.1:5000", "an unknown client through 10.0.0.1:5000");
    }
}

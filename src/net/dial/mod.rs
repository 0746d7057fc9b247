//! Opens connections to hosts: names are looked up, their addresses race, or another way leads there.

mod race;

mod dns_cache;

mod host_connector;

pub(crate) use dns_cache::DnsCache;
pub use dns_cache::{Resolver, SystemResolver};
pub use host_connector::Dialer;
pub(crate) use host_connector::{BoxedStream, DialError, DialTimes, HostConnector, Network, timed};

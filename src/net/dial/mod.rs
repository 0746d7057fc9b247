//! Connections to hosts: look-ups of names, races of their addresses, and dialers of the application.

mod look_ups;
mod race;
mod resolver;

mod dns_cache;

mod host_connector;

pub(crate) use dns_cache::DnsCache;
pub use host_connector::Dialer;
pub(crate) use host_connector::{
    AllowedAddresses, BoxedStream, DialError, DialStep, DialTimes, HostConnector, timed,
};
pub(crate) use race::stagger;
pub use resolver::{Resolver, SrvRecord, SystemResolver};

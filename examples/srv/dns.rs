//! [`Dns`]: a resolver that asks a name server itself, by the crate `hickory-resolver`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use corehttp::net::{Resolver, SrvRecord};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

/// Asks one name server.
pub struct Dns(TokioResolver);

impl Dns {
    /// Asks the name server at `address`.
    ///
    /// # Errors
    ///
    /// Fails if the settings contradict each other.
    pub fn new(address: SocketAddr) -> io::Result<Dns> {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = address.port();
            connection
        });
        let server = NameServerConfig::new(address.ip(), true, connections.into());
        let config = ResolverConfig::from_name_servers(vec![server]);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options = builder.options_mut();
        // The client keeps the answers, for as long as they are valid.
        options.cache_size = 0;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // Half as long as a client waits for a look-up, so that a datagram may be lost.
        options.timeout = Duration::from_secs(2);
        options.attempts = 1;
        builder.build().map(Dns).map_err(io::Error::other)
    }
}

impl Resolver for Dns {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.resolve_with_ttl(name).await?.0)
    }

    async fn resolve_with_ttl(&self, name: &str) -> io::Result<(Vec<IpAddr>, Option<Duration>)> {
        let found = self.0.lookup_ip(name).await.map_err(failure)?;
        Ok((found.iter().collect(), ttl(found.valid_until())))
    }

    async fn resolve_srv(&self, name: &str) -> io::Result<(Vec<SrvRecord>, Option<Duration>)> {
        let found = self.0.srv_lookup(name).await.map_err(failure)?;
        let records = found.answers().iter().filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(SrvRecord {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_ascii(),
            }),
            _ => None,
        });
        Ok((records.collect(), ttl(found.valid_until())))
    }
}

fn ttl(valid_until: Instant) -> Option<Duration> {
    Some(valid_until.saturating_duration_since(Instant::now()))
}

fn failure(error: NetError) -> io::Error {
    let kind = if error.is_no_records_found() { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
    io::Error::new(kind, error)
}

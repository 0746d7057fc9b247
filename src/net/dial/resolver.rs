//! [`Resolver`]: looks up the addresses of names; [`SystemResolver`] has the operating system do it.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use super::look_ups::{LookUp, LookUps};

/// Looks up the addresses of names.
///
/// A client resolves names only, never addresses, and caches the results for a while: see
/// [`ClientBuilder::resolver`](crate::ClientBuilder::resolver). The addresses are tried in order, alternating between
/// the two families (RFC 8305 §4). Put the better family first. Connections spread over the addresses of a name: within
/// a family, each begins with the next address of the first kind (global, private, link-local or loopback). Addresses
/// after the 64th are ignored.
///
/// A look-up serves all requests of a runtime that need the name meanwhile. The look-up has a task of its own, which
/// goes on without its first request. After 30 seconds without a waiting request, it is dropped. At most 1,024 look-ups
/// run at once. Beyond that, look-ups without a waiting request give way to others.
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::net::IpAddr;
///
/// use corehttp::net::{Resolver, SystemResolver};
///
/// /// Knows one more name than the operating system.
/// struct Pinned;
///
/// impl Resolver for Pinned {
///     async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
///         match name {
///             "api.internal" => Ok(vec![[10, 0, 0, 7].into()]),
///             name => SystemResolver.resolve(name).await,
///         }
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// # assert_eq!(Pinned.resolve("api.internal").await?, [IpAddr::from([10, 0, 0, 7])]);
/// # Ok(())
/// # }
/// ```
pub trait Resolver: Send + Sync + 'static {
    /// Looks up `name`. The name is in lower case, not empty, and of visible ASCII characters. A final dot is kept.
    ///
    /// # Errors
    ///
    /// Fails for a name without an address, and if the look-up fails. Errors are not cached.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;

    /// Looks up `name` as [`Resolver::resolve`] does. Also returns the time to live of the addresses (RFC 1035 §3.2.1),
    /// if known.
    ///
    /// The client keeps the addresses for no longer, and never beyond its own limit. It calls only this method, whose
    /// default returns no such time.
    ///
    /// # Errors
    ///
    /// As [`Resolver::resolve`].
    fn resolve_with_ttl(
        &self,
        name: &str,
    ) -> impl Future<Output = io::Result<(Vec<IpAddr>, Option<Duration>)>> + Send {
        async { Ok((self.resolve(name).await?, None)) }
    }

    /// Looks up the SRV records of a service (RFC 2782), such as `_http._tcp.api.internal`. Also returns their time to
    /// live, if known.
    ///
    /// Only a balancer calls this. [`BalancerBuilder::each_target_of`](crate::client::BalancerBuilder::each_target_of)
    /// has an example.
    ///
    /// # Errors
    ///
    /// Fails for a name without such a record, and if the look-up fails. The default fails with
    /// [`Unsupported`](io::ErrorKind::Unsupported), as [`SystemResolver`] does.
    fn resolve_srv(
        &self,
        name: &str,
    ) -> impl Future<Output = io::Result<(Vec<SrvRecord>, Option<Duration>)>> + Send {
        let _ = name;
        async { Err(io::Error::new(io::ErrorKind::Unsupported, "the resolver looks up no SRV records")) }
    }
}

/// One SRV record (RFC 2782): a host and a port at which a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvRecord {
    /// Targets of a lower priority are used first.
    pub priority: u16,
    /// The share of the requests, in proportion to other targets of the same priority. A target with 0 has a very small
    /// share, unless all have 0.
    pub weight: u16,
    /// The port of the service.
    pub port: u16,
    /// The name of the host. A `.` alone means that there is no such service.
    pub target: String,
}

/// The resolver of the operating system: `getaddrinfo`, called on a thread of its own.
///
/// A call cannot be cut short, and takes long without an answer of a name server. So one call serves all look-ups of a
/// name meanwhile, in all clients and runtimes of the process. Of these threads there are at most 64, and further names
/// wait in line. No runtime waits for them when it ends.
///
/// The zone of a link-local IPv6 address is lost. `getaddrinfo` returns no lifetime of an answer. A client keeps it for
/// the time of [`ClientBuilder::dns_ttl`](crate::ClientBuilder::dns_ttl).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let begin = |look_up: LookUp<Box<str>, Arc<[IpAddr]>>| {
            let name = name.to_owned();
            let call = move || {
                let found = (&*name, 0).to_socket_addrs();
                look_up
                    .end(found.map(|found| found.map(|address| address.ip()).collect()).map_err(From::from));
            };
            thread::Builder::new().name("corehttp-names".into()).spawn(call).map(drop)
        };
        SYSTEM_CALLS.join(name.into(), begin).await.map(|found| found.to_vec())
    }
}

static SYSTEM_CALLS: LazyLock<LookUps<Box<str>, Arc<[IpAddr]>>> =
    LazyLock::new(|| LookUps::new(SYSTEM_CALLS_MAX));

const SYSTEM_CALLS_MAX: usize = 64;

/// An object-safe [`Resolver`].
pub(super) trait AnyResolver: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a, IpAddr>;
    fn resolve_srv<'a>(&'a self, name: &'a str) -> Resolving<'a, SrvRecord>;
}

type Resolving<'a, T> = Pin<Box<dyn Future<Output = io::Result<(Vec<T>, Option<Duration>)>> + Send + 'a>>;

impl<R: Resolver> AnyResolver for R {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a, IpAddr> {
        Box::pin(self.resolve_with_ttl(name))
    }

    fn resolve_srv<'a>(&'a self, name: &'a str) -> Resolving<'a, SrvRecord> {
        Box::pin(Resolver::resolve_srv(self, name))
    }
}

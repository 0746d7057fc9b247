//! [`Resolver`]: looks up the addresses of names; [`SystemResolver`] has the operating system do it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::lookup_host;

/// Looks up the addresses of names.
///
/// A client resolves names only, never addresses, and caches the results for a while: see
/// [`ClientBuilder::resolver`](crate::ClientBuilder::resolver). The addresses are tried in order, alternating between
/// the two families (RFC 8305 §4), so the better family should come first. Within a family, each connection begins with
/// the next address of the kind that comes first (global, private, link-local or loopback), so that connections spread
/// over the addresses of a name. Addresses after the 64th are ignored.
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::net::IpAddr;
///
/// use corehttp::{Resolver, SystemResolver};
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
    /// Looks up `name`, which is in lower case, not empty, and consists of visible ASCII characters. A final dot is
    /// kept.
    ///
    /// # Errors
    ///
    /// Fails if the name has no address, or the look-up failed. Errors are not cached.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;

    /// Looks up `name` as [`Resolver::resolve`] does, and returns for how long the addresses are valid, if that is
    /// known (RFC 1035 §3.2.1): the client keeps them for no longer, and never for longer than it is set to. The client
    /// calls only this method. Its default returns no such time.
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
}

/// The resolver of the operating system: `getaddrinfo`, called on a thread for blocking work.
///
/// The zone of a link-local IPv6 address is lost. `getaddrinfo` does not return how long an answer is valid, so a
/// client keeps it for as long as it is set to: see [`ClientBuilder::dns_ttl`](crate::ClientBuilder::dns_ttl).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let addresses = lookup_host((name, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// An object-safe [`Resolver`].
pub(super) trait AnyResolver: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<(Vec<IpAddr>, Option<Duration>)>> + Send + 'a>>;

impl<R: Resolver> AnyResolver for R {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(self.resolve_with_ttl(name))
    }
}

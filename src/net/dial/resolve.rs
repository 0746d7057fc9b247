//! [`Resolver`]: looks up the addresses of names.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use tokio::net::lookup_host;

/// Looks up the addresses of names.
///
/// A client asks it for names only, never for addresses, and keeps its answers for a while: see
/// [`ClientBuilder::resolver`](crate::ClientBuilder::resolver). The addresses are tried in order, alternating between
/// the two families (RFC 8305), so the best should come first. Addresses after the 64th are ignored.
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
    /// Looks up `name`, which is in lower case, not empty, and consists of visible ASCII characters. It ends with a dot
    /// if it was written with one.
    ///
    /// # Errors
    ///
    /// Fails if the name has no address, or the look-up failed. Errors are not cached.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The resolver of the operating system: `getaddrinfo`, called on a thread for blocking work.
///
/// The zone of a link-local IPv6 address is lost.
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

type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

impl<R: Resolver> AnyResolver for R {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(Resolver::resolve(self, name))
    }
}

//! [`Resolver`]: who knows the addresses of a name.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use tokio::net::lookup_host;

/// Knows the addresses of names.
///
/// It is asked for names only, never for what is spelled as an address, and its answers are kept for a while: see
/// the client's settings. The addresses are tried in turn, the two families alternating (RFC 8305), so the best
/// should come first. What it returns is bounded: addresses after the 64th are not tried.
///
/// # Examples
///
/// ```
/// use std::io;
/// use std::net::IpAddr;
///
/// use corehttp::{Resolver, SystemResolver};
///
/// /// Knows one name more than the system does.
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
    /// Looks up `name`: in lower case, not empty, of visible ASCII characters, and with the dot at its end if it was
    /// written with one.
    ///
    /// # Errors
    ///
    /// Fails if the name has no address, or nobody could be asked. No failure is kept: who asks next asks anew.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The resolver of the system: `getaddrinfo`, on a thread where it may block.
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

/// Any [`Resolver`], behind a pointer.
pub(super) trait AnyResolver: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

impl<R: Resolver> AnyResolver for R {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(Resolver::resolve(self, name))
    }
}

//! [`Dialer`]: opens connections in another way than over TCP.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::net::Stream;

/// Opens connections in another way than over TCP: through a tunnel, to a process, or to a test.
///
/// # Examples
///
/// ```
/// use std::io;
///
/// use corehttp::Dialer;
/// use tokio::net::TcpStream;
///
/// /// Connects to this machine, whatever the host.
/// struct Detour;
///
/// impl Dialer for Detour {
///     type Stream = TcpStream;
///
///     async fn dial(&self, _host: &str, port: u16) -> io::Result<TcpStream> {
///         TcpStream::connect(("127.0.0.1", port)).await
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # Detour.dial("example.com", listener.local_addr()?.port()).await.map(drop)
/// # }
/// ```
pub trait Dialer: Send + Sync + 'static {
    /// The stream that carries the bytes.
    type Stream: AsyncRead + AsyncWrite + Send + 'static;

    /// Connects to `host`, which is a name or an address without brackets. If this takes too long, the future is
    /// dropped.
    ///
    /// # Errors
    ///
    /// Any error means that the host cannot be reached.
    fn dial(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// An object-safe [`Dialer`].
pub(crate) trait AnyDialer: Send + Sync {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a>;
}

type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<BoxedStream>> + Send + 'a>>;

/// A stream that a [`Dialer`] opened.
pub(crate) type BoxedStream = Pin<Box<dyn Stream + Send>>;

impl<D: Dialer> AnyDialer for D {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialing<'a> {
        Box::pin(async move {
            let stream = Dialer::dial(self, host, port).await?;
            Ok(Box::pin(stream) as BoxedStream)
        })
    }
}

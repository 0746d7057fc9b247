//! [`Socks`]: connections that a SOCKS5 proxy opens (RFC 1928).

mod error;
mod handshake;

use std::net::SocketAddr;
use std::time::Duration;

pub use error::{SocksError, SocksReply};
use handshake::Destination;
pub(super) use handshake::Login;

use super::proxy::Proxy;
use crate::client::origin::Origin;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::net::{BoxedStream, Dial, DialError, DialTimes, Fault, InvalidHost, Transport, timed};

/// How a SOCKS5 proxy is asked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Socks {
    pub(super) lookup: Lookup,
    pub(super) login: Option<Login>,
}

/// Who looks names up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lookup {
    /// The client: a proxy may not know the names that it knows.
    Here,
    /// The proxy, so that nobody else learns of them.
    There,
}

impl Socks {
    /// Opens a connection to `origin` through `proxy`. What the proxy takes to connect counts as connecting.
    ///
    /// # Errors
    ///
    /// Says which phase failed. An origin that cannot be spelled fails before anything is dialed.
    pub(super) async fn open(
        &self,
        dial: &Dial,
        proxy: &Proxy,
        origin: &Origin,
        limits: DialTimes,
    ) -> Result<(Transport<BoxedStream>, DialTimes), ClientError> {
        let (destination, looked_up) = self.destination(dial, origin, limits.resolve).await?;
        let left = DialTimes { resolve: limits.resolve.saturating_sub(looked_up), ..limits };
        let (mut transport, times) = dial.connect(proxy.host(), proxy.port(), left).await?;
        let left = limits.connect.saturating_sub(times.connect);
        let (end, took) =
            timed(left, handshake::connect(&mut transport, &destination, self.login.as_ref())).await;
        let failed = |cause| ClientError::new(ClientPhase::Connect, cause);
        match end {
            Some(Ok(())) => {
                let (resolve, connect) = (looked_up + times.resolve, times.connect + took);
                Ok((transport, DialTimes { resolve, connect }))
            }
            Some(Err(error)) => Err(failed(ClientCause::Proxy(error.into()))),
            None => Err(failed(ClientCause::TimedOut)),
        }
    }

    /// Where the proxy is to connect to, and how long it took to find out.
    async fn destination<'a>(
        &self,
        dial: &Dial,
        origin: &'a Origin,
        limit: Duration,
    ) -> Result<(Destination<'a>, Duration), DialError> {
        let invalid = |invalid: InvalidHost| DialError::Resolve(Fault::Io(invalid.into()));
        match self.lookup {
            Lookup::There => {
                Ok((Destination::new(origin.host(), origin.port).map_err(invalid)?, Duration::ZERO))
            }
            Lookup::Here => {
                // There is one at least. Further ones are for those who connect themselves.
                let (addresses, took) = dial.resolve(origin.host(), limit).await?;
                Ok((SocketAddr::new(addresses[0], origin.port).into(), took))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::net::IpAddr;
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::client::route::proxy::Protocol;
    use crate::net::{Dialer, Medium, MemoryConnector, MemoryListener, MemoryStream, Names, Resolver};

    /// Knows one name, and takes a second for it; says nothing of another.
    struct OneName;

    impl Resolver for OneName {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            sleep(Duration::from_secs(1)).await;
            match name {
                "a.example" => Ok(vec![[192, 0, 2, 1].into()]),
                "silent.example" => pending().await,
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }
    }

    /// Connects after a second.
    struct Slow(MemoryConnector);

    impl Dialer for Slow {
        type Stream = MemoryStream;

        async fn dial(&self, _: &str, _: u16) -> io::Result<MemoryStream> {
            sleep(Duration::from_secs(1)).await;
            self.0.connect().await
        }
    }

    /// Opens a tunnel to `origin` over `medium`. What comes of it, and how many seconds it took to resolve and to
    /// connect, or in all.
    async fn tunnel(url: &str, origin: &str, medium: Medium) -> Result<(String, u64, u64), (String, u64)> {
        let (start, proxy) = (Instant::now(), Proxy::new(url).unwrap());
        let names = Arc::new(Names::new(OneName, Duration::MAX));
        let dial = Dial { medium, names, ..Dial::default() };
        let Protocol::Socks5(socks) = proxy.protocol() else { panic!("{proxy}") };
        let limits = DialTimes { resolve: Duration::from_secs(5), connect: Duration::from_secs(5) };
        let origin = Origin::of_key(origin).unwrap();
        let opened = sent(socks.open(&dial, &proxy, &origin, limits)).await;
        let (mut stream, times) = opened.map_err(|error| (error.to_string(), start.elapsed().as_secs()))?;
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.unwrap();
        let hello = String::from_utf8_lossy(&hello).into_owned();
        Ok((hello, times.resolve.as_secs(), times.connect.as_secs()))
    }

    /// Whether `future` may move between threads; the client's futures may.
    fn sent<F: Future + Send>(future: F) -> F {
        future
    }

    /// A proxy that hears so many bytes at a time and answers them after a second; then it is silent. The last that it
    /// heard.
    fn proxy(talk: &[(usize, &[u8])]) -> (Medium, JoinHandle<(Vec<u8>, MemoryStream)>) {
        let listener = MemoryListener::new();
        let connector = listener.connector();
        let talk: Vec<(usize, Vec<u8>)> = talk.iter().map(|(len, answer)| (*len, answer.to_vec())).collect();
        let answers = async move {
            let (mut peer, mut heard) = (listener.accept().await, Vec::new());
            for (len, answer) in talk {
                heard = vec![0; len];
                peer.read_exact(&mut heard).await.unwrap();
                sleep(Duration::from_secs(1)).await;
                peer.write_all(&answer).await.unwrap();
            }
            (heard, peer)
        };
        (Medium::custom(Slow(connector)), tokio::spawn(answers))
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_carries_what_follows() {
        let hello: &[u8] = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50hello";
        let (medium, asked) = proxy(&[(4, b"\x05\x02"), (8, b"\x01\x00"), (16, hello)]);
        let opened = tunnel("socks5h://joe:pw@p", "https://a.example", medium).await;
        assert_eq!(opened, Ok(("hello".to_owned(), 0, 4)), "the proxy looks it up");
        assert_eq!(asked.await.unwrap().0, b"\x05\x01\x00\x03\x09a.example\x01\xbb");

        let (medium, asked) = proxy(&[(3, b"\x05\x00"), (10, hello)]);
        let opened = tunnel("socks5://p", "http://a.example:81", medium).await;
        assert_eq!(opened, Ok(("hello".to_owned(), 1, 3)), "the client looks it up");
        assert_eq!(asked.await.unwrap().0, b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x51");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_that_fails_says_in_which_phase_and_in_time() {
        let (late, unknown) = ("it took too long", "the system or the network failed");
        let refused = [(3, &b"\x05\x00"[..]), (16, b"\x05\x04")];
        for (url, origin, talk, expected, seconds) in [
            ("socks5h://p", "https://a.example", &refused[..], "connecting: the proxy refused", 3),
            ("socks5h://p", "https://a.example", &refused[..1], &format!("connecting: {late}"), 5),
            ("socks5h://p", "https://a.example", &[], &format!("connecting: {late}"), 5),
            ("socks5://p", "https://b.example", &[], &format!("looking up the host: {unknown}"), 1),
            ("socks5h://p", "https://127.1", &[], &format!("looking up the host: {unknown}"), 0),
        ] {
            let failed = tunnel(url, origin, proxy(talk).0).await;
            assert_eq!(failed, Err((expected.to_owned(), seconds)), "{url} {origin} {talk:?}");
        }
        let both = tunnel("socks5://silent.example", "https://a.example", Medium::Tcp).await;
        assert_eq!(both, Err((format!("looking up the host: {late}"), 5)), "one limit for both names");
    }
}

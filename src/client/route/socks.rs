//! [`Socks`]: connections that a SOCKS5 proxy opens (RFC 1928).

use std::net::SocketAddr;

use super::origin::Origin;
use super::socks_handshake::{self as handshake, Destination, Login, SocksError, SocksReply};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::net::{
    BoxedStream, ConnError, DialError, DialTimes, HostConnector, InvalidHost, Transport, stagger, timed,
};
use crate::runtime;

/// How a SOCKS5 proxy is used.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Socks {
    pub(super) resolution: NameResolution,
    pub(super) login: Option<Login>,
}

/// Where names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameResolution {
    /// By the client, whose resolver may have names of its own.
    Local,
    /// By the proxy, to send names to no other resolver.
    Remote,
}

impl Socks {
    /// Opens a connection to `origin` through the proxy at this host and port, which errors call `subject`. The time
    /// that the proxy takes counts as connecting.
    ///
    /// # Errors
    ///
    /// The error has the phase that failed. An origin that SOCKS5 cannot express fails before anything is dialed.
    pub(super) async fn open(
        &self,
        dial: &HostConnector,
        proxy: (&str, u16),
        subject: &str,
        origin: &Origin,
        limits: DialTimes,
    ) -> Result<(Transport<BoxedStream>, DialTimes), ClientError> {
        let mut dialer =
            SocksDialer { socks: self, dial, proxy, subject, limits, spent: DialTimes::default() };
        let end = match self.resolution {
            NameResolution::Local => dialer.connect_to_any(origin).await,
            NameResolution::Remote => {
                let invalid = |invalid: InvalidHost| {
                    lookup_failed(origin, DialError::Resolve(ConnError::Io(invalid.into())))
                };
                dialer.connect(Destination::new(origin.host(), origin.port).map_err(invalid)?).await
            }
        };
        let named =
            |error: ClientError| error.with_subject(format!("{} through {subject}", origin.host_and_port()));
        let refused =
            |error: SocksError| ClientError::new(ClientPhase::Connect, ClientCause::Proxy(error.into()));
        let transport = end.map_err(named)?.map_err(|error| named(refused(error)))?;
        Ok((transport, dialer.spent))
    }
}

/// The attempts to have one proxy open one connection, perhaps to several addresses.
struct SocksDialer<'a> {
    socks: &'a Socks,
    dial: &'a HostConnector,
    /// Its host and port.
    proxy: (&'a str, u16),
    /// How errors name it.
    subject: &'a str,
    limits: DialTimes,
    /// How much of the limits has been used up.
    spent: DialTimes,
}

impl SocksDialer<'_> {
    /// Looks up `origin`, and tries its addresses as those of a host without a proxy, until the proxy reaches one.
    async fn connect_to_any(&mut self, origin: &Origin) -> Result<HandshakeResult, ClientError> {
        let resolved = self.dial.resolve(origin.host(), self.limits.resolve).await;
        let (addresses, took) = resolved.map_err(|error| lookup_failed(origin, error))?;
        self.spent.resolve = took;
        let began = runtime::now();
        let attempt = |address: SocketAddr| {
            let spent = DialTimes { connect: began.elapsed(), ..self.spent };
            let mut dialer = SocksDialer { spent, ..*self };
            async move { (dialer.connect(address.into()).await, dialer.spent) }
        };
        let mut refusal = SocksError::Refused(SocksReply::HostUnreachable);
        let candidates = addresses.rotated().map(|address| SocketAddr::new(address, origin.port)).collect();
        let reached = stagger(candidates, attempt, |_, (end, spent)| match end {
            Ok(Err(refused @ SocksError::Refused(_))) => {
                refusal = refused;
                None
            }
            // Any other failure would only repeat itself.
            end => Some((end, spent)),
        });
        let reached = reached.await;
        if let Some((end, spent)) = reached {
            self.spent = spent;
            return end;
        }
        self.dial.dns.forget(origin.host(), &addresses);
        Ok(Err(refusal))
    }

    /// Connects to the proxy, and through it to `destination`.
    async fn connect(&mut self, destination: Destination<'_>) -> Result<HandshakeResult, ClientError> {
        let SocksDialer { socks, dial, proxy, subject, limits, spent } = self;
        let left = DialTimes {
            resolve: limits.resolve.saturating_sub(spent.resolve),
            connect: limits.connect.saturating_sub(spent.connect),
        };
        let (host, port) = *proxy;
        let dialed = dial.connect(host, port, left).await;
        let (mut transport, times) =
            dialed.map_err(|error| ClientError::from_dial(error, subject, subject))?;
        let left = left.connect.saturating_sub(times.connect);
        let shaken = handshake::connect(&mut transport, &destination, socks.login.as_ref());
        let (end, took) = timed(left, shaken).await;
        spent.resolve += times.resolve;
        spent.connect += times.connect + took;
        match end {
            Some(end) => Ok(end.map(|()| transport)),
            None => Err(ClientError::new(ClientPhase::Connect, ClientCause::TimedOut)),
        }
    }
}

/// The error of a look-up of `origin`.
fn lookup_failed(origin: &Origin, error: DialError) -> ClientError {
    ClientError::from_dial(error, origin.host(), &origin.host_and_port())
}

/// A connection to the destination, or why the proxy opens none.
type HandshakeResult = Result<Transport<BoxedStream>, SocksError>;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io;
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::client::route::proxy::{Protocol, Proxy};
    use crate::net::{Dialer, MemoryConnector, MemoryListener, MemoryStream, Resolver};

    /// Answers after a second, but never for `silent.example`.
    struct SlowNames;

    impl Resolver for SlowNames {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            sleep(Duration::from_secs(1)).await;
            match name {
                "a.example" => Ok(vec![[192, 0, 2, 1].into()]),
                "three.example" => Ok((1..=3).map(|last| [192, 0, 2, last].into()).collect()),
                "silent.example" => pending().await,
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }
    }

    /// Connects to a listener in memory, after a second. Written bytes are buffered until they are flushed.
    struct Slow(MemoryConnector);

    impl Dialer for Slow {
        type Stream = BufStream<MemoryStream>;

        async fn dial(&self, _: &str, _: u16) -> io::Result<Self::Stream> {
            sleep(Duration::from_secs(1)).await;
            self.0.connect().await.map(BufStream::new)
        }
    }

    /// Opens a tunnel to `origin` by `dial`. Returns the first bytes of the origin, and how many seconds it took to
    /// resolve and to connect; or the error, and after how many seconds it came.
    async fn tunnel(
        url: &str,
        origin: &str,
        dial: HostConnector,
    ) -> Result<(String, u64, u64), (String, u64)> {
        tunnel_within(5, url, origin, dial).await
    }

    /// As [`tunnel`], with `connect` seconds to connect.
    async fn tunnel_within(
        connect: u64,
        url: &str,
        origin: &str,
        dial: HostConnector,
    ) -> Result<(String, u64, u64), (String, u64)> {
        let start = Instant::now();
        let proxy = Proxy::new(url).unwrap();
        let dns = Arc::new(HostConnector::default().dns.asking(SlowNames));
        let dial = HostConnector { dns, ..dial };
        let Protocol::Socks5(socks) = proxy.protocol() else { panic!("{proxy}") };
        let limits = DialTimes { resolve: Duration::from_secs(5), connect: Duration::from_secs(connect) };
        let origin = Origin::from_key(origin).unwrap();
        let opened = sent(socks.open(&dial, proxy.address(), &proxy.as_subject(), &origin, limits)).await;
        let (mut stream, times) = opened.map_err(|error| (error.to_string(), start.elapsed().as_secs()))?;
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.unwrap();
        let hello = String::from_utf8_lossy(&hello).into_owned();
        Ok((hello, times.resolve.as_secs(), times.connect.as_secs()))
    }

    /// Compiles if `future` may move between threads, as all futures of the client may.
    fn sent<F: Future + Send>(future: F) -> F {
        future
    }

    /// The steps of a proxy on one connection: how many bytes it reads, and the bytes that it answers with.
    type ProxyScript = &'static [(usize, &'static [u8])];

    /// A proxy that follows `script`, waits a second before each reply, and is silent in the end. The task returns the
    /// bytes that the proxy received last.
    fn proxy(script: ProxyScript) -> (HostConnector, JoinHandle<(Vec<u8>, MemoryStream)>) {
        let (dial, mut peers) = proxy_of([script]);
        let only = async move { peers.recv().await.expect("it is dialed") };
        (dial, tokio::spawn(only))
    }

    /// A proxy that follows one script on each connection.
    fn proxy_of<const N: usize>(
        scripts: [ProxyScript; N],
    ) -> (HostConnector, UnboundedReceiver<(Vec<u8>, MemoryStream)>) {
        let listener = MemoryListener::new();
        let connector = listener.connector();
        let (over, peers) = unbounded_channel();
        tokio::spawn(async move {
            for script in scripts {
                let (mut peer, over) = (listener.accept().await, over.clone());
                tokio::spawn(async move {
                    let mut received = Vec::new();
                    for (len, reply) in script {
                        received = vec![0; *len];
                        peer.read_exact(&mut received).await?;
                        sleep(Duration::from_secs(1)).await;
                        peer.write_all(reply).await?;
                    }
                    let _ = over.send((received, peer));
                    io::Result::Ok(())
                });
            }
        });
        (HostConnector { dialer: Some(Arc::new(Slow(connector))), ..HostConnector::default() }, peers)
    }

    const HELLO: &[u8] = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50hello";
    const REACHED: ProxyScript = &[(3, b"\x05\x00"), (10, HELLO)];
    const UNREACHABLE: ProxyScript = &[(3, b"\x05\x00"), (10, b"\x05\x04")];

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_carries_what_follows_the_reply() {
        let (network, request) = proxy(&[(4, b"\x05\x02"), (8, b"\x01\x00"), (16, HELLO)]);
        let opened = tunnel("socks5h://joe:pw@p", "https://a.example", network).await;
        assert_eq!(opened, Ok(("hello".to_owned(), 0, 4)), "the proxy looks it up");
        assert_eq!(request.await.unwrap().0, b"\x05\x01\x00\x03\x09a.example\x01\xbb");

        let (network, request) = proxy(&[(3, b"\x05\x00"), (10, HELLO)]);
        let opened = tunnel("socks5://p", "http://a.example:81", network).await;
        assert_eq!(opened, Ok(("hello".to_owned(), 1, 3)), "the client looks it up");
        assert_eq!(request.await.unwrap().0, b"\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x51");
    }

    /// A host with a dead address can be reached at the others, also if the proxy only waits for that one.
    #[tokio::test(start_paused = true)]
    async fn each_address_is_tried_until_one_is_reached_rfc8305_5() {
        const ELSEWHERE: ProxyScript = &[(3, b"\x05\x00"), (10, b"\x05\x08")];
        const WANTS_MORE: ProxyScript = &[(3, b"\x05\xff")];
        const BROKEN: ProxyScript = &[(3, b"\x05\x00"), (10, b"\x04\x00")];
        const CONNECTING: &str = "connecting to three.example:80 through the proxy socks5://p:1080";
        let reached = Ok(("hello".to_owned(), 1, 3));
        let refused = |seconds| Err((format!("{CONNECTING} failed"), seconds));
        let late = Err((format!("{CONNECTING} took too long"), 9));
        for (scripts, expected) in [
            ([REACHED, &[], &[]], reached.clone()),
            ([UNREACHABLE, REACHED, &[]], reached.clone()),
            ([UNREACHABLE, ELSEWHERE, REACHED], reached.clone()),
            ([&[], REACHED, &[]], reached.clone()),
            ([&[], UNREACHABLE, REACHED], reached),
            ([UNREACHABLE, UNREACHABLE, ELSEWHERE], refused(4)),
            ([ELSEWHERE, WANTS_MORE, REACHED], refused(3)),
            ([BROKEN, REACHED, &[]], refused(4)),
            ([WANTS_MORE, REACHED, &[]], refused(3)),
            ([&[], &[], &[]], late),
        ] {
            let (dial, mut peers) = proxy_of(scripts);
            assert_eq!(
                tunnel_within(8, "socks5://p", "http://three.example", dial).await,
                expected,
                "{scripts:?}"
            );
            while let Ok((received, _)) = peers.try_recv() {
                if received.len() == 10 {
                    assert!(matches!(received[4..], [192, 0, 2, 1..=3, 0, 80]), "{scripts:?}");
                }
            }
        }
    }

    /// Its host may have moved, and would be out of reach for as long as names are kept.
    #[tokio::test(start_paused = true)]
    async fn a_name_of_which_no_address_is_reached_is_looked_up_anew() {
        let (dial, _peers) = proxy_of([
            UNREACHABLE,
            UNREACHABLE,
            UNREACHABLE,
            REACHED,
            REACHED,
            REACHED,
            REACHED,
            REACHED,
            REACHED,
        ]);
        let dns = Arc::new(HostConnector::default().dns.asking(SlowNames));
        let dial = HostConnector { dns, ..dial };
        let proxy = Proxy::new("socks5://p").unwrap();
        let Protocol::Socks5(socks) = proxy.protocol() else { panic!("{proxy}") };
        let limits = DialTimes { resolve: Duration::from_secs(5), connect: Duration::from_secs(60) };
        let origin = Origin::from_key("http://three.example").unwrap();
        assert!(socks.open(&dial, proxy.address(), &proxy.as_subject(), &origin, limits).await.is_err());
        for seconds in [1, 0] {
            let (_, times) =
                socks.open(&dial, proxy.address(), &proxy.as_subject(), &origin, limits).await.unwrap();
            assert_eq!(times.resolve.as_secs(), seconds);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_that_fails_tells_its_phase_in_time() {
        let tunnel_failed = "connecting to a.example:443 through the proxy socks5h://p:1080 failed";
        let tunnel_late = "connecting to a.example:443 through the proxy socks5h://p:1080 took too long";
        const REFUSED: ProxyScript = &[(3, b"\x05\x00"), (16, b"\x05\x04")];
        for (url, origin, talk, expected, seconds) in [
            ("socks5h://p", "https://a.example", REFUSED, tunnel_failed, 3),
            ("socks5h://p", "https://a.example", &REFUSED[..1], tunnel_late, 5),
            ("socks5h://p", "https://a.example", &[], tunnel_late, 5),
            ("socks5://p", "https://b.example", &[], "looking up b.example failed", 1),
            ("socks5h://p", "https://127.1", &[], "looking up 127.1 failed", 0),
        ] {
            let failed = tunnel(url, origin, proxy(talk).0).await;
            assert_eq!(failed, Err((expected.to_owned(), seconds)), "{url} {origin} {talk:?}");
        }
        let both = tunnel("socks5://silent.example", "https://a.example", HostConnector::default()).await;
        assert_eq!(
            both,
            Err(("looking up the proxy socks5://silent.example:1080 took too long".to_owned(), 5)),
            "one limit for both names"
        );
    }
}

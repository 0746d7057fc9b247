//! [`HostConnector`]: opens connections to hosts, at [`AllowedAddresses`]; [`Dialer`]: opens them in another way than over
//! TCP.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpSocket, TcpStream};
#[cfg(unix)]
use tokio::time::sleep;
use tokio::time::{Instant, timeout};

use super::DnsCache;
use super::dns_cache::Addresses;
#[cfg(unix)]
use super::race::Unreachable;
use super::race::race;
use crate::memory::lock;
use crate::net::address::check_host;
use crate::net::{Address, ConnError, Keepalive, MemoryConnector, SocketOptions, Stream, Transport};

/// Settings for connections that are opened. Clones share one cache of names.
#[derive(Clone, Default)]
pub(crate) struct HostConnector {
    pub(crate) address: DialAddress,
    /// Opens connections to hosts in place of TCP.
    pub(crate) dialer: Option<Arc<dyn AnyDialer>>,
    pub(crate) dns: Arc<DnsCache>,
    /// The addresses at which hosts may be reached.
    pub(crate) allowed: AllowedAddresses,
    /// The local address of TCP connections. By default the operating system chooses. With an address, only hosts of
    /// its family can be reached.
    pub(crate) local_address: Option<IpAddr>,
    /// Whether the operating system probes silent servers, and how often.
    pub(crate) keepalive: Option<Keepalive>,
    /// Other options of TCP sockets.
    pub(crate) socket_options: SocketOptions,
    /// Whether a server in memory takes the place of all hosts, so that `https` needs no handshake.
    pub(crate) is_in_memory: bool,
    /// The bytes with which each connection begins, such as a PROXY header.
    pub(crate) preface: Option<Arc<[u8]>>,
    /// The step that the dial has come to, for a caller with a cell of its own.
    pub(crate) step: Arc<Mutex<DialStep>>,
}

/// A step of a dial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum DialStep {
    #[default]
    Begin,
    /// The look-up of this name.
    Resolve(Box<str>),
    Connect,
    /// The TLS handshake.
    Secure,
}

/// How long each step may take, or took. `Duration::MAX` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DialTimes {
    pub(crate) resolve: Duration,
    pub(crate) connect: Duration,
}

/// The step that failed.
#[derive(Debug)]
pub(crate) enum DialError {
    Resolve(ConnError),
    Connect(ConnError),
    /// The host has only addresses that may not be connected to, such as this one.
    Refused(IpAddr),
}

impl HostConnector {
    /// Opens a connection to `host` as written in a URL: a name, or an address.
    ///
    /// Only a name that is reached over TCP needs a look-up; otherwise that step takes no time.
    ///
    /// # Errors
    ///
    /// Fails with the step that failed or took too long, or with an address that may not be reached. A name whose addresses
    /// cannot be reached is removed from the cache, since its host may have moved.
    pub(crate) async fn connect(
        &self,
        host: &str,
        port: u16,
        limits: DialTimes,
    ) -> Result<(Transport<BoxedStream>, DialTimes), DialError> {
        let route = self.route(host, port);
        let (addresses, resolve) = match &route {
            DialRoute::Name(name, _) => self.resolve(name, limits.resolve).await?,
            _ => Default::default(),
        };
        self.note_step(DialStep::Connect);
        let opened = self.connect_by(&route, &addresses, limits.connect).await;
        let (transport, connect) = opened.inspect_err(|_| {
            if let DialRoute::Name(name, _) = &route {
                self.dns.forget(name, &addresses);
            }
        })?;
        Ok((transport, DialTimes { resolve, connect }))
    }

    /// Opens a connection within `limit`, and returns the time taken.
    async fn connect_by(
        &self,
        route: &DialRoute<'_>,
        addresses: &Addresses,
        limit: Duration,
    ) -> Result<(Transport<BoxedStream>, Duration), DialError> {
        let candidates = self.candidates(route, addresses).map_err(DialError::Refused)?;
        step(limit, self.open_with_preface(route, candidates)).await.map_err(DialError::Connect)
    }

    /// The addresses that a TCP connection is tried to, in order.
    ///
    /// # Errors
    ///
    /// Fails with the first of the forbidden addresses, if there are no others.
    fn candidates(
        &self,
        route: &DialRoute<'_>,
        addresses: &Addresses,
    ) -> Result<VecDeque<SocketAddr>, IpAddr> {
        let port = match route {
            DialRoute::Name(_, port) => *port,
            DialRoute::Tcp(address) => return Ok([*address].into()),
            DialRoute::Unix(_) | DialRoute::Memory(_) | DialRoute::Dialer(..) | DialRoute::Nowhere => {
                return Ok(VecDeque::new());
            }
        };
        let local = self.local_address;
        let is_family = |address: &IpAddr| local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
        let mut candidates = VecDeque::new();
        let mut refused = None;
        for address in addresses.rotated().filter(is_family) {
            match self.allows(address) {
                true => candidates.push_back(SocketAddr::new(address, port)),
                false => refused = refused.or(Some(address)),
            }
        }
        match refused {
            Some(address) if candidates.is_empty() => Err(address),
            _ => Ok(candidates),
        }
    }

    /// Whether a host may be reached at `address`. An address in place of all hosts was chosen by the operator.
    fn allows(&self, address: IpAddr) -> bool {
        !matches!(self.address, DialAddress::OwnHost) || self.allowed.contains(address)
    }

    /// The way to `host`, or to the address that takes its place. A dialer is asked for hosts only.
    fn route<'a>(&'a self, host: &'a str, port: u16) -> DialRoute<'a> {
        match (&self.address, &self.dialer) {
            (DialAddress::Unix(path), _) => DialRoute::Unix(path),
            (DialAddress::Memory(connector), _) => DialRoute::Memory(connector),
            (DialAddress::Nowhere, _) => DialRoute::Nowhere,
            (address, Some(dialer)) => {
                let (host, port) = address.host_and_port(host, port);
                DialRoute::Dialer(&**dialer, host, port)
            }
            (DialAddress::Tcp(address), None) => DialRoute::Tcp(*address),
            (address @ (DialAddress::OwnHost | DialAddress::Host(..)), None) => {
                let (name, port) = address.host_and_port(host, port);
                DialRoute::Name(name, port)
            }
        }
    }

    /// Looks up the addresses of `host` for a proxy, and measures how long the look-up takes.
    ///
    /// # Errors
    ///
    /// Fails with [`DialError::Resolve`] if the look-up failed or took too long.
    pub(crate) async fn resolve(
        &self,
        host: &str,
        limit: Duration,
    ) -> Result<(Addresses, Duration), DialError> {
        self.note_step(DialStep::Resolve(host.into()));
        check_host(host).map_err(|error| DialError::Resolve(ConnError::Io(error)))?;
        step(limit, self.dns.resolve(host)).await.map_err(DialError::Resolve)
    }

    /// Stores the step that the dial has come to.
    pub(crate) fn note_step(&self, step: DialStep) {
        *lock(&self.step) = step;
    }

    /// Opens a connection, and writes its first bytes. A peer that takes none of them counts as unreachable.
    async fn open_with_preface(
        &self,
        route: &DialRoute<'_>,
        candidates: VecDeque<SocketAddr>,
    ) -> io::Result<Transport<BoxedStream>> {
        let mut transport = self.open(route, candidates).await?;
        if let Some(preface) = &self.preface {
            transport.write_all(preface).await?;
            transport.flush().await?;
        }
        Ok(transport)
    }

    async fn open(
        &self,
        route: &DialRoute<'_>,
        candidates: VecDeque<SocketAddr>,
    ) -> io::Result<Transport<BoxedStream>> {
        match route {
            DialRoute::Name(..) | DialRoute::Tcp(_) => {
                let stream = race(candidates, |address| self.connect_to(address)).await?;
                Ok(Transport::Tcp(stream.into()))
            }
            #[cfg(unix)]
            DialRoute::Unix(path) => connect_unix(path).await.map(|stream| Transport::Unix(stream.into())),
            #[cfg(not(unix))]
            DialRoute::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
            DialRoute::Memory(connector) => {
                connector.connect().await.map(|stream| Transport::Memory(stream.into()))
            }
            DialRoute::Dialer(dialer, host, port) => {
                dialer.dial(bare(host), *port).await.map(|stream| Transport::Boxed(stream.into()))
            }
            DialRoute::Nowhere => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    async fn connect_to(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        self.socket_options.set(&SockRef::from(&socket))?;
        if let Some(local) = self.local_address {
            socket.bind(SocketAddr::new(local, 0))?;
        }
        // Requests are written as a whole, so waiting for more bytes gains nothing.
        socket.set_nodelay(true)?;
        if let Some(keepalive) = self.keepalive {
            keepalive.set(&SockRef::from(&socket))?;
        }
        refuse_self(address, socket.connect(address).await?)
    }
}

/// The addresses at which hosts may be reached. By default all.
#[derive(Clone, Default)]
pub(crate) struct AllowedAddresses(Option<Arc<dyn Fn(IpAddr) -> bool + Send + Sync>>);

impl AllowedAddresses {
    /// The addresses that `is_allowed` returns `true` for.
    pub(crate) fn new(is_allowed: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> AllowedAddresses {
        AllowedAddresses(Some(Arc::new(is_allowed)))
    }

    /// Whether `address` is one of them. An IPv4 address mapped to IPv6 is checked as the IPv4 address, to which the
    /// operating system connects. For [`Ipv6Addr::is_loopback`], `::ffff:127.0.0.1` is not loopback.
    fn contains(&self, address: IpAddr) -> bool {
        self.0.as_ref().is_none_or(|is_allowed| is_allowed(address.to_canonical()))
    }
}

/// Returns `stream`, unless both its ends are at `address`. TCP connects a socket to itself if the dialed port happens
/// to be its own local port (simultaneous open), which means that no server listens there.
fn refuse_self(address: SocketAddr, stream: TcpStream) -> io::Result<TcpStream> {
    match stream.local_addr()? == address {
        true => Err(io::ErrorKind::ConnectionRefused.into()),
        false => Ok(stream),
    }
}

/// Awaits `wait` for at most `limit`, and measures how long it takes.
pub(crate) async fn timed<F: Future>(limit: Duration, wait: F) -> (Option<F::Output>, Duration) {
    let start = Instant::now();
    let output = timeout(limit, wait).await.ok();
    (output, start.elapsed())
}

async fn step<T>(
    limit: Duration,
    wait: impl Future<Output = io::Result<T>>,
) -> Result<(T, Duration), ConnError> {
    match timed(limit, wait).await {
        (Some(Ok(value)), took) => Ok((value, took)),
        (Some(Err(error)), _) => Err(ConnError::Io(error)),
        (None, _) => Err(ConnError::TimedOut),
    }
}

/// Connects as soon as the backlog has a free place.
#[cfg(unix)]
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            // A full backlog cannot be waited for, so the connect is repeated.
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => sleep(BACKLOG_DELAY).await,
            Err(cause) => {
                let address = format!("unix:{}", path.display());
                return Err(Unreachable { address, others: 0, cause }.into());
            }
            connected => return connected,
        }
    }
}

#[cfg(unix)]
const BACKLOG_DELAY: Duration = Duration::from_millis(5);

/// An address without its brackets in a URL.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Where connections lead.
#[derive(Clone, Default)]
pub(crate) enum DialAddress {
    /// To the host of each URL.
    #[default]
    OwnHost,
    Tcp(SocketAddr),
    /// To a name, or an address with brackets; without a port, to that of the URL.
    Host(Arc<str>, Option<u16>),
    Unix(Arc<Path>),
    Memory(MemoryConnector),
    /// To a socket that no peer can name.
    Nowhere,
}

impl DialAddress {
    /// The host and the port to connect to, for a URL with these.
    pub(crate) fn host_and_port<'a>(&'a self, host: &'a str, port: u16) -> (Cow<'a, str>, u16) {
        match self {
            DialAddress::Tcp(address) => (address.ip().to_string().into(), address.port()),
            DialAddress::Host(host, own_port) => ((**host).into(), own_port.unwrap_or(port)),
            _ => (host.into(), port),
        }
    }
}

impl From<Address> for DialAddress {
    /// Keeps no listener, since a kept listener is not closed.
    fn from(address: Address) -> DialAddress {
        match address {
            Address::Tcp(address) => DialAddress::from(address),
            Address::Host(name) => match name.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
                Some((host, Ok(port))) if check_host(host).is_ok() => {
                    DialAddress::Host(host.into(), Some(port))
                }
                _ => DialAddress::Host(name.into(), None),
            },
            Address::Unix(path) => DialAddress::Unix(path.into()),
            Address::Memory(listener) => DialAddress::Memory(listener.connector()),
            Address::TcpListener(listener) => {
                listener.local_addr().map_or(DialAddress::Nowhere, DialAddress::from)
            }
            #[cfg(unix)]
            Address::UnixListener(listener) => match listener.local_addr().ok() {
                Some(address) => {
                    address.as_pathname().map_or(DialAddress::Nowhere, |path| DialAddress::Unix(path.into()))
                }
                None => DialAddress::Nowhere,
            },
        }
    }
}

impl From<SocketAddr> for DialAddress {
    /// A server on every address of this machine is reached at its loopback address.
    fn from(mut address: SocketAddr) -> DialAddress {
        match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        DialAddress::Tcp(address)
    }
}

/// How a connection is opened.
enum DialRoute<'a> {
    /// Over TCP, to the addresses of a name, which race (RFC 8305 §4, §5).
    Name(Cow<'a, str>, u16),
    Tcp(SocketAddr),
    Unix(&'a Path),
    Memory(&'a MemoryConnector),
    Dialer(&'a dyn AnyDialer, Cow<'a, str>, u16),
    Nowhere,
}

/// Opens connections in another way than over TCP: through a tunnel, to a process, or to a test.
///
/// # Examples
///
/// ```
/// use std::io;
///
/// use corehttp::net::Dialer;
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

    /// Connects to `host`, which is a name or an address without brackets. A future that takes too long is dropped.
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::TcpListener;
    use tokio::runtime::Builder;

    use super::*;
    use crate::net::{MemoryListener, Resolver};

    /// Compiles if `future` is `Send`, as all futures of the client are.
    fn sent<F: Future + Send>(future: F) -> F {
        future
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    const LIMITS: DialTimes = DialTimes { resolve: Duration::MAX, connect: Duration::MAX };

    /// Finds names that begin with `a` on this machine, and those with `n` nowhere; never answers for others.
    struct Letters;

    impl Resolver for Letters {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            match name.as_bytes()[0] {
                b'a' => Ok(vec![[127, 0, 0, 1].into()]),
                b'n' => Err(io::ErrorKind::NotFound.into()),
                _ => pending().await,
            }
        }
    }

    fn tcp() -> HostConnector {
        HostConnector { dns: Arc::new(DnsCache::new(Letters, Duration::MAX)), ..HostConnector::default() }
    }

    /// Connects to a peer that sends back the host and the port. Never connects to port 0.
    struct Parrot;

    impl Dialer for Parrot {
        type Stream = tokio::io::DuplexStream;

        async fn dial(&self, host: &str, port: u16) -> io::Result<Self::Stream> {
            if port == 0 {
                return pending().await;
            }
            let (near, mut far) = duplex(64);
            far.write_all(format!("{host} {port}").as_bytes()).await?;
            Ok(near)
        }
    }

    /// The step in which dialing fails, `resolve` or `connect`, and the error. A timeout has none.
    async fn fault(
        dial: &HostConnector,
        host: &str,
        port: u16,
        limits: DialTimes,
    ) -> (&'static str, Option<io::ErrorKind>) {
        let (step, fault) = match sent(dial.connect(host, port, limits)).await.err().unwrap() {
            DialError::Resolve(fault) => ("resolve", fault),
            DialError::Connect(fault) => ("connect", fault),
            DialError::Refused(address) => panic!("{address} is refused"),
        };
        match fault {
            ConnError::TimedOut => (step, None),
            ConnError::Io(error) => (step, Some(error.kind())),
        }
    }

    #[test]
    fn names_and_addresses_are_dialed() {
        block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            for host in ["a", "127.0.0.1"] {
                let (transport, _) = sent(tcp().connect(host, port, LIMITS)).await.unwrap();
                let Transport::Tcp(stream) = transport else { panic!("TCP is dialed") };
                assert!(stream.nodelay().unwrap());
                let (_, peer) = listener.accept().await.unwrap();
                assert_eq!(stream.local_addr().unwrap(), peer);
            }
            drop(listener);
            let refused = ("connect", Some(io::ErrorKind::ConnectionRefused));
            assert_eq!(fault(&tcp(), "a", port, LIMITS).await, refused);
            for text in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"), format!("a:{port}")] {
                let there = HostConnector { address: Address::from(&text).into(), ..tcp() };
                let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
                there.connect("n", 80, LIMITS).await.unwrap();
                drop(listener);
                assert_eq!(fault(&there, "n", 80, LIMITS).await, refused, "{text}");
            }
            assert_eq!(fault(&tcp(), "n", port, LIMITS).await, ("resolve", Some(io::ErrorKind::NotFound)));
            assert_eq!(
                fault(&tcp(), "a b", port, LIMITS).await,
                ("resolve", Some(io::ErrorKind::InvalidInput))
            );
        });
    }

    #[test]
    fn a_url_or_a_path_as_an_address_says_what_to_write() {
        block_on(async {
            for (text, expected) in [
                ("http://127.0.0.1:80/", "an address has no scheme: write `127.0.0.1:80`"),
                ("http://a:80", "an address has no scheme: write `a:80`"),
                ("/run/app.sock", "a path is written `unix:/run/app.sock`"),
            ] {
                let dial = HostConnector { address: Address::from(text).into(), ..tcp() };
                let Err(DialError::Resolve(ConnError::Io(error))) = dial.connect("a", 80, LIMITS).await
                else {
                    panic!("{text} is no address")
                };
                assert_eq!(error.to_string(), expected);
            }
        });
    }

    #[test]
    fn each_step_of_dialing_has_its_limit() {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let limits = DialTimes { resolve: Duration::from_secs(1), connect: Duration::from_secs(2) };
            let start = Instant::now();
            assert_eq!(fault(&tcp(), "silent", 80, limits).await, ("resolve", None));
            assert_eq!(start.elapsed().as_secs(), 1);
            let parrot = HostConnector { dialer: Some(Arc::new(Parrot)), ..HostConnector::default() };
            assert_eq!(fault(&parrot, "a", 0, limits).await, ("connect", None));
            assert_eq!(start.elapsed().as_secs(), 3);
        });
    }

    // On other systems, only one address of the loopback network is set up.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_may_come_from_a_chosen_local_address() {
        block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let mut dial = tcp();
            dial.local_address = Some([127, 0, 0, 2].into());
            let _near = dial.connect("a", port, LIMITS).await.unwrap();
            assert_eq!(listener.accept().await.unwrap().1.ip(), IpAddr::from([127, 0, 0, 2]));
            dial.local_address = Some(std::net::Ipv6Addr::LOCALHOST.into());
            let other_family = ("connect", Some(io::ErrorKind::NotFound));
            assert_eq!(fault(&dial, "a", port, LIMITS).await, other_family);
            dial.local_address = Some([192, 0, 2, 1].into());
            let not_ours = ("connect", Some(io::ErrorKind::AddrNotAvailable));
            assert_eq!(fault(&dial, "a", port, LIMITS).await, not_ours);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_socket_has_the_options_that_were_set() {
        block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let limit = Some(Duration::from_secs(7));
            let mut dial = tcp();
            dial.keepalive = limit.map(Keepalive::new);
            dial.socket_options = SocketOptions {
                user_timeout: limit,
                interface: Some("lo".into()),
                receive_buffer: Some(100_000),
                ..SocketOptions::default()
            };
            let (transport, _) = dial.connect("a", port, LIMITS).await.unwrap();
            let Transport::Tcp(stream) = transport else { panic!("TCP is dialed") };
            let socket = SockRef::from(&*stream);
            assert_eq!(socket.tcp_user_timeout().unwrap(), limit);
            assert_eq!(socket.device().unwrap().as_deref(), Some(&b"lo"[..]));
            assert_eq!(socket.recv_buffer_size().unwrap(), 200_000);
            assert_eq!(Some(socket.tcp_keepalive_time().unwrap()), limit);
        });
    }

    /// A client that dials a dead port of this machine again and again must not read its own request as an answer.
    #[test]
    fn a_connection_to_itself_counts_as_refused() {
        block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = socket.local_addr().unwrap();
            let itself = socket.connect(address).await.unwrap();
            let refused = refuse_self(address, itself).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let address = far.local_addr().unwrap();
            refuse_self(address, TcpStream::connect(address).await.unwrap()).unwrap();
        });
    }

    #[test]
    fn the_addresses_of_a_name_that_does_not_answer_are_forgotten() {
        block_on(async {
            let dial = tcp();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let known = dial.dns.resolve("a").await.unwrap();
            dial.connect("a", port, LIMITS).await.unwrap();
            assert!(Arc::ptr_eq(&known.found, &dial.dns.resolve("a").await.unwrap().found));
            drop(listener);
            fault(&dial, "a", port, LIMITS).await;
            assert!(!Arc::ptr_eq(&known.found, &dial.dns.resolve("a").await.unwrap().found));
        });
    }

    #[test]
    fn media_other_than_tcp_need_no_look_up() {
        block_on(async {
            let parrot = HostConnector { dialer: Some(Arc::new(Parrot)), ..tcp() };
            for (host, expected) in [("silent", "silent 80"), ("[::1]", "::1 80"), ("no name", "no name 80")]
            {
                let (transport, times) = sent(parrot.connect(host, 80, LIMITS)).await.unwrap();
                let Transport::Boxed(stream) = transport else { panic!("the parrot is dialed") };
                let mut said = String::new();
                stream.into_inner().read_to_string(&mut said).await.unwrap();
                assert_eq!((&*said, times.resolve), (expected, Duration::ZERO));
            }
            let address = DialAddress::from(Address::from("localhost:8080"));
            let parrot = HostConnector { address, ..parrot };
            let (transport, _) = parrot.connect("a", 80, LIMITS).await.unwrap();
            let Transport::Boxed(stream) = transport else { panic!("the parrot is dialed") };
            let mut said = String::new();
            stream.into_inner().read_to_string(&mut said).await.unwrap();
            assert_eq!(said, "localhost 8080", "an address and a dialer are both kept");
            let listener = MemoryListener::new();
            let memory = HostConnector { address: DialAddress::Memory(listener.connector()), ..tcp() };
            assert!(matches!(memory.connect("silent", 80, LIMITS).await, Ok((Transport::Memory(_), _))));
            drop(listener);
            let gone = ("connect", Some(io::ErrorKind::ConnectionRefused));
            assert_eq!(fault(&memory, "silent", 80, LIMITS).await, gone);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_unix_socket_is_waited_for_while_its_backlog_is_full() {
        use crate::net::{BoundSocket, ListenOptions};

        let path = std::env::temp_dir().join(format!("corehttp-{}-dialed", std::process::id()));
        let options = ListenOptions { backlog: 0, ..ListenOptions::default() };
        let bound = BoundSocket::bind(&Address::from(path.as_path()), &options).unwrap().remove(0);
        let BoundSocket::Unix(file, listener) = bound else { panic!("a path is a socket's") };
        let unix = HostConnector { address: DialAddress::Unix(path.into()), ..tcp() };
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            unix.connect("silent", 80, LIMITS).await.unwrap();
            let waits = tokio::spawn({
                let unix = unix.clone();
                async move { unix.connect("silent", 80, LIMITS).await }
            });
            sleep(Duration::from_secs(1)).await;
            assert!(!waits.is_finished());
            listener.accept().unwrap();
            assert!(matches!(waits.await.unwrap(), Ok((Transport::Unix(_), _))));
            drop(file);
            let gone = ("connect", Some(io::ErrorKind::NotFound));
            assert_eq!(fault(&unix, "silent", 80, LIMITS).await, gone);
            let error =
                unix.open(&unix.route("silent", 80), VecDeque::new()).await.err().unwrap().to_string();
            assert!(error.starts_with("unix:/") && error.ends_with("-dialed cannot be reached"), "{error}");
        });
    }

    fn check_address(address: impl Into<Address>, expected: (&str, u16)) {
        let address = address.into();
        let dialed = DialAddress::from(address.clone());
        let (host, port) = dialed.host_and_port("example.com", 80);
        assert_eq!((&*host, port), expected, "{address}");
    }

    #[test]
    fn an_address_replaces_the_host_of_a_url() {
        check_address("192.0.2.1:8080", ("192.0.2.1", 8080));
        check_address("[2001:db8::1]:8080", ("2001:db8::1", 8080));
        check_address("0.0.0.0:8080", ("127.0.0.1", 8080));
        check_address(":8080", ("::1", 8080));
        check_address(8080, ("::1", 8080));
        check_address("localhost:8080", ("localhost", 8080));
        check_address(("localhost", 8080), ("localhost", 8080));
        check_address("localhost", ("localhost", 80));
        check_address("[::1]", ("[::1]", 80));
        check_address("unix:/run/app.sock", ("example.com", 80));
        check_address(MemoryListener::new(), ("example.com", 80));
        let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = bound.local_addr().unwrap().port();
        check_address(bound, ("127.0.0.1", port));
    }
}

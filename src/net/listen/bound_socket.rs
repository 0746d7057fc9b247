//! [`BoundSocket`]: a listening socket that does not belong to a core yet; [`PortClaim`]: keeps its port from other
//! servers.

use std::collections::BTreeSet;
#[cfg(unix)]
use std::fmt;
use std::io;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::net::IpAddr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::unix::net::SocketAddr as UnixAddr;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::Path;
#[cfg(unix)]
use std::sync::Arc;

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

#[cfg(unix)]
use super::socket_file::{FileOwnership, SocketFile};
use super::socket_options::SocketOptions;
use crate::descriptors::with_descriptors;
use crate::net::address::check_host;
use crate::net::{Address, Keepalive, MemoryListener};

/// Whether the kernel spreads connections over several listeners on one port.
///
/// On other systems `SO_REUSEPORT` is missing, or the last socket to bind gets all connections; there, one core accepts
/// for all.
pub(super) const KERNEL_BALANCES: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// How to listen.
#[derive(Clone, Debug)]
pub(crate) struct ListenOptions {
    /// How many connections may wait in the kernel to be accepted.
    pub(crate) backlog: i32,
    /// Whether `[::]` accepts IPv4 peers as well.
    pub(crate) dual_stack: bool,
    /// Whether another server may already listen on the port.
    pub(crate) reuse_port: bool,
    /// Whether the operating system probes silent peers, and how often.
    pub(crate) keepalive: Option<Keepalive>,
    pub(crate) socket_options: SocketOptions,
    /// Called with each TCP socket before it listens.
    #[cfg(unix)]
    pub(crate) on_listen: Option<ListenFn>,
    /// The mode of the files of Unix sockets, instead of the umask's.
    #[cfg(unix)]
    pub(crate) unix_mode: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 4096,
            dual_stack: true,
            reuse_port: false,
            keepalive: None,
            socket_options: SocketOptions::default(),
            #[cfg(unix)]
            on_listen: None,
            #[cfg(unix)]
            unix_mode: None,
        }
    }
}

/// The function of [`Server::on_listen`](crate::Server::on_listen).
#[cfg(unix)]
#[derive(Clone)]
pub(crate) struct ListenFn(pub(crate) Arc<dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync>);

#[cfg(unix)]
impl fmt::Debug for ListenFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenFn")
    }
}

/// A listening socket that can still be sent to the core that will accept from it.
#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(TcpListener, ListenOptions, Option<PortClaim>),
    /// A socket of the application. Whether another socket may listen on the same port is unknown.
    Given(TcpListener, ListenOptions),
    /// A Unix socket, with its file if this server created it.
    #[cfg(unix)]
    Unix(Option<SocketFile>, UnixListener),
    Memory(MemoryListener),
}

impl BoundSocket {
    /// Binds `address`, with one socket, or one for each address of a name.
    ///
    /// Where other servers may share the address, peers can connect only after [`BoundSocket::listen`], or peers of
    /// those servers would wait for a core that may never be ready. Otherwise peers can connect at once.
    ///
    /// # Errors
    ///
    /// The text of the error names the address; its kind is that of the operating system.
    pub(crate) fn bind(address: &Address, options: &ListenOptions) -> io::Result<Vec<Self>> {
        let bound = match address {
            Address::Tcp(address) => bind_tcp(*address, options).map(|bound| vec![bound]),
            Address::Host(name) => bind_host(name, options),
            Address::Unix(path) => bind_unix(path, options).map(|bound| vec![bound]),
            Address::Memory(listener) => Ok(vec![BoundSocket::Memory(listener.clone())]),
            Address::TcpListener(listener) => adopt_tcp(listener, options).map(|bound| vec![bound]),
            #[cfg(unix)]
            Address::UnixListener(listener) => adopt_unix(listener, options).map(|bound| vec![bound]),
        };
        bound.map_err(|cause| cannot_listen(address, &cause))
    }

    /// Binds another socket to the same address, for another core. Returns `None` where the cores must share this one.
    pub(crate) fn sibling(&self) -> io::Result<Option<Self>> {
        match self {
            BoundSocket::Tcp(listener, options, _) if KERNEL_BALANCES => {
                let address = listener.local_addr()?;
                let sibling = bind_socket(address, options, PortUse::Shared);
                let sibling = sibling.map_err(|cause| cannot_listen(&address.into(), &cause))?;
                Ok(Some(BoundSocket::Tcp(sibling, options.clone(), None)))
            }
            BoundSocket::Tcp(..) | BoundSocket::Given(..) => Ok(None),
            #[cfg(unix)]
            BoundSocket::Unix(..) => Ok(None),
            BoundSocket::Memory(listener) => Ok(Some(BoundSocket::Memory(listener.clone()))),
        }
    }

    /// Takes over a socket that a predecessor of this server has bound to `address`, and passed on.
    #[cfg(unix)]
    #[allow(dead_code, reason = "unused without the feature `handover`")]
    pub(crate) fn from_inherited(
        socket: OwnedFd,
        address: &Address,
        options: &ListenOptions,
    ) -> io::Result<Self> {
        start_listening(SockRef::from(&socket), options)?;
        if let Address::Unix(_) | Address::UnixListener(_) = address {
            let file = match address {
                Address::Unix(path) => Some(SocketFile::adopt(path)?),
                _ => None,
            };
            return Ok(BoundSocket::Unix(file, socket.into()));
        }
        set_options(&SockRef::from(&socket), options)?;
        Ok(match address {
            Address::Tcp(_) | Address::Host(_) => BoundSocket::Tcp(socket.into(), options.clone(), None),
            _ => BoundSocket::Given(socket.into(), options.clone()),
        })
    }

    /// Another descriptor of the socket, to be passed on. `None` if there is no socket.
    #[cfg(unix)]
    #[allow(dead_code, reason = "unused without the feature `handover`")]
    pub(crate) fn duplicate(&self) -> io::Result<Option<OwnedFd>> {
        let socket = match self {
            BoundSocket::Tcp(listener, ..) | BoundSocket::Given(listener, _) => listener.as_fd(),
            BoundSocket::Unix(_, listener) => listener.as_fd(),
            BoundSocket::Memory(_) => return Ok(None),
        };
        socket.try_clone_to_owned().map(Some)
    }

    /// Who removes the file of the socket, if it has one.
    #[cfg(unix)]
    #[allow(dead_code, reason = "unused without the feature `handover`")]
    pub(crate) fn file_ownership(&self) -> Option<FileOwnership> {
        match self {
            BoundSocket::Unix(file, _) => file.as_ref().map(SocketFile::ownership),
            _ => None,
        }
    }

    /// Starts to listen, unless the socket already does.
    ///
    /// # Errors
    ///
    /// As [`BoundSocket::bind`].
    pub(super) fn listen(&self) -> io::Result<()> {
        let BoundSocket::Tcp(listener, options, _) = self else { return Ok(()) };
        let listened = SockRef::from(listener).listen(options.backlog);
        listened.map_err(|cause| match self.local_addr() {
            Some(address) => cannot_listen(&address.into(), &cause),
            None => cause,
        })
    }

    /// The address that peers connect to, with the actual port.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            BoundSocket::Tcp(listener, ..) | BoundSocket::Given(listener, _) => listener.local_addr().ok(),
            #[cfg(unix)]
            BoundSocket::Unix(..) => None,
            BoundSocket::Memory(_) => None,
        }
    }
}

/// The error of an address. Programs usually display only the text of an `io::Error`, so the text has both the address
/// and the cause.
fn cannot_listen(address: &Address, cause: &io::Error) -> io::Error {
    io::Error::new(cause.kind(), format!("cannot listen on {address}: {cause}"))
}

/// Binds all addresses of `name`, on one port.
///
/// Hosts files often list `::1` on machines where IPv6 is off, so addresses that this machine does not have are skipped
/// as long as one is left. An address that is in use is an error.
fn bind_host(name: &str, options: &ListenOptions) -> io::Result<Vec<BoundSocket>> {
    check_host(name)?;
    // An IPv6 address has colons of its own.
    if !name.contains(':') || name.ends_with(']') || name.parse::<Ipv6Addr>().is_ok() {
        let why = "the port is missing: write `127.0.0.1:8080` or, for a path, `unix:/run/app.sock`";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let addresses: BTreeSet<SocketAddr> = match with_zone(name) {
        Some(host_and_port) => host_and_port.to_socket_addrs()?.collect(),
        None => name.to_socket_addrs()?.collect(),
    };
    let mut bound: Vec<BoundSocket> = Vec::new();
    let mut absent = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for mut address in addresses {
        if let Some(first) = bound.first().and_then(BoundSocket::local_addr) {
            address.set_port(first.port());
        }
        match bind_tcp(address, options) {
            Ok(listener) => bound.push(listener),
            Err(error) if is_absent(&error) => absent = error,
            Err(error) => return Err(error),
        }
    }
    debug_assert!(bound.iter().all(|listener| listener.local_addr().is_some()), "only TCP has names");
    if bound.is_empty() { Err(absent) } else { Ok(bound) }
}

/// The parts of `[fe80::1%eth0]:80`, whose zone only the system can read (RFC 4007 §11).
fn with_zone(name: &str) -> Option<(&str, u16)> {
    let (address, port) = name.strip_prefix('[')?.split_once("]:")?;
    Some((address, port.parse().ok()?)).filter(|_| address.contains('%'))
}

/// Binds one address. Where there is no IPv6, the wildcard `[::]` becomes `0.0.0.0`.
fn bind_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<BoundSocket> {
    let port_use = if options.reuse_port { PortUse::Shared } else { PortUse::Exclusive };
    let listener = match bind_socket(address, options, port_use) {
        Err(error) if is_absent(&error) && options.dual_stack && is_unspecified_ipv6(&address) => {
            bind_socket((Ipv4Addr::UNSPECIFIED, address.port()).into(), options, port_use).map_err(|_| error)
        }
        taken => taken,
    }?;
    let address = listener.local_addr()?;
    let claim = match port_use {
        PortUse::Exclusive => PortClaim::new(address),
        PortUse::Shared if PortClaim::exists(address) => return Err(io::ErrorKind::AddrInUse.into()),
        PortUse::Shared => None,
    };
    Ok(BoundSocket::Tcp(listener, options.clone(), claim))
}

/// Whether the port may be shared with the sockets of other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortUse {
    Exclusive,
    Shared,
}

#[cfg(unix)]
fn bind_unix(path: &Path, options: &ListenOptions) -> io::Result<BoundSocket> {
    let ListenOptions { backlog, unix_mode, .. } = options;
    SocketFile::bind(path, *backlog, *unix_mode)
        .map(|(file, listener)| BoundSocket::Unix(Some(file), listener))
}

#[cfg(not(unix))]
fn bind_unix(_: &Path, _: &ListenOptions) -> io::Result<BoundSocket> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "no Unix domain sockets here"))
}

/// Takes over a socket that is already bound. The original may be closed, or used again.
fn adopt_tcp(listener: &TcpListener, options: &ListenOptions) -> io::Result<BoundSocket> {
    let listener = listener.try_clone()?;
    set_options(&SockRef::from(&listener), options)?;
    start_listening(SockRef::from(&listener), options)?;
    Ok(BoundSocket::Given(listener, options.clone()))
}

#[cfg(unix)]
fn adopt_unix(listener: &UnixListener, options: &ListenOptions) -> io::Result<BoundSocket> {
    let listener = listener.try_clone()?;
    // Fails on a socket of another family, which would listen, but whose connections would all be dropped.
    listener.local_addr()?;
    start_listening(SockRef::from(&listener), options)?;
    Ok(BoundSocket::Unix(None, listener))
}

/// Makes a socket that is bound listen, without blocking its accepts.
fn start_listening(socket: SockRef<'_>, options: &ListenOptions) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // The socket most likely listens already, and then only the backlog changes.
    socket.listen(options.backlog)
}

/// Makes a socket that is bound to `address`. It listens, unless another server may share the port: see
/// [`BoundSocket::bind`].
fn bind_socket(address: SocketAddr, options: &ListenOptions, port_use: PortUse) -> io::Result<TcpListener> {
    let new = || Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP));
    let socket = with_descriptors(new)?;
    socket.set_nonblocking(true)?;
    set_options(&SockRef::from(&socket), options)?;
    if is_unspecified_ipv6(&address) {
        socket.set_only_v6(!options.dual_stack)?;
    }
    if cfg!(unix) {
        // Without `SO_REUSEADDR`, a restart would have to wait for TIME_WAIT. On Windows the option would let others
        // steal the port.
        socket.set_reuse_address(true)?;
    }
    if port_use == PortUse::Shared {
        reuse_port(&socket)?;
    }
    socket.bind(&address.into())?;
    // Lets the other cores bind, and also a server that takes over from this one: both listen until the old one stops,
    // so that no peer is refused in between.
    reuse_port(&socket)?;
    if !(options.reuse_port && KERNEL_BALANCES) {
        // Other sockets can bind the port until this one listens.
        socket.listen(options.backlog)?;
    }
    Ok(socket.into())
}

/// Sets all options of a listening socket.
fn set_options(socket: &SockRef<'_>, options: &ListenOptions) -> io::Result<()> {
    set_connection_options(socket, options.keepalive)?;
    options.socket_options.set(socket)?;
    #[cfg(unix)]
    if let Some(ListenFn(on_listen)) = &options.on_listen {
        on_listen(socket.as_fd())?;
    }
    Ok(())
}

/// Sets the options of connections. On Linux, accepted sockets inherit them, which saves system calls for each.
pub(super) fn set_connection_options(socket: &SockRef<'_>, keepalive: Option<Keepalive>) -> io::Result<()> {
    // Small responses must leave at once.
    socket.set_tcp_nodelay(true)?;
    keepalive.map_or(Ok(()), |keepalive| keepalive.set(socket))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn reuse_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn reuse_port(_: &Socket) -> io::Result<()> {
    Ok(())
}

fn is_unspecified_ipv6(address: &SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Whether this machine lacks the address, or its whole family.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

const EAFNOSUPPORT: i32 = match () {
    () if cfg!(windows) => 10047,
    () if cfg!(any(target_os = "linux", target_os = "android")) => 97,
    () => 47, // macOS and the BSDs
};

/// Keeps a port from servers that would share it, until it is dropped.
///
/// The listeners of a server's cores share a port by `SO_REUSEPORT`. The kernel then admits any socket of the same user
/// that has this option, and does not report whose sockets are bound. So a server that shares nothing also listens at
/// abstract Unix sockets, named after its address and its port. Such names belong to one network namespace, as a port
/// does, and are free again when the process ends. Anybody may take them, so those of other users do not count.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
pub(crate) struct PortClaim(
    #[expect(dead_code, reason = "the names are taken while this exists")] [Option<UnixListener>; 2],
);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl PortClaim {
    /// Claims the port of `address`. A name that cannot be bound is left out, as in a process that may open no Unix
    /// socket, or if another server on another address has the name of the port: the port is bound all the same.
    fn new(address: SocketAddr) -> Option<Self> {
        let claim = |holder| UnixListener::bind_addr(&UnixAddr::from_abstract_name(name(holder)).ok()?).ok();
        Some(Self([claim(canonical(address).to_string()), claim(address.port().to_string())]))
    }

    /// Whether a server of this user has claimed the port of `address`, at this address or at one that overlaps it, as all
    /// addresses overlap the unspecified ones.
    fn exists(address: SocketAddr) -> bool {
        let port = address.port();
        let address = canonical(address);
        let is_claimed = |holder| has_own_listener(&name(holder)).unwrap_or(false);
        if address.ip().is_unspecified() {
            return is_claimed(port.to_string());
        }
        let every: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let overlapping = every.map(|ip| SocketAddr::new(ip, port)).into_iter().chain([address]);
        overlapping.map(|address| address.to_string()).any(is_claimed)
    }
}

/// Whether a process of this user listens at an abstract name. Nothing is sent.
///
/// # Errors
///
/// Fails if nobody listens there, or if the listener has many connections that it has not accepted. Claims accept none, and
/// have room for some thousand looks.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_own_listener(name: &str) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    let holder = rustix::net::sockopt::socket_peercred(&socket)?.uid;
    Ok(holder == rustix::process::geteuid())
}

/// Maps `::ffff:a.b.c.d` to `a.b.c.d`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name(holder: String) -> String {
    format!("corehttp/{holder}")
}

/// Where no port is shared, there is no claim.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) enum PortClaim {}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl PortClaim {
    fn new(_: SocketAddr) -> Option<Self> {
        None
    }

    fn exists(_: SocketAddr) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// Listens on an address, which others may share.
    fn bind(address: &str) -> io::Result<Vec<BoundSocket>> {
        let bound = BoundSocket::bind(
            &address.into(),
            &ListenOptions { reuse_port: true, ..ListenOptions::default() },
        )?;
        bound.iter().try_for_each(BoundSocket::listen)?;
        Ok(bound)
    }

    /// Binds an address on which no other socket may listen.
    fn bind_alone(address: &str) -> io::Result<Vec<BoundSocket>> {
        BoundSocket::bind(&address.into(), &ListenOptions::default())
    }

    #[test]
    fn all_cores_get_the_port_of_the_first() {
        let first = bind("127.0.0.1:0").unwrap().remove(0);
        let address = first.local_addr().unwrap();
        assert_ne!(address.port(), 0);
        for _ in 0..3 {
            let sibling = first.sibling().unwrap();
            assert_eq!(sibling.is_some(), KERNEL_BALANCES);
            assert!(sibling.is_none_or(|sibling| sibling.local_addr() == Some(address)));
        }
    }

    #[test]
    fn the_port_of_another_server_is_an_error_that_names_it() {
        let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = theirs.local_addr().unwrap().to_string();
        let error = bind(&address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address), "{error}");
    }

    #[test]
    fn a_server_that_takes_over_can_bind_the_same_port() {
        let ours = bind("127.0.0.1:0").unwrap().remove(0);
        let theirs = bind(&ours.local_addr().unwrap().to_string()).map(|_| ());
        assert_eq!(theirs.is_ok(), KERNEL_BALANCES);
    }

    #[test]
    fn a_port_is_shared_only_if_both_servers_share_it() {
        for (bind_first, shares) in
            [(bind as fn(&str) -> io::Result<Vec<BoundSocket>>, KERNEL_BALANCES), (bind_alone, false)]
        {
            let first = bind_first("127.0.0.1:0").unwrap().remove(0);
            let address = first.local_addr().unwrap();
            let siblings = [(); 2].map(|()| first.sibling().unwrap());
            assert!(siblings.iter().all(|sibling| sibling.is_some() == KERNEL_BALANCES));
            for taken in [address, (Ipv4Addr::UNSPECIFIED, address.port()).into()] {
                let error = bind_alone(&taken.to_string()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{taken}");
            }
            let second = bind(&address.to_string()).map_err(|error| error.kind());
            assert_eq!(second.as_ref().err(), (!shares).then_some(&io::ErrorKind::AddrInUse));
            drop((first, siblings, second));
            bind_alone(&address.to_string()).unwrap();
        }
    }

    #[test]
    fn a_port_can_be_bound_again_while_its_connections_linger() {
        for bind in [bind, bind_alone] {
            let bound = bind("127.0.0.1:0").unwrap().remove(0);
            let address = bound.local_addr().unwrap();
            let BoundSocket::Tcp(listener, ..) = &bound else { unreachable!() };
            listener.set_nonblocking(false).unwrap();
            let near = TcpStream::connect(address).unwrap();
            let (far, _) = listener.accept().unwrap();
            drop(far); // The side that closes first lingers.
            drop(near);
            drop(bound);
            bind(&address.to_string()).unwrap();
        }
    }

    #[test]
    fn every_address_of_a_name_is_bound_on_one_port() {
        let bound = bind("localhost:0").unwrap();
        let ports: BTreeSet<u16> = bound.iter().map(|b| b.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), 1);
        assert!(bound.iter().all(|b| b.local_addr().unwrap().ip().is_loopback()));
    }

    #[test]
    fn an_error_names_the_address() {
        for (address, kind) in [
            ("192.0.2.1:80", io::ErrorKind::AddrNotAvailable),
            ("no-port", io::ErrorKind::InvalidInput),
            #[cfg(unix)]
            ("unix:/no/such/directory/socket", io::ErrorKind::NotFound),
            #[cfg(not(unix))]
            ("unix:/socket", io::ErrorKind::Unsupported),
        ] {
            let error = bind(address).unwrap_err();
            assert!(error.to_string().contains(address), "{error}");
            assert_eq!(error.kind(), kind, "{address}");
        }
    }

    #[test]
    fn an_address_without_a_port_says_so() {
        for address in ["", "8080", "app.sock", "127.0.0.1", "localhost", "::1", "[::]", "[::1]", "fe80::1"] {
            let error = bind(address).unwrap_err();
            let why = "the port is missing: write `127.0.0.1:8080` or, for a path, `unix:/run/app.sock`";
            assert_eq!(error.to_string(), format!("cannot listen on {address}: {why}"));
        }
        let why = "a path is written `unix:/run/app.sock`";
        let refused = bind("/run/app.sock").unwrap_err().to_string();
        assert_eq!(refused, format!("cannot listen on /run/app.sock: {why}"));
        for (url, written) in [
            ("http://127.0.0.1:0", "127.0.0.1:0"),
            ("https://127.0.0.1:0/", "127.0.0.1:0"),
            ("http://127.0.0.1", "127.0.0.1:8080"),
            ("http://", "127.0.0.1:8080"),
            ("http://user:password@127.0.0.1:0", "127.0.0.1:8080"),
        ] {
            let why = format!("an address has no scheme: write `{written}`");
            assert_eq!(bind(url).unwrap_err().to_string(), format!("cannot listen on {url}: {why}"));
        }
    }

    #[test]
    fn a_bound_socket_may_change_threads() {
        fn check<T: Send>() {}
        check::<BoundSocket>();
    }
}

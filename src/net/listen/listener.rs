//! [`Listener`]: a listening socket on its core.

use std::io;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use super::bound_socket::{BoundSocket, PortClaim, set_connection_options};
#[cfg(unix)]
use super::socket_file::SocketFile;
use crate::net::{Keepalive, MemoryAcceptor, PeerAddr, Transport};

/// A [`BoundSocket`] in the runtime that accepts from it.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(
        TcpListener,
        Option<Keepalive>,
        #[cfg_attr(
            any(target_os = "linux", target_os = "android"),
            expect(dead_code, reason = "its drop lets other servers share the port")
        )]
        Option<PortClaim>,
    ),
    #[cfg(unix)]
    Unix(#[expect(dead_code, reason = "its drop removes the file")] Option<SocketFile>, UnixListener),
    Memory(MemoryAcceptor),
}

/// A new connection, and its peer.
pub(crate) type Accepted = (Transport, PeerAddr);

impl Listener {
    /// Attaches the socket to the current runtime, and starts to listen.
    pub(crate) fn open(bound: BoundSocket) -> io::Result<Self> {
        bound.listen()?;
        Ok(match bound {
            BoundSocket::Tcp(listener, options, claim) => {
                Listener::Tcp(TcpListener::from_std(listener)?, options.keepalive, claim)
            }
            BoundSocket::Given(listener, options) => {
                Listener::Tcp(TcpListener::from_std(listener)?, options.keepalive, None)
            }
            #[cfg(unix)]
            BoundSocket::Unix(file, listener) => Listener::Unix(file, UnixListener::from_std(listener)?),
            BoundSocket::Memory(listener) => Listener::Memory(listener.acceptor()),
        })
    }

    /// Waits for the next connection. Errors must be [classified](classify).
    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        Poll::Ready(Ok(match self {
            Listener::Tcp(listener, keepalive, _) => {
                let (stream, peer) = ready!(listener.poll_accept(cx))?;
                (tcp(stream, *keepalive), PeerAddr::Tcp(peer))
            }
            #[cfg(unix)]
            Listener::Unix(_, listener) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                (Transport::Unix(stream.into()), PeerAddr::Unix)
            }
            Listener::Memory(acceptor) => {
                (Transport::Memory(ready!(acceptor.poll_accept(cx)).into()), PeerAddr::Memory)
            }
        }))
    }

    /// Accepts a connection that already waits, so that a server which stops can serve the peers that came in time.
    ///
    /// The kernel's backlog is read, and not tokio's cached readiness, which may be older than the connection.
    pub(crate) fn accept_now(&self) -> Option<Accepted> {
        loop {
            match self.try_accept() {
                Ok(accepted) => return Some(accepted),
                Err(error) if classify(&error) == AcceptReaction::Skip => {}
                Err(_) => return None,
            }
        }
    }

    fn try_accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener, keepalive, _) => {
                let (socket, peer) = SockRef::from(listener).accept()?;
                socket.set_nonblocking(true)?;
                let peer = peer.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
                Ok((tcp(TcpStream::from_std(socket.into())?, *keepalive), PeerAddr::Tcp(peer)))
            }
            #[cfg(unix)]
            Listener::Unix(_, listener) => {
                let (socket, _) = SockRef::from(listener).accept()?;
                socket.set_nonblocking(true)?;
                Ok((Transport::Unix(UnixStream::from_std(socket.into())?.into()), PeerAddr::Unix))
            }
            Listener::Memory(acceptor) => {
                let stream = acceptor.accept_now().ok_or(io::ErrorKind::WouldBlock)?;
                Ok((Transport::Memory(stream.into()), PeerAddr::Memory))
            }
        }
    }
}

fn tcp(stream: TcpStream, keepalive: Option<Keepalive>) -> Transport {
    if !OPTIONS_ARE_INHERITED {
        // The options cannot be set only on a connection that is already dead, which its first read will report.
        let _ = set_connection_options(&SockRef::from(&stream), keepalive);
    }
    Transport::Tcp(stream.into())
}

const OPTIONS_ARE_INHERITED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// The reaction to an error of [`Listener::poll_accept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptReaction {
    /// One connection died before it was accepted: accept the next.
    Skip,
    /// The process or the system ran out of a resource: accept again a little later.
    BackOff,
    /// The socket no longer listens, and never will.
    Fatal,
}

/// Decides how to react to a failed `accept`.
///
/// On Linux, `accept` also reports network errors of the new connection (accept(2), "Error handling"). Elsewhere a peer
/// that has already gone may have no address: on macOS that is an error of the same kind as `EINVAL`, but without a
/// number. After an unknown error it is best to wait and try again: a busy loop would be worse, and so would a server
/// that gives up.
pub(crate) fn classify(error: &io::Error) -> AcceptReaction {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionAborted
        | Kind::ConnectionReset
        | Kind::ConnectionRefused
        | Kind::NotConnected
        | Kind::TimedOut
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::Interrupted => AcceptReaction::Skip,
        Kind::InvalidInput if error.raw_os_error().is_some() => AcceptReaction::Fatal,
        Kind::InvalidInput => AcceptReaction::Skip,
        _ => AcceptReaction::BackOff,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net;
    #[cfg(target_os = "linux")]
    use std::sync::Arc;
    #[cfg(target_os = "linux")]
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    #[cfg(unix)]
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::runtime::Builder;

    use super::super::bound_socket::{KERNEL_BALANCES, ListenFn, ListenOptions};
    use super::super::socket_options::SocketOptions;
    use super::*;
    use crate::net::{Address, MemoryListener};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    impl Listener {
        async fn accept(&self) -> io::Result<Accepted> {
            poll_fn(|cx| self.poll_accept(cx)).await
        }
    }

    fn bind(address: impl Into<Address>) -> BoundSocket {
        bind_with(address, ListenOptions::default())
    }

    fn bind_with(address: impl Into<Address>, options: ListenOptions) -> BoundSocket {
        let bound = BoundSocket::bind(&address.into(), &options).unwrap().remove(0);
        bound.listen().unwrap();
        bound
    }

    #[test]
    fn all_listeners_of_one_port_accept() {
        if !KERNEL_BALANCES {
            return;
        }
        let first = bind("127.0.0.1:0");
        let second = first.sibling().unwrap().unwrap();
        let address = first.local_addr().unwrap();
        block_on(async {
            let [first, second] = [first, second].map(|bound| Listener::open(bound).unwrap());
            let mut by_first = 0;
            let mut by_second = 0;
            let mut peers = Vec::new();
            // The kernel chooses by a hash of the ports. All 64 go to one side once in 2^63 runs.
            while by_first + by_second < 64 {
                peers.push(net::TcpStream::connect(address).unwrap());
                tokio::select! {
                    accepted = first.accept() => { accepted.unwrap(); by_first += 1; }
                    accepted = second.accept() => { accepted.unwrap(); by_second += 1; }
                }
            }
            assert!(by_first > 0 && by_second > 0, "{by_first} and {by_second}");
        });
    }

    #[test]
    fn a_port_alone_listens_on_ipv4_and_ipv6() {
        let bound = bind(":0");
        let port = bound.local_addr().unwrap().port();
        block_on(async {
            let listener = Listener::open(bound).unwrap();
            for ip in ["127.0.0.1", "::1"] {
                if net::TcpListener::bind((ip, 0)).is_err() {
                    continue; // IPv6 is off on this machine.
                }
                let _near = net::TcpStream::connect((ip, port)).unwrap();
                let (_, peer) = listener.accept().await.unwrap();
                assert_eq!(peer.ip(), Some(ip.parse().unwrap()));
            }
        });
    }

    #[test]
    fn an_accepted_socket_sends_small_responses_at_once() {
        let bound = bind("127.0.0.1:0");
        let near = [(); 2].map(|()| net::TcpStream::connect(bound.local_addr().unwrap()).unwrap());
        block_on(async {
            let listener = Listener::open(bound).unwrap();
            for (transport, _) in [listener.accept_now().unwrap(), listener.accept().await.unwrap()] {
                let Transport::Tcp(stream) = transport else { unreachable!() };
                assert!(stream.nodelay().unwrap());
            }
        });
        drop(near);
    }

    #[cfg(unix)]
    #[test]
    fn an_accepted_socket_has_keepalive_only_if_asked_for_rfc9293_3_8_4() {
        for keepalive in [None, Some(Keepalive::new(Duration::from_secs(7)))] {
            let bound = bind_with("127.0.0.1:0", ListenOptions { keepalive, ..ListenOptions::default() });
            let near = [(); 2].map(|()| net::TcpStream::connect(bound.local_addr().unwrap()).unwrap());
            block_on(async {
                let listener = Listener::open(bound).unwrap();
                for (transport, _) in [listener.accept_now().unwrap(), listener.accept().await.unwrap()] {
                    let Transport::Tcp(stream) = transport else { unreachable!() };
                    let socket = SockRef::from(&*stream);
                    assert_eq!(socket.keepalive().unwrap(), keepalive.is_some());
                    let is_every_7_seconds = socket.tcp_keepalive_time().unwrap().as_secs() == 7;
                    assert_eq!(is_every_7_seconds, keepalive.is_some());
                }
            });
            drop(near);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_accepted_socket_has_the_options_that_were_set() {
        let limit = Duration::from_secs(7);
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        let socket_options = SocketOptions {
            receive_buffer: Some(100_000),
            send_buffer: Some(200_000),
            user_timeout: Some(limit),
            interface: Some("lo".into()),
            ..SocketOptions::default()
        };
        let on_listen = ListenFn(Arc::new(move |socket| {
            counted.fetch_add(1, Ordering::Relaxed);
            SockRef::from(&socket).set_tcp_notsent_lowat(4321)
        }));
        let bound = bind_with(
            "127.0.0.1:0",
            ListenOptions { socket_options, on_listen: Some(on_listen), ..ListenOptions::default() },
        );
        let _near = net::TcpStream::connect(bound.local_addr().unwrap()).unwrap();
        let _sibling = bound.sibling().unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), 2);
        block_on(async {
            let (Transport::Tcp(stream), _) = Listener::open(bound).unwrap().accept().await.unwrap() else {
                unreachable!()
            };
            let socket = SockRef::from(&*stream);
            assert_eq!(socket.recv_buffer_size().unwrap(), 200_000);
            assert_eq!(socket.send_buffer_size().unwrap(), 400_000);
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(limit));
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), 4321);
        });
    }

    /// Only a process with CAP_NET_ADMIN may have the system poll for longer.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_accepted_socket_polls_its_device_for_as_long_as_was_set() {
        let busy_poll = Some(Duration::from_micros(50));
        let socket_options = SocketOptions { busy_poll, ..SocketOptions::default() };
        let options = ListenOptions { socket_options, ..ListenOptions::default() };
        let bound = match BoundSocket::bind(&"127.0.0.1:0".into(), &options) {
            Ok(mut bound) => bound.remove(0),
            Err(error) => return assert!(error.to_string().contains("the option SO_BUSY_POLL: "), "{error}"),
        };
        bound.listen().unwrap();
        let _near = net::TcpStream::connect(bound.local_addr().unwrap()).unwrap();
        block_on(async {
            let (Transport::Tcp(stream), _) = Listener::open(bound).unwrap().accept().await.unwrap() else {
                unreachable!()
            };
            assert_eq!(SockRef::from(&*stream).busy_poll().unwrap(), 50);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_option_that_the_system_refuses_is_named() {
        let socket_options = SocketOptions { interface: Some("no such".into()), ..SocketOptions::default() };
        let options = ListenOptions { socket_options, ..ListenOptions::default() };
        let error = BoundSocket::bind(&"127.0.0.1:0".into(), &options).unwrap_err().to_string();
        assert!(error.starts_with("cannot listen on 127.0.0.1:0: the option SO_BINDTODEVICE: "), "{error}");
    }

    /// Checks that `waiting` connections wait, and that all can be used, though the runtime has not polled its sockets.
    async fn check_drain(listener: &Listener, waiting: usize) {
        let drained: Vec<Accepted> = std::iter::from_fn(|| listener.accept_now()).collect();
        assert_eq!(drained.len(), waiting);
        for (mut transport, _) in drained {
            transport.write_all(b"x").await.unwrap();
        }
    }

    #[test]
    fn peers_that_wait_are_accepted_before_a_stop() {
        let bound = bind("127.0.0.1:0");
        let address = bound.local_addr().unwrap();
        let connect = || net::TcpStream::connect(address).unwrap();
        block_on(async {
            let listener = Listener::open(bound).unwrap();
            check_drain(&listener, 0).await;
            let before: Vec<_> = (0..100).map(|_| connect()).collect();
            check_drain(&listener, 100).await;
            // A readiness that tokio has not seen yet must not hide the next connection.
            let after: Vec<_> = (0..3).map(|_| connect()).collect();
            listener.accept().await.unwrap();
            check_drain(&listener, 2).await;
            drop((before, after));
        });
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_accepts_and_drains_and_its_file_goes() {
        let path = std::env::temp_dir().join(format!("corehttp-{}-listener", std::process::id()));
        let bound = bind(path.clone());
        assert!(bound.sibling().unwrap().is_none());
        block_on(async {
            let listener = Listener::open(bound).unwrap();
            let near = [(); 3].map(|()| std::os::unix::net::UnixStream::connect(&path).unwrap());
            assert_eq!(listener.accept().await.unwrap().1, PeerAddr::Unix);
            check_drain(&listener, 2).await;
            drop(near);
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_memory_listener_serves_every_core() {
        let memory = MemoryListener::new();
        let connector = memory.connector();
        let first = bind(memory);
        let second = first.sibling().unwrap().unwrap();
        drop(first);
        let core = thread::spawn(move || {
            block_on(async {
                let (mut transport, peer) = Listener::open(second).unwrap().accept().await.unwrap();
                assert_eq!(peer, PeerAddr::Memory);
                transport.write_all(b"hello").await.unwrap();
            });
        });
        block_on(async {
            let mut received = String::new();
            connector.connect().await.unwrap().read_to_string(&mut received).await.unwrap();
            assert_eq!(received, "hello");
        });
        core.join().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_error_of_accept_is_skipped_waited_out_or_fatal() {
        for (errno, expected) in [
            (103, AcceptReaction::Skip),    // ECONNABORTED
            (104, AcceptReaction::Skip),    // ECONNRESET
            (107, AcceptReaction::Skip),    // ENOTCONN
            (113, AcceptReaction::Skip),    // EHOSTUNREACH
            (4, AcceptReaction::Skip),      // EINTR
            (24, AcceptReaction::BackOff),  // EMFILE
            (23, AcceptReaction::BackOff),  // ENFILE
            (105, AcceptReaction::BackOff), // ENOBUFS
            (12, AcceptReaction::BackOff),  // ENOMEM
            (71, AcceptReaction::BackOff),  // EPROTO
            (22, AcceptReaction::Fatal),    // EINVAL: it does not listen
        ] {
            assert_eq!(classify(&io::Error::from_raw_os_error(errno)), expected, "{errno}");
        }
        assert_eq!(
            classify(&io::ErrorKind::InvalidInput.into()),
            AcceptReaction::Skip,
            "a peer without address"
        );
    }
}

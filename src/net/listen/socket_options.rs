//! [`SocketOptions`]: options of the sockets of a server or a client, beyond those that it sets itself.

use std::io;
use std::time::Duration;

use socket2::SockRef;

/// Options of the TCP sockets of a server ([`Server::socket_options`](crate::Server::socket_options)) or of a client
/// ([`ClientBuilder::socket_options`](crate::ClientBuilder::socket_options)): socket(7), tcp(7). `None` leaves the
/// value of the operating system.
///
/// A server sets other options by [`Server::on_listen`](crate::Server::on_listen), such as `TCP_DEFER_ACCEPT` and
/// `TCP_FASTOPEN`. Sockets that were already open get these options, too. Unix sockets do not.
///
/// On a system without an option, the server does not start, and the connections of the client fail. The same goes for
/// a refused option. The error names the option.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::{Context, Server};
/// use corehttp::net::SocketOptions;
///
/// fn main() -> corehttp::Result {
///     Server::bind("[::]:8080")
///         .socket_options(SocketOptions {
///             user_timeout: Some(Duration::from_secs(20)),
///             interface: Some("eth1".into()),
///             ..SocketOptions::default()
///         })
///         .run(|ctx: &mut Context| ctx.response.set_text("Hello, World!"))
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// The system's buffer of received bytes that were not read (`SO_RCVBUF`), in bytes. Linux takes twice that, and
    /// adjusts the size no more.
    pub receive_buffer: Option<usize>,
    /// The system's buffer of sent bytes that are not acknowledged yet (`SO_SNDBUF`), in bytes, as for the other
    /// direction.
    pub send_buffer: Option<usize>,
    /// How long bytes may stay unacknowledged before the connection fails (`TCP_USER_TIMEOUT`, RFC 5482). Linux only.
    pub user_timeout: Option<Duration>,
    /// How long a read may poll the network device instead of waiting for an interrupt (`SO_BUSY_POLL`), in whole
    /// microseconds. More than the system's own needs `CAP_NET_ADMIN`. Linux only.
    pub busy_poll: Option<Duration>,
    /// The only network interface that connections are accepted from, or opened through (`SO_BINDTODEVICE`), such as
    /// `eth0`. Linux only.
    pub interface: Option<String>,
}

impl SocketOptions {
    /// Sets the options of a socket that listens or is about to connect. On Linux, accepted sockets inherit them.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses an option, which the error names.
    pub(in crate::net) fn set(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let SocketOptions { receive_buffer, send_buffer, user_timeout, busy_poll, interface } = self;
        check("SO_RCVBUF", receive_buffer, |len| socket.set_recv_buffer_size(*len))?;
        check("SO_SNDBUF", send_buffer, |len| socket.set_send_buffer_size(*len))?;
        check("TCP_USER_TIMEOUT", user_timeout, |limit| imp::set_user_timeout(socket, *limit))?;
        check("SO_BUSY_POLL", busy_poll, |limit| imp::set_busy_poll(socket, *limit))?;
        check("SO_BINDTODEVICE", interface, |name| imp::bind_device(socket, name))
    }
}

/// Sets an option if it has a value.
fn check<T>(name: &str, value: &Option<T>, set: impl FnOnce(&T) -> io::Result<()>) -> io::Result<()> {
    let set = value.as_ref().map_or(Ok(()), set);
    set.map_err(|error| io::Error::new(error.kind(), format!("the option {name}: {error}")))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::io;
    use std::time::Duration;

    use socket2::SockRef;

    pub(super) fn set_user_timeout(socket: &SockRef<'_>, limit: Duration) -> io::Result<()> {
        socket.set_tcp_user_timeout(Some(limit))
    }

    pub(super) fn set_busy_poll(socket: &SockRef<'_>, limit: Duration) -> io::Result<()> {
        socket.set_busy_poll(u32::try_from(limit.as_micros()).unwrap_or(u32::MAX))
    }

    pub(super) fn bind_device(socket: &SockRef<'_>, name: &str) -> io::Result<()> {
        socket.bind_device(Some(name.as_bytes()))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::io;
    use std::time::Duration;

    use socket2::SockRef;

    pub(super) fn set_user_timeout(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_busy_poll(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn bind_device(_: &SockRef<'_>, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

//! [`PortClaim`]: keeps a port from servers that would share it.

use std::io;
use std::net::SocketAddr;
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};

/// Keeps a port from servers that would share it, as long as this exists.
///
/// The listeners of a server's cores share a port by `SO_REUSEPORT`. The kernel then admits any socket of the same user
/// that has this option, and does not report whose sockets are there. So a server that shares nothing also binds an
/// abstract Unix socket, named after the address. Such a name belongs to one network namespace, as a port does, and is
/// free again when the process ends.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
pub(crate) struct PortClaim(
    #[expect(dead_code, reason = "the name is taken while this exists")] UnixDatagram,
);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl PortClaim {
    /// Claims the port of `address`. A claim that cannot be made, as in a process that may open no Unix socket, is
    /// left out: the port is bound all the same.
    pub(super) fn new(address: SocketAddr) -> Option<Self> {
        UnixDatagram::bind_addr(&name(address).ok()?).ok().map(Self)
    }

    /// Whether a server has claimed the port of `address`.
    pub(super) fn exists(address: SocketAddr) -> bool {
        let connect = || UnixDatagram::unbound()?.connect_addr(&name(address)?);
        connect().is_ok()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name(address: SocketAddr) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("corehttp/{address}"))
}

/// Needless where no port is shared, and never made there.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) enum PortClaim {}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl PortClaim {
    pub(super) fn new(_: SocketAddr) -> Option<Self> {
        None
    }

    pub(super) fn exists(_: SocketAddr) -> bool {
        false
    }
}

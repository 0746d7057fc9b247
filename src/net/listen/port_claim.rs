//! [`PortClaim`]: keeps a port from servers that would share it.

use std::io;
use std::net::SocketAddr;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};

/// Keeps a port from servers that would share it, as long as this exists.
///
/// The listeners of a server's cores share a port by `SO_REUSEPORT`. The kernel then admits any socket of the same user
/// that has this option, and does not report whose sockets are there. So a server that shares nothing also binds
/// abstract Unix sockets, named after its address and its port. Such names belong to one network namespace, as a port
/// does, and are free again when the process ends.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
pub(crate) struct PortClaim(
    #[expect(dead_code, reason = "the names are taken while this exists")] [Option<UnixDatagram>; 2],
);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl PortClaim {
    /// Claims the port of `address`. A name that cannot be taken, as in a process that may open no Unix socket, or the
    /// port's if another server of its own address has it, is left out: the port is bound all the same.
    pub(super) fn new(address: SocketAddr) -> Option<Self> {
        let claim = |holder| UnixDatagram::bind_addr(&name(holder).ok()?).ok();
        Some(Self([claim(canonical(address).to_string()), claim(address.port().to_string())]))
    }

    /// Whether a server has claimed the port of `address`, there or at an address that overlaps: all do with those that
    /// stand for every address.
    pub(super) fn exists(address: SocketAddr) -> bool {
        let (address, port) = (canonical(address), address.port());
        let is_claimed = |holder| UnixDatagram::unbound()?.connect_addr(&name(holder)?);
        if address.ip().is_unspecified() {
            return is_claimed(port.to_string()).is_ok();
        }
        let every: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let overlapping = every.map(|ip| SocketAddr::new(ip, port)).into_iter().chain([address]);
        overlapping.map(|address| is_claimed(address.to_string())).any(|claimed| claimed.is_ok())
    }
}

/// `::ffff:a.b.c.d` is `a.b.c.d`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name(holder: String) -> io::Result<UnixAddr> {
    UnixAddr::from_abstract_name(format!("corehttp/{holder}"))
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

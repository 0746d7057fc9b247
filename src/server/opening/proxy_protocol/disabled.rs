//! The PROXY protocol without the feature `proxy-protocol`. Types without a value let the compiler remove the code.

use std::convert::Infallible;
use std::task::{self, Poll};
use std::time::Duration;

use crate::net::{Conn, PeerAddr};
use crate::server::error::ErrorCause;

/// From which peers a header is read, of which there are none.
#[derive(Clone)]
pub(crate) struct ProxyProtocol(Infallible);

impl ProxyProtocol {
    pub(in crate::server) fn expects(&self, _: PeerAddr) -> bool {
        match self.0 {}
    }

    pub(in crate::server) async fn receive(
        &self,
        _: &mut Conn,
        _: Duration,
        _: fn(&mut Conn, &mut task::Context<'_>) -> Poll<()>,
    ) -> Result<Option<ProxyHeader>, Option<ErrorCause>> {
        match self.0 {}
    }
}

/// A header, of which there are none.
pub(crate) struct ProxyHeader(Infallible);

impl ProxyHeader {
    pub(in crate::server) fn peer(&self) -> Option<PeerAddr> {
        match self.0 {}
    }

    pub(in crate::server) fn has_tls(&self) -> bool {
        match self.0 {}
    }
}

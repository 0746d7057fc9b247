//! TLS without the feature `tls`: types that have no value, so that the compiler leaves out what is done with them.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::TlsError;
use crate::net::{Stream, Transport};

/// What shakes hands with peers that connect: nobody.
#[derive(Clone)]
pub(crate) struct Acceptor(Infallible);

impl Acceptor {
    pub(crate) fn accept(&self, _: Transport) -> Handshake {
        Handshake(self.0)
    }
}

/// A handshake that is never begun.
pub(crate) struct Handshake(Infallible);

impl Handshake {
    pub(crate) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<Transport, (TlsError, Transport)>> {
        let stream = TlsStream { never: self.0, carrier: PhantomData };
        Poll::Ready(Ok(Transport::Tls(Box::new(stream))))
    }
}

/// A secure connection that is never made.
pub(crate) struct TlsStream<B> {
    never: Infallible,
    carrier: PhantomData<B>,
}

impl<B> TlsStream<B> {
    pub(crate) fn stream(&mut self) -> Pin<&mut dyn Stream> {
        match self.never {}
    }

    pub(crate) fn carrier(&self) -> &Transport<B> {
        match self.never {}
    }

    pub(crate) fn has_unread(&self) -> bool {
        match self.never {}
    }

    pub(crate) fn has_unsent(&self) -> bool {
        match self.never {}
    }
}

/// A host that could be verified: none can.
#[derive(Clone, Debug)]
pub(crate) struct HostName(Infallible);

impl HostName {
    pub(crate) fn new(_: &str) -> Result<HostName, TlsError> {
        Err(TlsError::Unavailable)
    }
}

/// What shakes hands with hosts that were dialed: nobody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connector(());

impl Connector {
    pub(crate) async fn connect<B>(&self, host: HostName, _: Transport<B>) -> Result<Transport<B>, TlsError> {
        match host.0 {}
    }
}

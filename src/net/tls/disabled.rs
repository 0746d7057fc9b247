//! TLS without the feature `tls`: types that have no value, so that the compiler leaves out what is done with them.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::TlsError;
use crate::net::Stream;

/// What shakes hands with peers that connect: nobody.
#[derive(Clone)]
pub(crate) struct Acceptor(Infallible);

impl Acceptor {
    pub(crate) fn accept<C>(&self, _: C) -> Handshake<C> {
        Handshake(TlsStream { never: self.0, carrier: PhantomData })
    }
}

/// A handshake that is never begun.
pub(crate) struct Handshake<C>(TlsStream<C>);

impl<C> Handshake<C> {
    pub(crate) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<TlsStream<C>, (TlsError, C)>> {
        match self.0.never {}
    }
}

/// A secure connection that is never made.
pub(crate) struct TlsStream<C> {
    never: Infallible,
    carrier: PhantomData<C>,
}

impl<C> TlsStream<C> {
    pub(crate) fn stream(&mut self) -> Pin<&mut dyn Stream> {
        match self.never {}
    }

    pub(crate) fn carrier(&self) -> &C {
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
    pub(crate) async fn connect<C>(&self, host: HostName, _: C) -> Result<TlsStream<C>, TlsError> {
        match host.0 {}
    }
}

//! TLS without the feature `tls`. The types have no value, and the compiler removes their code.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::{CertificateFault, Error};
use crate::net::Stream;

/// Does TLS handshakes with peers that connect, of which there are none.
#[derive(Clone)]
pub(crate) struct TlsAcceptor(Infallible);

impl TlsAcceptor {
    pub(crate) fn check_dates(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn watch(&self) -> Option<CertificateWatch> {
        match self.0 {}
    }

    pub(crate) fn accept<C>(&self, _: C) -> Handshake<C> {
        Handshake(TlsStream { never: self.0, carrier: PhantomData })
    }
}

/// Looks out for certificates, of which there are none.
#[derive(Clone)]
pub(crate) struct CertificateWatch(Infallible);

impl CertificateWatch {
    pub(crate) async fn faults(&mut self) -> Vec<CertificateFault> {
        match self.0 {}
    }

    pub(crate) fn faults_now(&mut self) -> Vec<CertificateFault> {
        match self.0 {}
    }

    pub(crate) fn is_same(&self, _: &CertificateWatch) -> bool {
        match self.0 {}
    }
}

/// A handshake, which never begins.
pub(crate) struct Handshake<C>(TlsStream<C>);

impl<C> Handshake<C> {
    pub(crate) fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<TlsStream<C>, (Error, C)>> {
        match self.0.never {}
    }
}

/// A secure connection, which is never made.
pub(crate) struct TlsStream<C> {
    never: Infallible,
    carrier: PhantomData<C>,
}

impl<C> TlsStream<C> {
    pub(crate) fn stream(&mut self) -> Pin<&mut dyn Stream> {
        match self.never {}
    }

    pub(crate) fn poll_read(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }

    pub(crate) fn poll_app_data(
        &mut self,
        _: impl FnMut(&mut C, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<()> {
        match self.never {}
    }

    pub(crate) fn poll_write_tls(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.never {}
    }

    pub(crate) fn write_tls(&mut self, _: impl FnMut(&mut C, &[u8]) -> io::Result<u64>) -> io::Result<()> {
        match self.never {}
    }

    pub(crate) fn carrier(&self) -> &C {
        match self.never {}
    }

    pub(crate) fn carrier_mut(&mut self) -> &mut C {
        match self.never {}
    }

    pub(crate) fn has_close_notify(&mut self) -> bool {
        match self.never {}
    }

    pub(crate) fn has_unread(&self) -> bool {
        match self.never {}
    }

    pub(crate) fn has_tls_records(&self) -> bool {
        match self.never {}
    }

    pub(crate) fn is_validation(&self) -> bool {
        match self.never {}
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        match self.never {}
    }
}

impl Error {
    /// The refusal that a read has met. Without TLS, no error is one.
    pub(crate) fn from_alert(error: io::Error) -> Result<Error, io::Error> {
        Err(error)
    }
}

/// The result of a handshake, of which there are none.
pub(crate) enum Session {}

/// A host that could be verified, of which there are none.
#[derive(Clone, Debug)]
pub(crate) struct HostName(Infallible);

impl HostName {
    pub(crate) fn new(_: &str) -> Result<HostName, Error> {
        Err(Error::Unavailable)
    }
}

/// Does TLS handshakes with hosts that were dialed, of which there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsConnector(());

impl TlsConnector {
    pub(crate) async fn connect<C>(&self, host: HostName, _: C) -> Result<TlsStream<C>, Error> {
        match host.0 {}
    }
}

//! [`ClientInfo`]: how a client has received a response; [`Timings`], how long that took; [`Redirect`], which led to it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::clear_cold;
use crate::message::{Status, Version};

/// How a client has received a response. See [`Response::client_info`](super::Response::client_info).
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    timings: Timings,
    version: Version,
    /// Kept while the response is reset, since the next exchange most likely uses the same connection.
    connection: Option<Arc<dyn Any + Send + Sync>>,
    /// The attempts before, if a policy for retries had a say.
    retries: Option<Arc<dyn Any + Send + Sync>>,
    /// The redirects that led to the response, if there were any.
    redirects: Option<Box<[Redirect]>>,
    /// Whether the others are of the response, and not of an earlier one.
    is_set: bool,
}

impl ClientInfo {
    /// Sets how a response was received: how long each phase took, the version that the server speaks, and the
    /// connection.
    #[inline]
    pub(super) fn set<C: Any + Send + Sync>(
        &mut self,
        timings: &Timings,
        version: Version,
        connection: &Arc<C>,
    ) {
        self.timings = *timings;
        self.version = version;
        self.is_set = true;
        // A response that is used again nearly always comes over the same connection.
        let known = self.connection.as_ref().map_or(std::ptr::null(), |known| Arc::as_ptr(known).cast());
        if !std::ptr::eq(known, Arc::as_ptr(connection)) {
            self.connection = Some(connection.clone());
        }
    }

    /// Makes these the properties of no response. The connection is kept.
    #[inline]
    pub(super) fn forget(&mut self) {
        clear_cold(&mut self.retries);
        clear_cold(&mut self.redirects);
        self.is_set = false;
    }

    /// Sets the attempts before the one that the response answers.
    pub(super) fn set_retries<R: Any + Send + Sync>(&mut self, retries: &Arc<R>) {
        self.retries = Some(retries.clone());
    }

    /// Sets the redirects that led to the response.
    pub(super) fn set_redirects(&mut self, redirects: Box<[Redirect]>) {
        self.redirects = Some(redirects);
    }

    /// The redirects that led to the response.
    pub(super) fn redirects(&self) -> &[Redirect] {
        self.redirects.as_deref().unwrap_or_default()
    }

    /// Whether a client has received the response.
    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }

    pub(super) fn timings(&self) -> Timings {
        self.timings
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The connection, of the client's type.
    pub(super) fn connection(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.connection.as_deref()
    }

    /// The attempts before, as the client notes them.
    pub(super) fn retries(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.retries.as_deref()
    }
}

/// A redirect that a client has followed (RFC 9110 §15.4). See [`Response::redirects`](super::Response::redirects).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redirect {
    /// The status of the response that redirected.
    pub status: Status,
    /// The URL that this response came from.
    pub url: Box<str>,
}

impl Redirect {
    pub(crate) fn new(status: Status, url: &str) -> Redirect {
        Redirect { status, url: url.into() }
    }
}

/// How long each phase of an exchange took. A phase that did not happen took no time.
///
/// If a request was sent again, after a redirect or after a stale connection, these are the times of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// Waiting for a place among the connections of the host.
    pub queue: Duration,
    /// Looking up the host's addresses.
    pub resolve: Duration,
    /// Connecting, including the time that a proxy takes.
    pub connect: Duration,
    /// The TLS handshake.
    pub tls: Duration,
    /// Sending the request.
    pub send: Duration,
    /// Waiting, from the last byte of the request to the end of the response's head. For a head that is read before the
    /// end of the request ([`Call::split`](crate::client::Call::split)), waiting begins with the request's first byte.
    pub wait: Duration,
    /// Receiving the body, if it was buffered.
    pub receive: Duration,
    /// Whether the connection had been used before.
    pub reused: bool,
}

impl Timings {
    /// Returns the sum of all phases.
    pub fn total(&self) -> Duration {
        let Timings { queue, resolve, connect, tls, send, wait, receive, reused: _ } = *self;
        queue + resolve + connect + tls + send + wait + receive
    }
}

//! Spans without the feature `tracing`: types without content, so that the compiler removes the code that uses them.

use std::marker::PhantomData;

use crate::client::error::ClientError;
use crate::client::route::Origin;
use crate::message::{Headers, Request, Response};

/// Whether a client makes spans, which it does not.
#[derive(Clone, Default)]
pub(in crate::client) struct ClientTracing {}

/// The span of an exchange.
#[derive(Default)]
pub(in crate::client) struct ClientSpan {}

/// The fields that make a request part of a trace, of which there are none.
#[derive(Clone, Copy, Default)]
pub(in crate::client) struct TraceFields<'a>(PhantomData<&'a ()>);

impl ClientTracing {
    #[inline]
    pub(in crate::client) fn begin(&self, _: &Request, _: &Origin) -> ClientSpan {
        ClientSpan {}
    }
}

impl ClientSpan {
    #[inline]
    pub(in crate::client) fn fields(&self) -> TraceFields<'_> {
        TraceFields(PhantomData)
    }

    #[inline]
    pub(in crate::client) fn end(&self, _: Result<&Response, &ClientError>) {}
}

impl<'a> TraceFields<'a> {
    #[inline]
    pub(in crate::client) fn headers(self) -> Option<&'a Headers> {
        None
    }
}

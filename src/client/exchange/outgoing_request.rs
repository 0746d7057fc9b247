//! [`OutgoingRequest`]: a request as it is sent, and how that differs from the request of the caller.

use crate::message::{BodyLength, FieldName, Headers, MessageError, Method, Request, TargetError};

/// A request as it is sent, be it the caller's or one that a redirect leads to.
#[derive(Clone, Copy)]
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) request: &'a Request,
    pub(crate) taint: RedirectTaint,
    pub(crate) expect: ExpectField,
    /// The fields of the span that follows the request.
    pub(crate) trace: Option<&'a Headers>,
    /// The value of the `cookie` field, if the client has cookies for the request.
    pub(crate) cookie: Option<&'a [u8]>,
    /// How many requests were sent before for the same caller's request: redirects and retries.
    pub(crate) resends: u32,
}

impl<'a> OutgoingRequest<'a> {
    /// The request of a caller.
    pub(crate) fn new(request: &'a Request) -> OutgoingRequest<'a> {
        OutgoingRequest {
            request,
            taint: RedirectTaint::SameOrigin,
            expect: ExpectField::Keep,
            trace: None,
            cookie: None,
            resends: 0,
        }
    }

    /// Returns the same request as a part of a trace.
    pub(crate) fn with_trace(self, trace: Option<&'a Headers>) -> OutgoingRequest<'a> {
        OutgoingRequest { trace, ..self }
    }

    /// Returns the same request with this value of a `cookie` field.
    pub(crate) fn with_cookie(self, cookie: Option<&'a [u8]>) -> OutgoingRequest<'a> {
        OutgoingRequest { cookie, ..self }
    }

    /// Returns the same request after so many more others for it.
    pub(crate) fn with_resends(self, more: u32) -> OutgoingRequest<'a> {
        OutgoingRequest { resends: self.resends.saturating_add(more), ..self }
    }

    /// Returns the same request without its expectation.
    pub(crate) fn without_expectation(self) -> OutgoingRequest<'a> {
        OutgoingRequest { expect: ExpectField::Drop, ..self.with_resends(1) }
    }

    /// Checks that the request may be sent with content of this length.
    ///
    /// # Errors
    ///
    /// Fails for a CONNECT, and for a TRACE with content.
    pub(crate) fn check(self, content: BodyLength) -> Result<(), MessageError> {
        match (self.request.method(), content) {
            // A CONNECT opens a tunnel, and its target is not a URL (RFC 9112 §3.2.3).
            (Method::Connect, _) => Err(TargetError::Form.into()),
            // The content of a TRACE would be sent back (RFC 9110 §9.3.8).
            (Method::Trace, BodyLength::Known(1..) | BodyLength::Unknown) => Err(MessageError::Content),
            _ => Ok(()),
        }
    }
}

/// Whether redirects have led a request to another origin than that of its caller's request (Fetch §4.4). Once they
/// have, the taint stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectTaint {
    SameOrigin,
    /// The request carries no credentials.
    CrossOrigin,
}

/// The fields that identify the user to an origin.
pub(crate) const CREDENTIALS: [FieldName<'static>; 3] =
    [FieldName::AUTHORIZATION, FieldName::COOKIE, FieldName::new("proxy-authorization")];

/// Whether a request is sent with its `expect` field (RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectField {
    /// The field is sent, if the request has one.
    Keep,
    /// The server has refused the expectation.
    Drop,
}

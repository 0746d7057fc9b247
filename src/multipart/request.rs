//! [`Context::multipart`] and [`Request::multipart`]: the parts of a request's body (RFC 7578 §4.1).

use super::{Multipart, MultipartError, MultipartLimits};
use crate::message::{Headers, Request};
use crate::server::{Context, Reader};

impl Context {
    /// Reads the parts of the request's body, within [`MultipartLimits::default`]. If the body is
    /// [streamed](crate::BodyPlan::Stream), they are read as they arrive.
    ///
    /// # Errors
    ///
    /// Fails if the body is not `multipart/form-data` (415) with a boundary (400), has a content coding (415), or
    /// announces a length beyond the limit (413).
    pub fn multipart(&mut self) -> Result<Multipart<Reader<'_>>, MultipartError> {
        self.multipart_within(MultipartLimits::default())
    }

    /// Reads the parts of the request's body as [`Context::multipart`] does, within other limits.
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`].
    pub fn multipart_within(
        &mut self,
        limits: MultipartLimits,
    ) -> Result<Multipart<Reader<'_>>, MultipartError> {
        let body = self.body_reader();
        let headers = &body.request.headers;
        reject_coded(headers)?;
        Multipart::of(body, headers, limits)
    }
}

impl Request {
    /// Reads the parts of a body that has been received, from [`Body::bytes`](crate::Body::bytes), within
    /// [`MultipartLimits::default`].
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`]; also if the content is a stream, or has not been received (500).
    pub fn multipart(&self) -> Result<Multipart<&[u8]>, MultipartError> {
        self.multipart_within(MultipartLimits::default())
    }

    /// Reads the parts of a received body as [`Request::multipart`] does, within other limits.
    ///
    /// # Errors
    ///
    /// As [`Request::multipart`].
    pub fn multipart_within(&self, limits: MultipartLimits) -> Result<Multipart<&[u8]>, MultipartError> {
        reject_coded(&self.headers)?;
        let parts = Multipart::of(self.body.bytes(), &self.headers, limits)?;
        if self.is_unread() { Err(MultipartError::Unread) } else { Ok(parts) }
    }
}

/// Fails if the body has a content coding: it must be decoded first.
fn reject_coded(headers: &Headers) -> Result<(), MultipartError> {
    match headers.codings().next() {
        Some(_) => Err(MultipartError::ContentCoding),
        None => Ok(()),
    }
}

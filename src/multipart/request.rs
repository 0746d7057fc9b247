//! [`Context::multipart`] and [`Request::multipart`]: the parts of a request's body (RFC 7578 §4.1).

use super::{Multipart, MultipartError, MultipartLimits};
use crate::message::{Headers, Request};
use crate::server::{Context, Reader};

impl Context {
    /// The parts of the request's body, read as they come if the body is [streamed](crate::BodyPlan::Stream), within
    /// [`MultipartLimits::default`].
    ///
    /// # Errors
    ///
    /// A body that is no `multipart/form-data` with a boundary (415, 400), is encoded (415), or is announced to be too
    /// large (413).
    pub fn multipart(&mut self) -> Result<Multipart<Reader<'_>>, MultipartError> {
        self.multipart_within(MultipartLimits::default())
    }

    /// As [`Context::multipart`], within limits of your own.
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
    /// The parts of a body that is here already, of [`Body::bytes`](crate::Body::bytes), within
    /// [`MultipartLimits::default`].
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`]; and content that is a stream, or that nobody has read (500).
    pub fn multipart(&self) -> Result<Multipart<&[u8]>, MultipartError> {
        self.multipart_within(MultipartLimits::default())
    }

    /// As [`Request::multipart`], within limits of your own.
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

/// What is encoded has no parts before it is decoded.
fn reject_coded(headers: &Headers) -> Result<(), MultipartError> {
    match headers.codings().next() {
        Some(_) => Err(MultipartError::ContentCoding),
        None => Ok(()),
    }
}

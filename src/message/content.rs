//! [`Request::content_of`]: content of the type that is asked for (RFC 9110 §8.3, §8.4).

use super::{FieldName, InvalidForm, Request, trim};

impl Request {
    /// Returns the content, if it is of a type that `is_type` accepts by its [`essence`].
    pub(crate) fn content_of(&self, is_type: impl FnOnce(&[u8]) -> bool) -> Result<&[u8], ContentError> {
        match self.headers.single(FieldName::CONTENT_TYPE) {
            Ok(Some(content_type)) if is_type(essence(content_type)) => {}
            _ => return Err(ContentError::MediaType),
        }
        if self.headers.codings().next().is_some() {
            return Err(ContentError::Coding);
        }
        if self.is_unread() {
            return Err(ContentError::NotReceived);
        }
        Ok(self.body.bytes())
    }
}

/// Why the content of a request cannot be read as what is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ContentError {
    /// Its type is missing, repeated, or another one.
    MediaType,
    /// It has a content coding.
    Coding,
    /// It has not been received.
    NotReceived,
}

impl From<ContentError> for InvalidForm {
    fn from(error: ContentError) -> InvalidForm {
        match error {
            ContentError::MediaType => InvalidForm::ContentType,
            ContentError::Coding => InvalidForm::ContentCoding,
            ContentError::NotReceived => InvalidForm::Unread,
        }
    }
}

/// A media type without its parameters (RFC 9110 §8.3.1).
fn essence(content_type: &[u8]) -> &[u8] {
    trim(content_type.split(|&octet| octet == b';').next().unwrap_or_default())
}

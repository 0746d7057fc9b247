//! [`Request::content_of`]: content of the type that is asked for (RFC 9110 §8.3, §8.4).

use super::{InvalidForm, Name, Request, trim};

impl Request {
    /// Returns the content, if it is of a type that `is_type` accepts by its [`essence`].
    pub(crate) fn content_of(&self, is_type: impl FnOnce(&[u8]) -> bool) -> Result<&[u8], Unfit> {
        match self.headers.sole(Name::CONTENT_TYPE) {
            Ok(Some(content_type)) if is_type(essence(content_type)) => {}
            _ => return Err(Unfit::Type),
        }
        if self.headers.codings().next().is_some() {
            return Err(Unfit::Coding);
        }
        if self.is_unread() {
            return Err(Unfit::Unread);
        }
        Ok(self.body.bytes())
    }
}

/// Why the content of a request cannot be read as what is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unfit {
    /// Its type is missing, repeated, or another one.
    Type,
    /// It has a content coding.
    Coding,
    /// It has not been received.
    Unread,
}

impl From<Unfit> for InvalidForm {
    fn from(unfit: Unfit) -> InvalidForm {
        match unfit {
            Unfit::Type => InvalidForm::ContentType,
            Unfit::Coding => InvalidForm::ContentCoding,
            Unfit::Unread => InvalidForm::Unread,
        }
    }
}

/// A media type without its parameters (RFC 9110 §8.3.1).
fn essence(content_type: &[u8]) -> &[u8] {
    trim(content_type.split(|&octet| octet == b';').next().unwrap_or_default())
}

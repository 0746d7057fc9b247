//! [`RequestBase`]: the URL and the query that the requests of a client begin with.

use crate::message::{FormBuf, MessageError, Method, Request, Target, TargetError};

/// The URL that others are relative to, and the query that requests have, if a client has them.
#[derive(Clone, Default)]
pub(super) struct RequestBase {
    url: Option<Target>,
    query: FormBuf,
}

impl RequestBase {
    /// Sets the URL that others are relative to.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
    pub(super) fn set_url(&mut self, url: &str) -> Result<(), MessageError> {
        let target = Request::get(url)?.target().clone();
        if target.origin().is_none() {
            return Err(MessageError::from_url(TargetError::Form, url));
        }
        self.url = Some(target);
        Ok(())
    }

    /// The parameters of each request.
    pub(super) fn query_mut(&mut self) -> &mut FormBuf {
        &mut self.query
    }

    /// Makes a request for `url`, which may be relative.
    ///
    /// # Errors
    ///
    /// Fails if the URL or the method is malformed.
    pub(super) fn request<M: TryInto<Method>>(&self, method: M, url: &str) -> Result<Request, MessageError>
    where
        MessageError: From<M::Error>,
    {
        let mut request = match &self.url {
            None => Request::new(method, url)?,
            Some(base) => {
                let mut target = base.join(url)?;
                if target.origin() == base.origin() {
                    target.inherit_authorization(base);
                }
                Request::with_target(method.try_into()?, target)
            }
        };
        match (request.query().as_str(), self.query.as_str()) {
            (_, "") => {}
            ("", added) => request.set_query(added)?,
            (own, added) => request.set_query(format!("{own}&{added}"))?,
        }
        Ok(request)
    }
}

//! [`IdempotencyStore`]: where the outcomes of requests are kept, each under its key.

use std::sync::Arc;

use bytes::Bytes;

use crate::message::{Headers, MessageError, Response, Status};
use crate::server::Result;

/// A place for the outcomes of requests: in memory ([`MemoryStore`](super::MemoryStore)), or in a database.
///
/// A key is the [scope](super::Idempotency::scope) of the client, LF, the `idempotency-key`, a space, and scheme and host of
/// the request. Neither an `idempotency-key` nor an origin contains an LF. So the last LF ends the scope. The keys of two
/// clients differ, whatever their names contain.
///
/// The futures need not be `Send`, because a request stays on its core. They run to their end there even if the request is
/// dropped meanwhile, unless the server ends. Not so in a [`Service`](crate::Service) on a runtime that is not the crate's.
/// Errors are answered with their status, like those of handlers.
///
/// # Examples
///
/// For a table `requests (key primary key, fingerprint, response, claimed_at)`, the statements are:
///
/// | method | statement |
/// |---|---|
/// | `claim` | `INSERT INTO requests VALUES ($1, $2, NULL, now()) ON CONFLICT DO NOTHING` |
/// | | and, if no row was added, `SELECT fingerprint, response FROM requests WHERE key = $1` |
/// | `complete` | `UPDATE requests SET response = $2 WHERE key = $1` |
/// | `release` | `DELETE FROM requests WHERE key = $1 AND response IS NULL` |
///
/// And from time to time, `DELETE FROM requests WHERE claimed_at < now() - interval '1 day'`. A process that was killed leaves
/// claims without a response. Its handlers may have done their work or not. Only after finding that out may an operator delete
/// the claims earlier.
pub trait IdempotencyStore: 'static {
    /// Claims a key for a request with this fingerprint, in one step. Of several requests with one key, only one gets
    /// [`Claim::New`].
    fn claim(&self, key: &str, fingerprint: u64) -> impl Future<Output = Result<Claim>>;

    /// Keeps the response of the request that has claimed the key. `None` is one that was too large or streamed.
    fn complete(&self, key: &str, response: Option<StoredResponse>) -> impl Future<Output = Result>;

    /// Gives up a claim after the handler has failed. The request may be sent again.
    fn release(&self, key: &str) -> impl Future<Output = Result>;
}

/// The state of a key.
#[derive(Clone, Debug)]
pub enum Claim {
    /// It is new, and claimed from now on.
    New,
    /// The request that has claimed it is still being handled.
    Running,
    /// A request with another fingerprint has claimed it.
    Mismatched,
    /// The request was handled, with this response. `None` if the response was not kept.
    Done(Option<StoredResponse>),
}

/// A response as an [`IdempotencyStore`] keeps it.
#[derive(Clone, Debug)]
pub struct StoredResponse {
    /// The status of the response.
    pub status: Status,
    /// The header fields of the response, without lines of middleware around [`Idempotency`](super::Idempotency).
    pub headers: Headers,
    /// The content of the response.
    pub content: Bytes,
}

impl StoredResponse {
    /// Copies a response with at most so many bytes of content, fields included. `None` if it has more, or is a stream. The
    /// lines that were there `before` are those of middleware around, which sets them for each request anew.
    pub(super) fn of(response: &Response, before: &Headers, len_max: usize) -> Option<StoredResponse> {
        let fields_len: usize = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if response.body.is_stream() || response.body.len() + fields_len > len_max {
            return None;
        }
        let content = Bytes::copy_from_slice(response.body.bytes());
        let headers = added_lines(&response.headers, before).ok()?;
        Some(StoredResponse { status: response.status, headers, content })
    }

    /// Answers with this response. Its lines stand beside those that middleware has set for this request if they add up, and
    /// in their place otherwise, as they did in the first response.
    pub(super) fn write_to(&self, response: &mut Response) -> Result {
        let headers = &mut response.headers;
        let adds_up = |name: &str| LISTS.iter().any(|list| list.eq_ignore_ascii_case(name));
        for (name, _) in self.headers.iter().filter(|(name, _)| !adds_up(name)) {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            if !headers.all(name).any(|line| line == value) {
                headers.append(name, value)?;
            }
        }
        headers.set("idempotency-replayed", "true")?;
        response.status = self.status;
        response.body.set_shared_bytes(self.content.clone());
        Ok(())
    }

    /// About how many bytes it takes.
    pub(super) fn len(&self) -> usize {
        let fields: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        fields + self.content.len()
    }
}

/// The lines of `headers` that were not there `before`.
fn added_lines(headers: &Headers, before: &Headers) -> Result<Headers, MessageError> {
    let mut before: Vec<_> = before.iter().collect();
    let mut added = Headers::new();
    for (name, value) in headers {
        let is_same = |line: &(&str, &[u8])| line.0.eq_ignore_ascii_case(name) && line.1 == value;
        match before.iter().position(is_same) {
            Some(at) => drop(before.swap_remove(at)),
            None => added.append(name, value)?,
        }
    }
    Ok(added)
}

/// Fields whose lines add up: handlers add theirs to those of middleware around.
const LISTS: [&str; 7] =
    ["set-cookie", "link", "vary", "www-authenticate", "server-timing", "ratelimit", "ratelimit-policy"];

/// The key for an [`IdempotencyStore`]. An `idempotency-key` has no LF, and an origin no space.
pub(super) fn store_key(scope: &str, key: &str, origin: &str) -> String {
    format!("{scope}\n{key} {origin}")
}

/// The scope of the client to which a key of an [`IdempotencyStore`] belongs.
pub(super) fn scope_of(key: &str) -> &str {
    key.rsplit_once('\n').map_or("", |(scope, _)| scope)
}

impl<S: IdempotencyStore> IdempotencyStore for Arc<S> {
    fn claim(&self, key: &str, fingerprint: u64) -> impl Future<Output = Result<Claim>> {
        (**self).claim(key, fingerprint)
    }

    fn complete(&self, key: &str, response: Option<StoredResponse>) -> impl Future<Output = Result> {
        (**self).complete(key, response)
    }

    fn release(&self, key: &str) -> impl Future<Output = Result> {
        (**self).release(key)
    }
}

//! [`SessionStore`]: where sessions are kept.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use super::session_id::SessionId;
use crate::server::Result;

/// A place for sessions: in memory ([`MemoryStore`](super::MemoryStore)), or in a database.
///
/// The futures need not be `Send`, because a request stays on its core. Errors are answered with their status, like those of
/// handlers.
///
/// # Examples
///
/// The example `shared` of the repository has three stores, for Redis, PostgreSQL and SQLite.
///
/// For a table `sessions (id, data, begun_at, expires_at)`, the statements are:
///
/// | method | statement |
/// |---|---|
/// | `load` | `SELECT data, begun_at, expires_at FROM sessions WHERE id = $1` |
/// | `insert` | `INSERT INTO sessions VALUES ($1, $2, $3, $4)` |
/// | `replace` | `UPDATE sessions SET data = $3, expires_at = $4 WHERE id = $1 AND data = $2`, and the number of its rows |
/// | `touch` | `UPDATE sessions SET expires_at = $2 WHERE id = $1` |
/// | `delete` | `DELETE FROM sessions WHERE id = $1`, and the number of its rows |
///
/// And from time to time, `DELETE FROM sessions WHERE expires_at < now()`.
pub trait SessionStore: 'static {
    /// Returns the session with this id, if there is one. A session that has expired may be returned, too.
    fn load(&self, id: &SessionId) -> impl Future<Output = Result<Option<StoredSession>>>;

    /// Adds a session with a new id.
    fn insert(&self, id: &SessionId, session: StoredSession) -> impl Future<Output = Result>;

    /// Replaces the data of the session with this id, and sets its expiry, if its data are still those of `before`. Returns
    /// whether they were, in one step: of two requests at a time, each has to see the changes of the other. An absent session
    /// must not be added, as the user may have signed out meanwhile.
    fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> impl Future<Output = Result<bool>>;

    /// Sets the expiry of the session with this id, if there is one.
    fn touch(&self, id: &SessionId, expires_at: SystemTime) -> impl Future<Output = Result>;

    /// Deletes the session with this id. Returns whether there was one. Of several calls for one session, only one may return
    /// `true`.
    fn delete(&self, id: &SessionId) -> impl Future<Output = Result<bool>>;
}

/// A session as a [`SessionStore`] keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// The values, as one object of JSON.
    pub data: Bytes,
    /// When the session began.
    pub begun_at: SystemTime,
    /// When the session expires.
    pub expires_at: SystemTime,
}

impl<S: SessionStore> SessionStore for Arc<S> {
    fn load(&self, id: &SessionId) -> impl Future<Output = Result<Option<StoredSession>>> {
        (**self).load(id)
    }

    fn insert(&self, id: &SessionId, session: StoredSession) -> impl Future<Output = Result> {
        (**self).insert(id, session)
    }

    fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> impl Future<Output = Result<bool>> {
        (**self).replace(id, before, data, expires_at)
    }

    fn touch(&self, id: &SessionId, expires_at: SystemTime) -> impl Future<Output = Result> {
        (**self).touch(id, expires_at)
    }

    fn delete(&self, id: &SessionId) -> impl Future<Output = Result<bool>> {
        (**self).delete(id)
    }
}

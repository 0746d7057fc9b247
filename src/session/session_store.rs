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
/// | `update` | `UPDATE sessions SET data = COALESCE($2, data), expires_at = $3 WHERE id = $1` |
/// | `delete` | `DELETE FROM sessions WHERE id = $1`, and the number of its rows |
///
/// And from time to time, `DELETE FROM sessions WHERE expires_at < now()`.
pub trait SessionStore: 'static {
    /// Returns the session with this id, if there is one. A session that has expired may be returned, too.
    fn load(&self, id: &SessionId) -> impl Future<Output = Result<Option<StoredSession>>>;

    /// Adds a session with a new id.
    fn insert(&self, id: &SessionId, session: StoredSession) -> impl Future<Output = Result>;

    /// Sets the expiry of the session with this id, and its data. With `None`, the data stay as they are. An absent session
    /// must not be added: the user may have signed out meanwhile.
    fn update(
        &self,
        id: &SessionId,
        data: Option<Bytes>,
        expires_at: SystemTime,
    ) -> impl Future<Output = Result>;

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

    fn update(
        &self,
        id: &SessionId,
        data: Option<Bytes>,
        expires_at: SystemTime,
    ) -> impl Future<Output = Result> {
        (**self).update(id, data, expires_at)
    }

    fn delete(&self, id: &SessionId) -> impl Future<Output = Result<bool>> {
        (**self).delete(id)
    }
}

//! [`Session`]: the values that an application keeps for a user agent.

use std::collections::BTreeSet;
use std::fmt;
use std::time::SystemTime;

use bytes::Bytes;
use serde_core::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::session_id::SessionId;
use super::session_store::StoredSession;
use crate::server::context::Extensions;
use crate::server::{Context, Error, Result};

/// The values that the application keeps for a user agent, from one request to the next. Each has a name.
///
/// A session begins when its first value is set. Changes are written to the store after the handler has returned, also after an
/// error, but not after a panic or a timeout that reaches [`Sessions`](super::Sessions): middleware between them that answers
/// in its place answers for the session, too. If the handler streams its response or upgrades the connection, they are written
/// together with the head, for its cookie. Later changes are written when the handler has returned, or by [`Session::save`]. A
/// stream or a WebSocket may last for hours.
///
/// After the head there is no cookie to set. A session can neither begin nor be renewed then. A deleted one keeps its cookie,
/// which leads nowhere.
///
/// A session without values is not kept. Changes are merged by their names with what the store has at that moment. So the later
/// of two changes to one value counts. Values that a request has not changed are left alone.
pub struct Session {
    /// The id of the session in the store, and when it began.
    stored: Option<(SessionId, SystemTime)>,
    values: Map<String, Value>,
    /// The names of the values that were set or removed, and are not saved yet.
    changed: BTreeSet<String>,
    id: IdChange,
}

/// Whether a change keeps the id of its session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdChange {
    Kept,
    /// The values get another id.
    Renewed,
    /// The session ends. Values that are set afterwards are those of another one.
    Deleted,
}

impl Session {
    /// Returns the session of a request. It is empty if none has begun.
    ///
    /// The extensions are those of the [`Context`](crate::Context), which can be used otherwise meanwhile.
    ///
    /// # Errors
    ///
    /// Fails, with 500 by `?`, if:
    /// - no [`Sessions`](super::Sessions) are around the caller
    /// - they have not loaded the session yet, as in a [guard](super#guards) deciding by the head
    /// - the store contains something other than a session
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::middleware::wrap;
    /// use corehttp::Context;
    /// use corehttp::session::Session;
    ///
    /// fn count(ctx: &mut Context) -> corehttp::Result {
    ///     let session = Session::from_extensions(&mut ctx.extensions)?;
    ///     let visits = session.get("visits")?.unwrap_or(0) + 1;
    ///     session.set("visits", &visits)?;
    ///     ctx.response.set_text(format!("visit {visits}"));
    ///     Ok(())
    /// }
    /// # use corehttp::session::{MemoryStore, Sessions};
    /// # let service = corehttp::Server::new().service(wrap(Sessions::new(MemoryStore::new()), count));
    /// # corehttp::block_on(async {
    /// # let mut request = corehttp::Request::get("/")?;
    /// # let first = service.respond(request.clone()).await;
    /// # let cookie = first.cookies().next().unwrap();
    /// # request.headers.set("cookie", format!("{}={}", cookie.name, cookie.value))?;
    /// # assert_eq!(service.respond(request).await.text()?, "visit 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_extensions(extensions: &mut Extensions) -> Result<&mut Session> {
        if extensions.get::<Session>().is_none() {
            let session = match (extensions.get::<LoadedSession>(), extensions.get::<WithinSessions>()) {
                (Some(loaded), _) => Session::from_loaded(loaded)?,
                (None, Some(WithinSessions)) => Session::new(),
                (None, None) => return Err(absent(extensions)),
            };
            extensions.insert(session);
        }
        Ok(extensions.get_mut().expect("the session was there, or has just been inserted"))
    }

    fn new() -> Session {
        Session { stored: None, values: Map::new(), changed: BTreeSet::new(), id: IdChange::Kept }
    }

    fn from_loaded(loaded: &LoadedSession) -> Result<Session> {
        let values = serde_json::from_slice(&loaded.session.data)?;
        Ok(Session { stored: Some((loaded.id, loaded.session.begun_at)), values, ..Session::new() })
    }

    /// Sets the value with this name.
    ///
    /// # Errors
    ///
    /// Fails if `value` cannot be written as JSON, such as a map with tuples as keys. The session is unchanged then.
    pub fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), serde_json::Error> {
        self.values.insert(name.to_owned(), serde_json::to_value(value)?);
        self.changed.insert(name.to_owned());
        Ok(())
    }

    /// Removes the value with this name. Returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let is_there = self.values.remove(name).is_some();
        if is_there {
            self.changed.insert(name.to_owned());
        }
        is_there
    }

    /// Gives the session another id. The old id is of no use to those who knew it. The lifetime of the session begins anew.
    ///
    /// Renew the session at each sign-in, and at each change of what a user may do. Otherwise an attacker could have a user
    /// agent use the attacker's session, which becomes that of the user (session fixation).
    ///
    /// Nothing is renewed if another request has renewed or deleted the session meanwhile. Neither this request's values nor
    /// its id are kept. So no session comes back after a sign-out.
    pub fn renew(&mut self) {
        if self.id == IdChange::Kept {
            self.id = IdChange::Renewed;
        }
    }

    /// Deletes the session, as for a sign-out. Values that are set afterwards begin another session.
    pub fn delete(&mut self) {
        self.id = IdChange::Deleted;
        self.values.clear();
        self.changed.clear();
    }

    /// Saves the changes of the session of `ctx` now.
    ///
    /// A handler that streams or has a WebSocket calls this after later changes. They would otherwise be lost if the handler is
    /// stopped.
    ///
    /// # Errors
    ///
    /// Fails if:
    /// - the store does
    /// - the session is larger than [`Sessions::data_max`](super::Sessions::data_max)
    /// - a session would begin or be renewed after the head of the response
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// use corehttp::session::Session;
    ///
    /// async fn export(ctx: &mut Context) -> corehttp::Result {
    ///     let mut out = ctx.body_writer().await?;
    ///     out.write_all(b"a,b\n").await?;
    ///     out.finish().await?;
    ///     Session::from_extensions(&mut ctx.extensions)?.set("has_exported", &true)?;
    ///     Session::save(ctx).await
    /// }
    /// # use corehttp::middleware::wrap;
    /// # use corehttp::session::{MemoryStore, Sessions};
    /// # let _ = corehttp::Server::new().service(wrap(Sessions::new(MemoryStore::new()), export));
    /// ```
    pub async fn save(ctx: &mut Context) -> Result {
        ctx.save_state().await
    }

    /// Returns the value with this name, if there is one. Fields of `T` that borrow, such as a `&str`, borrow from the
    /// session.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be read as a `T`.
    pub fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Result<Option<T>, serde_json::Error> {
        self.values.get(name).map(T::deserialize).transpose()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the change after which the store contains this session.
    pub(super) fn change(&self) -> Option<SessionChange> {
        match (self.stored, self.id) {
            (None, _) if self.is_empty() => None,
            (None, _) => Some(SessionChange::Insert { old: None }),
            (Some((id, _)), IdChange::Kept) => {
                (!self.changed.is_empty()).then_some(SessionChange::Update(id))
            }
            (Some((old, _)), IdChange::Renewed) => Some(SessionChange::Renew(old)),
            (Some((id, _)), IdChange::Deleted) if self.is_empty() => Some(SessionChange::Delete(id)),
            (Some((old, _)), IdChange::Deleted) => Some(SessionChange::Insert { old: Some(old) }),
        }
    }

    /// Merges the changes with what the store has now.
    ///
    /// # Errors
    ///
    /// Fails if the store has something other than a session.
    pub(super) fn merge(&mut self, current: &StoredSession) -> Result {
        let mut values: Map<String, Value> = serde_json::from_slice(&current.data)?;
        for name in &self.changed {
            match self.values.remove(name) {
                Some(value) => _ = values.insert(name.clone(), value),
                None => _ = values.remove(name),
            }
        }
        self.values = values;
        Ok(())
    }

    /// Returns the values for the store.
    ///
    /// # Errors
    ///
    /// Fails if the values, written as JSON, have more than `data_max` bytes.
    pub(super) fn data(&self, data_max: usize) -> Result<Bytes> {
        let data = serde_json::to_vec(&self.values)?;
        if data.len() > data_max {
            let error = format!("the session has {} bytes, and may have {data_max} at most", data.len());
            return Err(Error::other(error));
        }
        Ok(data.into())
    }

    /// Notes that the store contains this session, if it is not over.
    pub(super) fn note_saved(&mut self, stored: Option<(SessionId, SystemTime)>) {
        self.stored = stored;
        self.changed.clear();
        self.id = IdChange::Kept;
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("names", &Vec::from_iter(self.values.keys())).finish_non_exhaustive()
    }
}

/// A change of a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionChange {
    /// Add a session with a new id, and delete another one.
    Insert {
        old: Option<SessionId>,
    },
    /// Add a session with a new id in place of this one, if it is still there.
    Renew(SessionId),
    /// Set when a session expires, and its values.
    Update(SessionId),
    Delete(SessionId),
}

/// In the extensions: the session that the request has, by its cookie.
pub(super) struct LoadedSession {
    pub(super) id: SessionId,
    pub(super) session: StoredSession,
}

/// In the extensions: the handler may use a session. Nothing is allocated for a value without a size.
pub(super) struct WithinSessions;

/// In the extensions, while the head of a request passes: its session will be loaded.
pub(super) struct AheadOfSession;

/// The error of a session that is not there.
fn absent(extensions: &Extensions) -> Error {
    Error::other(match extensions.get() {
        Some(AheadOfSession) => "the session is not loaded yet: a guard that reads it is an `async fn`",
        None => "no `Sessions` are around the handler of this session",
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const BEGUN: SystemTime = SystemTime::UNIX_EPOCH;

    fn id() -> SessionId {
        SessionId::parse(&"7".repeat(32)).unwrap()
    }

    /// The extensions of a request that has the session `data`, if there is one.
    fn extensions(data: Option<&'static str>) -> Extensions {
        let mut extensions = Extensions::default();
        extensions.insert(WithinSessions);
        if let Some(data) = data {
            let session = StoredSession { data: data.into(), begun_at: BEGUN, expires_at: BEGUN };
            extensions.insert(LoadedSession { id: id(), session });
        }
        extensions
    }

    /// A handler that does this to the session `data` changes the store so, to these values, although another request
    /// has set `b` meanwhile.
    #[track_caller]
    fn check(
        data: Option<&'static str>,
        handler: fn(&mut Session),
        change: Option<SessionChange>,
        left: &str,
    ) {
        let mut extensions = extensions(data);
        handler(Session::from_extensions(&mut extensions).unwrap());
        let session = Session::from_extensions(&mut extensions).unwrap();
        assert_eq!(session.change(), change, "{data:?}");
        if let Some(SessionChange::Update(_) | SessionChange::Renew(_)) = change {
            let data = Bytes::from_static(br#"{"a":0,"b":5}"#);
            session.merge(&StoredSession { data, begun_at: BEGUN, expires_at: BEGUN }).unwrap();
        }
        assert_eq!(session.data(64).unwrap(), left, "{data:?}");
        session.note_saved(Some((id(), BEGUN)));
        assert_eq!(session.change(), None, "{data:?}");
    }

    #[test]
    fn the_store_is_changed_as_the_session_is() {
        let update = || Some(SessionChange::Update(id()));
        let insert = |old| Some(SessionChange::Insert { old });
        let delete = || Some(SessionChange::Delete(id()));
        let renew = || Some(SessionChange::Renew(id()));
        let set: fn(&mut Session) = |session| session.set("a", &1).unwrap();
        let reads: fn(&mut Session) = |session| assert_eq!(session.get("b").unwrap(), None::<u8>);
        let stored = Some(r#"{"a":0}"#);
        check(None, reads, None, "{}");
        check(stored, reads, None, r#"{"a":0}"#);
        check(None, set, insert(None), r#"{"a":1}"#);
        check(stored, set, update(), r#"{"a":1,"b":5}"#);
        check(stored, |session| session.set("b", "c").unwrap(), update(), r#"{"a":0,"b":"c"}"#);
        check(stored, |session| session.set("c", &2).unwrap(), update(), r#"{"a":0,"b":5,"c":2}"#);
        check(stored, |session| assert!(!session.remove("b")), None, r#"{"a":0}"#);
        check(stored, |session| assert!(session.remove("a")), update(), r#"{"b":5}"#);
        check(stored, Session::renew, renew(), r#"{"a":0,"b":5}"#);
        check(stored, Session::delete, delete(), "{}");
        check(None, Session::renew, None, "{}");
        check(None, Session::delete, None, "{}");
        let begins_another: fn(&mut Session) = |session| {
            session.delete();
            session.set("b", &1).unwrap();
        };
        check(stored, begins_another, insert(Some(id())), r#"{"b":1}"#);
        let renews_another: fn(&mut Session) = |session| {
            session.delete();
            session.renew();
            session.set("b", &1).unwrap();
        };
        check(stored, renews_another, insert(Some(id())), r#"{"b":1}"#);
        check(None, begins_another, insert(None), r#"{"b":1}"#);
        let changes_nothing_in_the_end: fn(&mut Session) = |session| {
            session.set("a", &1).unwrap();
            session.delete();
        };
        check(None, changes_nothing_in_the_end, None, "{}");
        check(stored, changes_nothing_in_the_end, delete(), "{}");
    }

    #[test]
    fn values_are_typed_and_may_borrow() {
        let mut session = Session::new();
        session.set("name", "Ada").unwrap();
        session.set("ids", &[1, 2]).unwrap();
        assert_eq!(session.get::<&str>("name").unwrap(), Some("Ada"));
        assert_eq!(session.get::<Vec<u8>>("ids").unwrap(), Some(vec![1, 2]));
        session.get::<u8>("name").unwrap_err();
        session.set("map", &BTreeMap::from([(Some(()), 1)])).unwrap_err();
        assert_eq!(session.get::<Value>("map").unwrap(), None);
        assert_eq!(format!("{session:?}"), r#"Session { names: ["ids", "name"], .. }"#);
    }

    #[test]
    fn a_session_that_cannot_be_used_is_an_error() {
        let text = |error: Error| format!("{error:#}");
        let none = Session::from_extensions(&mut Extensions::default()).unwrap_err();
        assert_eq!(text(none), "no `Sessions` are around the handler of this session");
        for broken in ["", "[]", "{", "{}{}", "null"] {
            let mut extensions = extensions(Some(broken));
            Session::from_extensions(&mut extensions).unwrap_err();
            // It does not pass for an empty one the next time.
            Session::from_extensions(&mut extensions).unwrap_err();
        }
        let mut session = Session::new();
        session.set("a", &"x".repeat(56)).unwrap();
        session.data(64).unwrap();
        session.set("a", &"x".repeat(57)).unwrap();
        assert_eq!(text(session.data(64).unwrap_err()), "the session has 65 bytes, and may have 64 at most");
    }
}

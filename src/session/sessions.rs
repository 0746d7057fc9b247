//! [`Sessions`]: middleware that loads and saves the session of each request.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::session::{AheadOfSession, LoadedSession, Session, SessionChange, WithinSessions};
use super::session_id::SessionId;
use super::session_store::{SessionStore, StoredSession};
use crate::message::{MessageError, Request, Response, SetCookie, Status};
use crate::runtime::boxed;
use crate::server::context::Extensions;
use crate::server::handler::{is_panic, is_time_over};
use crate::server::{BodyPlan, Context, Error, Handler, Middleware, Result, StateSaver};

/// Middleware that loads the session of each request from a [`SessionStore`], and saves the changes of its handler.
///
/// Several handlers may use the same sessions, but not one inside of another. See the [module](super).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::wrap;
/// use corehttp::session::{MemoryStore, Session, Sessions};
/// use corehttp::{Context, SameSite, SetCookie};
///
/// let sessions = Sessions::new(MemoryStore::with_sessions_max(100_000))
///     .idle_timeout(Duration::from_secs(60 * 60))
///     .cookie(SetCookie { same_site: Some(SameSite::Strict), ..SetCookie::new_session("__Host-sid", "") })?;
///
/// let handler = |ctx: &mut Context| -> corehttp::Result {
///     Session::from_extensions(&mut ctx.extensions)?.set("seen", &true)?;
///     Ok(())
/// };
/// let service = corehttp::Server::new().service(wrap(sessions, handler));
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/")?))?;
/// # let cookie = response.cookies().next().unwrap();
/// # assert_eq!((cookie.name, cookie.value.len(), cookie.secure), ("__Host-sid", 32, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Sessions<S> {
    keeper: Arc<Keeper<S>>,
}

impl<S: SessionStore> Sessions<S> {
    /// Keeps sessions in `store`.
    pub fn new(store: S) -> Sessions<S> {
        let settings = Settings {
            cookie: SetCookie::new_session("__Host-session", ""),
            idle_timeout: Duration::from_secs(30 * 60),
            lifetime: Duration::from_secs(12 * 60 * 60),
            data_max: 16 << 10,
        };
        Sessions { keeper: Arc::new(Keeper { store: Arc::new(store), settings }) }
    }

    /// Sets the name and the attributes of the cookie. The value is replaced by the id. Default: [`SetCookie::new_session`]
    /// with the name `__Host-session`. It ends with the session of the browser.
    ///
    /// A request may have several cookies of this name, set by other hosts of a domain or for other paths. The first one counts
    /// whose session is in the store. Of those with 32 hexadecimal digits, only the first 8 are looked at.
    ///
    /// A cookie with a `max_age` is set again now and then. So it lasts while the session is used.
    ///
    /// # Errors
    ///
    /// Fails if [`SetCookie::check`] does.
    pub fn cookie(mut self, cookie: SetCookie<'static>) -> Result<Sessions<S>, MessageError> {
        SetCookie { value: "", ..cookie }.check()?;
        self.settings_mut().cookie = cookie;
        Ok(self)
    }

    /// Sets the time without a request after which a session expires. Default: 30 minutes. The session may last an eighth
    /// longer, to save a write to the store at each request.
    pub fn idle_timeout(mut self, timeout: Duration) -> Sessions<S> {
        self.settings_mut().idle_timeout = timeout.min(TIME_MAX);
        self
    }

    /// Sets the time after which a session expires even in use, from its beginning or [`Session::renew`]. Default: 12 hours.
    pub fn lifetime(mut self, lifetime: Duration) -> Sessions<S> {
        self.settings_mut().lifetime = lifetime.min(TIME_MAX);
        self
    }

    /// Sets how many bytes the values of a session may have as JSON. A larger session is not saved, and its request is
    /// answered with 500. Default: 16 KiB.
    pub fn data_max(mut self, bytes: usize) -> Sessions<S> {
        self.settings_mut().data_max = bytes;
        self
    }

    fn settings_mut(&mut self) -> &mut Settings {
        &mut Arc::make_mut(&mut self.keeper).settings
    }
}

impl<S: SessionStore> Middleware for Sessions<S> {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        ctx.extensions.insert(AheadOfSession);
        let plan = next.on_head(ctx);
        ctx.extensions.remove::<AheadOfSession>();
        plan
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        let loaded = match self.keeper.load(&ctx.request).await {
            Ok(loaded) => loaded,
            // The refusal is the answer, and middleware beneath does without a session.
            Err(error) if next.is_refusing() => {
                let refused = next.handle(ctx).await;
                let status = refused.as_ref().map_or_else(Error::status, |()| ctx.response.status);
                ctx.report_beside(status, error);
                return refused;
            }
            Err(error) => return Err(error),
        };
        ctx.check_peer().await?;
        if let Some(loaded) = loaded {
            ctx.extensions.insert(loaded);
        }
        ctx.extensions.insert(WithinSessions);
        ctx.head_filters.saver = Some(self.keeper.clone());
        let saved_here = SavedHere(ctx);
        let outcome = next.handle(saved_here.0).await;
        let has_failed = saved_here.0.extensions.remove::<SaveFailed>().is_some();
        // A handler that was stopped may have made half of its change, and one that failed with the store has asked it already.
        let saves_nothing =
            outcome.as_ref().is_err_and(|error| has_failed || is_panic(error) || is_time_over(error));
        let saved = match !saves_nothing && self.keeper.is_save_due(saved_here.0) {
            true => saved_here.0.save_state().await,
            false => Ok(()),
        };
        drop(saved_here);
        match (outcome, saved) {
            (Err(handler), Err(store)) => Err(NotSaved { handler, store: store.into() }.into()),
            (outcome, saved) => outcome.and(saved),
        }
    }
}

impl<S> Clone for Sessions<S> {
    fn clone(&self) -> Sessions<S> {
        Sessions { keeper: self.keeper.clone() }
    }
}

impl<S> fmt::Debug for Sessions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.keeper.settings;
        f.debug_struct("Sessions")
            .field("cookie", &settings.cookie)
            .field("idle_timeout", &settings.idle_timeout)
            .field("lifetime", &settings.lifetime)
            .finish_non_exhaustive()
    }
}

/// A context whose session is saved in this call alone: middleware around it may drop the call, and send a response of
/// its own.
struct SavedHere<'c>(&'c mut Context);

impl Drop for SavedHere<'_> {
    fn drop(&mut self) {
        let Context { head_filters, extensions, .. } = &mut *self.0;
        head_filters.saver = None;
        extensions.remove::<LoadedSession>();
        extensions.remove::<Session>();
        extensions.remove::<WithinSessions>();
        extensions.remove::<SaveFailed>();
    }
}

/// The last save in the middle of an exchange has failed, which the handler was told.
#[derive(Clone, Copy, Debug)]
struct SaveFailed;

/// Loads and saves sessions, also in the middle of an exchange.
struct Keeper<S> {
    store: Arc<S>,
    settings: Settings,
}

impl<S: SessionStore> Keeper<S> {
    /// Loads the session whose id is in a cookie of a request. Other hosts of a domain may set cookies with the same
    /// name, and so may other paths, so those whose session is not there are skipped.
    async fn load(&self, request: &Request) -> Result<Option<LoadedSession>> {
        let cookies = request.cookies().all(self.settings.cookie.name);
        for id in cookies.filter_map(SessionId::parse).take(CANDIDATES_MAX) {
            if let Some(session) = self.current(&id).await? {
                return Ok(Some(LoadedSession { id, session }));
            }
        }
        Ok(None)
    }

    /// The session with this id as it is in the store now.
    async fn current(&self, id: &SessionId) -> Result<Option<StoredSession>> {
        Ok(self.store.load(id).await?.filter(|session| session.expires_at > SystemTime::now()))
    }

    /// Whether there is something to save, or a field to set.
    fn is_save_due(&self, ctx: &Context) -> bool {
        let is_touch_due =
            |loaded: &LoadedSession| self.settings.is_touch_due(&loaded.session, SystemTime::now());
        ctx.extensions.get::<Session>().is_some() || ctx.extensions.get().is_some_and(is_touch_due)
    }

    /// Saves what has changed since the last call, and sets the fields of the response, unless its head was sent.
    async fn save_changes(&self, mut head: Option<&mut Response>, extensions: &mut Extensions) -> Result {
        let Some(session) = extensions.get_mut::<Session>() else {
            return self.touch(extensions, head).await;
        };
        if let Some(response) = &mut head {
            // A cache must not give the response to others.
            response.headers.vary_by("cookie");
        }
        let Some(change) = session.change() else { return self.touch(extensions, head).await };
        self.apply(change, session, head).await?;
        // The session has another expiry now, or another id.
        extensions.remove::<LoadedSession>();
        Ok(())
    }

    /// Sets the expiry of a session that is used, if it would expire too early. A stream that ends does not use it.
    async fn touch(&self, extensions: &mut Extensions, head: Option<&mut Response>) -> Result {
        let now = SystemTime::now();
        let is_due = |loaded: &&mut LoadedSession| self.settings.is_touch_due(&loaded.session, now);
        let (Some(response), Some(loaded)) = (head, extensions.get_mut().filter(is_due)) else {
            return Ok(());
        };
        let LoadedSession { id, session } = loaded;
        let expires_at = self.settings.expiry(session.begun_at, now);
        self.store.touch(id, expires_at).await?;
        session.expires_at = expires_at;
        self.prolong_cookie(Some(response), id)
    }

    /// Adds a session that begins now to the store, under a new id.
    async fn insert(&self, data: Bytes, now: SystemTime) -> Result<SessionId> {
        let id = SessionId::random()?;
        let expires_at = self.settings.expiry(now, now);
        self.store.insert(&id, StoredSession { data, begun_at: now, expires_at }).await?;
        Ok(id)
    }

    /// Changes the store as the session was changed, and the cookie if need be.
    async fn apply(
        &self,
        change: SessionChange,
        session: &mut Session,
        head: Option<&mut Response>,
    ) -> Result {
        let data_max = self.settings.data_max;
        let now = SystemTime::now();
        match change {
            SessionChange::Insert { old } => {
                let response = head.ok_or_else(too_late)?;
                let id = self.insert(session.data(data_max)?, now).await?;
                if let Some(old) = old {
                    self.delete_old(&old, &id).await?;
                }
                session.note_saved(Some((id, now)));
                self.set_cookie(response, id.as_str())
            }
            SessionChange::Renew(old) => {
                let response = head.ok_or_else(too_late)?;
                match self.merge(&old, session).await? {
                    Merged::Gone => return Ok(()),
                    Merged::Empty => return self.delete(&old, session, Some(response)).await,
                    Merged::Values(_) => {}
                }
                let id = self.insert(session.data(data_max)?, now).await?;
                // Of several requests that end a session, one finds it. The others bring nothing of it back.
                if !self.delete_old(&old, &id).await? {
                    session.note_saved(Some((old, now)));
                    return self.store.delete(&id).await.map(drop);
                }
                session.note_saved(Some((id, now)));
                self.set_cookie(response, id.as_str())
            }
            SessionChange::Update(id) => self.update(&id, session, head).await,
            SessionChange::Delete(id) => self.delete(&id, session, head).await,
        }
    }

    /// Saves the changes of a session. They are merged anew as long as other requests save their own meanwhile.
    async fn update(&self, id: &SessionId, session: &mut Session, head: Option<&mut Response>) -> Result {
        for _ in 0..MERGES_MAX {
            let current = match self.merge(id, session).await? {
                Merged::Gone => return Ok(()),
                Merged::Empty => return self.delete(id, session, head).await,
                Merged::Values(current) => current,
            };
            let data = session.data(self.settings.data_max)?;
            let expires_at = self.settings.expiry(current.begun_at, SystemTime::now());
            if self.store.replace(id, &current.data, data, expires_at).await? {
                session.note_saved(Some((*id, current.begun_at)));
                // After an error, all of this is done once more, and the cookie must not be there twice.
                return self.prolong_cookie(head, id);
            }
        }
        Err(Error::new(Status::SERVICE_UNAVAILABLE, "too many requests change the session at once"))
    }

    /// Deletes the session in whose place another was inserted, and returns whether it was there. If that fails, nobody gets
    /// the `new` one, which is deleted as well, as far as it can be.
    async fn delete_old(&self, old: &SessionId, new: &SessionId) -> Result<bool> {
        let deleted = self.store.delete(old).await;
        if deleted.is_err() {
            let _ = self.store.delete(new).await;
        }
        deleted
    }

    /// Merges the changes of a session with what the store has now: others may have changed it since it was loaded, which
    /// may be hours ago.
    async fn merge(&self, id: &SessionId, session: &mut Session) -> Result<Merged> {
        let Some(current) = self.current(id).await? else {
            // The user has signed out meanwhile, and nothing brings the session back.
            session.note_saved(Some((*id, SystemTime::now())));
            return Ok(Merged::Gone);
        };
        session.merge(&current)?;
        Ok(if session.is_empty() { Merged::Empty } else { Merged::Values(current) })
    }

    /// Ends a session. Without its cookie, which can be removed no more once the head was sent, it is over as well.
    async fn delete(&self, id: &SessionId, session: &mut Session, head: Option<&mut Response>) -> Result {
        self.store.delete(id).await?;
        session.note_saved(None);
        match head {
            Some(response) => set_cookie(response, &self.settings.cookie.removal()),
            None => Ok(()),
        }
    }

    /// Sets the cookie of a session that goes on again, if it would end.
    fn prolong_cookie(&self, head: Option<&mut Response>, id: &SessionId) -> Result {
        match head.filter(|_| self.settings.cookie.max_age.is_some()) {
            Some(response) => self.set_cookie(response, id.as_str()),
            None => Ok(()),
        }
    }

    fn set_cookie(&self, response: &mut Response, id: &str) -> Result {
        set_cookie(response, &SetCookie { value: id, ..self.settings.cookie })
    }
}

impl<S: SessionStore> StateSaver for Keeper<S> {
    fn save<'a>(
        &'a self,
        head: Option<&'a mut Response>,
        extensions: &'a mut Extensions,
    ) -> Pin<Box<dyn Future<Output = Result> + 'a>> {
        boxed(|| async {
            let saved = self.save_changes(head, extensions).await;
            if saved.is_err() {
                extensions.insert(SaveFailed);
            } else {
                extensions.remove::<SaveFailed>();
            }
            saved
        })
    }
}

impl<S> Clone for Keeper<S> {
    fn clone(&self) -> Keeper<S> {
        Keeper { store: self.store.clone(), settings: self.settings }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    cookie: SetCookie<'static>,
    idle_timeout: Duration,
    lifetime: Duration,
    data_max: usize,
}

impl Settings {
    /// When a session that is used now expires. The eighth of the idle timeout is the time in which it can be used
    /// again without a write to the store.
    fn expiry(&self, begun_at: SystemTime, now: SystemTime) -> SystemTime {
        (now + self.idle_timeout + self.idle_timeout / 8).min(begun_at + self.lifetime)
    }

    /// Whether a session that is used now would expire too early.
    fn is_touch_due(&self, session: &StoredSession, now: SystemTime) -> bool {
        session.expires_at < (now + self.idle_timeout).min(session.begun_at + self.lifetime)
    }
}

/// How often a change is merged anew because another request has saved its own meanwhile. Each time, one of them is saved, and a
/// page sends some six requests at once, or a hundred over HTTP/2.
const MERGES_MAX: usize = 128;

/// The outcome of a merge of a session's changes with the store.
enum Merged {
    /// With what the store had, but for the changes.
    Values(StoredSession),
    Empty,
    /// The session is not there any more.
    Gone,
}

/// The store of a session failed after the handler had failed.
#[derive(Debug)]
struct NotSaved {
    handler: Error,
    store: Box<dyn StdError + Send + Sync>,
}

impl fmt::Display for NotSaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler failed ({:#}), and its session was not saved", self.handler)
    }
}

impl StdError for NotSaved {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.store)
    }
}

/// The error of a session that begins or is renewed after the head of the response was sent.
fn too_late() -> Error {
    Error::other("a session began or was renewed after its response had begun, which has no cookie")
}

/// Sets the cookie of a session in a response that no cache may give to others.
fn set_cookie(response: &mut Response, cookie: &SetCookie<'_>) -> Result {
    response.headers.append("cache-control", "no-cache=\"set-cookie\"")?;
    Ok(response.set_cookie(cookie)?)
}

/// How many ids are looked at. Each may cost a look-up in the store.
const CANDIDATES_MAX: usize = 8;

/// A century. A longer time could exceed the range of the clock.
const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

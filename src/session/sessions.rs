//! [`Sessions`]: middleware that loads and saves the session of each request.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::session::{LoadedSession, Session, SessionChange, WithinSessions};
use super::session_id::SessionId;
use super::session_store::{SessionStore, StoredSession};
use crate::message::{InvalidCookie, Request, SetCookie};
use crate::runtime::boxed;
use crate::server::{Context, Error, Handler, Middleware, Result};

/// Middleware that loads the session of each request from a [`SessionStore`], and saves what its handler changes. See
/// the [module](super). Several handlers may use the same sessions, but no handler inside of another that does.
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
    store: Arc<S>,
    settings: Settings,
}

#[derive(Clone, Copy)]
struct Settings {
    cookie: SetCookie<'static>,
    idle_timeout: Duration,
    lifetime: Duration,
    data_max: usize,
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
        Sessions { store: Arc::new(store), settings }
    }

    /// Sets the name and the attributes of the cookie. The value is replaced by the id. Default:
    /// [`SetCookie::new_session`] with the name `__Host-session`, which ends with the session of the browser.
    ///
    /// A cookie with a `max_age` is set again now and then, so that it lasts as long as the session is used.
    ///
    /// # Errors
    ///
    /// Fails if [`SetCookie::check`] does.
    pub fn cookie(mut self, cookie: SetCookie<'static>) -> Result<Sessions<S>, InvalidCookie> {
        SetCookie { value: "", ..cookie }.check()?;
        self.settings.cookie = cookie;
        Ok(self)
    }

    /// Sets after which time without a request a session expires. It may last an eighth longer, so that not each request
    /// writes to the store. Default: 30 minutes.
    pub fn idle_timeout(mut self, timeout: Duration) -> Sessions<S> {
        self.settings.idle_timeout = timeout.min(TIME_MAX);
        self
    }

    /// Sets after which time a session expires even if it is used, counted from its beginning or [`Session::renew`].
    /// Default: 12 hours.
    pub fn lifetime(mut self, lifetime: Duration) -> Sessions<S> {
        self.settings.lifetime = lifetime.min(TIME_MAX);
        self
    }

    /// Sets how many bytes the values of a session may have as JSON. A larger session is not saved, and its request is
    /// answered with 500. Default: 16 KiB.
    pub fn data_max(mut self, bytes: usize) -> Sessions<S> {
        self.settings.data_max = bytes;
        self
    }

    /// Loads the session whose id is in the cookie of a request.
    async fn load(&self, request: &Request) -> Result<Option<LoadedSession>> {
        let Some(id) = request.cookies().get(self.settings.cookie.name).and_then(SessionId::parse) else {
            return Ok(None);
        };
        let session = self.store.load(&id).await?.filter(|session| session.expires_at > SystemTime::now());
        Ok(session.map(|session| LoadedSession { id, session }))
    }

    /// Returns the change of the store after a handler that has had `loaded` and used `session`.
    fn change(
        &self,
        loaded: Option<LoadedSession>,
        session: Option<Session>,
    ) -> Result<Option<SessionChange>> {
        let change = session.map(|session| session.change(self.settings.data_max)).transpose()?.flatten();
        Ok(change.or_else(|| {
            let LoadedSession { id, session } = loaded?;
            let is_due = self.settings.is_touch_due(&session, SystemTime::now());
            is_due.then_some(SessionChange::Update { id, data: None, begun_at: session.begun_at })
        }))
    }

    /// Adds a session that begins now to the store, under a new id.
    async fn insert(&self, data: Bytes, now: SystemTime) -> Result<SessionId> {
        let (id, expires_at) = (SessionId::random()?, self.settings.expiry(now, now));
        self.store.insert(&id, StoredSession { data, begun_at: now, expires_at }).await?;
        Ok(id)
    }

    /// Changes the store, and the cookie if need be.
    async fn apply(&self, change: SessionChange, ctx: &mut Context) -> Result {
        let (cookie, now) = (self.settings.cookie, SystemTime::now());
        match change {
            SessionChange::Insert { old, data } => {
                check_unsent(ctx)?;
                let id = self.insert(data, now).await?;
                if let Some(old) = old {
                    self.store.delete(&old).await?;
                }
                set_cookie(ctx, &SetCookie { value: id.as_str(), ..cookie })
            }
            SessionChange::Renew { old, data } => {
                check_unsent(ctx)?;
                let id = self.insert(data, now).await?;
                // Of several requests that end a session, one finds it. The others bring nothing of it back.
                match self.store.delete(&old).await? {
                    true => set_cookie(ctx, &SetCookie { value: id.as_str(), ..cookie }),
                    false => self.store.delete(&id).await.map(drop),
                }
            }
            SessionChange::Update { id, data, begun_at } => {
                // The cookie of a session that goes on must not end.
                if cookie.max_age.is_some() && !ctx.has_responded() {
                    set_cookie(ctx, &SetCookie { value: id.as_str(), ..cookie })?;
                }
                self.store.update(&id, data, self.settings.expiry(begun_at, now)).await
            }
            SessionChange::Delete(id) => {
                self.store.delete(&id).await?;
                check_unsent(ctx)?;
                set_cookie(ctx, &cookie.removal())
            }
        }
    }
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

/// The store is shared.
impl<S> Clone for Sessions<S> {
    fn clone(&self) -> Sessions<S> {
        Sessions { store: self.store.clone(), settings: self.settings }
    }
}

impl<S> fmt::Debug for Sessions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("cookie", &self.settings.cookie)
            .field("idle_timeout", &self.settings.idle_timeout)
            .field("lifetime", &self.settings.lifetime)
            .finish_non_exhaustive()
    }
}

impl<S: SessionStore> Middleware for Sessions<S> {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        if let Some(loaded) = self.load(&ctx.request).await? {
            ctx.extensions.insert(loaded);
        }
        ctx.extensions.insert(WithinSessions);
        let outcome = next.handle(ctx).await;
        let (loaded, session) = (ctx.extensions.remove(), ctx.extensions.remove::<Session>());
        if session.is_some() && !ctx.has_responded() {
            // A cache must not give the response to others.
            ctx.response.headers.append("vary", "cookie")?;
        }
        let saved = match self.change(loaded, session) {
            Ok(Some(change)) => boxed(|| self.apply(change, ctx)).await,
            unchanged => unchanged.map(drop),
        };
        match (outcome, saved) {
            (Err(handler), Err(store)) => Err(Error::new(store.status(), NotSaved { handler, store })),
            (outcome, saved) => outcome.and(saved),
        }
    }
}

/// The store of a session failed after the handler had failed.
#[derive(Debug)]
struct NotSaved {
    handler: Error,
    store: Error,
}

impl fmt::Display for NotSaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotSaved { handler, store } = self;
        write!(f, "the handler failed ({handler:#}), and its session was not saved: {store}")
    }
}

impl StdError for NotSaved {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.store.cause().and_then(|cause| cause.source())
    }
}

/// Fails if the response has begun, and cannot set a cookie any more.
fn check_unsent(ctx: &Context) -> Result {
    let error = || Error::other("a session began or ended after its response had begun, which has no cookie");
    if ctx.has_responded() { Err(error()) } else { Ok(()) }
}

/// Sets the cookie of a session in a response that no cache may give to others.
fn set_cookie(ctx: &mut Context, cookie: &SetCookie<'_>) -> Result {
    ctx.response.headers.append("cache-control", "no-cache=\"set-cookie\"")?;
    Ok(ctx.response.set_cookie(cookie)?)
}

/// A century. A longer time could exceed the range of the clock.
const TIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

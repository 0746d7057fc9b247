//! Sessions by cookie: when they begin and end, what their cookie is, and what the store has to do.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corehttp::middleware::wrap;
use corehttp::session::{MemoryStore, Session, SessionId, SessionStore, Sessions, StoredSession};
use corehttp::{Context, Request, Response, Server, Service, SetCookie, Status, block_on};

/// Notes what it has to do.
#[derive(Clone, Default)]
struct NotingStore {
    sessions: MemoryStore,
    calls: Arc<Mutex<Vec<&'static str>>>,
    /// In how many seconds the sessions expire that it returns.
    expiring: Arc<Mutex<Option<i64>>>,
    fails: bool,
}

impl NotingStore {
    fn note(&self, call: &'static str) -> corehttp::Result {
        self.calls.lock().unwrap().push(call);
        if self.fails { Err(Status::SERVICE_UNAVAILABLE.into()) } else { Ok(()) }
    }

    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl SessionStore for NotingStore {
    async fn load(&self, id: &SessionId) -> corehttp::Result<Option<StoredSession>> {
        self.note("load")?;
        let mut session = self.sessions.load(id).await?;
        if let (Some(session), Some(seconds)) = (&mut session, *self.expiring.lock().unwrap()) {
            let span = Duration::from_secs(seconds.unsigned_abs());
            session.expires_at =
                if seconds < 0 { SystemTime::now() - span } else { SystemTime::now() + span };
        }
        Ok(session)
    }

    async fn insert(&self, id: &SessionId, session: StoredSession) -> corehttp::Result {
        self.note("insert")?;
        self.sessions.insert(id, session).await
    }

    async fn update(&self, id: &SessionId, data: Option<Bytes>, expires_at: SystemTime) -> corehttp::Result {
        self.note(if data.is_some() { "update" } else { "touch" })?;
        self.sessions.update(id, data, expires_at).await
    }

    async fn delete(&self, id: &SessionId) -> corehttp::Result<bool> {
        self.note("delete")?;
        self.sessions.delete(id).await
    }
}

/// Does what the path asks for.
async fn app(ctx: &mut Context) -> corehttp::Result {
    let path = ctx.request.path().to_owned();
    if path == "/untouched" {
        return Ok(());
    }
    let session = Session::from_extensions(&mut ctx.extensions)?;
    match &*path {
        "/set" => session.set("user", "Ada")?,
        "/sign-in" => {
            session.renew();
            session.set("user", "Bob")?;
        }
        "/sign-out" => session.delete(),
        "/set-and-fail" => {
            session.set("user", "Cyd")?;
            return Err(Status::FORBIDDEN.into());
        }
        "/large" => session.set("user", &"x".repeat(16 << 10))?,
        "/streamed" => {
            session.set("user", "Dan")?;
            return Ok(ctx.body_writer().await?.finish().await?);
        }
        _ => {}
    }
    let user: &str = session.get("user")?.unwrap_or("nobody");
    ctx.response.set_text(user);
    Ok(())
}

/// Sends requests, as a user agent that keeps its cookie.
struct Agent<H: corehttp::Handler + 'static> {
    store: NotingStore,
    service: Service<H>,
    cookie: String,
}

fn agent(store: NotingStore) -> Agent<impl corehttp::Handler> {
    agent_of(Sessions::new(store.clone()), store)
}

fn agent_of(sessions: Sessions<NotingStore>, store: NotingStore) -> Agent<impl corehttp::Handler> {
    Agent { store, service: Server::new().service(wrap(sessions, app)), cookie: String::new() }
}

impl<H: corehttp::Handler + 'static> Agent<H> {
    /// Requests `path`. The store has these calls to do.
    #[track_caller]
    fn get(&mut self, path: &str, calls: &[&str]) -> Response {
        let mut request = Request::get(path).unwrap();
        if !self.cookie.is_empty() {
            request.headers.set("cookie", self.cookie.as_str()).unwrap();
        }
        let response = block_on(self.service.respond(request)).unwrap();
        assert_eq!(self.store.take_calls(), calls, "{path}");
        if let Some(cookie) = response.cookies().next() {
            self.cookie = format!("{}={}", cookie.name, cookie.value);
        }
        response
    }
}

/// Whether the response sets the cookie, and is marked for caches as it should be.
#[track_caller]
fn check_fields(response: &Response, sets_cookie: bool, varies: bool) {
    assert_eq!(response.cookies().count(), usize::from(sets_cookie), "{response:?}");
    let marked = sets_cookie.then_some("no-cache=\"set-cookie\"");
    assert_eq!(response.headers.text("cache-control"), marked, "{response:?}");
    assert_eq!(response.headers.text("vary"), varies.then_some("cookie"), "{response:?}");
}

#[test]
fn a_session_lasts_from_its_first_value_until_it_is_deleted() {
    let mut agent = agent(NotingStore::default());
    check_fields(&agent.get("/untouched", &[]), false, false);
    let nobody = agent.get("/", &[]);
    check_fields(&nobody, false, true);
    assert_eq!(nobody.text().unwrap(), "nobody");

    let set = agent.get("/set", &["insert"]);
    check_fields(&set, true, true);
    let line = set.headers.text("set-cookie").unwrap();
    let id = line.strip_prefix("__Host-session=").unwrap().split(';').next().unwrap();
    assert_eq!(line, format!("__Host-session={id}; Path=/; Secure; HttpOnly; SameSite=Lax"));
    assert!(id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");

    check_fields(&agent.get("/untouched", &["load"]), false, false);
    let ada = agent.get("/", &["load"]);
    check_fields(&ada, false, true);
    assert_eq!(ada.text().unwrap(), "Ada");
    check_fields(&agent.get("/set", &["load", "update"]), false, true);

    let out = agent.get("/sign-out", &["load", "delete"]);
    check_fields(&out, true, true);
    assert!(out.headers.text("set-cookie").unwrap().contains("=; Max-Age=0; "), "{out:?}");
    assert!(agent.store.sessions.is_empty());
    // A browser sends the cookie no more, but it would not help.
    agent.cookie = format!("__Host-session={id}");
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "nobody");
}

#[test]
fn a_sign_in_gets_an_id_that_nobody_knew() {
    let mut agent = agent(NotingStore::default());
    agent.get("/set", &["insert"]);
    let before = agent.cookie.clone();
    check_fields(&agent.get("/sign-in", &["load", "insert", "delete"]), true, true);
    assert_ne!(agent.cookie, before);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Bob");
    agent.cookie = before;
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "nobody");
    assert_eq!(agent.store.sessions.len(), 1);
}

#[test]
fn an_id_that_the_store_does_not_know_is_not_taken_over() {
    let mut agent = agent(NotingStore::default());
    let chosen = format!("__Host-session={}", "7".repeat(32));
    agent.cookie = chosen.clone();
    check_fields(&agent.get("/set", &["load", "insert"]), true, true);
    assert_ne!(agent.cookie, chosen);
    // No id by its form, or under another name: the store has nothing to do.
    let known = agent.cookie.clone();
    let id = known.strip_prefix("__Host-session=").unwrap();
    for cookie in [
        format!("__Host-session={}", id.to_uppercase().replace(|digit: char| digit.is_ascii_digit(), "A")),
        format!("__Host-session={}", &id[1..]),
        format!("__Host-session={id}0"),
        format!("__Host-session=\"{id}\""),
        format!("__host-session={id}"),
        format!("session={id}"),
        "__Host-session=".into(),
        format!("__Host-session={}", "0".repeat(8000)),
    ] {
        agent.cookie = cookie;
        assert_eq!(agent.get("/", &[]).text().unwrap(), "nobody");
    }
}

#[test]
fn a_session_expires_and_is_touched_before_that() {
    let mut agent = agent(NotingStore::default());
    agent.get("/set", &["insert"]);
    let cookie = agent.cookie.clone();
    let expire = |store: &NotingStore, seconds| *store.expiring.lock().unwrap() = Some(seconds);
    // 30 minutes are left after each request, and the store is written to if there are less.
    for (seconds, calls, user) in [
        (-1, &["load"][..], "nobody"),
        (0, &["load"], "nobody"),
        (10, &["load", "touch"], "Ada"),
        (29 * 60, &["load", "touch"], "Ada"),
        (31 * 60, &["load"], "Ada"),
    ] {
        expire(&agent.store, seconds);
        let response = agent.get("/", calls);
        check_fields(&response, false, true);
        assert_eq!(response.text().unwrap(), user, "{seconds} s");
        agent.get("/untouched", calls);
    }
    // An expired session is not changed.
    expire(&agent.store, -1);
    agent.get("/set", &["load", "insert"]);
    assert_ne!(agent.cookie, cookie);
}

#[test]
fn a_lifetime_ends_however_much_a_session_is_used() {
    let store = NotingStore::default();
    let sessions = Sessions::new(store.clone()).lifetime(Duration::from_secs(60)).idle_timeout(Duration::MAX);
    let mut agent = agent_of(sessions, store);
    agent.get("/set", &["insert"]);
    // The end of the lifetime is in the store already.
    agent.get("/", &["load"]);
    let sessions = Sessions::new(agent.store.clone()).lifetime(Duration::ZERO);
    let mut agent = agent_of(sessions, agent.store.clone());
    agent.get("/set", &["insert"]);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "nobody");
}

#[test]
fn a_cookie_that_would_end_is_set_again_with_the_session() {
    let store = NotingStore::default();
    let cookie = SetCookie { max_age: Some(Duration::from_secs(600)), ..SetCookie::new_session("sid", "") };
    let mut agent = agent_of(Sessions::new(store.clone()).cookie(cookie).unwrap(), store);
    agent.get("/set", &["insert"]);
    let id = agent.cookie.clone();
    check_fields(&agent.get("/", &["load"]), false, true);
    check_fields(&agent.get("/set", &["load", "update"]), true, true);
    *agent.store.expiring.lock().unwrap() = Some(60);
    let touched = agent.get("/untouched", &["load", "touch"]);
    check_fields(&touched, true, false);
    assert!(touched.headers.text("set-cookie").unwrap().starts_with(&format!("{id}; Max-Age=600; ")));
    let invalid = SetCookie { domain: Some("example.com"), ..SetCookie::new_session("__Host-sid", "") };
    Sessions::new(MemoryStore::new()).cookie(invalid).unwrap_err();
}

#[test]
fn a_request_that_fails_keeps_its_changes() {
    let mut agent = agent(NotingStore::default());
    let failed = agent.get("/set-and-fail", &["insert"]);
    check_fields(&failed, true, true);
    assert_eq!(failed.status, Status::FORBIDDEN);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Cyd");
    assert_eq!(agent.get("/large", &["load"]).status, Status::INTERNAL_SERVER_ERROR);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Cyd");
}

#[test]
fn a_streamed_response_can_change_a_session_but_not_begin_one() {
    let mut agent = agent(NotingStore::default());
    agent.get("/streamed", &[]);
    assert!(agent.store.sessions.is_empty() && agent.cookie.is_empty());
    agent.get("/set", &["insert"]);
    agent.get("/streamed", &["load", "update"]);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Dan");
}

#[test]
fn a_store_that_fails_is_answered_as_it_says() {
    let mut agent = agent(NotingStore::default());
    agent.get("/set", &["insert"]);
    let cookie = agent.cookie;
    let mut agent = self::agent(NotingStore { fails: true, ..agent.store });
    assert_eq!(agent.get("/set", &["insert"]).status, Status::SERVICE_UNAVAILABLE);
    agent.cookie = cookie;
    assert_eq!(agent.get("/", &["load"]).status, Status::SERVICE_UNAVAILABLE);
    agent.cookie.clear();
    assert_eq!(agent.get("/", &[]).status, Status::OK);
    assert_eq!(agent.get("/set-and-fail", &["insert"]).status, Status::SERVICE_UNAVAILABLE);
}

#[test]
fn a_session_that_was_deleted_meanwhile_does_not_come_back() {
    let sets = |session: &mut Session| session.set("user", "Eve").unwrap();
    let renews = |session: &mut Session| session.renew();
    let begins_another = |session: &mut Session| {
        session.delete();
        session.set("user", "Eve").unwrap();
    };
    let signed_out = ["load", "load", "delete"];
    for (changes, calls, user) in [
        (sets as fn(&mut Session), &["update"][..], "nobody"),
        (renews, &["insert", "delete", "delete"], "nobody"),
        (begins_another, &["insert", "delete"], "Eve"),
    ] {
        let store = NotingStore::default();
        let mut agent = agent(store.clone());
        agent.get("/set", &["insert"]);
        let cookie = agent.cookie.clone();
        let changes_late = async move |ctx: &mut Context| -> corehttp::Result {
            changes(Session::from_extensions(&mut ctx.extensions)?);
            // The user signs out in another window.
            let mut request = Request::get("/sign-out")?;
            request.headers.set("cookie", cookie.as_str())?;
            self::agent(store.clone()).service.respond(request).await;
            Ok(())
        };
        let sessions = Sessions::new(agent.store.clone());
        let mut late = Agent {
            service: Server::new().service(wrap(sessions, changes_late)),
            store: agent.store.clone(),
            cookie: agent.cookie.clone(),
        };
        let response = late.get("/", &[&signed_out, calls].concat());
        assert_eq!(response.cookies().count(), usize::from(user == "Eve"), "{calls:?}");
        assert_eq!(agent.store.sessions.len(), usize::from(user == "Eve"), "{calls:?}");
        agent.cookie = late.cookie;
        assert_eq!(agent.get("/", &["load"]).text().unwrap(), user);
    }
}

#[test]
fn a_handler_without_sessions_around_it_fails() {
    let response = block_on(Server::new().service(app).respond(Request::get("/").unwrap())).unwrap();
    assert_eq!(response.status, Status::INTERNAL_SERVER_ERROR);
}

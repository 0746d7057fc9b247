//! Sessions by cookie: when they begin and end, what their cookie is, and what the store has to do.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corehttp::middleware::{Next, guard, uncancelled, wrap};
use corehttp::server::{ErrorCause, ErrorReport};
use corehttp::session::{MemoryStore, Session, SessionId, SessionStore, Sessions, StoredSession};
use corehttp::{
    BoxHandler, Context, Handler, IntoHandler, Request, Response, Server, Service, SetCookie, Status,
    Timeouts, block_on, routes, websocket,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::support::{ErrorReports, Served, paused, status};

/// Notes what it has to do.
#[derive(Clone, Default)]
struct NotingStore {
    sessions: MemoryStore,
    calls: Arc<Mutex<Vec<&'static str>>>,
    /// In how many seconds the sessions expire that it returns.
    expiring: Arc<Mutex<Option<i64>>>,
    /// The calls that fail.
    fails: &'static [&'static str],
}

/// Its error, which is answered with 503.
#[derive(Debug)]
struct Away;

impl std::fmt::Display for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the store is away")
    }
}

impl std::error::Error for Away {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&Status::SERVICE_UNAVAILABLE)
    }
}

impl NotingStore {
    fn note(&self, call: &'static str) -> corehttp::Result {
        self.calls.lock().unwrap().push(call);
        if self.fails.contains(&call) { Err(Away.into()) } else { Ok(()) }
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

    async fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> corehttp::Result<bool> {
        self.note("update")?;
        self.sessions.replace(id, before, data, expires_at).await
    }

    async fn touch(&self, id: &SessionId, expires_at: SystemTime) -> corehttp::Result {
        self.note("touch")?;
        self.sessions.touch(id, expires_at).await
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
        "/saved-in-vain" => {
            session.set("user", &"x".repeat(16 << 10))?;
            for _ in 0..2 {
                Session::save(ctx).await.unwrap_err();
            }
            Session::from_extensions(&mut ctx.extensions)?.set("user", "Gil")?;
        }
        "/streamed" => session.set("user", "Dan")?,
        "/streamed-sign-in" => {
            session.renew();
            session.set("user", "Eve")?;
        }
        "/streamed-sign-out" => session.delete(),
        _ => {}
    }
    if path.starts_with("/streamed") || path.starts_with("/late") {
        ctx.body_writer().await?.finish().await?;
        let session = Session::from_extensions(&mut ctx.extensions)?;
        match &*path {
            "/late-set" => session.set("user", "Fay")?,
            "/late-renewal" => session.renew(),
            "/late-sign-out" => session.delete(),
            _ => {}
        }
        return Ok(());
    }
    let session = Session::from_extensions(&mut ctx.extensions)?;
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
    assert_eq!(response.headers.get("cache-control"), marked, "{response:?}");
    assert_eq!(response.headers.get("vary"), varies.then_some("cookie"), "{response:?}");
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
    let line = set.headers.get("set-cookie").unwrap();
    let id = line.strip_prefix("__Host-session=").unwrap().split(';').next().unwrap();
    assert_eq!(line, format!("__Host-session={id}; Path=/; Secure; HttpOnly; SameSite=Lax"));
    assert!(id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");

    check_fields(&agent.get("/untouched", &["load"]), false, false);
    let ada = agent.get("/", &["load"]);
    check_fields(&ada, false, true);
    assert_eq!(ada.text().unwrap(), "Ada");
    check_fields(&agent.get("/set", &["load", "load", "update"]), false, true);

    let out = agent.get("/sign-out", &["load", "delete"]);
    check_fields(&out, true, true);
    assert!(out.headers.get("set-cookie").unwrap().contains("=; Max-Age=0; "), "{out:?}");
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
    check_fields(&agent.get("/sign-in", &["load", "load", "insert", "delete"]), true, true);
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
    check_fields(&agent.get("/set", &["load", "load", "update"]), true, true);
    let saved = agent.get("/saved-in-vain", &["load", "load", "load", "load", "update"]);
    assert_eq!((saved.headers.all("set-cookie").count(), saved.text()), (1, Ok("Gil")));
    *agent.store.expiring.lock().unwrap() = Some(60);
    let touched = agent.get("/untouched", &["load", "touch"]);
    check_fields(&touched, true, false);
    assert!(touched.headers.get("set-cookie").unwrap().starts_with(&format!("{id}; Max-Age=600; ")));
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
    assert_eq!(agent.get("/large", &["load", "load"]).status, Status::INTERNAL_SERVER_ERROR);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Cyd");
}

#[test]
fn a_streamed_response_has_the_cookie_of_its_session() {
    let mut agent = agent(NotingStore::default());
    check_fields(&agent.get("/streamed", &["insert"]), true, true);
    check_fields(&agent.get("/streamed", &["load", "load", "update"]), false, true);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Dan");
    let before = agent.cookie.clone();
    check_fields(&agent.get("/streamed-sign-in", &["load", "load", "insert", "delete"]), true, true);
    assert_ne!(agent.cookie, before);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Eve");
    *agent.store.expiring.lock().unwrap() = Some(60);
    check_fields(&agent.get("/streamed-reading", &["load", "touch"]), false, true);
    let out = agent.get("/streamed-sign-out", &["load", "delete"]);
    assert!(out.headers.get("set-cookie").unwrap().contains("=; Max-Age=0; "), "{out:?}");
    assert!(agent.store.sessions.is_empty());
}

#[test]
fn from_the_head_on_a_session_can_change_and_end_but_not_begin() {
    let mut agent = agent(NotingStore::default());
    agent.get("/late-set", &[]);
    assert!(agent.store.sessions.is_empty() && agent.cookie.is_empty());
    agent.get("/set", &["insert"]);
    agent.get("/late-set", &["load", "load", "update"]);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Fay");
    agent.get("/late-renewal", &["load"]);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "Fay");
    agent.get("/late-sign-out", &["load", "delete"]);
    assert_eq!(agent.get("/", &["load"]).text().unwrap(), "nobody");
}

/// When a handler changes its session, and how it responds.
#[derive(Clone, Copy, Debug)]
enum Way {
    Buffered,
    /// The change is before the head.
    Streamed,
    /// The change is after the head.
    StreamedLate,
    Upgraded,
    UpgradedLate,
    /// As `UpgradedLate`, but saved before the handler ends.
    Saved,
}

use Way::{Buffered, Saved, Streamed, StreamedLate, Upgraded, UpgradedLate};

/// Sets `seen`, and then lasts for hours, while others change the session by `meanwhile`.
async fn last(ctx: &mut Context, way: Way, meanwhile: impl AsyncFn()) -> corehttp::Result {
    let session = Session::from_extensions(&mut ctx.extensions)?;
    assert_eq!(session.get("role")?, Some("admin"));
    if !matches!(way, StreamedLate | UpgradedLate) {
        session.set("seen", &1)?;
    }
    let mut tunnel = None;
    match way {
        Buffered => {}
        Streamed | StreamedLate => ctx.body_writer().await?.finish().await?,
        Upgraded | UpgradedLate | Saved => tunnel = Some(ctx.upgrade("own").await?),
    }
    meanwhile().await;
    if matches!(way, StreamedLate | UpgradedLate | Saved) {
        Session::from_extensions(&mut ctx.extensions)?.set("seen", &1)?;
    }
    if let Saved = way {
        Session::save(ctx).await?;
        std::future::pending::<()>().await;
    }
    drop(tunnel);
    Ok(())
}

/// A session is loaded with its request. Changes of others since then must not be undone when the request ends, which may
/// be hours later.
#[test]
fn a_request_that_lasts_for_hours_undoes_nothing() {
    for way in [Buffered, Streamed, StreamedLate, Upgraded, UpgradedLate, Saved] {
        for is_renewed in [false, true] {
            check_lasting(way, is_renewed);
        }
    }
}

/// A role is taken away, or all of the session renewed, while a request lasts that changes the session in this way.
#[track_caller]
fn check_lasting(way: Way, is_renewed: bool) {
    let store = MemoryStore::new();
    let begins = |ctx: &mut Context| -> corehttp::Result {
        Ok(Session::from_extensions(&mut ctx.extensions)?.set("role", "admin")?)
    };
    let revokes = move |ctx: &mut Context| -> corehttp::Result {
        let session = Session::from_extensions(&mut ctx.extensions)?;
        assert!(session.remove("role"));
        session.set("theme", "dark")?;
        if is_renewed {
            session.renew();
        }
        Ok(())
    };
    let reads = |ctx: &mut Context| -> corehttp::Result {
        let session = Session::from_extensions(&mut ctx.extensions)?;
        let [role, theme] = ["role", "theme"].map(|name| session.get::<String>(name).unwrap());
        let values = format!("{role:?} {theme:?} {:?}", session.get::<u8>("seen")?);
        ctx.response.set_text(values);
        Ok(())
    };
    let sessions = Sessions::new(store.clone());
    let [begins, revokes] = [begins.into_handler().boxed(), revokes.into_handler().boxed()]
        .map(|handler| Server::new().service(wrap(sessions.clone(), handler)));
    let reads = Server::new().service(wrap(sessions.clone(), reads));
    let cookie_of = |response: &Response| {
        let cookie = response.cookies().next().unwrap();
        format!("{}={}", cookie.name, cookie.value)
    };
    let with = |cookie: &str| {
        let mut request = Request::get("/").unwrap();
        request.headers.set("cookie", cookie).unwrap();
        request
    };
    paused(async {
        let cookie = cookie_of(&begins.respond(Request::get("/").unwrap()).await);
        let (request, renewed) = (with(&cookie), Rc::new(RefCell::new(cookie.clone())));
        let (is_over, note_renewed) = (Rc::new(Notify::new()), renewed.clone());
        let over = is_over.clone();
        let revokes = Rc::new(revokes);
        let lasts = async move |ctx: &mut Context| -> corehttp::Result {
            last(ctx, way, async || {
                let response = revokes.respond(request.clone()).await;
                if is_renewed {
                    *note_renewed.borrow_mut() = cookie_of(&response);
                }
                over.notify_one();
            })
            .await
        };
        let lasting = Server::new().service(wrap(sessions.clone(), lasts));
        let (mut near, far) = tokio::io::duplex(1 << 10);
        let peer = async {
            let fields = "connection: upgrade\r\nupgrade: own";
            let head = format!("GET / HTTP/1.1\r\nhost: a\r\ncookie: {cookie}\r\n{fields}\r\n\r\n");
            near.write_all(head.as_bytes()).await.unwrap();
            is_over.notified().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(near);
        };
        tokio::select! {
            (_, ()) = async { tokio::join!(lasting.serve_connection(far), peer) } => {}
            () = tokio::time::sleep(Duration::from_secs(60)) => assert!(matches!(way, Saved), "{way:?}"),
        }
        // The session of the request was renewed, and so it has no other one to change, unless it did before.
        let had_seen = matches!(way, Streamed | Upgraded | Saved) || !is_renewed;
        let seen = if had_seen { "Some(1)" } else { "None" };
        let last = with(&renewed.borrow());
        let values = reads.respond(last).await.text().unwrap().to_owned();
        assert_eq!(values, format!("None Some(\"dark\") {seen}"), "{way:?} {is_renewed}");
        assert_eq!(store.len(), 1, "{way:?} {is_renewed}");
    });
}

/// Other hosts of a domain, and other paths, may set cookies with the same name.
#[test]
fn the_first_cookie_that_has_a_session_counts() {
    let mut agent = agent(NotingStore::default());
    agent.get("/set", &["insert"]);
    let own = agent.cookie.clone();
    let unknown = format!("__Host-session={}", "7".repeat(32));
    for (cookies, calls, user) in [
        (vec![&*unknown, &own], &["load"; 2][..], "Ada"),
        (vec![&own, &unknown], &["load"], "Ada"),
        (vec!["__Host-session=", "__Host-session=x", &own], &["load"], "Ada"),
        (vec!["__host-session=x", "a=b", &own], &["load"], "Ada"),
        ([vec![&*unknown; 7], vec![&own]].concat(), &["load"; 8], "Ada"),
        ([vec![&*unknown; 8], vec![&own]].concat(), &["load"; 8], "nobody"),
        // These cannot be ids, and cost nothing.
        ([vec!["__Host-session=x"; 100], vec![&own]].concat(), &["load"], "Ada"),
    ] {
        agent.cookie = cookies.join("; ");
        assert_eq!(agent.get("/", calls).text().unwrap(), user, "{cookies:?}");
    }
}

/// Each request without a cookie begins a session, and costs next to nothing.
#[test]
fn a_flood_of_new_sessions_does_not_push_out_those_that_are_used() {
    let mut store = NotingStore { sessions: MemoryStore::with_sessions_max(100), ..NotingStore::default() };
    let mut users = Vec::new();
    for _ in 0..80 {
        let mut user = agent(store.clone());
        user.get("/set", &["insert"]);
        user.get("/", &["load"]);
        users.push(user);
    }
    store.calls = Arc::default();
    let flood = agent(store);
    for _ in 0..1000 {
        block_on(flood.service.respond(Request::get("/set").unwrap())).unwrap();
    }
    for user in &mut users {
        assert_eq!(user.get("/", &["load"]).text().unwrap(), "Ada");
    }
}

#[test]
fn a_store_that_fails_is_answered_as_it_says() {
    let mut agent = agent(NotingStore::default());
    agent.get("/set", &["insert"]);
    let cookie = agent.cookie;
    let mut agent = self::agent(NotingStore { fails: &["load", "insert"], ..agent.store });
    assert_eq!(agent.get("/set", &["insert"]).status, Status::SERVICE_UNAVAILABLE);
    agent.cookie = cookie;
    assert_eq!(agent.get("/", &["load"]).status, Status::SERVICE_UNAVAILABLE);
    agent.cookie.clear();
    assert_eq!(agent.get("/", &[]).status, Status::OK);
    assert_eq!(agent.get("/set-and-fail", &["insert"]).status, Status::SERVICE_UNAVAILABLE);
}

/// Also if the handler fails, for another reason or since it could not save. Then the store is not asked again.
#[test]
fn the_application_chooses_the_status_of_an_error_of_the_store() {
    let begins = |ctx: &mut Context| -> corehttp::Result {
        Ok(Session::from_extensions(&mut ctx.extensions)?.set("name", "Ada")?)
    };
    let saves = async move |ctx: &mut Context| -> corehttp::Result {
        begins(ctx)?;
        Session::save(ctx).await
    };
    let fails = move |ctx: &mut Context| -> corehttp::Result {
        begins(ctx)?;
        Err(Status::FORBIDDEN.into())
    };
    let router = routes! {
        GET "/" => begins,
        GET "/saves" => saves,
        GET "/streams" => async move |ctx: &mut Context| { begins(ctx)?; ctx.body_writer().await?; Ok(()) },
        GET "/fails" => fails,
    };
    let store = NotingStore { fails: &["insert"], ..NotingStore::default() };
    let reports = ErrorReports::default();
    let server = reports.attach(Server::new().error_status(|_: &Away| Status::TOO_MANY_REQUESTS));
    let service = server.service(wrap(Sessions::new(store.clone()), router));
    for (path, expected) in [
        ("/", "the store is away"),
        ("/saves", "the store is away"),
        ("/streams", "the store is away"),
        ("/fails", "the handler failed (403 Forbidden), and its session was not saved: the store is away"),
    ] {
        let response = block_on(service.respond(Request::get(path).unwrap())).unwrap();
        assert_eq!(response.status, Status::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(store.take_calls(), ["insert"], "{path}");
        assert_eq!(reports.take(), [(429, expected.to_owned())], "{path}");
    }
}

/// Middleware between the two has no session then, and the failure is reported beside the refusal.
#[test]
fn a_refusal_is_the_answer_although_the_store_fails() {
    let mut agent = agent(NotingStore::default());
    agent.get("/set", &["insert"]);
    let store = NotingStore { fails: &["load"], ..agent.store };
    let refuses = guard(|_: &mut Context| -> corehttp::Result { Err(Status::UNAUTHORIZED.into()) });
    let reports = ErrorReports::default();
    let app = wrap((Sessions::new(store), refuses), app);
    let served = Served::with(|server| reports.attach(server), app);
    let cookie = agent.cookie;
    let post = format!("POST / HTTP/1.1\r\nhost: a\r\ncookie: {cookie}\r\ncontent-length: 2\r\n\r\nhi");
    let received = served.ask(post);
    assert_eq!(status(&received), 401, "{received}");
    assert_eq!(reports.take().iter().map(|(status, _)| *status).collect::<Vec<_>>(), [401]);
}

/// A cookie would promise a time for which the store does not keep the session.
#[test]
fn a_cookie_is_not_set_again_for_a_session_that_could_not_be_touched() {
    let cookie = SetCookie { max_age: Some(Duration::from_secs(600)), ..SetCookie::new_session("sid", "") };
    let sessions = |store: &NotingStore| Sessions::new(store.clone()).cookie(cookie).unwrap();
    let store = NotingStore::default();
    let mut before = agent_of(sessions(&store), store);
    before.get("/set", &["insert"]);
    let store = NotingStore { fails: &["touch"], ..before.store };
    *store.expiring.lock().unwrap() = Some(60);
    let mut agent = Agent { cookie: before.cookie, ..agent_of(sessions(&store), store) };
    for path in ["/untouched", "/"] {
        let failed = agent.get(path, &["load", "touch"]);
        assert_eq!((failed.status, failed.cookies().count()), (Status::SERVICE_UNAVAILABLE, 0), "{path}");
    }
}

/// Changes a session, which is half of what it would do.
async fn pays(ctx: &mut Context) -> corehttp::Result {
    Session::from_extensions(&mut ctx.extensions)?.set("paid", &true)?;
    match ctx.request.path() {
        "/panics" => std::panic::resume_unwind(Box::new("quietly")),
        _ => std::future::pending().await,
    }
}

#[test]
fn a_session_is_not_saved_after_a_panic_or_the_end_of_the_time() {
    let timeouts = Timeouts { handler: Some(Duration::from_secs(1)), ..Timeouts::default() };
    for (path, expected) in [("/panics", 500), ("/hangs", 503)] {
        let store = NotingStore::default();
        let mut known = agent(store.clone());
        known.get("/set", &["insert"]);
        *store.expiring.lock().unwrap() = Some(60);
        let service = Server::new().timeouts(timeouts).service(wrap(Sessions::new(store.clone()), pays));
        for (cookie, calls) in [("", &[][..]), (&known.cookie, &["load"])] {
            let mut request = Request::get(path).unwrap();
            request.headers.set("cookie", cookie).unwrap();
            let response = paused(async { service.respond(request).await });
            assert_eq!((response.status.as_u16(), response.cookies().count()), (expected, 0), "{path}");
            assert_eq!(store.take_calls(), calls, "{path}");
        }
    }
}

/// A change that the handler had begun is no part of the response in its place.
#[test]
fn a_session_is_not_saved_once_its_handler_was_dropped() {
    let gives_up = async |ctx: &mut Context, next: Next<'_>| -> corehttp::Result {
        let limited = tokio::time::timeout(Duration::from_secs(1), next.handle(ctx));
        limited.await.expect_err("the handler waits for good");
        if ctx.request.path() == "/streams" {
            return Ok(ctx.body_writer().await?.finish().await?);
        }
        Session::save(ctx).await?;
        Err(Status::GATEWAY_TIMEOUT.into())
    };
    let store = NotingStore::default();
    let service = Server::new().service(wrap((gives_up, Sessions::new(store.clone())), pays));
    for (path, expected) in [("/streams", 200), ("/fails", 504)] {
        let response = paused(async { service.respond(Request::get(path).unwrap()).await });
        assert_eq!(response.status.as_u16(), expected);
        assert_eq!(store.take_calls(), [""; 0], "{path}");
        check_fields(&response, false, false);
    }
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
        (sets as fn(&mut Session), &["load"][..], "nobody"),
        (renews, &["load"], "nobody"),
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

/// A guard that is not `async` decides by the head of a request that may have a body.
#[test]
fn a_guard_that_reads_the_session_waits_for_it() {
    let signed_in = |ctx: &mut Context| -> corehttp::Result {
        let session = Session::from_extensions(&mut ctx.extensions)?;
        session.get::<String>("user")?.map(drop).ok_or_else(|| Status::UNAUTHORIZED.into())
    };
    let waits = async move |ctx: &mut Context| signed_in(ctx);
    let sessions = || Sessions::new(MemoryStore::new());
    let early = "the session is not loaded yet: a guard that reads it is an `async fn`";
    let without = "no `Sessions` are around the handler of this session";
    for (posted, got, service) in [
        ("", "", guarded(wrap((sessions(), guard(waits)), signed_out))),
        (early, "", guarded(wrap((sessions(), guard(signed_in)), signed_out))),
        (without, without, guarded(wrap((guard(signed_in), sessions()), signed_out))),
        (without, without, guarded(wrap(guard(waits), signed_out))),
    ] {
        for (request, expected) in [(Request::post("/"), posted), (Request::get("/"), got)] {
            let mut request = request.unwrap();
            if request.method() == corehttp::Method::Post {
                request.body.set_bytes("hi");
            }
            let response = block_on(service.respond(request)).unwrap();
            let status = if expected.is_empty() { 401 } else { 500 };
            assert_eq!((response.status.as_u16(), response.text().unwrap()), (status, expected));
        }
    }
}

fn signed_out(_: &mut Context) {
    unreachable!("nobody is signed in");
}

/// A service that tells why its handler has failed.
fn guarded<H: Handler + Send + Sync + 'static>(handler: H) -> Service<BoxHandler> {
    let tells = |report: &ErrorReport<'_>, response: &mut Response| match &report.cause {
        ErrorCause::Handler(error) if error.status() == Status::INTERNAL_SERVER_ERROR => {
            response.set_text(error.to_string());
        }
        _ => response.set_text(""),
    };
    Server::new().error_response(tells).service(handler.boxed())
}

/// A store that takes a second to find a session.
#[derive(Clone)]
struct SlowStore(MemoryStore);

impl SessionStore for SlowStore {
    async fn load(&self, id: &SessionId) -> corehttp::Result<Option<StoredSession>> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.0.load(id).await
    }

    async fn insert(&self, id: &SessionId, session: StoredSession) -> corehttp::Result {
        self.0.insert(id, session).await
    }

    async fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> corehttp::Result<bool> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.replace(id, before, data, expires_at).await
    }

    async fn touch(&self, id: &SessionId, expires_at: SystemTime) -> corehttp::Result {
        self.0.touch(id, expires_at).await
    }

    async fn delete(&self, id: &SessionId) -> corehttp::Result<bool> {
        self.0.delete(id).await
    }
}

/// Each has loaded the session before the others save it.
#[test]
fn requests_at_a_time_undo_no_change_of_each_other() {
    let app = async |ctx: &mut Context| -> corehttp::Result {
        let path = ctx.request.path().to_owned();
        let session = Session::from_extensions(&mut ctx.extensions)?;
        match path.as_str() {
            "/sign-in" => {
                session.set("user", "Ada")?;
                session.set("role", "admin")?;
            }
            "/demote" => drop(session.remove("role")),
            "/" => {
                let role: Option<String> = session.get("role")?;
                let pages =
                    ["/a", "/b", "/c"].map(|page| session.get::<bool>(page).is_ok_and(|seen| seen.is_some()));
                ctx.response.set_text(format!("{role:?} {pages:?}"));
            }
            page => session.set(page, &true)?,
        }
        Ok(())
    };
    paused(async {
        let service = Server::new().service(wrap(Sessions::new(SlowStore(MemoryStore::new())), app));
        let signed_in = service.respond(Request::get("/sign-in").unwrap()).await;
        let cookie = signed_in.cookies().next().map(|cookie| format!("{}={}", cookie.name, cookie.value));
        let get = async |path: &str| {
            let mut request = Request::get(path).unwrap();
            request.headers.set("cookie", cookie.as_deref().unwrap()).unwrap();
            service.respond(request).await
        };
        let changed = tokio::join!(get("/a"), get("/demote"), get("/b"), get("/c"));
        assert_eq!(
            [changed.0, changed.1, changed.2, changed.3].map(|response| response.status),
            [Status::OK; 4]
        );
        assert_eq!(get("/").await.text(), Ok("None [true, true, true]"));
    });
}

#[test]
fn an_uncancelled_handler_does_not_begin_for_a_peer_that_leaves_while_its_session_is_loaded() {
    let store = NotingStore::default();
    let mut agent = agent(store.clone());
    agent.get("/set", &["insert"]);
    let calls = Rc::new(Cell::new(0));
    let counted = calls.clone();
    let counts = move |_: &mut Context| counted.set(counted.get() + 1);
    let sessions = Sessions::new(SlowStore(store.sessions));
    let service = Server::new().service(wrap((uncancelled(), sessions), counts));
    for (leaves, expected) in [(true, 0), (false, 1)] {
        let cookie = &agent.cookie;
        paused(async {
            let (mut near, far) = tokio::io::duplex(1 << 10);
            let peer = async move {
                let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n";
                near.write_all(format!("{head}cookie: {cookie}\r\n\r\n").as_bytes()).await.unwrap();
                if !leaves {
                    near.read_to_end(&mut Vec::new()).await.unwrap();
                }
            };
            let _ = tokio::join!(service.serve_connection(far), peer);
        });
        assert_eq!(calls.get(), expected);
    }
}

/// The session cannot be saved, so no 101 is sent, and the other response accepts no WebSocket (RFC 6455 §4.2.2).
#[test]
fn a_websocket_that_was_not_opened_is_not_accepted_rfc6455_4_2_2() {
    let sessions = Sessions::new(NotingStore { fails: &["insert"], ..NotingStore::default() });
    let served = Served::new(wrap(sessions, async |ctx: &mut Context| -> corehttp::Result {
        Session::from_extensions(&mut ctx.extensions)?.set("user", "Ada")?;
        let deflate = Some(websocket::DeflateOptions::default());
        let protocols = vec!["v1".into()];
        let options = websocket::Options { deflate, protocols, ..websocket::Options::default() };
        ctx.websocket(&options).await?;
        Ok(())
    }));
    let answer = served.ask(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: v1\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(!answer.contains("sec-websocket-"), "{answer}");
}

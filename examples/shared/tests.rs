//! The stores with the real servers, as several processes use them, and with servers that stall, are away or answer nonsense.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use corehttp::middleware::{OnStoreFailure, SharedRateLimit, wrap};
use corehttp::server::ErrorCause;
use corehttp::session::{Session, SessionStore, Sessions};
use corehttp::{
    Context, Handler, Request, Response, Result, Server as HttpServer, Service, block_on, routes,
};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::postgres_sessions::{self, PostgresSessions};
use crate::redis_connection;
use crate::redis_rates::RedisRates;
use crate::redis_sessions::RedisSessions;
use crate::servers::{Folder, Server, nonsense};
use crate::sqlite_sessions::SqliteSessions;

#[test]
fn sessions_are_shared_in_redis() {
    let Some(redis) = Server::redis() else { return };
    block_on(async {
        check_sessions(|| RedisSessions::new(redis_connection::open(&redis.url).unwrap())).await
    })
    .unwrap();
}

#[test]
fn sessions_are_shared_in_postgresql() {
    let Some(postgres) = Server::postgres() else { return };
    block_on(async {
        check_sessions(|| PostgresSessions::open(&postgres.url).unwrap()).await;
        let sessions = PostgresSessions::open(&postgres.url).unwrap();
        sleep(Duration::from_millis(2400)).await;
        assert_eq!(sessions.delete_expired().await.unwrap(), 3);
        assert_eq!(sessions.delete_expired().await.unwrap(), 0);
    })
    .unwrap();
}

#[test]
fn sessions_are_shared_in_sqlite() {
    let folder = Folder::new();
    let path = folder.0.join("sessions.db");
    block_on(async {
        check_sessions(|| SqliteSessions::open(path.to_str().unwrap()).unwrap()).await;
        let sessions = SqliteSessions::open(path.to_str().unwrap()).unwrap();
        sleep(Duration::from_millis(2400)).await;
        assert_eq!(sessions.delete_expired().await.unwrap(), 3);
        assert_eq!(sessions.delete_expired().await.unwrap(), 0);
    })
    .unwrap();
}

/// The behavior that does not depend on the store, each call of which is one of another process. At the end, there are three
/// sessions, which have expired a while later.
async fn check_sessions<S: SessionStore>(store: impl Fn() -> S) {
    let one = service(store());
    let other = service(store());
    // Two user agents, each at both processes.
    let ada = cookie(&ask(&one, "", "/set/a").await);
    let bob = cookie(&ask(&other, "", "/set/b").await);
    assert_ne!(ada, bob);
    for (cookie, expected) in [(&ada, "a"), (&bob, "b"), (&"__Host-session=0".into(), "none")] {
        for service in [&one, &other] {
            assert_eq!(ask(service, cookie, "/").await.text(), Ok(expected));
        }
    }
    assert_eq!(ask(&other, &ada, "/set/%C3%BC%0A").await.status.as_u16(), 200);
    assert_eq!(ask(&one, &ada, "/").await.text(), Ok("ü\n"));

    // A renewed session has one id.
    let renewed = cookie(&ask(&one, &ada, "/renew").await);
    assert_eq!(ask(&other, &ada, "/").await.text(), Ok("none"));
    assert_eq!(ask(&other, &renewed, "/").await.text(), Ok("ü\n"));
    // Of requests at the same time, none undoes the change of another.
    let changes = Vec::from_iter(["a", "b", "c", "d", "e", "f"].map(|name| {
        let (service, renewed) = (if name < "d" { one.clone() } else { other.clone() }, renewed.clone());
        spawn_local(async move { ask(&service, &renewed, &format!("/note/{name}")).await.status.as_u16() })
    }));
    for change in changes {
        assert_eq!(change.await.unwrap(), 200);
    }
    assert_eq!(ask(&one, &renewed, "/noted").await.text(), Ok("abcdef"));
    // Of several that renew it, one does.
    let renewals = Vec::from_iter([&one, &other, &one, &other].map(|service| {
        let (service, renewed) = (service.clone(), renewed.clone());
        spawn_local(async move { ask(&service, &renewed, "/renew").await.cookies().count() })
    }));
    let mut renewed = 0;
    for renewal in renewals {
        renewed += renewal.await.unwrap();
    }
    assert_eq!(renewed, 1);

    // A sign-out at one process is one at all, and a request that is under way does not undo it.
    let slow = spawn_local({
        let (one, bob) = (one.clone(), bob.clone());
        async move { ask(&one, &bob, "/slow").await.status.as_u16() }
    });
    sleep(Duration::from_millis(30)).await;
    assert_eq!(ask(&other, &bob, "/sign-out").await.status.as_u16(), 200);
    assert_eq!(ask(&other, &bob, "/sign-out").await.status.as_u16(), 200);
    assert_eq!(slow.await.unwrap(), 200);
    for service in [&one, &other] {
        assert_eq!(ask(service, &bob, "/").await.text(), Ok("none"));
    }

    // A session that is used goes on, with its values.
    let used = cookie(&ask(&one, "", "/set/used").await);
    let left = cookie(&ask(&one, "", "/set/left").await);
    sleep(Duration::from_millis(1400)).await;
    assert_eq!(ask(&other, &used, "/").await.text(), Ok("used"));
    sleep(Duration::from_millis(1400)).await;
    assert_eq!(ask(&one, &used, "/").await.text(), Ok("used"));
    assert_eq!(ask(&one, &left, "/").await.text(), Ok("none"));
}

/// The handlers of the tests around sessions that expire after two seconds, and an eighth.
fn service<S: SessionStore>(store: S) -> Rc<Service<impl Handler + use<S>>> {
    let sessions = Sessions::new(store).idle_timeout(Duration::from_secs(2));
    let router = routes! {
        GET "/" => |ctx: &mut Context| -> Result {
            let name: Option<String> = Session::from_extensions(&mut ctx.extensions)?.get("name")?;
            ctx.response.set_text(name.unwrap_or_else(|| "none".into()));
            Ok(())
        },
        GET "/set/{name}" => |ctx: &mut Context| -> Result {
            let name = ctx.params().get("name").unwrap_or_default().into_owned();
            Ok(Session::from_extensions(&mut ctx.extensions)?.set("name", &name)?)
        },
        GET "/note/{name}" => async |ctx: &mut Context| -> Result {
            let name = ctx.params().get("name").unwrap_or_default().into_owned();
            let session = Session::from_extensions(&mut ctx.extensions)?;
            sleep(Duration::from_millis(20)).await;
            Ok(session.set(&name, &name)?)
        },
        GET "/noted" => |ctx: &mut Context| -> Result {
            let session = Session::from_extensions(&mut ctx.extensions)?;
            let noted = ["a", "b", "c", "d", "e", "f"].map(|name| session.get::<String>(name));
            ctx.response.set_text(noted.into_iter().flatten().flatten().collect::<String>());
            Ok(())
        },
        GET "/renew" => |ctx: &mut Context| -> Result {
            Session::from_extensions(&mut ctx.extensions)?.renew();
            Ok(())
        },
        GET "/slow" => async |ctx: &mut Context| -> Result {
            Session::from_extensions(&mut ctx.extensions)?.set("name", "slow")?;
            sleep(Duration::from_millis(150)).await;
            Ok(())
        },
        GET "/sign-out" => |ctx: &mut Context| -> Result {
            Session::from_extensions(&mut ctx.extensions)?.delete();
            Ok(())
        },
    };
    Rc::new(HttpServer::new().service(wrap(sessions, router)))
}

async fn ask(service: &Service<impl Handler + 'static>, cookie: &str, path: &str) -> Response {
    let mut request = Request::get(path).unwrap();
    request.headers.set("cookie", cookie).unwrap();
    service.respond(request).await
}

fn cookie(response: &Response) -> String {
    let cookie = response.cookies().next().unwrap();
    format!("{}={}", cookie.name, cookie.value)
}

/// A request with a session, and how long its response took.
async fn timed(service: &Service<impl Handler + 'static>, cookie: &str) -> (u16, String, Duration) {
    let asked = Instant::now();
    let response = ask(service, cookie, "/").await;
    (response.status.as_u16(), response.text().unwrap_or_default().to_owned(), asked.elapsed())
}

/// While the server stalls or is away, each request with a session is answered with 503 within `time_max`.
async fn check_outage<S: SessionStore>(mut server: Server, store: S, time_max: Duration, is_lost: bool) {
    let service = service(store);
    let cookie = cookie(&ask(&service, "", "/set/a").await);
    server.signal("STOP");
    for _ in 0..2 {
        let (status, _, took) = timed(&service, &cookie).await;
        assert_eq!(status, 503);
        assert!(took < time_max + SLACK, "{took:?}");
    }
    assert_eq!(ask(&service, "", "/").await.text(), Ok("none"), "without a session, no store is asked");
    server.signal("CONT");
    assert_eq!(ask(&service, &cookie, "/").await.text(), Ok("a"));
    if is_lost {
        server.kill();
        for _ in 0..2 {
            let (status, _, took) = timed(&service, &cookie).await;
            assert!(status == 503 && took < time_max + SLACK, "{status} {took:?}");
        }
        server.restart();
        eventually(async || timed(&service, &cookie).await.1 == "none").await;
        ask(&service, &cookie, "/set/b").await;
    }
}

/// For a machine that is busy with other tests.
const SLACK: Duration = Duration::from_millis(400);

async fn eventually(is_so: impl AsyncFn() -> bool) {
    for _ in 0..100 {
        if is_so().await {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("it is never so");
}

#[test]
fn requests_with_a_session_do_not_wait_for_ever() {
    if let Some(redis) = Server::redis() {
        block_on(async {
            let store = RedisSessions::new(redis_connection::open(&redis.url).unwrap());
            check_outage(redis, store, redis_connection::TIME_MAX, true).await;
        })
        .unwrap();
    }
}

#[test]
fn redis_that_answers_nonsense_is_no_session() {
    for_each_nonsense(async |answer| {
        let service = service(RedisSessions::new(redis_connection::open(&nonsense(answer)).unwrap()));
        let (status, text, took) = timed(&service, &format!("__Host-session={}", "0".repeat(32))).await;
        assert!([500, 503].contains(&status), "{answer:?} {status} {text}");
        assert!(took < redis_connection::TIME_MAX + SLACK, "{answer:?} {took:?}");
    });
}

/// Checks all answers at the same time.
fn for_each_nonsense(check: impl AsyncFn(&'static str) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for answer in NONSENSE {
            scope.spawn(move || block_on(check(answer)).unwrap());
        }
    });
}

/// No protocol, a part of an answer, answers to something else, an endless one, and an error.
const NONSENSE: [&str; 8] = [
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "*3\r\n$1\r\na",
    "+OK\r\n",
    ":7\r\n",
    "*3\r\n$1\r\na\r\n$2\r\n-5\r\n$1\r\nx\r\n",
    "$9223372036854775807\r\n",
    "*-7\r\n",
    "-LOADING Redis is loading the dataset in memory\r\n",
];

/// The error reports of a service about rates.
type Reports = Arc<Mutex<Vec<String>>>;

/// A service that admits 10 requests, and one more each minute, counted in the Redis at `url`.
fn limited(url: &str, on_failure: OnStoreFailure) -> (Rc<Service<impl Handler + use<>>>, Reports) {
    let reports = Reports::default();
    let kept = reports.clone();
    let server = HttpServer::new().on_error(move |report| {
        assert!(matches!(report.cause, ErrorCause::Rates(_)) && report.is_fault(), "{report}");
        kept.lock().unwrap().push(report.to_string());
    });
    let rates = RedisRates::new(redis_connection::open(url).unwrap());
    let limit = SharedRateLimit::new("test", rates, 10, Duration::from_secs(600)).told();
    let limit = limit.by(|ctx| ctx.request.headers.get("x-user").map(str::to_owned));
    let hello = |ctx: &mut Context| ctx.response.set_text("hello");
    (Rc::new(server.service(wrap(limit.on_store_failure(on_failure), hello))), reports)
}

/// The status of a request of `user`, and its fields `ratelimit` and `retry-after`.
async fn ask_as(service: &Service<impl Handler + 'static>, user: &str) -> (u16, Option<String>, Option<u32>) {
    let mut request = Request::post("/").unwrap();
    request.headers.set("x-user", user).unwrap();
    request.body.set_bytes("body");
    let response = service.respond(request).await;
    let field = |name| response.headers.get(name).map(str::to_owned);
    let wait = field("retry-after").map(|wait| wait.parse().unwrap());
    (response.status.as_u16(), field("ratelimit"), wait)
}

#[test]
fn processes_count_together() {
    let Some(redis) = Server::redis() else { return };
    block_on(async {
        let services = [(); 3].map(|()| limited(&redis.url, OnStoreFailure::Refuse));
        let (status, told, wait) = ask_as(&services[0].0, "eve").await;
        assert_eq!((status, told.as_deref(), wait), (200, Some("\"test\";r=9;t=60"), None));
        let (status, told, _) = ask_as(&services[1].0, "eve").await;
        assert_eq!((status, told.as_deref()), (200, Some("\"test\";r=8;t=120")));
        // Many at the same time, at all processes.
        for user in ["ada", "bob"] {
            let asked = Vec::from_iter((0..60).map(|at| {
                let service = services[at % 3].0.clone();
                spawn_local(async move { ask_as(&service, user).await })
            }));
            let mut allowed = 0;
            for asked in asked {
                let (status, told, wait) = asked.await.unwrap();
                match (status, wait) {
                    (200, None) => allowed += 1,
                    (429, Some(55..=60)) => assert!(told.unwrap().starts_with("\"test\";r=0;t=")),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(allowed, 10);
        }
        // A key that peers made too long, or with which they would write two, counts for the client.
        let long = "x".repeat(10_000);
        for user in [&long, "a\tb"] {
            assert_eq!(ask_as(&services[0].0, user).await.0, 200);
        }
        assert_eq!(ask_as(&services[0].0, "nobody").await.1.as_deref(), Some("\"test\";r=9;t=60"));
        assert_eq!(ask_as(&services[0].0, &long).await.1.as_deref(), Some("\"test\";r=7;t=180"));
        assert!(services.iter().all(|(_, reports)| reports.lock().unwrap().is_empty()));
    })
    .unwrap();
}

#[test]
fn redis_that_stalls_or_is_away_or_has_lost_its_data_fails_open_or_closed() {
    let Some(mut redis) = Server::redis() else { return };
    block_on(async {
        for (on_failure, failed) in [(OnStoreFailure::Admit, 200), (OnStoreFailure::Refuse, 503)] {
            let (service, reports) = limited(&redis.url, on_failure);
            assert_eq!(ask_as(&service, "ada").await.1.as_deref(), Some("\"test\";r=9;t=60"));
            redis.signal("STOP");
            check_failing(&service, failed, TIME_MAX).await;
            assert_eq!(
                *reports.lock().unwrap(),
                ["rates are not counted: their store failed: it took longer than its time limit"],
                "one report a second"
            );
            redis.signal("CONT");
            // Redis now counts the requests that it has received meanwhile.
            eventually(async || ask_as(&service, "ada").await.1.is_some()).await;
            redis.kill();
            check_failing(&service, failed, TIME_MAX).await;
            sleep(Duration::from_secs(1)).await;
            check_failing(&service, failed, TIME_MAX).await;
            let last = reports.lock().unwrap().last().unwrap().clone();
            assert!(reports.lock().unwrap().len() <= 3 && last.contains("more suppressed"), "{last}");
            redis.restart();
            // It has lost its counts, and the script.
            eventually(async || ask_as(&service, "bob").await.1.as_deref() == Some("\"test\";r=9;t=60"))
                .await;
            assert_eq!(ask_as(&service, "ada").await.1.as_deref(), Some("\"test\";r=9;t=60"));
            redis.kill();
            redis.restart();
        }
    })
    .unwrap();
}

/// The time limit of a [`SharedRateLimit`], unless it is set.
const TIME_MAX: Duration = Duration::from_millis(100);

/// Each request is answered with `status`, is told to come back if it is refused, and does not wait.
async fn check_failing(service: &Service<impl Handler + 'static>, status: u16, time_max: Duration) {
    for _ in 0..3 {
        let asked = Instant::now();
        let expected = (status, None, (status == 503).then_some(1));
        assert_eq!(ask_as(service, "ada").await, expected);
        assert!(asked.elapsed() < time_max + SLACK, "{:?}", asked.elapsed());
    }
}

#[test]
fn redis_that_answers_nonsense_decides_nothing() {
    for_each_nonsense(async |answer| {
        for (on_failure, failed) in [(OnStoreFailure::Admit, 200), (OnStoreFailure::Refuse, 503)] {
            let (service, reports) = limited(&nonsense(answer), on_failure);
            check_failing(&service, failed, TIME_MAX).await;
            assert_eq!(reports.lock().unwrap().len(), 1, "{answer:?}");
        }
    });
}

#[test]
fn a_key_with_nonsense_decides_nothing() {
    let Some(redis) = Server::redis() else { return };
    block_on(async {
        let client = redis::Client::open(&redis.url[..]).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let (service, reports) = limited(&redis.url, OnStoreFailure::Refuse);
        for command in ["SET rate:test:key:ada junk", "DEL rate:test:key:ada", "LPUSH rate:test:key:ada 1"] {
            let mut words = command.split(' ');
            let mut set = redis::cmd(words.next().unwrap());
            words.for_each(|word| _ = set.arg(word));
            set.exec_async(&mut connection).await.unwrap();
            let expected = if command.starts_with("DEL") { 200 } else { 503 };
            assert_eq!(ask_as(&service, "ada").await.0, expected, "{command}");
            assert_eq!(ask_as(&service, "bob").await.0, 200);
            redis::cmd("DEL").arg("rate:test:key:ada").exec_async(&mut connection).await.unwrap();
        }
        // A time that is far away, as after the clock was set back, holds nobody up for longer than a whole burst.
        let set = redis::cmd("SET").arg("rate:test:key:eve").arg("9e15").exec_async(&mut connection).await;
        set.unwrap();
        assert_eq!(ask_as(&service, "eve").await, (429, Some("\"test\";r=0;t=600".into()), Some(60)));
        assert_eq!(reports.lock().unwrap().len(), 1);
    })
    .unwrap();
}

#[test]
fn postgresql_that_stalls_is_not_waited_for() {
    let Some(postgres) = Server::postgres() else { return };
    block_on(async {
        let service = service(PostgresSessions::open(&postgres.url).unwrap());
        let cookie = cookie(&ask(&service, "", "/set/a").await);
        let (other, connection) =
            tokio_postgres::connect(&postgres.url, tokio_postgres::NoTls).await.unwrap();
        spawn_local(connection);
        other.batch_execute("BEGIN; LOCK TABLE sessions").await.unwrap();
        let (status, _, took) = timed(&service, &cookie).await;
        assert!(status == 503 && took < postgres_sessions::TIME_MAX + SLACK, "{status} {took:?}");
        other.batch_execute("COMMIT").await.unwrap();
        eventually(async || timed(&service, &cookie).await.0 == 200).await;
    })
    .unwrap();
}

//! The service as a user agent sees it, on both databases.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use corehttp::session::{MemoryStore, Sessions};
use corehttp::{Handler, Request, Response, Service, Status, block_on};
use serde_json::{Value, json};

use crate::database::Database;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::{App, server};

/// A user agent, with its cookie.
struct Agent<'s, H: Handler + 'static> {
    service: &'s Service<H>,
    cookie: String,
}

impl<H: Handler + 'static> Agent<'_, H> {
    /// Sends a request, with a body unless it is null, and returns the response.
    async fn ask(&mut self, method: &str, url: &str, body: Value) -> Response {
        let mut request = Request::new(method, url).unwrap();
        request.headers.set("cookie", &self.cookie).unwrap();
        if !body.is_null() {
            request.set_json(&body).unwrap();
        }
        let response = self.service.respond(request).await;
        if let Some(cookie) = response.cookies().next() {
            self.cookie = format!("{}={}", cookie.name, cookie.value);
        }
        response
    }

    async fn json(&mut self, method: &str, url: &str, body: Value) -> (Status, Value) {
        let response = self.ask(method, url, body).await;
        (response.status, response.json().unwrap_or_default())
    }

    async fn status(&mut self, method: &str, url: &str, body: Value) -> u16 {
        self.ask(method, url, body).await.status.as_u16()
    }
}

fn app() -> App {
    App { sessions: Sessions::new(MemoryStore::new()), origin: Some("https://app.example".into()) }
}

#[test]
fn notes_are_kept_in_sqlite() {
    block_on(check(Sqlite::open(":memory:").unwrap())).unwrap();
}

#[test]
fn notes_are_kept_in_postgresql() {
    let Some(cluster) = Cluster::start() else {
        return eprintln!("skipped: postgres and initdb are not installed");
    };
    block_on(async { check(cluster.connect().await).await }).unwrap();
}

/// The behavior that does not depend on the database.
async fn check(database: impl Database) {
    let service = server().service(app().handler(database).unwrap());
    let agent = || Agent { service: &service, cookie: String::new() };
    let (mut ada, mut bob) = (agent(), agent());
    users_sign_in_and_out(&mut ada).await;
    let user = json!({"name": "Bob", "password": "correct horse"});
    assert_eq!(bob.status("POST", "/users", user.clone()).await, 201);
    assert_eq!(bob.status("POST", "/session", user).await, 200);
    notes_are_their_owners(&mut ada, &mut bob).await;
    notes_are_listed_in_pages(&mut bob).await;
    drafts_are_checked(&mut bob).await;
}

async fn users_sign_in_and_out(ada: &mut Agent<'_, impl Handler + 'static>) {
    let user = json!({"name": "Ada", "password": "correct horse"});
    let other = json!({"name": "Ada", "password": "battery staple"});
    for (method, url, body, status) in [
        ("POST", "/users", json!({"name": "Ada", "password": "short"}), 422),
        ("POST", "/users", json!({"name": "Ada"}), 422),
        ("POST", "/session", user.clone(), 403),
        ("POST", "/users", user.clone(), 201),
        ("POST", "/users", other.clone(), 409),
        ("POST", "/session", other, 403),
        ("GET", "/session", Value::Null, 401),
        ("POST", "/session", user.clone(), 200),
        ("GET", "/session", Value::Null, 200),
        ("DELETE", "/session", Value::Null, 204),
        ("GET", "/session", Value::Null, 401),
        ("GET", "/notes", Value::Null, 401),
        ("POST", "/session", user, 200),
        ("GET", "/none", Value::Null, 404),
        ("PATCH", "/notes", Value::Null, 405),
    ] {
        assert_eq!(ada.status(method, url, body).await, status, "{method} {url}");
    }
}

async fn notes_are_their_owners(
    ada: &mut Agent<'_, impl Handler + 'static>,
    bob: &mut Agent<'_, impl Handler + 'static>,
) {
    let response = ada.ask("POST", "/notes", json!({"text": "milk", "tags": ["shop"]})).await;
    assert_eq!(response.status, Status::CREATED);
    let url = response.headers.get("location").unwrap().to_owned();
    let note: Value = response.json().unwrap();
    assert_eq!((note["text"].as_str(), note["tags"][0].as_str()), (Some("milk"), Some("shop")));
    assert_eq!(ada.json("GET", &url, Value::Null).await, (Status::OK, note));
    let changed = json!({"text": "bread"});
    for (method, body) in [("GET", Value::Null), ("PUT", changed.clone()), ("DELETE", Value::Null)] {
        assert_eq!(bob.status(method, &url, body).await, 404, "{method}");
    }
    let (_, note) = ada.json("PUT", &url, changed).await;
    assert_eq!((note["text"].as_str(), &note["tags"]), (Some("bread"), &json!([])));
    assert_eq!(ada.status("DELETE", &url, Value::Null).await, 204);
    assert_eq!(ada.status("DELETE", &url, Value::Null).await, 404);
    assert_eq!(ada.status("GET", "/notes/x", Value::Null).await, 404);
}

async fn notes_are_listed_in_pages(bob: &mut Agent<'_, impl Handler + 'static>) {
    for n in 1..=5 {
        let tags = if n % 2 == 0 { json!(["even"]) } else { json!([]) };
        assert_eq!(bob.status("POST", "/notes", json!({"text": n.to_string(), "tags": tags})).await, 201);
    }
    for (first, pages) in [
        ("/notes", &["5 4 3 2 1"][..]),
        ("/notes?limit=2", &["5 4", "3 2", "1"]),
        ("/notes?limit=0&tag=even", &["4", "2"]),
        ("/notes?tag=none", &[""]),
    ] {
        let mut next = Some(first.to_owned());
        for page in pages {
            let response = bob.ask("GET", &next.unwrap(), Value::Null).await;
            let notes: Vec<Value> = response.json().unwrap();
            let texts = Vec::from_iter(notes.iter().map(|note| note["text"].as_str().unwrap()));
            assert_eq!(texts.join(" "), *page, "{first}");
            let link = response.headers.get("link");
            next = link.and_then(|link| Some(link.strip_prefix('<')?.split_once('>')?.0.to_owned()));
        }
        assert_eq!(next, None, "{first}");
    }
    assert_eq!(bob.status("GET", "/notes?limit=x", Value::Null).await, 400);
}

async fn drafts_are_checked(bob: &mut Agent<'_, impl Handler + 'static>) {
    let response = bob.ask("POST", "/notes", json!({"text": " ", "tags": ["a", ""]})).await;
    assert_eq!(response.status, Status::UNPROCESSABLE_CONTENT);
    assert_eq!(response.headers.content_type(), Some("application/problem+json"));
    let problem: Value = response.json().unwrap();
    let pointers =
        problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap());
    assert_eq!(Vec::from_iter(pointers), ["#/text", "#/tags"]);
    assert_eq!(bob.status("POST", "/notes", json!({"text": "a", "color": "red"})).await, 422);
    assert_eq!(bob.status("POST", "/notes", json!({"text": "x".repeat(70_000)})).await, 413);
}

#[test]
fn pages_of_one_other_origin_may_use_it() {
    let service = server().service(app().handler(Sqlite::open(":memory:").unwrap()).unwrap());
    let app = Some("https://app.example");
    for (origin, status, expected) in [("https://app.example", 401, app), ("https://evil.example", 403, None)]
    {
        let mut request = Request::post("/notes").unwrap();
        request.headers.set("origin", origin).unwrap();
        let mut preflight = Request::new("OPTIONS", "/notes").unwrap();
        preflight.headers.set("origin", origin).unwrap();
        preflight.headers.set("access-control-request-method", "POST").unwrap();
        for (request, status) in [(request, status), (preflight, 204)] {
            let response = block_on(service.respond(request)).unwrap();
            assert_eq!(response.status.as_u16(), status, "{origin}");
            let allowed = response.headers.get("access-control-allow-origin");
            assert_eq!(allowed, expected, "{origin}");
        }
    }
}

/// A PostgreSQL server of its own, in a temporary folder. It listens there, and at no port.
struct Cluster {
    folder: PathBuf,
    server: Child,
}

impl Cluster {
    /// Returns `None` if PostgreSQL is not installed.
    fn start() -> Option<Cluster> {
        let folder = std::env::temp_dir().join(format!("corehttp-api-{}", std::process::id()));
        // PostgreSQL does not run as root, but as the user that is installed with it.
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        let run_as: &[&str] = if is_root { &["runuser", "-u", "postgres", "--"] } else { &["env"] };
        let run = |program: &str| {
            let mut command = Command::new(run_as[0]);
            command.args(&run_as[1..]).arg(program);
            command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let path = folder.to_str()?;
        let is_made = run("initdb").args(["-A", "trust", "-U", "notes", "-N", "-D", path]).status();
        if !is_made.is_ok_and(|status| status.success()) {
            return None;
        }
        let server =
            run("postgres").args(["-D", path, "-k", path, "-c", "listen_addresses="]).spawn().ok()?;
        Some(Cluster { folder, server })
    }

    /// Connects, once the server has started.
    async fn connect(&self) -> Postgres {
        let url = format!("host={} user=notes dbname=postgres", self.folder.display());
        for _ in 0..100 {
            match Postgres::connect(&url).await {
                Ok(postgres) => return postgres,
                Err(_) => sleep(Duration::from_millis(100)),
            }
        }
        panic!("PostgreSQL does not start in {}", self.folder.display());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // By SIGINT it cuts its connections and ends; if it were killed, its workers would be left behind.
        let pid = fs::read_to_string(self.folder.join("postmaster.pid")).unwrap_or_default();
        drop(Command::new("kill").args(["-INT", pid.lines().next().unwrap_or_default()]).status());
        drop(self.server.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

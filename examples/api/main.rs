//! A JSON service with a database: notes with tags, each of which belongs to a user.
//!
//! ```text
//! cargo run --release --features api --example api -- [ADDR]
//! ```
//!
//! It keeps everything in `notes.db`, an SQLite database, unless `DATABASE_URL` is the address of a PostgreSQL server,
//! such as `postgres://user:password@localhost/notes`. Pages of the origin in `ALLOWED_ORIGIN`, if there is one, may use
//! it, too (CORS).
//!
//! | request | response |
//! |---|---|
//! | POST `/users` with `{"name": "..", "password": ".."}` | 201: there is such a user now |
//! | POST `/session` with the same | 200: the user is signed in, by a cookie |
//! | GET `/session` | the name of the user who is signed in |
//! | DELETE `/session` | 204: nobody is |
//! | GET `/notes?tag=T&limit=N` | the user's notes, the latest first, and in `link` where the next ones are |
//! | POST `/notes` with `{"text": "..", "tags": [..]}` | 201, that note, and where it is |
//! | GET, PUT, DELETE `/notes/N` | that note |
//!
//! Errors are problem details (RFC 9457). <http://127.0.0.1:8081/> shows on this machine how the service is doing, and
//! `/metrics` there is for Prometheus.

mod database;
mod notes;
mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;
mod users;

use std::env;
use std::rc::Rc;
use std::time::Duration;

use corehttp::metrics::{self, Metrics};
use corehttp::middleware::{Cors, CrossOriginProtection, wrap};
use corehttp::server::{ErrorLog, problem_details};
use corehttp::session::{MemoryStore, Sessions};
use corehttp::{Handler, Limits, Server, Timeouts, routes, shutdown_signal};

use database::Database;
use postgres::Postgres;
use sqlite::Sqlite;

fn main() -> corehttp::Result {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let metrics = Metrics::with_options(metrics::Options { times_polls: true, ..Default::default() });
    let shown =
        routes! { GET "/" => metrics::Page::new(&metrics), GET "/metrics" => metrics::Text::new(&metrics) };
    Server::bind("127.0.0.1:8081").cores(1).start(shown)?;
    let server = server().observe(metrics.clone()).stop_on(shutdown_signal(), Duration::from_secs(10));
    let server = server.and_bind(address).observe(ErrorLog::stderr());
    // The sessions are in memory, for all cores: several servers would keep them in the database.
    let app = App { sessions: Sessions::new(MemoryStore::new()), origin: env::var("ALLOWED_ORIGIN").ok() };
    let running = match env::var("DATABASE_URL") {
        Ok(url) => server.start_per_core(async move |_| app.handler(Postgres::connect(&url).await?))?,
        Err(_) => {
            let notes = Sqlite::open("notes.db")?;
            server.start_per_core(async move |_| app.handler(notes.clone()))?
        }
    };
    println!("listening on {running}");
    running.wait()
}

/// The settings that the service and its tests have in common.
fn server() -> Server {
    let limits = Limits { body_max: 64 << 10, ..Limits::default() };
    let timeouts = Timeouts { handler: Some(Duration::from_secs(10)), ..Timeouts::default() };
    Server::new().limits(limits).timeouts(timeouts).error_response(problem_details)
}

/// The state that all cores share.
struct App {
    sessions: Sessions<MemoryStore>,
    /// The origin whose pages may use the service.
    origin: Option<String>,
}

impl App {
    /// The handler of one core, with its own connection to the database.
    fn handler<D: Database>(&self, database: D) -> corehttp::Result<impl Handler + use<D>> {
        let database = Rc::new(database);
        let router = routes! {
            mount "/users" => users::routes(&database),
            mount "/session" => users::session_routes(&database),
            mount "/notes" => notes::routes(&database),
        };
        let (mut protection, mut cors) = (CrossOriginProtection::new(), Cors::new());
        if let Some(origin) = &self.origin {
            protection = protection.trust_origin(origin)?;
            cors = cors.trust_origin(origin)?.expose_fields(["link", "location"])?;
        }
        Ok(wrap((cors, protection, self.sessions.clone()), router))
    }
}

//! An API that speaks JSON, by serde: `cargo run --release --example json -- [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/notes` | all notes |
//! | POST `/notes` with `{"text": ".."}` | 201, that note, and where it is |
//! | GET `/notes/N` | that note |
//! | DELETE `/notes/N` | 204 |
//!
//! Errors are JSON, too (RFC 9457).
//!
//! ```text
//! curl -i --json '{"text": "milk"}' http://127.0.0.1:8080/notes
//! curl -i --json '{"text": 1}' http://127.0.0.1:8080/notes
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use corehttp::server::{ErrorCause, ErrorLog, ErrorReport};
use corehttp::{Context, Response, Result, Server, Status, routes, shutdown_signal, with_state};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Note {
    id: u64,
    text: String,
}

/// A note as a peer sends it, without an id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft {
    text: String,
}

fn main() -> Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let notes = Arc::new(Notes::default());
    let router = routes! {
        GET "/notes" => with_state(&notes, Notes::list),
        POST "/notes" => with_state(&notes, Notes::add),
        GET "/notes/{id}" => with_state(&notes, Notes::show),
        DELETE "/notes/{id}" => with_state(&notes, Notes::remove),
    };
    let server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10));
    let server = server.error_response(explain).observe(ErrorLog::stderr());
    let running = server.start(router)?;
    println!("listening on {running}");
    running.wait()
}

#[derive(Default)]
struct Notes(Mutex<BTreeMap<u64, Note>>);

impl Notes {
    /// The bound on notes, which strangers can add. The length of a note is bounded by that of a body.
    const MAX: usize = 100;

    fn list(&self, ctx: &mut Context) -> Result {
        Ok(ctx.response.set_json(&Vec::from_iter(self.lock().values()))?)
    }

    fn add(&self, ctx: &mut Context) -> Result {
        let Draft { text } = ctx.request.json()?; // or 415, 400 or 422
        let mut notes = self.lock();
        if notes.len() >= Notes::MAX {
            return Err(Status::INSUFFICIENT_STORAGE.into());
        }
        let id = notes.last_key_value().map_or(1, |(last, _)| last + 1);
        ctx.response.status = Status::CREATED;
        ctx.response.headers.set("location", format!("/notes/{id}"))?;
        Ok(ctx.response.set_json(notes.entry(id).or_insert(Note { id, text }))?)
    }

    fn show(&self, ctx: &mut Context) -> Result {
        let id = ctx.params().get_as("id")?; // or 404
        Ok(ctx.response.set_json(self.lock().get(&id).ok_or(Status::NOT_FOUND)?)?)
    }

    fn remove(&self, ctx: &mut Context) -> Result {
        let id = ctx.params().get_as("id")?;
        self.lock().remove(&id).ok_or(Status::NOT_FOUND)?;
        ctx.response.status = Status::NO_CONTENT;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Note>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Explains to the peer what is wrong with its request. A fault of the server is only logged.
fn explain(report: &ErrorReport<'_>, response: &mut Response) {
    let problem = report.problem();
    response.set_problem(&match &report.cause {
        ErrorCause::Handler(error) if problem.status().is_client_error() && error.cause().is_some() => {
            problem.with_detail(error.to_string())
        }
        _ => problem,
    });
}

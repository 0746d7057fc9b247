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
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use corehttp::{
    Context, ErrorCause, ErrorReport, FromText, Method, Response, Server, Status, shutdown_signal,
};
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

type Notes = Mutex<BTreeMap<u64, Note>>;

/// The bound on notes, which strangers can add. The length of a note is bounded by that of a body.
const NOTES_MAX: usize = 100;

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let notes = Notes::default();
    let server = Server::bind(address).on_stop(shutdown_signal(), Duration::from_secs(10));
    let server = server.error_response(explain).on_error(|report| eprintln!("{report}"));
    let running = server.start(move |ctx: &mut Context| answer(&notes, ctx))?;
    println!("listening on {running}");
    running.wait()
}

fn answer(notes: &Notes, ctx: &mut Context) -> corehttp::Result {
    let Context { request, response, .. } = ctx;
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    let mut path = request.path().splitn(3, '/').skip(1);
    match (request.method(), path.next(), path.next()) {
        (Method::Get | Method::Head, Some("notes"), None) => {
            response.set_json(&notes.values().collect::<Vec<_>>())?
        }
        (Method::Post, Some("notes"), None) => {
            let Draft { text } = request.json()?; // or 415, 400 or 422
            if notes.len() >= NOTES_MAX {
                return Err(Status::INSUFFICIENT_STORAGE.into());
            }
            let id = notes.last_key_value().map_or(1, |(last, _)| last + 1);
            response.status = Status::CREATED;
            response.headers.set("location", format!("/notes/{id}"))?;
            response.set_json(notes.entry(id).or_insert(Note { id, text }))?;
        }
        (Method::Get | Method::Head, Some("notes"), Some(id)) => {
            response.set_json(notes.get(&number(id)?).ok_or(Status::NOT_FOUND)?)?;
        }
        (Method::Delete, Some("notes"), Some(id)) => {
            notes.remove(&number(id)?).ok_or(Status::NOT_FOUND)?;
            response.status = Status::NO_CONTENT;
        }
        (_, Some("notes"), id) => {
            let allowed = if id.is_some() { "GET, HEAD, DELETE" } else { "GET, HEAD, POST" };
            response.headers.set("allow", allowed)?;
            return Err(Status::METHOD_NOT_ALLOWED.into());
        }
        _ => return Err(Status::NOT_FOUND.into()),
    }
    Ok(())
}

/// The digits of a number and nothing else: `str::parse` would take `+1` for a second name of note 1.
fn number(id: &str) -> Result<u64, Status> {
    u64::from_text(id).ok_or(Status::NOT_FOUND)
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

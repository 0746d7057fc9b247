//! [`Sqlite`]: the database inside the program.

use std::thread;

use corehttp::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::{mpsc, oneshot};

use crate::database::{Database, Draft, Note, Page};

/// A thread with a connection to an SQLite database, for all cores. Queries wait for the disk, so no core runs them. More
/// of them at once would only wait for each other, so one thread does, and a core wakes nothing else for a query.
#[derive(Clone)]
pub struct Sqlite(mpsc::Sender<Query>);

type Query = Box<dyn FnOnce(&Connection) + Send>;

impl Sqlite {
    /// Opens the database. Its thread ends with the last clone.
    pub fn open(path: &str) -> rusqlite::Result<Sqlite> {
        let connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        let (queries, mut received) = mpsc::channel::<Query>(QUERIES_MAX);
        thread::spawn(move || {
            while let Some(query) = received.blocking_recv() {
                query(&connection);
            }
        });
        Ok(Sqlite(queries))
    }

    async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        // A handler that has run out of time waits for no answer.
        let query: Query = Box::new(move |connection| drop(answer.send(query(connection))));
        self.0.send(query).await.map_err(|_| Error::other("the thread of the database has ended"))?;
        Ok(answered.await??)
    }
}

/// How many queries may wait. Handlers wait for room in the queue.
const QUERIES_MAX: usize = 1024;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, hash BLOB NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS notes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL REFERENCES users,
        text TEXT NOT NULL,
        tags TEXT NOT NULL -- a list in JSON
    ) STRICT;
    CREATE INDEX IF NOT EXISTS notes_of_owner ON notes (owner, id);";

impl Database for Sqlite {
    async fn add_user(&self, name: String, hash: Vec<u8>) -> Result<bool> {
        let statement = "INSERT INTO users VALUES (?, ?) ON CONFLICT DO NOTHING";
        self.run(move |db| Ok(db.prepare_cached(statement)?.execute((name, hash))? == 1)).await
    }

    async fn password_hash(&self, name: String) -> Result<Option<Vec<u8>>> {
        let query = "SELECT hash FROM users WHERE name = ?";
        self.run(move |db| db.prepare_cached(query)?.query_row([name], |row| row.get(0)).optional()).await
    }

    async fn notes(&self, owner: String, Page { tag, before, limit }: Page) -> Result<Vec<Note>> {
        let query = "SELECT id, text, tags FROM notes
            WHERE owner = ?1 AND id < ?2 AND (?3 IS NULL OR ?3 IN (SELECT value FROM json_each(tags)))
            ORDER BY id DESC LIMIT ?4";
        self.run(move |db| {
            db.prepare_cached(query)?.query_map(params![owner, before, tag, limit], note)?.collect()
        })
        .await
    }

    async fn note(&self, owner: String, id: i64) -> Result<Option<Note>> {
        let query = "SELECT id, text, tags FROM notes WHERE owner = ? AND id = ?";
        self.run(move |db| db.prepare_cached(query)?.query_row((owner, id), note).optional()).await
    }

    async fn add_note(&self, owner: String, Draft { text, tags }: Draft) -> Result<Note> {
        let tags = serde_json::to_string(&tags)?;
        let query = "INSERT INTO notes (owner, text, tags) VALUES (?, ?, ?) RETURNING id, text, tags";
        self.run(move |db| db.prepare_cached(query)?.query_row((owner, text, tags), note)).await
    }

    async fn replace_note(
        &self,
        owner: String,
        id: i64,
        Draft { text, tags }: Draft,
    ) -> Result<Option<Note>> {
        let tags = serde_json::to_string(&tags)?;
        let query =
            "UPDATE notes SET text = ?3, tags = ?4 WHERE owner = ?1 AND id = ?2 RETURNING id, text, tags";
        self.run(move |db| db.prepare_cached(query)?.query_row((owner, id, text, tags), note).optional())
            .await
    }

    async fn remove_note(&self, owner: String, id: i64) -> Result<bool> {
        let statement = "DELETE FROM notes WHERE owner = ? AND id = ?";
        self.run(move |db| Ok(db.prepare_cached(statement)?.execute((owner, id))? == 1)).await
    }
}

fn note(row: &Row<'_>) -> rusqlite::Result<Note> {
    let tags: String = row.get("tags")?;
    let tags = serde_json::from_str(&tags).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(Note { id: row.get("id")?, text: row.get("text")?, tags })
}

//! [`Postgres`]: a database on a server.

use std::rc::Rc;

use corehttp::{Error, Result, Status};
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio_postgres::{Client, Config, NoTls, Row, Statement};

use crate::database::{Database, Draft, Note, Page};

/// A core's connection to a PostgreSQL server. The queries of all requests of the core go over it at once: each is sent
/// without waiting for the results of those before it.
pub struct Postgres {
    config: Config,
    connection: Mutex<Rc<Connection>>,
}

/// An open connection, with its prepared statements.
struct Connection {
    client: Client,
    add_user: Statement,
    password_hash: Statement,
    notes: Statement,
    note: Statement,
    add_note: Statement,
    replace_note: Statement,
    remove_note: Statement,
}

impl Postgres {
    pub async fn connect(url: &str) -> Result<Postgres> {
        let config: Config = url.parse()?;
        let connection = Connection::open(&config).await?;
        Ok(Postgres { config, connection: Mutex::new(Rc::new(connection)) })
    }

    /// Returns the connection, which is opened again if it was lost. Requests wait for that together.
    async fn connection(&self) -> Result<Rc<Connection>> {
        let mut connection = self.connection.lock().await;
        if connection.client.is_closed() {
            let opened = Connection::open(&self.config).await;
            *connection = Rc::new(opened.map_err(|error| Error::new(Status::SERVICE_UNAVAILABLE, error))?);
        }
        Ok(connection.clone())
    }
}

impl Connection {
    async fn open(config: &Config) -> Result<Connection, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        // A loss fails the queries that wait, and their requests, whose errors are logged.
        spawn_local(async move { drop(connection.await) });
        client.batch_execute(SCHEMA).await?;
        Ok(Connection {
            add_user: client.prepare("INSERT INTO users VALUES ($1, $2) ON CONFLICT DO NOTHING").await?,
            password_hash: client.prepare("SELECT hash FROM users WHERE name = $1").await?,
            notes: client.prepare(NOTES).await?,
            note: client.prepare("SELECT id, text, tags FROM notes WHERE owner = $1 AND id = $2").await?,
            add_note: client.prepare(ADD_NOTE).await?,
            replace_note: client.prepare(REPLACE_NOTE).await?,
            remove_note: client.prepare("DELETE FROM notes WHERE owner = $1 AND id = $2").await?,
            client,
        })
    }
}

/// The tables, which each core makes unless they are there. The lock makes the cores do so in turn, because
/// `CREATE TABLE IF NOT EXISTS` may fail if it runs twice at once.
const SCHEMA: &str = "
    BEGIN;
    SELECT pg_advisory_xact_lock(8080);
    CREATE TABLE IF NOT EXISTS users (name text PRIMARY KEY, hash bytea NOT NULL);
    CREATE TABLE IF NOT EXISTS notes (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        owner text NOT NULL REFERENCES users,
        text text NOT NULL,
        tags text[] NOT NULL
    );
    CREATE INDEX IF NOT EXISTS notes_of_owner ON notes (owner, id);
    COMMIT;";
const NOTES: &str = "SELECT id, text, tags FROM notes
    WHERE owner = $1 AND id < $2 AND ($3::text IS NULL OR $3 = ANY (tags)) ORDER BY id DESC LIMIT $4";
const ADD_NOTE: &str = "INSERT INTO notes (owner, text, tags) VALUES ($1, $2, $3) RETURNING id, text, tags";
const REPLACE_NOTE: &str =
    "UPDATE notes SET text = $3, tags = $4 WHERE owner = $1 AND id = $2 RETURNING id, text, tags";

impl Database for Postgres {
    async fn add_user(&self, name: String, hash: Vec<u8>) -> Result<bool> {
        let db = self.connection().await?;
        Ok(db.client.execute(&db.add_user, &[&name, &hash]).await? == 1)
    }

    async fn password_hash(&self, name: String) -> Result<Option<Vec<u8>>> {
        let db = self.connection().await?;
        Ok(db.client.query_opt(&db.password_hash, &[&name]).await?.map(|row| row.get("hash")))
    }

    async fn notes(&self, owner: String, Page { tag, before, limit }: Page) -> Result<Vec<Note>> {
        let db = self.connection().await?;
        let rows = db.client.query(&db.notes, &[&owner, &before, &tag, &limit]).await?;
        Ok(rows.iter().map(note).collect())
    }

    async fn note(&self, owner: String, id: i64) -> Result<Option<Note>> {
        let db = self.connection().await?;
        Ok(db.client.query_opt(&db.note, &[&owner, &id]).await?.as_ref().map(note))
    }

    async fn add_note(&self, owner: String, Draft { text, tags }: Draft) -> Result<Note> {
        let db = self.connection().await?;
        Ok(note(&db.client.query_one(&db.add_note, &[&owner, &text, &tags]).await?))
    }

    async fn replace_note(
        &self,
        owner: String,
        id: i64,
        Draft { text, tags }: Draft,
    ) -> Result<Option<Note>> {
        let db = self.connection().await?;
        let row = db.client.query_opt(&db.replace_note, &[&owner, &id, &text, &tags]).await?;
        Ok(row.as_ref().map(note))
    }

    async fn remove_note(&self, owner: String, id: i64) -> Result<bool> {
        let db = self.connection().await?;
        Ok(db.client.execute(&db.remove_note, &[&owner, &id]).await? == 1)
    }
}

fn note(row: &Row) -> Note {
    Note { id: row.get("id"), text: row.get("text"), tags: row.get("tags") }
}

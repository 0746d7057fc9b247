//! [`SqliteSessions`]: sessions in a file, for the processes of one machine.

use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corehttp::session::{SessionId, SessionStore, StoredSession};
use corehttp::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, oneshot};

/// A thread with a process's connection to an SQLite database, for all cores. Sessions outlive a restart of the process, and
/// one process may take the place of another while both have the file open.
///
/// Statements wait for the disk, and for other processes that write, so no core runs them. Each one on a blocking thread
/// of the runtime would hold that thread while it waits, until there is none for files and the names of hosts.
#[derive(Clone)]
pub struct SqliteSessions(mpsc::Sender<Statement>);

type Statement = Box<dyn FnOnce(&Connection) + Send>;

impl SqliteSessions {
    /// Opens the database, and makes its table. Its thread ends with the last clone.
    pub fn open(path: &str) -> rusqlite::Result<SqliteSessions> {
        let connection = Connection::open(path)?;
        // Another process may be writing.
        connection.busy_timeout(Duration::from_secs(1))?;
        connection.execute_batch(SCHEMA)?;
        let (statements, mut received) = mpsc::channel::<Statement>(STATEMENTS_MAX);
        thread::spawn(move || {
            while let Some(statement) = received.blocking_recv() {
                statement(&connection);
            }
        });
        Ok(SqliteSessions(statements))
    }

    /// Deletes the sessions that have expired, which [`SessionStore`] does not ask for. One process calls it now and then.
    pub async fn delete_expired(&self) -> Result<usize> {
        let now = millis(SystemTime::now());
        self.run(move |db| db.execute("DELETE FROM sessions WHERE expires_at < ?", [now])).await
    }

    async fn run<T: Send + 'static>(
        &self,
        statement: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        // A handler that has run out of time waits for no answer.
        let statement: Statement = Box::new(move |connection| drop(answer.send(statement(connection))));
        self.0.send(statement).await.map_err(|_| Error::other("the thread of the database has ended"))?;
        Ok(answered.await??)
    }
}

/// How many statements may wait. Handlers wait for room in the queue.
const STATEMENTS_MAX: usize = 1024;

/// In the mode WAL, readers do not wait for a writer; with it, `NORMAL` loses the latest sessions at most, and only if the
/// machine fails.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS sessions (
        id TEXT PRIMARY KEY,
        data BLOB NOT NULL,
        begun_at INTEGER NOT NULL, -- in milliseconds since 1970
        expires_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS sessions_by_expiry ON sessions (expires_at);";

impl SessionStore for SqliteSessions {
    async fn load(&self, id: &SessionId) -> Result<Option<StoredSession>> {
        let id = id.as_str().to_owned();
        let load = "SELECT data, begun_at, expires_at FROM sessions WHERE id = ?";
        self.run(move |db| {
            let session = |row: &rusqlite::Row<'_>| {
                let data: Vec<u8> = row.get("data")?;
                let (begun_at, expires_at) = (time(row.get("begun_at")?), time(row.get("expires_at")?));
                Ok(StoredSession { data: data.into(), begun_at, expires_at })
            };
            db.prepare_cached(load)?.query_row([id], session).optional()
        })
        .await
    }

    async fn insert(&self, id: &SessionId, session: StoredSession) -> Result {
        let id = id.as_str().to_owned();
        let insert = "INSERT INTO sessions VALUES (?, ?, ?, ?)";
        self.run(move |db| {
            let (begun_at, expires_at) = (millis(session.begun_at), millis(session.expires_at));
            db.prepare_cached(insert)?.execute(params![id, &session.data[..], begun_at, expires_at])
        })
        .await
        .map(drop)
    }

    async fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> Result<bool> {
        let (id, before) = (id.as_str().to_owned(), before.clone());
        let replace = "UPDATE sessions SET data = ?3, expires_at = ?4 WHERE id = ?1 AND data = ?2";
        self.run(move |db| {
            let changed = params![id, &before[..], &data[..], millis(expires_at)];
            Ok(db.prepare_cached(replace)?.execute(changed)? == 1)
        })
        .await
    }

    async fn touch(&self, id: &SessionId, expires_at: SystemTime) -> Result {
        let id = id.as_str().to_owned();
        let touch = "UPDATE sessions SET expires_at = ?2 WHERE id = ?1";
        self.run(move |db| db.prepare_cached(touch)?.execute(params![id, millis(expires_at)])).await.map(drop)
    }

    async fn delete(&self, id: &SessionId) -> Result<bool> {
        let id = id.as_str().to_owned();
        let delete = "DELETE FROM sessions WHERE id = ?";
        self.run(move |db| Ok(db.prepare_cached(delete)?.execute([id])? == 1)).await
    }
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(millis: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

//! [`PostgresSessions`]: sessions in a table of PostgreSQL, for the cores of all processes.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corehttp::session::{SessionId, SessionStore, StoredSession};
use corehttp::{Error, Result, Status};
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// A core's connection to PostgreSQL. The queries of all requests of the core go over it at once.
///
/// While PostgreSQL is away or stalls, requests with a session are answered with 503, after [`TIME_MAX`] at the latest.
#[derive(Clone)]
pub struct PostgresSessions {
    config: Rc<Config>,
    connection: Rc<Mutex<Option<Rc<Connection>>>>,
}

/// How long PostgreSQL may take to answer.
pub const TIME_MAX: Duration = Duration::from_secs(2);

/// An open connection, with its prepared statements.
struct Connection {
    client: Client,
    load: Statement,
    insert: Statement,
    replace: Statement,
    touch: Statement,
    delete: Statement,
}

impl PostgresSessions {
    /// Prepares a connection, which is opened by the first query, and opened again if it was lost. So a service starts while
    /// PostgreSQL is away.
    pub fn open(url: &str) -> Result<PostgresSessions> {
        let mut config: Config = url.parse()?;
        // PostgreSQL gives up when nobody waits any longer, and a machine that is gone without a word is noticed.
        config
            .options(format!("-c statement_timeout={}", TIME_MAX.as_millis()))
            .tcp_user_timeout(2 * TIME_MAX);
        Ok(PostgresSessions { config: Rc::new(config), connection: Rc::default() })
    }

    /// Deletes the sessions that have expired, which [`SessionStore`] does not ask for. One process calls it now and then.
    pub async fn delete_expired(&self) -> Result<u64> {
        let delete = "DELETE FROM sessions WHERE expires_at < now()";
        self.run(async |db| db.client.execute(delete, &[]).await).await
    }

    /// Runs a query in its time.
    async fn run<T>(
        &self,
        query: impl AsyncFnOnce(&Connection) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T> {
        let run = async { query(&*self.connection().await?).await };
        match timeout(TIME_MAX, run).await {
            Ok(outcome) => outcome.map_err(|error| Error::new(Status::SERVICE_UNAVAILABLE, error)),
            Err(late) => Err(Error::new(Status::SERVICE_UNAVAILABLE, late)),
        }
    }

    /// Returns the connection. Requests wait together until it is open.
    async fn connection(&self) -> Result<Rc<Connection>, tokio_postgres::Error> {
        let mut connection = self.connection.lock().await;
        match &*connection {
            Some(open) if !open.client.is_closed() => Ok(open.clone()),
            _ => Ok(connection.insert(Rc::new(Connection::open(&self.config).await?)).clone()),
        }
    }
}

impl Connection {
    async fn open(config: &Config) -> Result<Connection, tokio_postgres::Error> {
        let (client, connection) = config.connect(NoTls).await?;
        // It ends when the connection is lost, and the next query opens another one.
        spawn_local(connection);
        client.batch_execute(SCHEMA).await?;
        Ok(Connection {
            load: client.prepare("SELECT data, begun_at, expires_at FROM sessions WHERE id = $1").await?,
            insert: client.prepare("INSERT INTO sessions VALUES ($1, $2, $3, $4)").await?,
            replace: client.prepare(REPLACE).await?,
            touch: client.prepare(TOUCH).await?,
            delete: client.prepare("DELETE FROM sessions WHERE id = $1").await?,
            client,
        })
    }
}

/// The lock makes the cores of all processes look for the table in turn: `CREATE TABLE IF NOT EXISTS` may fail if it runs twice
/// at once. Without a log, which sessions hardly need, the table would be `UNLOGGED`.
const SCHEMA: &str = "
    BEGIN;
    SELECT pg_advisory_xact_lock(8081);
    CREATE TABLE IF NOT EXISTS sessions (
        id text PRIMARY KEY,
        data bytea NOT NULL,
        begun_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL
    );
    CREATE INDEX IF NOT EXISTS sessions_by_expiry ON sessions (expires_at);
    COMMIT;";
const REPLACE: &str = "UPDATE sessions SET data = $3, expires_at = $4 WHERE id = $1 AND data = $2";
const TOUCH: &str = "UPDATE sessions SET expires_at = $2 WHERE id = $1";

impl SessionStore for PostgresSessions {
    async fn load(&self, id: &SessionId) -> Result<Option<StoredSession>> {
        let row = self.run(async |db| db.client.query_opt(&db.load, &[&id.as_str()]).await).await?;
        Ok(row.map(|row| {
            let data: Vec<u8> = row.get("data");
            let (begun_at, expires_at) = (row.get("begun_at"), row.get("expires_at"));
            StoredSession { data: data.into(), begun_at, expires_at }
        }))
    }

    async fn insert(&self, id: &SessionId, session: StoredSession) -> Result {
        let StoredSession { data, begun_at, expires_at } = session;
        let insert = async |db: &Connection| {
            db.client.execute(&db.insert, &[&id.as_str(), &&data[..], &begun_at, &expires_at]).await
        };
        self.run(insert).await.map(drop)
    }

    async fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> Result<bool> {
        let replace = async |db: &Connection| {
            db.client.execute(&db.replace, &[&id.as_str(), &&before[..], &&data[..], &expires_at]).await
        };
        Ok(self.run(replace).await? == 1)
    }

    async fn touch(&self, id: &SessionId, expires_at: SystemTime) -> Result {
        let touch = async |db: &Connection| db.client.execute(&db.touch, &[&id.as_str(), &expires_at]).await;
        self.run(touch).await.map(drop)
    }

    async fn delete(&self, id: &SessionId) -> Result<bool> {
        Ok(self.run(async |db| db.client.execute(&db.delete, &[&id.as_str()]).await).await? == 1)
    }
}

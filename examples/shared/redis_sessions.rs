//! [`RedisSessions`]: sessions in a Redis, for the cores of all processes.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corehttp::session::{SessionId, SessionStore, StoredSession};
use corehttp::{Error, Result, Status};
use redis::aio::ConnectionManager;
use redis::{AsyncTypedCommands, ErrorKind, RedisError, Script, pipe};

/// Keeps sessions over the connection of a core, which `redis_connection.rs` opens. Each is a hash with the fields `data`,
/// `begun_at` and `expires_at`, in milliseconds since 1970. Redis drops it when it expires.
///
/// While Redis is away or stalls, requests with a session are answered with 503, after half a second at the latest. If Redis
/// has lost its data, the users have to sign in again. So it keeps a log (`appendonly yes`), and where its memory is short, it
/// evicts rates before sessions (`maxmemory-policy volatile-ttl`).
pub struct RedisSessions {
    connection: ConnectionManager,
    replace: Script,
    touch: Script,
}

impl RedisSessions {
    pub fn new(connection: ConnectionManager) -> RedisSessions {
        RedisSessions { connection, replace: Script::new(REPLACE), touch: Script::new(TOUCH) }
    }

    fn connection(&self) -> ConnectionManager {
        self.connection.clone()
    }
}

impl SessionStore for RedisSessions {
    async fn load(&self, id: &SessionId) -> Result<Option<StoredSession>> {
        let mut load = redis::cmd("HMGET");
        load.arg(key(id)).arg(&["data", "begun_at", "expires_at"]);
        let fields: [Option<Vec<u8>>; 3] =
            load.query_async(&mut self.connection()).await.map_err(unavailable)?;
        match fields {
            [None, None, None] => Ok(None),
            [Some(data), Some(begun_at), Some(expires_at)] => {
                let (begun_at, expires_at) = (time(&begun_at)?, time(&expires_at)?);
                Ok(Some(StoredSession { data: data.into(), begun_at, expires_at }))
            }
            _ => Err(Error::other("a session in Redis lacks a field")),
        }
    }

    async fn insert(&self, id: &SessionId, session: StoredSession) -> Result {
        let (begun_at, expires_at) = (millis(session.begun_at), millis(session.expires_at));
        let mut insert = pipe();
        // In one step: a session without an expiry would stay for ever.
        insert.atomic().hset(key(id), "data", &session.data[..]);
        insert.hset_multiple(key(id), &[("begun_at", begun_at), ("expires_at", expires_at)]);
        insert.pexpire_at(key(id), expires_at as i64);
        insert.exec_async(&mut self.connection()).await.map_err(unavailable)
    }

    async fn replace(
        &self,
        id: &SessionId,
        before: &Bytes,
        data: Bytes,
        expires_at: SystemTime,
    ) -> Result<bool> {
        let mut replace = self.replace.key(key(id));
        replace.arg(&before[..]).arg(&data[..]).arg(millis(expires_at));
        replace.invoke_async(&mut self.connection()).await.map_err(unavailable)
    }

    async fn touch(&self, id: &SessionId, expires_at: SystemTime) -> Result {
        let mut touch = self.touch.key(key(id));
        touch.arg(millis(expires_at));
        touch.invoke_async(&mut self.connection()).await.map_err(unavailable)
    }

    async fn delete(&self, id: &SessionId) -> Result<bool> {
        Ok(self.connection().del(key(id)).await.map_err(unavailable)? == 1)
    }
}

/// A session that is not there has no data.
const REPLACE: &str = "
    if redis.call('HGET', KEYS[1], 'data') ~= ARGV[1] then return 0 end
    redis.call('HSET', KEYS[1], 'data', ARGV[2], 'expires_at', ARGV[3])
    redis.call('PEXPIREAT', KEYS[1], ARGV[3])
    return 1";

/// A session that is not there is not added.
const TOUCH: &str = "
    if redis.call('EXISTS', KEYS[1]) == 0 then return end
    redis.call('HSET', KEYS[1], 'expires_at', ARGV[1])
    redis.call('PEXPIREAT', KEYS[1], ARGV[1])";

fn key(id: &SessionId) -> String {
    format!("session:{}", id.as_str())
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn time(millis: &[u8]) -> Result<SystemTime> {
    let millis = Duration::from_millis(str::from_utf8(millis)?.parse()?);
    SystemTime::UNIX_EPOCH.checked_add(millis).ok_or_else(|| Error::other("a session ends after all time"))
}

/// The client may try again, unless Redis has answered something else than what was asked for.
fn unavailable(error: RedisError) -> Error {
    match error.kind() {
        ErrorKind::UnexpectedReturnType => error.into(),
        _ => Error::new(Status::SERVICE_UNAVAILABLE, error),
    }
}

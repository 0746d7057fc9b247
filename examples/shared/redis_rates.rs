//! [`RedisRates`]: a Redis in which the cores of all processes count requests together.

use std::time::Duration;

use corehttp::Result;
use corehttp::middleware::{RateDecision, RateQuota, RateStore};
use redis::Script;
use redis::aio::ConnectionManager;

/// Counts over the connection of a core, which `redis_connection.rs` opens.
///
/// A [`SharedRateLimit`](corehttp::middleware::SharedRateLimit) bounds how long a look-up may take, and decides about the
/// request if it fails.
pub struct RedisRates {
    connection: ConnectionManager,
    script: Script,
}

impl RedisRates {
    pub fn new(connection: ConnectionManager) -> RedisRates {
        RedisRates { connection, script: Script::new(COUNT) }
    }
}

impl RateStore for RedisRates {
    async fn count(&self, key: &str, quota: &RateQuota) -> Result<RateDecision> {
        let mut invocation = self.script.key(format!("rate:{key}"));
        invocation.arg(quota.share().as_micros() as u64).arg(quota.burst);
        // The script is sent by its hash, and as a whole if Redis has lost it.
        let answer = invocation.invoke_async(&mut self.connection.clone()).await?;
        let (is_allowed, number, reset): (bool, u64, u64) = answer;
        let reset = Duration::from_micros(reset);
        Ok(match is_allowed {
            true => RateDecision::Allowed { remaining: u32::try_from(number)?, reset },
            false => RateDecision::Refused { retry_after: Duration::from_micros(number), reset },
        })
    }
}

/// The generic cell rate algorithm (ITU-T I.371), in microseconds, by the clock of Redis: those of the processes may differ. A
/// key has the time at which a whole burst may be sent again, and is gone after it. Redis runs one script at a time.
const COUNT: &str = "
    local share, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local whole_at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now))
    -- After the clock was set back, nobody waits for longer than after a whole burst.
    local debt = math.min(whole_at - now, share * burst)
    local wait = debt - share * (burst - 1)
    if wait > 0 then return {0, wait, debt} end
    debt = debt + share
    redis.call('SET', KEYS[1], string.format('%.0f', now + debt), 'PX', math.ceil(debt / 1000))
    return {1, math.floor(burst - debt / share), debt}";

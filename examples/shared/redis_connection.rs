//! A core's connection to Redis, for `redis_rates.rs` and `redis_sessions.rs`.

use std::time::Duration;

use corehttp::Result;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo};

/// How long Redis may take to answer.
pub const TIME_MAX: Duration = Duration::from_millis(500);

/// Prepares a connection, over which all requests of a core send their commands at once, without waiting for the answers to
/// those before them. It is opened by the first command, and opened again when it was lost, so a service starts while Redis is
/// away. It belongs to the runtime of the core that calls this.
pub fn open(url: &str) -> Result<ConnectionManager> {
    // A command fails at once if Redis is away. Another attempt in its time would only delay the request.
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(TIME_MAX))
        .set_response_timeout(Some(TIME_MAX));
    let info = url.into_connection_info()?.set_tcp_settings(tcp_settings());
    Ok(ConnectionManager::new_lazy_with_config(Client::open(info)?, config)?)
}

/// A connection to a machine that is gone without a word is lost after seconds, and not after a quarter of an hour.
fn tcp_settings() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(4 * TIME_MAX);
    settings
}

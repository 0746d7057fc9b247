//! Opens a connection to an origin: look up, connect, and shake hands.

use std::time::Duration;

use super::ClientError;
use super::origin::Origin;
use super::settings::Settings;
use crate::message::Timings;
use crate::net::{Anywhere, Conn, DialTimes, Stopwatch};
use crate::runtime::{self, Instant};

/// Opens a connection to `origin` before `deadline`, and notes how long that took.
///
/// # Errors
///
/// Says which phase failed.
pub(super) async fn connect(
    settings: &Settings,
    origin: &Origin,
    deadline: Option<Instant>,
    timings: &mut Timings,
) -> Result<Conn<Anywhere>, ClientError> {
    let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(runtime::now()));
    let timeouts = &settings.timeouts;
    let limits = DialTimes { resolve: timeouts.resolve.min(left), connect: timeouts.connect.min(left) };
    let (transport, times) = settings.dial.connect(origin.host(), origin.port, limits).await?;
    (timings.resolve, timings.connect) = (times.resolve, times.connect);
    Ok(Conn::new(transport, Stopwatch::new()))
}

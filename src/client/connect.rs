//! Opens a connection to an origin: look up, connect, and shake hands.

use std::time::Duration;

use super::origin::Origin;
use super::settings::Settings;
use super::{ClientCause, ClientError, ClientPhase};
use crate::message::Timings;
use crate::net::{Anywhere, Conn, DialError, DialTimes, Dialed, Fault, Stopwatch, Transport};
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
    let (dialed, times) =
        settings.dial.connect(origin.host(), origin.port, limits).await.map_err(dial_error)?;
    (timings.resolve, timings.connect) = (times.resolve, times.connect);
    let transport = match dialed {
        Dialed::Tcp(stream) => Transport::Tcp(stream),
        #[cfg(unix)]
        Dialed::Unix(stream) => Transport::Unix(stream),
        Dialed::Memory(stream) => Transport::Memory(stream),
        Dialed::Custom(stream) => Transport::Boxed(stream),
    };
    Ok(Conn::new(transport, Stopwatch::new()))
}

fn dial_error(error: DialError) -> ClientError {
    let (phase, fault) = match error {
        DialError::Resolve(fault) => (ClientPhase::Resolve, fault),
        DialError::Connect(fault) => (ClientPhase::Connect, fault),
    };
    ClientError::new(
        phase,
        match fault {
            Fault::Expired => ClientCause::TimedOut,
            Fault::Io(error) => ClientCause::Io(error),
        },
    )
}

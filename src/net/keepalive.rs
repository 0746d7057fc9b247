//! [`Keepalive`]: probes of the operating system for silent TCP peers (RFC 9293 §3.8.4).

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// How long a peer may be silent before the operating system probes it, and the interval between probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive(Duration);

impl Keepalive {
    pub(crate) fn every(silence: Duration) -> Keepalive {
        Keepalive(silence.clamp(LEAST, MOST))
    }

    /// Turns the probes on for a TCP socket.
    pub(crate) fn set(self, socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_tcp_keepalive(&again_every(self.0, TcpKeepalive::new().with_time(self.0)))
    }
}

/// What systems accept: whole seconds, and on Linux no more than this.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(i16::MAX as u64);

#[cfg(any(unix, windows))]
#[cfg(not(any(target_os = "haiku", target_os = "openbsd", target_os = "solaris")))]
fn again_every(interval: Duration, keepalive: TcpKeepalive) -> TcpKeepalive {
    keepalive.with_interval(interval)
}

/// Some systems have only a global setting.
#[cfg(any(not(any(unix, windows)), target_os = "haiku", target_os = "openbsd", target_os = "solaris"))]
fn again_every(_: Duration, keepalive: TcpKeepalive) -> TcpKeepalive {
    keepalive
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn any_silence_is_rounded_to_what_the_system_takes() {
        use super::{Duration, Keepalive, SockRef};

        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = SockRef::from(&socket);
        assert!(!socket.keepalive().unwrap(), "it is off unless told otherwise");
        let seconds = |seconds, nanos| Duration::new(seconds, nanos);
        for (silence, expected) in [
            (Duration::ZERO, 1),
            (seconds(0, 1), 1),
            (seconds(1, 999_999_999), 1),
            (seconds(15, 0), 15),
            (seconds(32_767, 1), 32_767),
            (seconds(32_768, 0), 32_767),
            (Duration::MAX, 32_767),
        ] {
            Keepalive::every(silence).set(&socket).unwrap();
            let told = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
            assert_eq!(told, (seconds(expected, 0), seconds(expected, 0)), "{silence:?}");
            assert!(socket.keepalive().unwrap());
        }
    }
}

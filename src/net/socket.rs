//! System calls on sockets: [`Keepalive`] probes (RFC 9293 §3.8.4), and sendfile.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

pub(super) use self::imp::{SENDS_FILES, send};

/// How long a peer may be silent before the operating system probes it, and the interval between probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalive(Duration);

impl Keepalive {
    pub(crate) fn new(silence: Duration) -> Keepalive {
        Keepalive(silence.clamp(LEAST, MOST))
    }

    /// Turns the probes on for a TCP socket.
    pub(crate) fn set(self, socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_tcp_keepalive(&again_every(self.0, TcpKeepalive::new().with_time(self.0)))
    }
}

/// Systems accept whole seconds, and Linux no more than this.
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

/// Linux: sendfile(2).
#[cfg(target_os = "linux")]
mod imp {
    use std::fs::File;
    use std::io;
    use std::ops::Range;
    use std::os::fd::AsFd;

    use rustix::fs::sendfile;
    use rustix::io::{Errno, retry_on_intr};

    pub(in crate::net) const SENDS_FILES: bool = true;

    /// Moves some of a range of `file` to `socket`, and returns how much. Fails with `InvalidInput` if the system
    /// cannot send this file, or any.
    pub(in crate::net) fn send(socket: &impl AsFd, file: &File, range: Range<u64>) -> io::Result<u64> {
        let mut offset = range.start;
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        whole(|| sendfile(socket, file, Some(&mut offset), len))
    }

    /// The outcome of `call`, which is repeated if a signal interrupts it. Even a call that need not wait can be
    /// interrupted, and the system restarts it by itself only if the signal's handler was installed with `SA_RESTART`.
    pub(super) fn whole(call: impl FnMut() -> Result<usize, Errno>) -> io::Result<u64> {
        retry_on_intr(call).map(|sent| sent as u64).map_err(refusal)
    }

    /// A sandbox that forbids the call fails it for all files.
    pub(super) fn refusal(errno: Errno) -> io::Error {
        match errno {
            Errno::NOSYS | Errno::PERM => Errno::INVAL.into(),
            errno => errno.into(),
        }
    }
}

/// Other systems: files are read and written.
#[cfg(not(target_os = "linux"))]
mod imp {
    use std::fs::File;
    use std::io;
    use std::ops::Range;

    pub(in crate::net) const SENDS_FILES: bool = false;

    pub(in crate::net) fn send<S>(_: &S, _: &File, _: Range<u64>) -> io::Result<u64> {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::imp::{refusal, whole};
    use super::*;

    #[test]
    fn any_silence_is_rounded_to_what_the_system_takes() {
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
            Keepalive::new(silence).set(&socket).unwrap();
            let told = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
            assert_eq!(told, (seconds(expected, 0), seconds(expected, 0)), "{silence:?}");
            assert!(socket.keepalive().unwrap());
        }
    }

    /// With `InvalidInput`, the file is read and written instead. Any other error would cut a response off after its
    /// head.
    #[test]
    fn a_sandbox_that_forbids_the_call_refuses_the_file() {
        for (errno, expected) in [
            (Errno::INVAL, io::ErrorKind::InvalidInput),
            (Errno::NOSYS, io::ErrorKind::InvalidInput),
            (Errno::PERM, io::ErrorKind::InvalidInput),
            (Errno::CONNRESET, io::ErrorKind::ConnectionReset),
            (Errno::AGAIN, io::ErrorKind::WouldBlock),
        ] {
            assert_eq!(refusal(errno).kind(), expected, "{errno}");
        }
    }

    /// A profiler sends signals all the time, and none of them may cut off a download.
    #[test]
    fn a_call_that_a_signal_cuts_off_is_made_again() {
        let mut outcomes = [Err(Errno::INTR), Err(Errno::INTR), Ok(5)].into_iter();
        assert_eq!(whole(|| outcomes.next().expect("one is left")).unwrap(), 5);
    }
}

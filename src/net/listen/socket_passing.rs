//! [`ControlSocket`]: a Unix socket over which the listening sockets of a process pass to another one (unix(7),
//! `SCM_RIGHTS`); [`Predecessor`] and [`Successor`]: the two processes.
//!
//! A successor connects, and receives a message for each listening socket: its address as text, and its descriptor. The
//! last one is the control socket itself, whose address is empty. Once the successor serves, it writes a byte. A
//! predecessor that no longer waits for it writes one, too.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::socket_file::{FileOwnership, SocketFile};

/// The socket where successors connect.
pub(crate) struct ControlSocket {
    // Dropped first.
    file: SocketFile,
    listener: StdListener,
}

impl ControlSocket {
    pub(crate) fn bind(path: &Path) -> io::Result<ControlSocket> {
        let (file, listener) = SocketFile::bind(path, BACKLOG, Some(MODE))?;
        Ok(ControlSocket { file, listener })
    }

    /// Who removes the file of the socket.
    pub(crate) fn ownership(&self) -> FileOwnership {
        self.file.ownership()
    }

    /// Attaches the socket to the current runtime.
    pub(crate) fn open(self) -> io::Result<OpenControlSocket> {
        self.listener.set_nonblocking(true)?;
        Ok(OpenControlSocket { _file: self.file, listener: UnixListener::from_std(self.listener)? })
    }
}

/// How many successors may wait at once.
const BACKLOG: i32 = 16;

/// The mode of the socket's file. Who can connect can stop the server.
const MODE: u32 = 0o600;

/// A [`ControlSocket`] in the runtime that accepts from it.
pub(crate) struct OpenControlSocket {
    // Dropped first.
    _file: SocketFile,
    listener: UnixListener,
}

impl OpenControlSocket {
    pub(crate) async fn accept(&self) -> io::Result<Successor> {
        self.listener.accept().await.map(|(stream, _)| Successor(stream))
    }

    /// Sends all sockets to a successor, and waits for up to `limit` until it serves.
    pub(crate) async fn pass_on(
        &self,
        mut successor: Successor,
        sockets: &[(String, OwnedFd)],
        limit: Duration,
    ) -> io::Result<()> {
        let passed = timeout(limit, self.send_and_await_ready(&mut successor, sockets)).await;
        passed.unwrap_or_else(|_| {
            // The end of the stream would look as if this process had ended.
            let _ = successor.0.try_write(&[TIMED_OUT]);
            Err(io::ErrorKind::TimedOut.into())
        })
    }

    async fn send_and_await_ready(
        &self,
        successor: &mut Successor,
        sockets: &[(String, OwnedFd)],
    ) -> io::Result<()> {
        let sockets = sockets.iter().map(|(address, socket)| (address.as_str(), socket.as_fd()));
        for (address, socket) in sockets.chain([("", self.listener.as_fd())]) {
            let Successor(stream) = &*successor;
            stream.async_io(Interest::WRITABLE, || send(stream.as_fd(), address, socket)).await?;
        }
        match successor.0.read_u8().await? {
            READY => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// A process that is about to take this one's place.
pub(crate) struct Successor(UnixStream);

/// A process whose place this one is about to take.
pub(crate) struct Predecessor {
    stream: StdStream,
    /// Whether it goes on because this one was late, once that is known.
    goes_on: OnceLock<bool>,
}

impl Predecessor {
    /// Connects to the predecessor. `None` if there is none.
    pub(crate) fn connect(path: &Path) -> io::Result<Option<Predecessor>> {
        match StdStream::connect(path) {
            Err(error) if is_absent(&error) => Ok(None),
            connected => {
                let stream = connected?;
                stream.set_read_timeout(Some(RECEIVE_MAX))?;
                Ok(Some(Predecessor { stream, goes_on: OnceLock::new() }))
            }
        }
    }

    /// Receives all sockets of the predecessor with their addresses, and its control socket at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the predecessor sends something else, or nothing for [`RECEIVE_MAX`].
    pub(crate) fn receive(&self, path: &Path) -> io::Result<(Vec<(String, OwnedFd)>, ControlSocket)> {
        let mut sockets = Vec::new();
        while sockets.len() < SOCKETS_MAX {
            match receive(&self.stream).map_err(explain_silence)? {
                (address, listener) if address.is_empty() => {
                    let control = ControlSocket { file: SocketFile::adopt(path)?, listener: listener.into() };
                    return Ok((sockets, control));
                }
                socket => sockets.push(socket),
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the predecessor has too many sockets"))
    }

    /// Whether the predecessor goes on because this process `is_late`, and has not ended. The first call
    /// decides for all later ones.
    pub(crate) fn decide_goes_on(&self, is_late: bool) -> bool {
        *self.goes_on.get_or_init(|| is_late && !self.has_ended())
    }

    /// Whether the stream has ended without a byte of the predecessor's.
    fn has_ended(&self) -> bool {
        self.stream.set_nonblocking(true).is_ok() && matches!((&self.stream).read(&mut [0]), Ok(0))
    }

    /// Has the predecessor stop. One that has ended meanwhile need not.
    pub(crate) fn announce(&self) {
        let _ = (&self.stream).write_all(&[READY]);
    }
}

/// Whether there is no predecessor.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The byte of a successor that serves.
const READY: u8 = b'r';

/// The byte of a predecessor that waits no longer.
const TIMED_OUT: u8 = b'g';

/// How long a predecessor may take to send a socket.
const RECEIVE_MAX: Duration = Duration::from_secs(10);

/// Gives a read that timed out an error with the usual reason: a predecessor serves one successor after another.
fn explain_silence(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the predecessor has sent no socket for {} s; another successor of it may be starting",
                RECEIVE_MAX.as_secs()
            ),
        ),
        _ => error,
    }
}

/// How many sockets are received at most.
const SOCKETS_MAX: usize = 1 << 16;

/// Sends one socket.
fn send(to: BorrowedFd<'_>, address: &str, socket: BorrowedFd<'_>) -> io::Result<()> {
    let len = u16::try_from(address.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let sockets = [socket];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    let len = len.to_be_bytes();
    let text = address.as_bytes();
    let sent = sendmsg(to, &[IoSlice::new(&len), IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == len.len() + text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives one socket. Its address is empty if it is the last one.
fn receive(mut from: &StdStream) -> io::Result<(String, OwnedFd)> {
    let mut len = [0; 2];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::WAITALL | CLOSE_ON_EXEC;
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut len)], &mut control, flags)?;
    let socket = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    let (Some(socket), 2) = (socket, received.bytes) else {
        let reason = "a socket of the predecessor did not arrive; this process may have too few descriptors";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    };
    let mut address = vec![0; u16::from_be_bytes(len).into()];
    from.read_exact(&mut address)?;
    let address = String::from_utf8(address).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((address, socket))
}

/// A child process must not inherit what was received. Other systems have no such flag, or not all of them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

#[cfg(test)]
mod tests {
    use super::*;

    /// A late process must not serve beside the one whose place it was to take, and must serve if that one is gone.
    #[test]
    fn a_late_successor_goes_on_only_without_its_predecessor() {
        for (is_late, sent, ends, expected) in [
            (false, &b""[..], false, false),
            (false, b"g", true, false),
            (true, b"", false, true),
            (true, b"g", false, true),
            (true, b"g", true, true),
            (true, b"", true, false),
        ] {
            let (stream, mut other) = StdStream::pair().unwrap();
            let predecessor = Predecessor { stream, goes_on: OnceLock::new() };
            other.write_all(sent).unwrap();
            let _open = Some(other).filter(|_| !ends);
            for _ in 0..2 {
                assert_eq!(predecessor.decide_goes_on(is_late), expected, "{is_late} {sent:?} {ends}");
            }
        }
    }

    #[test]
    fn a_predecessor_that_sends_nothing_is_named() {
        let (stream, _other) = StdStream::pair().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let predecessor = Predecessor { stream, goes_on: OnceLock::new() };
        let error = predecessor.receive(Path::new("control")).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("no socket for 10 s; another successor"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_successor_that_is_late_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let control = ControlSocket::bind(&directory.path().join("control")).unwrap().open().unwrap();
        for limit in [Duration::from_secs(310), Duration::ZERO] {
            let (near, mut far) = UnixStream::pair().unwrap();
            let passed = control.pass_on(Successor(near), &[], limit).await;
            assert_eq!(passed.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let mut received = Vec::new();
            far.read_to_end(&mut received).await.unwrap();
            assert!(received.ends_with(&[TIMED_OUT]), "{received:?}");
        }
    }
}

//! [`SocketFile`]: the file of a Unix domain socket.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// The file of a Unix domain socket, removed on drop unless another file has taken its place.
///
/// A `SocketFile` must be dropped before its listener: an open socket keeps the inode, so that the inode's number
/// cannot have been reused for another file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
    ownership: FileOwnership,
}

impl SocketFile {
    /// Listens on `path`, whose file gets `mode`, and replaces a socket that a dead process left there.
    ///
    /// # Errors
    ///
    /// Fails with `AddrInUse` if another process listens on the path, or if the file is not a socket. The file is then
    /// left alone.
    pub(crate) fn bind(path: &Path, backlog: i32, mode: Option<u32>) -> io::Result<(Self, UnixListener)> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        let address = SockAddr::unix(path)?;
        let _lock = lock_directory(path);
        match socket.bind(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path, &address)? => {
                fs::remove_file(path)?;
                socket.bind(&address)?;
            }
            bound => bound?,
        }
        // From this line on, the file is removed if anything fails.
        let file = Self::new(path, FileOwnership::new(true))?;
        // No peer can connect before the socket listens, so the umask's mode grants no access in the meantime.
        if let Some(mode) = mode {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        socket.listen(backlog)?;
        socket.set_nonblocking(true)?;
        Ok((file, socket.into()))
    }

    /// The file of a socket that was inherited. It is still owned by the process that has passed the socket on.
    #[allow(dead_code, reason = "unused without the feature `handover`")]
    pub(crate) fn adopt(path: &Path) -> io::Result<Self> {
        Self::new(path, FileOwnership::new(false))
    }

    fn new(path: &Path, ownership: FileOwnership) -> io::Result<Self> {
        Ok(Self { path: path::absolute(path)?, inode: inode(path)?, ownership })
    }

    /// Who removes the file.
    pub(crate) fn ownership(&self) -> FileOwnership {
        self.ownership.clone()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.ownership.is_owned() && inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            // A file that could not be removed is replaced by the next bind.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether this process removes the file of a socket, or another process that has the socket, too. Clones share the
/// decision.
#[derive(Clone, Debug)]
pub(crate) struct FileOwnership(Arc<AtomicBool>);

impl FileOwnership {
    fn new(is_owned: bool) -> Self {
        Self(Arc::new(AtomicBool::new(is_owned)))
    }

    fn is_owned(&self) -> bool {
        self.0.load(Relaxed)
    }

    #[allow(dead_code, reason = "unused without the feature `handover`")]
    pub(crate) fn set_owned(&self, is_owned: bool) {
        self.0.store(is_owned, Relaxed);
    }
}

/// Locks the directory of `path` while a socket in it is bound, since a socket that is bound and does not listen yet
/// looks like one whose owner has died. If the lock cannot be taken in time, the bind goes on without it: a tool may
/// hold the lock for as long as the server that it started runs.
fn lock_directory(path: &Path) -> Option<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(directory.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..LOCK_ATTEMPTS {
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            locked => return locked.ok().map(|()| directory),
        }
    }
    None
}

const LOCK_ATTEMPTS: u32 = 250;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Whether the owner of a socket has died. Only a refused connection is a proof: a full backlog means that the owner
/// lives, and a denied permission means nothing.
fn is_stale(path: &Path, address: &SockAddr) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    Ok(probe.connect(address).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::unix::net::UnixStream;
    use std::process;
    use std::sync::Barrier;

    use super::*;

    const BACKLOG: i32 = 16;

    /// A path that only one test uses, and whose file is removed after it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Self(env::temp_dir().join(format!("corehttp-{}-{name}", process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_comes_and_goes_with_its_listener() {
        let Scratch(path) = &Scratch::new("comes-and-goes");
        let bound = SocketFile::bind(path, BACKLOG, None).unwrap();
        UnixStream::connect(path).unwrap();
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let Scratch(path) = &Scratch::new("stale");
        drop(UnixListener::bind(path).unwrap());
        assert!(path.exists());
        let _bound = SocketFile::bind(path, BACKLOG, None).unwrap();
        UnixStream::connect(path).unwrap();
    }

    /// A server that has bound the path but does not listen yet must not be taken for dead, and replaced.
    #[test]
    fn of_many_that_replace_a_stale_socket_one_gets_it() {
        for round in 0..100 {
            let Scratch(path) = &Scratch::new(&format!("raced-{round}"));
            drop(UnixListener::bind(path).unwrap());
            let start = Barrier::new(4);
            let bind = || {
                start.wait();
                SocketFile::bind(path, BACKLOG, None)
            };
            let bound = thread::scope(|scope| {
                let racers = [(); 4].map(|()| scope.spawn(bind));
                racers.map(|racer| racer.join().unwrap())
            });
            assert_eq!(bound.iter().flatten().count(), 1, "in round {round}");
            UnixStream::connect(path).unwrap();
        }
    }

    /// Another program may hold the lock of the directory for ever.
    #[test]
    fn a_lock_that_is_never_released_is_not_waited_for() {
        let directory = env::temp_dir().join(format!("corehttp-{}-locked", process::id()));
        fs::create_dir_all(&directory).unwrap();
        let held = File::open(&directory).unwrap();
        held.lock().unwrap();
        drop(SocketFile::bind(&directory.join("socket"), BACKLOG, None).unwrap());
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn a_live_socket_is_in_use_even_if_its_backlog_is_full() {
        let Scratch(path) = &Scratch::new("live");
        let _bound = SocketFile::bind(path, 0, None).unwrap();
        let _queued = UnixStream::connect(path).unwrap();
        let error = SocketFile::bind(path, BACKLOG, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let Scratch(path) = &Scratch::new("precious");
        fs::write(path, "precious").unwrap();
        let error = SocketFile::bind(path, BACKLOG, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(path).unwrap(), b"precious");
    }

    #[test]
    fn a_successors_file_is_left_alone() {
        let Scratch(path) = &Scratch::new("successor");
        let old = SocketFile::bind(path, BACKLOG, None).unwrap();
        fs::remove_file(path).unwrap();
        let _new = SocketFile::bind(path, BACKLOG, None).unwrap();
        drop(old);
        UnixStream::connect(path).unwrap();
    }
}

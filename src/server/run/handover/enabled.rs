//! [`Handover`]: the listening sockets of a server pass to the process that takes its place.
//!
//! Both processes accept from the same sockets until the predecessor stops. It stops once the successor serves. No
//! socket is closed meanwhile, so no waiting connection is lost.

use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::descriptors::{CLOSING_TIME, makes_room_after};
use crate::net::{
    Address, BoundSocket, ControlSocket, FileOwnership, ListenOptions, Predecessor, SocketFile,
};
use crate::runtime;
use crate::server::run::ServerHandle;

/// The listening sockets of a server that takes them over, and passes them on.
pub(crate) struct Handover {
    path: PathBuf,
    start_limit: StartLimit,
    /// Ready once this server serves.
    serving: Option<oneshot::Receiver<()>>,
    /// The sockets of the predecessor that no address has taken yet.
    inherited: Vec<(String, OwnedFd)>,
    /// Unix sockets of the predecessor that this server does not take, whose files go when it serves.
    abandoned: Vec<(SocketFile, OwnedFd)>,
    control: Option<ControlSocket>,
    /// The sockets to pass on, by their addresses.
    kept: Vec<(String, OwnedFd)>,
    /// Which of two servers removes the files of Unix sockets.
    files: Vec<FileOwnership>,
}

impl Handover {
    pub(in crate::server) fn new(path: PathBuf) -> Handover {
        let start_limit = StartLimit { predecessor: None, ready_by: runtime::now(), start_max: START_MAX };
        let (inherited, abandoned, kept, files) = Default::default();
        Handover { path, start_limit, serving: None, inherited, abandoned, control: None, kept, files }
    }

    /// Receives the sockets of the predecessor, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the predecessor cannot be reached, or sends something else. It then goes on.
    pub(in crate::server) fn receive(&mut self) -> io::Result<()> {
        // The predecessor's clock starts later, once it has accepted.
        self.start_limit.ready_by = runtime::later(runtime::now(), self.start_limit.start_max);
        let Some(predecessor) = Predecessor::connect(&self.path)? else { return Ok(()) };
        let (inherited, control) = predecessor.receive(&self.path)?;
        self.inherited = inherited;
        self.control = Some(control);
        self.start_limit.predecessor = Some(Arc::new(predecessor));
        Ok(())
    }

    /// Takes the inherited sockets of this address.
    pub(in crate::server) fn take(
        &mut self,
        address: &Address,
        options: &ListenOptions,
    ) -> io::Result<Vec<BoundSocket>> {
        let name = address.to_string();
        let taken = self.inherited.extract_if(.., |(inherited, _)| *inherited == name);
        taken.map(|(_, socket)| BoundSocket::from_inherited(socket, address, options)).collect()
    }

    /// Keeps a descriptor of a socket, to be passed on.
    pub(in crate::server) fn keep(&mut self, address: &Address, bound: &BoundSocket) -> io::Result<()> {
        if let Some(socket) = bound.duplicate()? {
            self.kept.push((address.to_string(), socket));
            self.files.extend(bound.file_ownership());
        }
        Ok(())
    }

    /// Listens at the path, unless its socket was inherited, and closes the sockets that no address has taken.
    pub(in crate::server) fn listen(&mut self) -> io::Result<()> {
        for (address, socket) in self.inherited.drain(..) {
            if let Address::Unix(path) = Address::from(address)
                && let Ok(file) = SocketFile::adopt(&path)
            {
                self.abandoned.push((file, socket));
            }
        }
        let control = match self.control.take() {
            Some(control) => control,
            None => ControlSocket::bind(&self.path)?,
        };
        self.files.push(control.ownership());
        self.control = Some(control);
        Ok(())
    }

    /// The limit of this server's start.
    pub(in crate::server) fn start_limit(&self) -> StartLimit {
        self.start_limit.clone()
    }

    /// The announcement of this server, to be made once it serves.
    pub(in crate::server) fn announcement(&mut self) -> Announcement {
        let (serves, serving) = oneshot::channel();
        self.serving = Some(serving);
        let predecessor = self.start_limit.predecessor.take();
        let abandoned = mem::take(&mut self.abandoned);
        Announcement { predecessor, abandoned, files: self.files.clone(), serves }
    }

    /// Waits for a successor that serves, and then stops this server.
    pub(in crate::server) async fn serve(mut self, running: ServerHandle, grace: Duration) -> io::Result<()> {
        let (Some(control), Some(serving)) = (self.control.take(), self.serving.take()) else {
            return Ok(());
        };
        let control = control.open()?;
        // Until then a successor would take the place of the predecessor, too.
        if serving.await.is_err() {
            return Ok(());
        }
        loop {
            let successor = match control.accept().await {
                Ok(successor) => successor,
                Err(error) => {
                    let pause = if makes_room_after(&error) { CLOSING_TIME } else { ACCEPT_PAUSE };
                    runtime::sleep(pause).await;
                    continue;
                }
            };
            // If this server is stopped while the successor starts, the files stay for it. Without a successor, the next
            // server replaces them.
            self.set_files_owned(false);
            if control.pass_on(successor, &self.kept, START_MAX + ANNOUNCE_MAX).await.is_ok() {
                running.stop_for_successor(grace);
                return Ok(());
            }
            self.set_files_owned(true);
        }
    }

    /// Decides whether this server removes the files of its Unix sockets.
    fn set_files_owned(&self, is_owned: bool) {
        self.files.iter().for_each(|file| file.set_owned(is_owned));
    }
}

/// How long to wait for descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// How long a successor may take to start.
const START_MAX: Duration = Duration::from_secs(300);

/// How much longer than [`START_MAX`] a predecessor waits: the time that a successor may take from its last check of the
/// limit to its announcement. Otherwise both could decide that the other one has failed.
const ANNOUNCE_MAX: Duration = Duration::from_secs(10);

/// How long a server may take to start whose predecessor waits for it.
#[derive(Clone)]
pub(crate) struct StartLimit {
    predecessor: Option<Arc<Predecessor>>,
    /// When this server must be ready to listen.
    ready_by: runtime::Instant,
    start_max: Duration,
}

impl StartLimit {
    /// Decides whether this server may listen. All of its cores get the same result.
    ///
    /// # Errors
    ///
    /// Fails if it took too long. The predecessor then goes on.
    pub(in crate::server) fn check(&self) -> io::Result<()> {
        let StartLimit { predecessor, ready_by, start_max } = self;
        match predecessor {
            Some(predecessor) if predecessor.decide_goes_on(runtime::now() > *ready_by) => {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "the start took longer than {} s, so the predecessor goes on",
                        start_max.as_secs()
                    ),
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Has the predecessor stop once this server serves. If it is dropped before that, the predecessor goes on.
pub(crate) struct Announcement {
    predecessor: Option<Arc<Predecessor>>,
    abandoned: Vec<(SocketFile, OwnedFd)>,
    files: Vec<FileOwnership>,
    serves: oneshot::Sender<()>,
}

impl Announcement {
    /// Whether this server takes the place of another.
    pub(in crate::server) fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Announces that this server serves.
    pub(in crate::server) fn make(self) {
        let abandoned = self.abandoned.iter().map(|(file, _)| file.ownership());
        abandoned.chain(self.files).for_each(|file| file.set_owned(true));
        drop(self.abandoned);
        if let Some(predecessor) = &self.predecessor {
            predecessor.announce();
        }
        let _ = self.serves.send(());
    }
}

#[cfg(test)]
mod tests {
    use crate::Server;
    use crate::server::Context;

    use super::*;

    #[test]
    fn a_server_that_starts_too_late_does_not_listen_and_its_predecessor_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let server = || Server::bind("127.0.0.1:0").cores(2).handover(directory.path().join("handover"));
        let first = server().start(|_: &mut Context| {}).unwrap();
        let mut late = server();
        late.launch.handover.as_mut().unwrap().start_limit.start_max = Duration::ZERO;
        let error = late.start(|_: &mut Context| {}).unwrap_err().to_string();
        assert!(error.contains("the start took longer than 0 s"), "{error}");
        assert!(!first.is_stop_ordered());
        let second = server().start(|_: &mut Context| {}).unwrap();
        first.wait().unwrap();
        assert_eq!(second.local_addr(), first.local_addr());
        second.stop(Duration::ZERO);
        second.wait().unwrap();
    }
}

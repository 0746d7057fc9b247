//! A handover without the feature `handover`. A type without a value lets the compiler remove the code.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use crate::net::{Address, BoundSocket, ListenOptions};
use crate::server::run::ServerHandle;

/// A handover, of which there are none.
pub(crate) struct Handover(Infallible);

impl Handover {
    pub(in crate::server) fn receive(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub(in crate::server) fn take(&mut self, _: &Address, _: &ListenOptions) -> io::Result<Vec<BoundSocket>> {
        match self.0 {}
    }

    pub(in crate::server) fn keep(&mut self, _: &Address, _: &BoundSocket) -> io::Result<()> {
        match self.0 {}
    }

    pub(in crate::server) fn listen(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub(in crate::server) fn start_limit(&self) -> StartLimit {
        match self.0 {}
    }

    pub(in crate::server) fn announcement(&mut self) -> Announcement {
        match self.0 {}
    }

    pub(in crate::server) async fn serve(self, _: ServerHandle, _: Duration) -> io::Result<()> {
        match self.0 {}
    }
}

/// The limit of a start, of which there are none.
#[derive(Clone)]
pub(crate) struct StartLimit(Infallible);

impl StartLimit {
    pub(in crate::server) fn check(&self) -> io::Result<()> {
        match self.0 {}
    }
}

/// The announcement of a server that serves, of which there are none.
pub(crate) struct Announcement(Infallible);

impl Announcement {
    pub(in crate::server) fn has_predecessor(&self) -> bool {
        match self.0 {}
    }

    pub(in crate::server) fn make(self) {
        match self.0 {}
    }
}

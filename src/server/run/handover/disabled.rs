//! A handover without the feature `handover`: a type without a value, so that the compiler removes the code that uses it.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use crate::net::{Address, BoundSocket, ListenOptions};
use crate::server::run::ServerHandle;

/// A handover, of which there are none.
pub(crate) struct Handover(Infallible);

impl Handover {
    pub(crate) fn receive(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn take(&mut self, _: &Address, _: &ListenOptions) -> io::Result<Vec<BoundSocket>> {
        match self.0 {}
    }

    pub(crate) fn keep(&mut self, _: &Address, _: &BoundSocket) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn listen(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub(crate) fn start_limit(&self) -> StartLimit {
        match self.0 {}
    }

    pub(crate) fn announcement(&mut self) -> Announcement {
        match self.0 {}
    }

    pub(crate) async fn serve(self, _: ServerHandle, _: Duration) -> io::Result<()> {
        match self.0 {}
    }
}

/// The limit of a start, of which there are none.
#[derive(Clone)]
pub(crate) struct StartLimit(Infallible);

impl StartLimit {
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.0 {}
    }
}

/// The announcement of a server that serves, of which there are none.
pub(crate) struct Announcement(Infallible);

impl Announcement {
    pub(crate) fn has_predecessor(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn make(self) {
        match self.0 {}
    }
}

//! Other systems: there is no such timer.

use std::io;
use std::time::Duration;

pub(super) enum SystemTimer {}

impl SystemTimer {
    pub(super) fn new() -> io::Result<SystemTimer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) async fn wait(&mut self, _: Duration) -> io::Result<()> {
        match *self {}
    }
}

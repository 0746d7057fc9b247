//! [`Task`]: what clients ask the limit for.

use std::net::SocketAddr;
use std::sync::LazyLock;

use crate::application::{HELLO, LARGE, filler};

/// One exchange of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Get,
    /// The server closes after it, so each has a connection of its own.
    Close,
    /// 1 MiB comes.
    Down,
    /// 1 MiB goes.
    Up,
}

/// A task, and how many are had at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) in_flight: usize,
}

impl Task {
    pub(crate) const ALL: [Task; 4] = [Task::Get, Task::Close, Task::Down, Task::Up];

    /// As both programs call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Task::Get => "get",
            Task::Close => "close",
            Task::Down => "down",
            Task::Up => "up",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Task> {
        Task::ALL.into_iter().find(|task| task.name() == name)
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Task::Get => "/",
            Task::Close => "/close",
            Task::Down => "/large",
            Task::Up => "/sink",
        }
    }

    pub(super) fn url(self, address: SocketAddr) -> String {
        format!("http://{address}{}", self.path())
    }

    /// What a POST sends; none if it is a GET.
    pub(super) fn content(self) -> Option<&'static [u8]> {
        (self == Task::Up).then(|| LARGE_BYTES.as_slice())
    }

    pub(super) fn answer(self) -> &'static [u8] {
        match self {
            Task::Get | Task::Close | Task::Up => HELLO.as_bytes(),
            Task::Down => &LARGE_BYTES,
        }
    }
}

static LARGE_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| filler(LARGE));

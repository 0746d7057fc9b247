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

    /// The content of a POST; none if it is a GET.
    pub(super) fn content(self) -> Option<&'static [u8]> {
        (self == Task::Up).then(|| LARGE_BYTES.as_slice())
    }

    /// Is this the response? Of each page of a large one some bytes are looked at, for to compare all of them takes as
    /// long as to receive them, and would be half of what is measured.
    pub(super) fn is_answered_by(self, response: &[u8]) -> bool {
        let expected = self.response();
        let is_right = |at: usize| {
            let end = expected.len().min(at + GLANCE);
            response[at..end] == expected[at..end]
        };
        response.len() == expected.len() && (0..expected.len()).step_by(PAGE).all(is_right)
    }

    pub(super) fn response(self) -> &'static [u8] {
        match self {
            Task::Get | Task::Close | Task::Up => HELLO.as_bytes(),
            Task::Down => &LARGE_BYTES,
        }
    }
}

const PAGE: usize = 4 << 10;
const GLANCE: usize = 32;

static LARGE_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| filler(LARGE));

#[cfg(test)]
mod tests {
    use super::{LARGE_BYTES, PAGE, Task};

    #[test]
    fn a_response_that_misses_a_part_is_wrong() {
        let large = LARGE_BYTES.as_slice();
        assert!(Task::Down.is_answered_by(large));
        let wrong = [
            large[1..].to_vec(),
            [&large[1..], b"x"].concat(),
            // A read is lost, and another comes twice.
            [&large[..PAGE], &large[2 * PAGE..], &large[..PAGE]].concat(),
            [large, b"x"].concat(),
            Vec::new(),
        ];
        for response in wrong {
            assert!(!Task::Down.is_answered_by(&response), "{} bytes", response.len());
        }
        assert!(Task::Get.is_answered_by(b"Hello, world!") && Task::Up.is_answered_by(b"Hello, world!"));
        assert!(!Task::Get.is_answered_by(b"Hello, World!") && !Task::Get.is_answered_by(b"Hello, world"));
    }
}

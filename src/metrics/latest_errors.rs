//! [`LatestErrors`]: the latest error of each kind on one core.

use std::fmt::{self, Write};
use std::sync::{Mutex, TryLockError};
use std::time::Instant;

use crate::memory::lock;
use crate::server::{ERROR_KINDS, ErrorCounts, ErrorReport};

/// The latest error of each kind. A core never waits for a reader: an error that happens while the list is read is left
/// out.
#[derive(Default)]
pub(super) struct LatestErrors {
    /// In the order of [`ERROR_KINDS`].
    latest: Mutex<[Option<LatestError>; ERROR_KINDS.len()]>,
}

/// The latest error of a kind.
#[derive(Clone, Debug)]
pub(super) struct LatestError {
    pub(super) at: Instant,
    /// The report of it, as it displays itself.
    pub(super) text: String,
}

impl LatestErrors {
    pub(super) fn note(&self, report: &ErrorReport<'_>, now: Instant) {
        let mut text = Front(String::new());
        // The error of a writer that is full; the cause is the application's, and may fail to display itself.
        let _ = write!(text, "{report}");
        let mut latest = match self.latest.try_lock() {
            Ok(latest) => latest,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        latest[ErrorCounts::kind_of(&report.cause)] = Some(LatestError { at: now, text: text.0 });
    }

    /// The latest errors, in the order of [`ERROR_KINDS`].
    pub(super) fn list(&self) -> [Option<LatestError>; ERROR_KINDS.len()] {
        lock(&self.latest).clone()
    }
}

/// The front of a text that may be long.
struct Front(String);

impl Write for Front {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.0.len() >= TEXT_LEN_MAX {
                return Err(fmt::Error);
            }
            self.0.push(character);
        }
        Ok(())
    }
}

/// How many bytes of the text of an error are kept.
const TEXT_LEN_MAX: usize = 500;

//! [`BodyFailure`]: why a body could not be received, for whoever reads on.

use std::io;

use super::{ExchangeError, Phase};
use crate::error_text::TimeLimit;
use crate::wire::{WireDetail, WireError};

/// Why a body could not be received, or was given up. The place of the reader in the message is unknown then, or a part of
/// the content is lost: the rest must pass neither for all of it nor for the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFailure {
    Incomplete,
    TimedOut(Phase, TimeLimit),
    /// The name of the limit, and its bytes.
    TooLarge(&'static str, u64),
    Wire(WireError),
    NoMemory,
    Io(io::ErrorKind),
    /// Received content is no longer there.
    Discarded,
}

impl BodyFailure {
    pub(super) fn from_error(error: &ExchangeError) -> BodyFailure {
        match error {
            ExchangeError::Incomplete | ExchangeError::PeerClosed | ExchangeError::NoCloseFrame => {
                BodyFailure::Incomplete
            }
            ExchangeError::TimedOut(phase, limit) => BodyFailure::TimedOut(*phase, *limit),
            ExchangeError::Wire(error, detail) => match detail.as_deref() {
                Some(WireDetail::Limit { name, max, .. }) if *error == WireError::BodyTooLarge => {
                    BodyFailure::TooLarge(name, *max)
                }
                _ => BodyFailure::Wire(*error),
            },
            ExchangeError::NoMemory => BodyFailure::NoMemory,
            ExchangeError::Io(error) | ExchangeError::Source(error) => BodyFailure::Io(error.kind()),
            ExchangeError::Length | ExchangeError::Unfinished | ExchangeError::Discarded => {
                BodyFailure::Discarded
            }
        }
    }

    /// The error of a further read, with the status of the first.
    #[cold]
    pub(super) fn error(self) -> ExchangeError {
        match self {
            BodyFailure::Incomplete => ExchangeError::Incomplete,
            BodyFailure::TimedOut(phase, limit) => ExchangeError::TimedOut(phase, limit),
            BodyFailure::TooLarge(name, max) => {
                ExchangeError::Wire(WireError::BodyTooLarge, Some(WireDetail::limit(name, "bytes", max)))
            }
            BodyFailure::Wire(error) => error.into(),
            BodyFailure::NoMemory => ExchangeError::NoMemory,
            BodyFailure::Io(kind) => ExchangeError::Io(kind.into()),
            BodyFailure::Discarded => ExchangeError::Discarded,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_further_read_fails_as_the_first_did() {
        let limit = TimeLimit::from(Duration::from_secs(1));
        for error in [
            ExchangeError::Incomplete,
            ExchangeError::TimedOut(Phase::Body, limit),
            ExchangeError::TimedOut(Phase::Memory, limit),
            ExchangeError::body_too_large(9, None),
            WireError::ChunkData.into(),
            ExchangeError::NoMemory,
            ExchangeError::Io(io::ErrorKind::ConnectionReset.into()),
            ExchangeError::Discarded,
        ] {
            let again = BodyFailure::from_error(&error).error();
            assert_eq!((again.status(), again.kind()), (error.status(), error.kind()), "{error}");
            assert_eq!(again.to_string(), error.to_string());
        }
    }
}

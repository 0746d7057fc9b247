//! [`RetryDecision`]: what becomes of a request that was in flight when its connection broke (RFC 9112 §9.3.2).

use crate::client::ClientCause;

/// What becomes of a request that was in flight when its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// It is sent once more, on the next connection.
    Retry,
    /// Its caller gets an error.
    Fail,
}

/// How a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disconnect {
    /// The server took too long.
    TimedOut,
    /// The connection ended between two answers, as it may at any time (§9.5).
    Clean,
    /// It ended otherwise, or can no longer be understood.
    Broken,
}

impl Disconnect {
    /// The cause for a request that fails because of another one's answer.
    pub(super) fn cause(self) -> ClientCause {
        match self {
            Disconnect::TimedOut => ClientCause::TimedOut,
            Disconnect::Clean | Disconnect::Broken => ClientCause::OutOfStep,
        }
    }
}

/// Where a request stood in the line of those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Its answer was the next to come, so it may be why the connection broke.
    Head,
    /// It was also the first when an earlier connection broke.
    HeadAgain,
    /// Others were to be answered before it, or one just was.
    Behind,
}

impl RetryDecision {
    /// Decides about one request. `is_sent` if any of it was; `may_repeat` if it does no harm that the server acts on it
    /// twice (RFC 9110 §9.2.2).
    pub(super) fn of(
        position: Position,
        disconnect: Disconnect,
        is_sent: bool,
        may_repeat: bool,
    ) -> RetryDecision {
        let goes_again = match (position, disconnect) {
            (Position::HeadAgain, _) | (Position::Head, Disconnect::TimedOut) => false,
            _ if !is_sent => true,
            (Position::Head, Disconnect::Clean)
            | (Position::Behind, Disconnect::Clean | Disconnect::Broken) => may_repeat,
            (Position::Head, Disconnect::Broken) | (Position::Behind, Disconnect::TimedOut) => false,
        };
        if goes_again { RetryDecision::Retry } else { RetryDecision::Fail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fates of a request that is unsent, sent and may be repeated, and sent and may not.
    #[track_caller]
    fn check(position: Position, disconnect: Disconnect, expected: [RetryDecision; 3]) {
        let [unsent, repeatable, other] = expected;
        let rows =
            [(false, true, unsent), (false, false, unsent), (true, true, repeatable), (true, false, other)];
        for (is_sent, may_repeat, decision) in rows {
            assert_eq!(
                RetryDecision::of(position, disconnect, is_sent, may_repeat),
                decision,
                "{is_sent} {may_repeat}"
            );
        }
    }

    #[test]
    fn a_request_goes_again_if_it_does_no_harm_and_is_not_the_reason() {
        use Disconnect::{Broken, Clean, TimedOut};
        use RetryDecision::{Fail, Retry};
        check(Position::Head, TimedOut, [Fail, Fail, Fail]);
        check(Position::Head, Clean, [Retry, Retry, Fail]);
        check(Position::Head, Broken, [Retry, Fail, Fail]);
        check(Position::HeadAgain, TimedOut, [Fail, Fail, Fail]);
        check(Position::HeadAgain, Clean, [Fail, Fail, Fail]);
        check(Position::HeadAgain, Broken, [Fail, Fail, Fail]);
        check(Position::Behind, TimedOut, [Retry, Fail, Fail]);
        check(Position::Behind, Clean, [Retry, Retry, Fail]);
        check(Position::Behind, Broken, [Retry, Retry, Fail]);
    }
}

//! [`Fate`]: what becomes of a request that was in flight when its connection broke (RFC 9112 §9.3.2).

use crate::client::ClientCause;

/// What becomes of a request that was in flight when its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is sent once more, on the next connection.
    Again,
    /// Its caller gets an error.
    Fails,
}

/// How a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// The server took too long.
    TimedOut,
    /// The connection ended between two answers, as it may at any time (§9.5).
    Between,
    /// It ended otherwise, or can no longer be understood.
    Amiss,
}

impl Break {
    /// The cause for a request that fails because of another one's answer.
    pub(super) fn cause(self) -> ClientCause {
        match self {
            Break::TimedOut => ClientCause::TimedOut,
            Break::Between | Break::Amiss => ClientCause::OutOfStep,
        }
    }
}

/// Where a request stood in the line of those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its answer was the next to come, so it may be why the connection broke.
    First,
    /// It was also the first when an earlier connection broke.
    FirstAgain,
    /// Others were to be answered before it, or one just was.
    Behind,
}

impl Fate {
    /// Decides about one request. `is_sent` if any of it was; `may_repeat` if it does no harm that the server acts on it
    /// twice (RFC 9110 §9.2.2).
    pub(super) fn of(standing: Standing, how: Break, is_sent: bool, may_repeat: bool) -> Fate {
        let goes_again = match (standing, how) {
            (Standing::FirstAgain, _) | (Standing::First, Break::TimedOut) => false,
            _ if !is_sent => true,
            (Standing::First, Break::Between) | (Standing::Behind, Break::Between | Break::Amiss) => {
                may_repeat
            }
            (Standing::First, Break::Amiss) | (Standing::Behind, Break::TimedOut) => false,
        };
        if goes_again { Fate::Again } else { Fate::Fails }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fates of a request that is unsent, sent and may be repeated, and sent and may not.
    #[track_caller]
    fn check(standing: Standing, how: Break, expected: [Fate; 3]) {
        let [unsent, repeatable, other] = expected;
        let rows =
            [(false, true, unsent), (false, false, unsent), (true, true, repeatable), (true, false, other)];
        for (is_sent, may_repeat, fate) in rows {
            assert_eq!(Fate::of(standing, how, is_sent, may_repeat), fate, "{is_sent} {may_repeat}");
        }
    }

    #[test]
    fn a_request_goes_again_if_it_does_no_harm_and_is_not_the_reason() {
        use Break::{Amiss, Between, TimedOut};
        use Fate::{Again, Fails};
        check(Standing::First, TimedOut, [Fails, Fails, Fails]);
        check(Standing::First, Between, [Again, Again, Fails]);
        check(Standing::First, Amiss, [Again, Fails, Fails]);
        check(Standing::FirstAgain, TimedOut, [Fails, Fails, Fails]);
        check(Standing::FirstAgain, Between, [Fails, Fails, Fails]);
        check(Standing::FirstAgain, Amiss, [Fails, Fails, Fails]);
        check(Standing::Behind, TimedOut, [Again, Fails, Fails]);
        check(Standing::Behind, Between, [Again, Again, Fails]);
        check(Standing::Behind, Amiss, [Again, Again, Fails]);
    }
}

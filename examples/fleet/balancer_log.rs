//! [`BalancerLog`]: the lines that HAProxy has written in a phase.

/// The lines of a phase, by `option dontlog-normal` only those about servers, and about requests that failed or were sent again.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BalancerLog<'l> {
    /// Servers that went down or up.
    pub changes: Vec<&'l str>,
    /// Requests that the client got no response of a server for, or one with 5xx.
    pub failed: Vec<&'l str>,
    /// How many others were sent to a second server.
    pub sent_again: usize,
}

impl BalancerLog<'_> {
    pub fn parse(text: &str) -> BalancerLog<'_> {
        let mut log = BalancerLog::default();
        for line in text.lines() {
            // `CLIENT [TIME] FRONTEND BACKEND/SERVER TIMES STATUS BYTES - - ---- CONNECTIONS/RETRIES QUEUES "REQUEST"`
            let mut words = line.split(' ');
            let status = words.nth(5).and_then(|word| word.parse::<i32>().ok());
            let is_sent_again = words.nth(4).is_some_and(|counts| counts.contains("/+"));
            match status {
                _ if line.starts_with("Server ") => log.changes.push(line),
                // A client that went away before it had a response has -1.
                Some(500.. | ..0) if line.contains(" clients ") => log.failed.push(line),
                Some(_) if is_sent_again => log.sent_again += 1,
                _ => {}
            }
        }
        log
    }
}

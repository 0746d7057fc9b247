//! [`Model`]: what a balancer should do, said plainly.

use std::mem;
use std::time::Duration;

use corehttp::client::BalancerChoice;

use super::{Behavior, HALF, HOSTS, INTERVAL, PENALTY, Settings, WAIT, Way};

pub struct Model {
    settings: Settings,
    now: Duration,
    pub behaviors: [Behavior; HOSTS.len()],
    /// All members that there ever were, and which of them are there.
    members: Vec<Member>,
    present: Vec<usize>,
    /// How many requests were sent to members, second ones included.
    sent: u64,
    pub asked: Vec<SentRequest>,
    /// The events to come: when, of which member, and which.
    due: Vec<(Duration, usize, Due)>,
}

#[derive(Default)]
struct Member {
    host: usize,
    pending: usize,
    served: u64,
    failed: u64,
    /// The number of the request that was sent to it last.
    asked_last: u64,
    penalties: Vec<Duration>,
    is_down: bool,
    is_checked: bool,
}

/// One request.
pub struct SentRequest {
    way: Way,
    is_second: bool,
    /// Where it is pending.
    at: Option<usize>,
    pub response: Option<String>,
}

#[derive(Clone, Copy)]
enum Due {
    /// The request of that number is answered with a status, or fails, and may have been sent.
    Ends(usize, Result<u16, bool>),
    /// All of its response was read, or nobody waits for it any longer.
    Over(usize),
    Check,
    Checked(bool),
}

impl Model {
    pub fn new(settings: Settings) -> Model {
        let mut model = Model {
            settings,
            now: Duration::ZERO,
            behaviors: [Behavior::Well(200); HOSTS.len()],
            members: Vec::new(),
            present: Vec::new(),
            sent: 0,
            asked: Vec::new(),
            due: Vec::new(),
        };
        (0..settings.hosts).for_each(|host| assert!(model.add(host)));
        model
    }

    pub fn add(&mut self, host: usize) -> bool {
        let is_new = !self.present.iter().any(|at| self.members[*at].host == host);
        if is_new {
            self.present.push(self.members.len());
            self.members.push(Member { host, ..Member::default() });
        }
        is_new
    }

    pub fn remove(&mut self, host: usize) -> bool {
        let count = self.present.len();
        self.present.retain(|at| self.members[*at].host != host);
        self.present.len() < count
    }

    /// A request is made now. `seen` is the place of the host that was seen to be asked, which matters only if there
    /// was a choice.
    pub fn ask(&mut self, way: Way, seen: impl FnOnce() -> usize) {
        let request = self.asked.len();
        self.asked.push(SentRequest { way, is_second: false, at: None, response: None });
        let Some(mut chosen) = self.choose(None) else { return };
        if self.settings.choice == BalancerChoice::TwoRandom {
            let (least, candidates) = (chosen, self.candidates(None));
            chosen = self.present[seen()];
            let is_worse = |other: &usize| self.burden(*other) >= self.burden(chosen) && *other != chosen;
            let is_one = candidates.contains(&chosen);
            assert!(is_one && (chosen == least || candidates.iter().any(is_worse)), "{chosen} is asked");
        }
        self.begin(request, chosen);
        if let Way::Leaves(quarters) = way {
            self.due.push((self.now + HALF / 2 * quarters, chosen, Due::Over(request)));
        }
    }

    /// All that is due until then happens.
    pub fn run_to(&mut self, until: Duration) {
        loop {
            let next = (0..self.due.len()).min_by_key(|at| self.due[*at].0);
            let Some(next) = next.filter(|at| self.due[*at].0 <= until) else { break };
            let (now, member, due) = self.due.remove(next);
            self.now = now;
            self.happen(member, due);
        }
        self.now = until;
    }

    /// Origin, pending, served, failed, penalties, and whether it is up.
    pub fn counts(&self) -> Vec<(String, usize, u64, u64, usize, bool)> {
        let counts = |at: &usize| {
            let it = &self.members[*at];
            (HOSTS[it.host].to_owned(), it.pending, it.served, it.failed, self.penalties(*at), !it.is_down)
        };
        self.present.iter().map(counts).collect()
    }

    fn happen(&mut self, member: usize, due: Due) {
        match due {
            Due::Ends(request, _) if self.asked[request].at != Some(member) => {}
            Due::Ends(request, Ok(status)) => {
                self.note(member, status < 500);
                let asked = &mut self.asked[request];
                asked.response = Some(HOSTS[self.members[member].host].to_owned());
                let reading =
                    if matches!(asked.way, Way::Streams | Way::Opens) { HALF } else { Duration::ZERO };
                self.due.push((self.now + reading, member, Due::Over(request)));
            }
            Due::Ends(request, Err(is_sent)) => {
                self.note(member, false);
                self.over(request);
                let is_last = mem::replace(&mut self.asked[request].is_second, true);
                let may_repeat = self.settings.is_elsewhere && !is_last && !is_sent;
                if let Some(other) =
                    may_repeat.then(|| self.choose(Some(self.members[member].host))).flatten()
                {
                    self.begin(request, other);
                }
            }
            Due::Over(request) => self.over(request),
            Due::Check | Due::Checked(_) if !self.present.contains(&member) => {}
            Due::Check => {
                let (after, outcome) = self.outcome(member);
                let is_up = after < INTERVAL && outcome.is_ok_and(|status| (200..300).contains(&status));
                self.due.push((self.now + after.min(INTERVAL), member, Due::Checked(is_up)));
                self.due.push((self.now + INTERVAL, member, Due::Check));
            }
            Due::Checked(is_up) => self.members[member].is_down = !is_up,
        }
    }

    fn over(&mut self, request: usize) {
        if let Some(member) = self.asked[request].at.take() {
            self.members[member].pending -= 1;
        }
    }

    fn note(&mut self, member: usize, is_healthy: bool) {
        let has_room = self.penalties(member) < self.settings.penalty_max;
        let member = &mut self.members[member];
        match is_healthy {
            true => member.served += 1,
            false => member.failed += 1,
        }
        member.penalties.extend((!is_healthy && has_room).then_some(self.now + PENALTY));
    }

    fn penalties(&self, member: usize) -> usize {
        self.members[member].penalties.iter().filter(|end| **end > self.now).count()
    }

    fn burden(&self, member: usize) -> (usize, u64) {
        (self.members[member].pending + self.penalties(member), self.members[member].asked_last)
    }

    /// The members that are up, or all if none is, other than those at the host `but`.
    fn candidates(&self, but: Option<usize>) -> Vec<usize> {
        let others = || self.present.iter().copied().filter(|at| but != Some(self.members[*at].host));
        let up = Vec::from_iter(others().filter(|at| !self.members[*at].is_down));
        if up.is_empty() { others().collect() } else { up }
    }

    /// The member with the least to do. With the first choice, checks begin.
    fn choose(&mut self, but: Option<usize>) -> Option<usize> {
        for at in self.present.iter().copied().filter(|_| self.settings.is_checked) {
            if !mem::replace(&mut self.members[at].is_checked, true) {
                self.due.push((self.now, at, Due::Check));
            }
        }
        self.candidates(but).into_iter().min_by_key(|at| self.burden(*at))
    }

    fn begin(&mut self, request: usize, member: usize) {
        let (after, outcome) = self.outcome(member);
        self.asked[request].at = Some(member);
        self.sent += 1;
        self.members[member].asked_last = self.sent;
        self.members[member].pending += 1;
        self.due.push((self.now + after, member, Due::Ends(request, outcome)));
    }

    /// When and how a host answers that is asked now.
    fn outcome(&self, member: usize) -> (Duration, Result<u16, bool>) {
        match self.behaviors[self.members[member].host] {
            Behavior::Well(status) => (Duration::ZERO, Ok(status)),
            Behavior::Slow(seconds) if seconds < WAIT.as_secs() => (Duration::from_secs(seconds), Ok(200)),
            Behavior::Unreachable(seconds) => (Duration::from_secs(seconds), Err(false)),
            Behavior::Closing | Behavior::Babbling => (Duration::ZERO, Err(true)),
            Behavior::Slow(_) | Behavior::Silent => (WAIT, Err(true)),
        }
    }
}

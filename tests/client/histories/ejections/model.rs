//! [`Model`]: which hosts may be asked, which are ejected and for how long, said plainly.

use std::time::Duration;

use tokio::time::Instant;

use super::{BACKUP, FIRST, HOSTS, MOST, Settings};

pub struct Model {
    settings: Settings,
    start: Instant,
    /// The hosts that are there, in the order in which they were added.
    hosts: Vec<Host>,
    is_panic: bool,
}

struct Host {
    number: usize,
    is_backup: bool,
    weight: u32,
    failed_in_a_row: u32,
    ejections: u64,
    /// How long it was ejected at last, and when it came back from that.
    last: Duration,
    back: Option<Duration>,
    out: Option<Out>,
}

/// It is ejected, or on trial.
#[derive(Clone, Copy)]
struct Out {
    /// When it may have a trial.
    due: Duration,
    is_on_trial: bool,
}

impl Host {
    fn new(number: usize, is_backup: bool) -> Host {
        let (last, back, out) = (Duration::ZERO, None, None);
        Host { number, is_backup, weight: 1, failed_in_a_row: 0, ejections: 0, last, back, out }
    }

    fn is_fit(&self, now: Duration) -> bool {
        self.out.is_none_or(|out| out.due <= now)
    }

    /// Ejects it. Returns for how many seconds.
    fn eject(&mut self, now: Duration) -> u64 {
        let is_forgotten = self.last.is_zero() || self.back.is_some_and(|back| now - back >= self.last);
        self.last = if is_forgotten { FIRST } else { MOST.min(self.last * 2) };
        self.out = Some(Out { due: now + self.last, is_on_trial: false });
        (self.failed_in_a_row, self.back) = (0, None);
        self.ejections += 1;
        self.last.as_secs()
    }
}

impl Model {
    pub fn new(settings: Settings) -> Model {
        let mut hosts: Vec<_> = (0..settings.hosts).map(|number| Host::new(number, false)).collect();
        hosts.extend(settings.has_backup.then(|| Host::new(BACKUP, true)));
        Model { settings, start: Instant::now(), hosts, is_panic: false }
    }

    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn add(&mut self, host: usize) -> bool {
        let is_new = self.hosts.iter().all(|it| it.number != host);
        if is_new {
            self.hosts.push(Host::new(host, false));
        }
        is_new
    }

    pub fn remove(&mut self, host: usize) -> bool {
        let before = self.hosts.len();
        self.hosts.retain(|it| it.number != host);
        self.hosts.len() < before
    }

    pub fn set_weight(&mut self, host: usize, weight: u32) -> bool {
        let found = self.hosts.iter_mut().find(|it| it.number == host);
        found.map(|it| it.weight = weight).is_some()
    }

    pub fn present(&self) -> Vec<usize> {
        self.hosts.iter().map(|it| it.number).collect()
    }

    pub fn is_backup(&self, origin: &str) -> bool {
        self.hosts.iter().any(|it| it.is_backup && HOSTS[it.number] == origin)
    }

    /// Origin, weight, whether it is ejected, and how often it was.
    pub fn counts(&self) -> Vec<(&str, u32, bool, u64)> {
        self.hosts.iter().map(|it| (HOSTS[it.number], it.weight, it.out.is_some(), it.ejections)).collect()
    }

    /// A request that began at `began` has gone to `asked`, if to any, and has succeeded or failed, or its caller has left.
    /// Returns what must have been reported.
    pub fn ask(&mut self, asked: Option<usize>, began: Duration, outcome: Option<bool>) -> Vec<String> {
        let mut reports = Vec::new();
        let (may_be_asked, panic) = self.candidates(began);
        if let Some((fit, hosts)) = panic.filter(|_| !may_be_asked.is_empty()) {
            self.is_panic = !self.is_panic;
            let change = if self.is_panic { "Began" } else { "Ended" };
            reports.push(format!("PanicReport {{ change: {change}, fit: {fit}, hosts: {hosts} }}"));
        }
        let Some(asked) = asked else {
            assert!(may_be_asked.is_empty(), "no host is asked, of {may_be_asked:?}");
            return reports;
        };
        assert!(may_be_asked.contains(&asked), "{asked} is asked, and not one of {may_be_asked:?}");
        let at = self.hosts.iter().position(|it| it.number == asked).unwrap();
        let is_trial = self.hosts[at].out.is_some_and(|out| out.due <= began);
        if is_trial {
            let trial = Out { due: began + Duration::from_secs(1), is_on_trial: true };
            let is_first = !self.hosts[at].out.replace(trial).unwrap().is_on_trial;
            reports.extend(is_first.then(|| format!("{} OnTrial", HOSTS[asked])));
        }
        reports.extend(outcome.and_then(|is_served| self.end(at, is_trial, is_served)));
        reports
    }

    /// Which hosts may be asked; and how many of those that are no backups are fit, if the balancer is about to begin or to
    /// end to ask all.
    fn candidates(&self, now: Duration) -> (Vec<usize>, Option<(usize, usize)>) {
        let weighty = || self.hosts.iter().filter(|it| it.weight > 0);
        let numbers = |hosts: Vec<&Host>| hosts.iter().map(|it| it.number).collect::<Vec<_>>();
        let first: Vec<&Host> = weighty().filter(|it| !it.is_backup).collect();
        let fit: Vec<&Host> = first.iter().copied().filter(|it| it.is_fit(now)).collect();
        let backups: Vec<&Host> = weighty().filter(|it| it.is_backup && it.is_fit(now)).collect();
        let counts = (fit.len(), first.len());
        let is_below =
            !fit.is_empty() && fit.len() * 100 < first.len() * usize::from(self.settings.panic_below);
        let (candidates, is_panic) = match () {
            () if is_below => (first, true),
            () if !fit.is_empty() => (fit, false),
            () if !backups.is_empty() => (backups, false),
            () => (weighty().collect(), true),
        };
        (numbers(candidates), (is_panic != self.is_panic).then_some(counts))
    }

    /// A request that the host at this place has got ends. Returns what is reported of it.
    fn end(&mut self, at: usize, is_trial: bool, is_served: bool) -> Option<String> {
        let now = self.now();
        let (may_be_ejected, stands_by) = (self.may_be_ejected(at, now), self.stands_by(at, now));
        let host = &mut self.hosts[at];
        let origin = HOSTS[host.number];
        if is_served {
            host.failed_in_a_row = 0;
            if is_trial {
                (host.out, host.back) = (None, Some(now));
            }
            return is_trial.then(|| format!("{origin} Returned"));
        }
        host.failed_in_a_row += 1;
        let failures = self.settings.failures;
        let cause = match host.out {
            Some(_) => is_trial.then_some("Trial"),
            None => (failures > 0 && host.failed_in_a_row >= failures).then_some("Failures"),
        };
        let cause = cause.filter(|_| may_be_ejected)?;
        let report = format!("{origin} {cause} {}", host.eject(now));
        let ejected = self.hosts.iter().filter(|it| it.weight > 0 && !it.is_fit(now)).count();
        let share = self.settings.percent_max as usize * self.weighty();
        assert!(stands_by || ejected * 100 <= share, "{ejected} of {} hosts are ejected", self.weighty());
        Some(report)
    }

    fn may_be_ejected(&self, at: usize, now: Duration) -> bool {
        let others = self.hosts.iter().enumerate().filter(|(other, it)| *other != at && it.weight > 0);
        let ejected = others.filter(|(_, it)| !it.is_fit(now)).count() + 1;
        let share = self.weighty() * usize::from(self.settings.percent_max);
        ejected * 100 <= share || share > 0 && self.stands_by(at, now)
    }

    /// Whether a backup can take the requests of the host at this place.
    fn stands_by(&self, at: usize, now: Duration) -> bool {
        let mut backups = self.hosts.iter().filter(|it| it.is_backup && it.weight > 0);
        !self.hosts[at].is_backup && backups.any(|backup| backup.is_fit(now))
    }

    fn weighty(&self) -> usize {
        self.hosts.iter().filter(|it| it.weight > 0).count()
    }
}

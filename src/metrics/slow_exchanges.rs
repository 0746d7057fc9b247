//! [`SlowExchanges`]: the slowest exchanges of one route on one core lately.

use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use super::histogram::nanos;
use crate::memory::lock;
use crate::message::{Method, Status};
use crate::server::{CutBy, ExchangeReport};

/// The slowest exchanges of each of the last periods. A core never waits for a reader: an exchange that ends while the
/// list is read is left out.
#[derive(Default)]
pub(super) struct SlowExchanges {
    periods: Mutex<[Period; PERIODS]>,
    /// The current period, and the nanoseconds that an exchange must exceed to be among its slowest. Only the core writes.
    period: AtomicU64,
    threshold: AtomicU64,
}

/// The slowest exchanges of two minutes.
#[derive(Default)]
struct Period {
    number: u64,
    exchanges: Vec<SlowExchange>,
}

/// An exchange that was slow.
#[derive(Clone, Debug)]
pub(super) struct SlowExchange {
    pub(super) ended: Instant,
    /// Method and path, without the query, which may contain secrets.
    pub(super) request: String,
    pub(super) pattern: String,
    pub(super) peer: String,
    pub(super) status: Option<Status>,
    pub(super) cut: Option<CutBy>,
    pub(super) until_handler: Option<Duration>,
    pub(super) until_response: Option<Duration>,
    pub(super) duration: Duration,
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl SlowExchanges {
    /// Keeps an exchange that was over in the slot of this number, if it is one of the slowest of the slot's period.
    pub(crate) fn offer(&self, slot: u64, report: &ExchangeReport<'_>) {
        let period = slot / PERIOD_SLOTS;
        let is_new = self.period.load(Relaxed) != period;
        if is_new || nanos(report.duration) > self.threshold.load(Relaxed) {
            self.keep(period, report);
        }
    }

    fn keep(&self, number: u64, report: &ExchangeReport<'_>) {
        if is_meant_to_last(report) {
            return;
        }
        let mut periods = match self.periods.try_lock() {
            Ok(periods) => periods,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let period = &mut periods[(number % PERIODS as u64) as usize];
        if mem::replace(&mut period.number, number) != number {
            period.exchanges.clear();
        }
        let exchanges = &mut period.exchanges;
        let at = exchanges.partition_point(|kept| kept.duration >= report.duration);
        if at < KEPT_MAX {
            exchanges.truncate(KEPT_MAX - 1);
            exchanges.insert(at, SlowExchange::new(report));
        }
        let least = exchanges.get(KEPT_MAX - 1).map_or(0, |kept| nanos(kept.duration));
        self.period.store(number, Relaxed);
        self.threshold.store(least, Relaxed);
    }

    /// Adds the exchanges of the periods up to that of the slot with this number.
    pub(super) fn add_to(&self, list: &mut Vec<SlowExchange>, slot: u64) {
        let periods = lock(&self.periods);
        let recent = periods.iter().filter(|period| period.number + PERIODS as u64 > slot / PERIOD_SLOTS);
        list.extend(recent.flat_map(|period| period.exchanges.iter().cloned()));
    }
}

impl SlowExchange {
    fn new(report: &ExchangeReport<'_>) -> SlowExchange {
        let path = report.target.split('?').next().unwrap_or_default();
        let path: String = path.chars().take(PATH_LEN_MAX).collect();
        let request = report.method.map(|method| format!("{method} {path}"));
        SlowExchange {
            ended: report.ended_at,
            request: request.unwrap_or_else(|| "a refused head".to_owned()),
            pattern: report.matched_pattern().unwrap_or_default().to_owned(),
            peer: report.source().to_string(),
            status: report.status,
            cut: report.cut,
            until_handler: report.until_handler,
            until_response: report.until_response,
            duration: report.duration,
            received: report.received,
            sent: report.sent,
        }
    }
}

/// Whether the exchange was an upgrade, a tunnel or a stream of events, which take as long as their peers like.
fn is_meant_to_last(report: &ExchangeReport<'_>) -> bool {
    let is_tunnel = report.method == Some(Method::Connect) && report.status.is_some_and(Status::is_success);
    report.status == Some(Status::SWITCHING_PROTOCOLS) || is_tunnel || report.is_event_stream
}

/// How many slots of a timeline a period has.
const PERIOD_SLOTS: u64 = 12;
/// How many periods are kept: ten minutes.
const PERIODS: usize = 5;
/// How many exchanges of a period are kept.
const KEPT_MAX: usize = 3;
/// How many characters of a path are kept.
const PATH_LEN_MAX: usize = 200;

//! [`MemoryBudget`]: the memory that the peers of a server may fill, over all its cores; [`MemoryShare`]: a part of it.

use std::ops::AddAssign;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::timeout;

/// The memory that the peers of a server may fill, over all its cores. By default there is no bound.
///
/// A semaphore hands out its pages in the order of the requests, so the first that waits for many is not passed over by
/// others that want few. Cores have no pages of their own: to take some is an atomic operation, once for each doubling of
/// a buffer of 16 KiB or more.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryBudget(Option<Arc<Pages>>);

#[derive(Debug)]
struct Pages {
    free: Arc<Semaphore>,
    all: u32,
    /// How many shares wait to grow.
    waiting: AtomicUsize,
}

/// The state of a [`MemoryBudget`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryCounts {
    /// How many bytes the peers may fill: [`Limits::memory_max`](crate::Limits::memory_max).
    pub max: u64,
    /// How many of them are reserved.
    pub reserved: u64,
    /// How many requests and messages wait for some of them.
    pub waiting: u64,
}

impl AddAssign for MemoryCounts {
    fn add_assign(&mut self, other: MemoryCounts) {
        let MemoryCounts { max, reserved, waiting } = other;
        self.max += max;
        self.reserved += reserved;
        self.waiting += waiting;
    }
}

impl MemoryBudget {
    /// Creates a budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> MemoryBudget {
        let all = (bytes / PAGE).min(Semaphore::MAX_PERMITS.min(u32::MAX as usize)) as u32;
        let free = Arc::new(Semaphore::new(all as usize));
        MemoryBudget(Some(Arc::new(Pages { free, all, waiting: AtomicUsize::new(0) })))
    }

    /// How much to take for content of which so many bytes are here, and more is to come: twice as much, as buffers grow,
    /// unless that is more than there is.
    pub(crate) fn ahead(&self, len: usize) -> usize {
        let all = self.0.as_ref().map_or(u64::MAX, |pages| bytes(pages.all));
        (2 * len).min(usize::try_from(all).unwrap_or(usize::MAX)).max(len)
    }

    /// Whether a share waits to grow.
    pub(crate) fn is_contended(&self) -> bool {
        self.0.as_ref().is_some_and(|pages| pages.waiting.load(Relaxed) > 0)
    }

    pub(crate) fn counts(&self) -> MemoryCounts {
        self.0.as_ref().map_or_else(MemoryCounts::default, |pages| MemoryCounts {
            max: bytes(pages.all),
            reserved: bytes(pages.all) - (pages.free.available_permits() * PAGE) as u64,
            waiting: pages.waiting.load(Relaxed) as u64,
        })
    }
}

/// The unit of a budget.
const PAGE: usize = 4 << 10;

fn bytes(pages: u32) -> u64 {
    u64::from(pages) * PAGE as u64
}

/// A part of a [`MemoryBudget`], which is free again when it is dropped.
#[derive(Default)]
pub(crate) struct MemoryShare(Option<Box<Held>>);

#[derive(Default)]
struct Held {
    pages: Option<OwnedSemaphorePermit>,
    wait: Option<Wait>,
}

/// Why a share does not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryError {
    /// The budget has only so many bytes.
    NeverFits(u64),
    /// Others held the memory for as long as was to be waited.
    TimedOut(Duration),
}

impl MemoryShare {
    /// Grows to at least so many bytes, which others may hold for up to `limit`. A share that is dropped meanwhile leaves
    /// the queue.
    pub(crate) fn poll_grow_to(
        &mut self,
        cx: &mut Context<'_>,
        budget: &MemoryBudget,
        bytes: usize,
        limit: Duration,
    ) -> Poll<Result<(), MemoryError>> {
        let Some(pages) = &budget.0 else { return Poll::Ready(Ok(())) };
        if bytes <= self.len() {
            return Poll::Ready(Ok(()));
        }
        let wanted = u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX);
        if wanted > pages.all {
            return Poll::Ready(Err(MemoryError::NeverFits(self::bytes(pages.all))));
        }
        let held = self.0.get_or_insert_default();
        while held.missing(wanted) > 0 {
            let missing = held.missing(wanted);
            if held.wait.is_none() && held.try_add(pages, missing) {
                break;
            }
            let wait = held.wait.get_or_insert_with(|| Wait::new(pages.clone(), missing, limit));
            let granted = ready!(wait.granted.as_mut().poll(cx));
            held.wait = None;
            match granted {
                Some(granted) => held.add(granted),
                None => return Poll::Ready(Err(MemoryError::TimedOut(limit))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Grows to at least so many bytes, if they are free. Returns whether they were.
    #[allow(dead_code, reason = "unused without the features `compress` and `websocket`")]
    pub(crate) fn try_grow_to(&mut self, budget: &MemoryBudget, bytes: usize) -> bool {
        let Some(pages) = &budget.0 else { return true };
        let wanted = u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX);
        let held = self.0.get_or_insert_default();
        let missing = held.missing(wanted);
        missing == 0 || held.try_add(pages, missing)
    }

    /// Gives back all beyond so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(Held { pages: Some(pages), .. }) = self.0.as_deref_mut() {
            drop(pages.split(pages.num_permits().saturating_sub(bytes.div_ceil(PAGE))));
        }
    }

    /// Whether it waits to grow.
    pub(crate) fn is_waiting(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.wait.is_some())
    }

    /// How many bytes the share has.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.len() as usize * PAGE)
    }

    /// Gives all back.
    #[inline]
    pub(crate) fn clear(&mut self) {
        // Most exchanges hold nothing.
        if self.0.is_some() {
            self.0 = None;
        }
    }
}

impl Held {
    fn len(&self) -> u32 {
        self.pages.as_ref().map_or(0, |pages| pages.num_permits() as u32)
    }

    fn missing(&self, wanted: u32) -> u32 {
        wanted.saturating_sub(self.len())
    }

    fn try_add(&mut self, pages: &Pages, missing: u32) -> bool {
        let granted = pages.free.clone().try_acquire_many_owned(missing);
        granted.map(|granted| self.add(granted)).is_ok()
    }

    fn add(&mut self, granted: OwnedSemaphorePermit) {
        match &mut self.pages {
            Some(pages) => pages.merge(granted),
            None => self.pages = Some(granted),
        }
    }
}

/// The wait of a share for more pages.
struct Wait {
    granted: Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>,
    pages: Arc<Pages>,
}

impl Wait {
    fn new(pages: Arc<Pages>, missing: u32, limit: Duration) -> Wait {
        pages.waiting.fetch_add(1, Relaxed);
        let granted = pages.free.clone().acquire_many_owned(missing);
        // The semaphore is never closed.
        let granted = Box::pin(async move { timeout(limit, granted).await.ok()?.ok() });
        Wait { granted, pages }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.pages.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    async fn grow(share: &mut MemoryShare, budget: &MemoryBudget, pages: usize) -> Result<(), MemoryError> {
        poll_fn(|cx| share.poll_grow_to(cx, budget, pages * PAGE, LIMIT)).await
    }

    #[track_caller]
    fn check(budget: &MemoryBudget, reserved: usize, waiting: u64) {
        let counts = budget.counts();
        assert_eq!((counts.reserved, counts.waiting), ((reserved * PAGE) as u64, waiting), "{counts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn shares_grow_shrink_and_return() {
        let (budget, mut share) = (MemoryBudget::new(10 * PAGE + 1), MemoryShare::default());
        assert_eq!(grow(&mut share, &budget, 3).await, Ok(()));
        assert_eq!(grow(&mut share, &budget, 2).await, Ok(()));
        check(&budget, 3, 0);
        assert_eq!(grow(&mut share, &budget, 11).await, Err(MemoryError::NeverFits((10 * PAGE) as u64)));
        assert!(share.try_grow_to(&budget, 10 * PAGE) && !MemoryShare::default().try_grow_to(&budget, 1));
        share.shrink_to(4 * PAGE + 1);
        check(&budget, 5, 0);
        share.clear();
        check(&budget, 0, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn shares_wait_in_turn_and_not_for_ever() {
        let (budget, [mut first, mut many, mut few]) = (MemoryBudget::new(4 * PAGE), Default::default());
        assert_eq!(grow(&mut first, &budget, 3).await, Ok(()));
        let waits = async { tokio::join!(biased; grow(&mut many, &budget, 4), grow(&mut few, &budget, 1)) };
        let release = async {
            tokio::task::yield_now().await;
            check(&budget, 4, 2);
            assert!(budget.is_contended() && !MemoryShare::default().try_grow_to(&budget, 1));
            first.clear();
        };
        let few_limit = Err(MemoryError::TimedOut(LIMIT));
        assert_eq!(tokio::join!(biased; waits, release).0, (Ok(()), few_limit));
        check(&budget, 4, 0);
        // A share that does not wait any longer leaves the queue.
        let wait = tokio::time::timeout(Duration::from_secs(1), grow(&mut few, &budget, 1)).await;
        assert!(wait.is_err());
        check(&budget, 4, 1);
        drop(few);
        drop(many);
        check(&budget, 0, 0);
    }

    #[tokio::test]
    async fn without_a_bound_nothing_is_counted() {
        let (budget, mut share) = (MemoryBudget::default(), MemoryShare::default());
        assert_eq!(grow(&mut share, &budget, usize::MAX / PAGE).await, Ok(()));
        assert_eq!((share.len(), budget.counts()), (0, MemoryCounts::default()));
        assert_eq!([1, 3, 5].map(|len| MemoryBudget::new(4 * PAGE).ahead(len * PAGE) / PAGE), [2, 4, 5]);
        assert_eq!(budget.ahead(PAGE), 2 * PAGE);
    }
}

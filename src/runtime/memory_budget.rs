//! [`MemoryBudget`]: the memory that the peers of a server may fill, over all its cores; [`MemoryShare`]: a part of it.

use std::ops::AddAssign;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};

use super::memory_queue::{
    HeldPages, LargeHolder, MemoryQueue, QueuePlace, ShareAge, ShareSize, WaitingShare,
};
use super::{Instant, now, select, sleep, timeout};

/// The memory that the peers of a server may fill, over all its cores. By default there is no bound.
///
/// A semaphore hands out its pages in the order of the requests, so the first that waits for many is not passed over by
/// others that want few. A quarter is for small shares alone, so that they do not stand behind large ones. Small shares take of
/// the rest if the quarter is used up. A share that has outgrown the quarter waits for the rest, but for more than a second
/// only as long as no small share waits for the pages that it has. Large shares of unknown length can hold all that they wait
/// for: then the [last of them gives way](MemoryQueue). Cores have no pages of their own: to take some is an atomic
/// operation, once for each doubling of a buffer of 16 KiB or more.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryBudget(Option<Arc<BudgetPages>>);

/// The pages of a budget, by the size of the shares that get them.
#[derive(Debug)]
struct BudgetPages {
    small: Pages,
    large: Pages,
    queue: Arc<MemoryQueue>,
}

/// Pages for shares of the same size.
#[derive(Debug)]
struct Pages {
    free: Arc<Semaphore>,
    all: u32,
    /// How many shares wait to grow.
    waiting: AtomicUsize,
    /// Wakes the shares that have outgrown these pages and still have some of them.
    wanted_back: Notify,
}

/// The size of a share that counts as small.
const SMALL_MAX: usize = 256 << 10;

/// The memory of a server that its peers may fill, at one moment.
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
        let [small, large] = [all / 4, all - all / 4].map(Pages::new);
        MemoryBudget(Some(Arc::new(BudgetPages { small, large, queue: Arc::default() })))
    }

    /// How much a share for content should grow to, of which `len` bytes are here, and at most `most` come in all.
    ///
    /// Small content takes twice as much, as buffers grow. Large content takes all that may come: if it took that step by
    /// step, several could hold what all of them wait for. If that is much of what there is, content takes steps as long as they
    /// are free: most of it is shorter. If it has to wait, it waits for all that may come, up to half of what there is, so that it
    /// seldom waits again.
    pub(crate) fn growth_target(&self, len: usize, most: usize) -> usize {
        let Some(pages) = &self.0 else { return len };
        let all = pages.large.all as usize * PAGE;
        let doubled = len.saturating_mul(2).min(most);
        let is_step = doubled <= SMALL_MAX || (most > all / 4 && doubled <= pages.large.free_bytes());
        let at_once = most.min(all / 2);
        let target = if is_step { doubled } else { doubled.max(at_once) };
        target.min(all).max(len)
    }

    /// Whether there is so much that those who have some may keep it for what comes next: at least half is free of each kind,
    /// and no share waits.
    pub(crate) fn is_plentiful(&self) -> bool {
        let has_half = |pages: &Pages| pages.free.available_permits() >= pages.all as usize / 2;
        !self.is_contended() && self.0.as_ref().is_none_or(|pages| pages.each().into_iter().all(has_half))
    }

    /// Whether a share waits to grow.
    pub(crate) fn is_contended(&self) -> bool {
        let has_waiting = |pages: &Pages| pages.waiting.load(Relaxed) > 0;
        self.0.as_ref().is_some_and(|pages| pages.each().into_iter().any(has_waiting))
    }

    /// The most that a share can have; without a bound, anything.
    pub(crate) fn share_max(&self) -> usize {
        self.0.as_ref().map_or(usize::MAX, |pages| pages.large.all as usize * PAGE)
    }

    pub(crate) fn counts(&self) -> MemoryCounts {
        let mut counts = MemoryCounts::default();
        self.0.iter().flat_map(|pages| pages.each()).for_each(|pages| counts += pages.counts());
        counts
    }
}

impl BudgetPages {
    fn of_size(&self, size: ShareSize) -> &Pages {
        match size {
            ShareSize::Small => &self.small,
            ShareSize::Large => &self.large,
        }
    }

    fn size_of(&self, granted: &OwnedSemaphorePermit) -> ShareSize {
        match Arc::ptr_eq(granted.semaphore(), &self.small.free) {
            true => ShareSize::Small,
            false => ShareSize::Large,
        }
    }

    fn each(&self) -> [&Pages; 2] {
        [&self.small, &self.large]
    }

    /// The size of a share of so many bytes.
    fn share_size(&self, bytes: usize) -> ShareSize {
        match bytes <= SMALL_MAX.min(self.small.all as usize * PAGE) {
            true => ShareSize::Small,
            false => ShareSize::Large,
        }
    }
}

impl Pages {
    fn new(all: u32) -> Pages {
        let free = Arc::new(Semaphore::new(all as usize));
        Pages { free, all, waiting: AtomicUsize::new(0), wanted_back: Notify::new() }
    }

    fn free_bytes(&self) -> usize {
        self.free.available_permits() * PAGE
    }

    fn counts(&self) -> MemoryCounts {
        MemoryCounts {
            max: bytes(self.all),
            reserved: bytes(self.all).saturating_sub(self.free_bytes() as u64),
            waiting: self.waiting.load(Relaxed) as u64,
        }
    }

    /// Waits until a share that has outgrown these pages is to give them back: once others wait for some.
    async fn until_wanted_back(&self) {
        loop {
            // Made before the check: `notify_waiters` wakes each future that exists, even one that was not polled.
            let wanted_back = self.wanted_back.notified();
            if self.waiting.load(Relaxed) > 0 {
                return;
            }
            wanted_back.await;
        }
    }
}

/// The unit of a budget.
const PAGE: usize = 4 << 10;

fn page_count(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX)
}

fn bytes(pages: u32) -> u64 {
    u64::from(pages) * PAGE as u64
}

/// A part of a [`MemoryBudget`], which is free again when it is dropped.
#[derive(Default)]
pub(crate) struct MemoryShare {
    held: Option<OwnedSemaphorePermit>,
    /// Present while large pages are held.
    large: Option<LargeHolder>,
    age: Option<ShareAge>,
    /// When the share first got memory after it was made or cleared.
    since: Option<Instant>,
    // Boxed, since few shares ever wait.
    wait: Option<Box<Wait>>,
}

/// Why a share does not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryError {
    /// No share has more than so many bytes.
    NeverFits(u64),
    /// Others held the memory for as long as was to be waited.
    TimedOut(Duration),
    /// Others hold the memory, and this share may not wait for it.
    NoneLeft,
}

impl MemoryShare {
    /// Grows to at least so many bytes, which others may hold for up to `limit`. A share that is dropped meanwhile leaves
    /// the queue; one that is kept needs [`CancelMemoryWaitOnDrop`] if its wait may be given up.
    pub(crate) fn poll_grow_to(
        &mut self,
        cx: &mut Context<'_>,
        budget: &MemoryBudget,
        bytes: usize,
        limit: Duration,
    ) -> Poll<Result<(), MemoryError>> {
        let Some(pages) = &budget.0 else { return Poll::Ready(Ok(())) };
        // A wait may have begun for less.
        while bytes > self.len() {
            let mut wait = match self.wait.take() {
                Some(wait) => wait,
                None if page_count(bytes) > pages.large.all => {
                    return Poll::Ready(Err(MemoryError::NeverFits(self::bytes(pages.large.all))));
                }
                None if self.try_take(pages, bytes) => break,
                None => Box::new(Wait::new(pages, self.missing(pages, bytes), self.age, limit)),
            };
            self.age = Some(wait.place.age());
            match wait.grant.as_mut().poll(cx) {
                Poll::Pending => {
                    self.wait = Some(wait);
                    return Poll::Pending;
                }
                Poll::Ready(granted) => {
                    let granted = granted?;
                    pages.queue.note_end(pages.size_of(&granted));
                    self.add(pages, granted);
                    // The wait was no time in which the peer could have sent more.
                    self.since = Some(now());
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Grows to at least so many bytes, if they are free. Returns whether they were.
    pub(crate) fn try_grow_to(&mut self, budget: &MemoryBudget, bytes: usize) -> bool {
        let Some(pages) = budget.0.as_ref().filter(|_| bytes > self.len()) else { return true };
        self.try_take(pages, bytes)
    }

    /// Whether it has had memory for longer than `limit`, and others wait for some.
    pub(crate) fn is_overdue(&self, budget: &MemoryBudget, limit: Duration) -> bool {
        let is_wanted = !self.is_waiting() && budget.is_contended();
        is_wanted && self.since.is_some_and(|since| since.elapsed() > limit)
    }

    /// Whether it waits to grow.
    pub(crate) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Leaves the queue, if it waits to grow.
    #[inline]
    pub(crate) fn stop_waiting(&mut self) {
        if self.wait.is_some() {
            self.wait = None;
        }
    }

    /// Gives back all beyond so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            drop(held.split(held.num_permits().saturating_sub(bytes.div_ceil(PAGE))));
        }
        if self.len() == 0 {
            self.clear();
        }
    }

    /// Makes what it has that of another peer, from now on.
    pub(crate) fn renew(&mut self) {
        self.stop_waiting();
        self.age = None;
        self.since = self.since.map(|_| now());
    }

    /// How many bytes the share has.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.num_permits() * PAGE)
    }

    /// Gives all back.
    pub(crate) fn clear(&mut self) {
        *self = MemoryShare::default();
    }

    /// Takes the pages for so many bytes, if they are free. A small share takes large ones if there are no small ones, and no
    /// large share waits for these.
    fn try_take(&mut self, pages: &BudgetPages, bytes: usize) -> bool {
        let Missing { size, small, large, .. } = self.missing(pages, bytes);
        match size {
            ShareSize::Small if self.try_take_of(pages, ShareSize::Small, small) => true,
            ShareSize::Small if pages.large.waiting.load(Relaxed) > 0 => false,
            ShareSize::Small | ShareSize::Large => self.try_take_of(pages, ShareSize::Large, large),
        }
    }

    fn try_take_of(&mut self, pages: &BudgetPages, size: ShareSize, count: u32) -> bool {
        let granted = pages.of_size(size).free.clone().try_acquire_many_owned(count);
        granted.map(|granted| self.add(pages, granted)).is_ok()
    }

    /// The pages that are missing until the share has so many bytes, which are more than it has.
    fn missing(&self, pages: &BudgetPages, bytes: usize) -> Missing {
        let held = self.held_pages();
        let kept = |size| held.filter(|held| held.size == size).map_or(0, |held| held.count);
        let missing = |size| page_count(bytes) - kept(size);
        let [small, large] = [ShareSize::Small, ShareSize::Large].map(missing);
        Missing { size: pages.share_size(bytes), small, large, held }
    }

    /// The pages that are held, if there are any.
    fn held_pages(&self) -> Option<HeldPages> {
        let size = if self.large.is_some() { ShareSize::Large } else { ShareSize::Small };
        self.held.as_ref().map(|held| HeldPages { size, count: held.num_permits() as u32 })
    }

    /// Adds pages to those that are held, or takes them in place of small ones.
    fn add(&mut self, pages: &BudgetPages, granted: OwnedSemaphorePermit) {
        self.since.get_or_insert_with(now);
        let size = pages.size_of(&granted);
        match &mut self.held {
            Some(held) if Arc::ptr_eq(held.semaphore(), granted.semaphore()) => held.merge(granted),
            held => {
                *held = Some(granted);
                self.large = (size == ShareSize::Large).then(|| LargeHolder::new(&pages.queue));
            }
        }
    }
}

/// The owner of a share during a wait. One that is given up leaves the queue for memory, whose turn may come without a
/// poll.
pub(crate) struct CancelMemoryWaitOnDrop<'a, T: AsMut<MemoryShare>>(pub(crate) &'a mut T);

impl<T: AsMut<MemoryShare>> Drop for CancelMemoryWaitOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.as_mut().stop_waiting();
    }
}

/// The pages that a share needs to grow.
struct Missing {
    size: ShareSize,
    /// How many small pages, or large ones in their place. Pages of the other size are given back for them.
    small: u32,
    large: u32,
    /// The pages that the share has meanwhile.
    held: Option<HeldPages>,
}

/// The wait of a share for more pages.
struct Wait {
    grant: Grant,
    budget: Arc<BudgetPages>,
    size: ShareSize,
    place: QueuePlace,
}

type Grant = Pin<Box<dyn Future<Output = GrantResult> + Send>>;

type GrantResult = Result<OwnedSemaphorePermit, MemoryError>;

impl Wait {
    /// Waits for the pages that are missing.
    fn new(budget: &Arc<BudgetPages>, missing: Missing, age: Option<ShareAge>, limit: Duration) -> Wait {
        let Missing { size, small, large, held } = missing;
        budget.of_size(size).waiting.fetch_add(1, Relaxed);
        let waiting = WaitingShare { size, small, large, held, gives_way: false };
        let place = QueuePlace::new(&budget.queue, age, waiting);
        let large = budget.large.free.clone().acquire_many_owned(large);
        let grant: Grant = match size {
            ShareSize::Small => {
                budget.small.wanted_back.notify_waiters();
                // Large pages do as well: small ones may all be held by shares that wait for more of them.
                let small = budget.small.free.clone().acquire_many_owned(small);
                Box::pin(in_time(limit, select(small, large)))
            }
            ShareSize::Large => Box::pin(in_time(limit, large)),
        };
        let grant = match (size, held.map(|held| held.size)) {
            (_, None) => grant,
            (ShareSize::Large, Some(ShareSize::Small)) => unless(grant, wanted_back(budget.clone())),
            (_, Some(held)) => unless(grant, place.until_it_gives_way(held)),
        };
        Wait { grant, budget: budget.clone(), size, place }
    }
}

/// The permit, unless it is not granted within `limit`.
async fn in_time(
    limit: Duration,
    permit: impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>>,
) -> GrantResult {
    // The semaphores are never closed.
    timeout(limit, permit).await.ok().and_then(Result::ok).ok_or(MemoryError::TimedOut(limit))
}

/// The pages of `grant`, unless others need those that the share has.
fn unless(grant: Grant, are_needed: impl Future<Output = ()> + Send + 'static) -> Grant {
    let gives_way = async {
        are_needed.await;
        Err(MemoryError::NoneLeft)
    };
    Box::pin(select(grant, gives_way))
}

/// Waits until small pages that a share has outgrown are wanted back. In a burst, most waits are over before.
async fn wanted_back(budget: Arc<BudgetPages>) {
    sleep(OUTGROWN_WAIT).await;
    budget.small.until_wanted_back().await;
}

/// For how long a share that has outgrown small pages may keep them, even if others wait for them.
const OUTGROWN_WAIT: Duration = Duration::from_secs(1);

impl Drop for Wait {
    fn drop(&mut self) {
        self.budget.of_size(self.size).waiting.fetch_sub(1, Relaxed);
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

    /// A budget with so many pages for large shares, and a third as many for small ones.
    fn budget(large: usize) -> MemoryBudget {
        MemoryBudget::new((large + large / 3) * PAGE)
    }

    #[tokio::test(start_paused = true)]
    async fn shares_grow_shrink_and_return() {
        let (budget, mut share) = (budget(30), MemoryShare::default());
        assert_eq!(budget.counts().max, (40 * PAGE) as u64);
        // The first pages are small ones, which others need once more have been taken.
        for (pages, reserved) in [(3, 3), (2, 3), (10, 10), (11, 11), (30, 30)] {
            assert_eq!(grow(&mut share, &budget, pages).await, Ok(()));
            check(&budget, reserved, 0);
        }
        let never = Err(MemoryError::NeverFits((30 * PAGE) as u64));
        assert_eq!(grow(&mut MemoryShare::default(), &budget, 31).await, never);
        assert_eq!(grow(&mut share, &budget, 31).await, never, "it does not wait for itself");
        let [mut small, mut large] = <[MemoryShare; 2]>::default();
        assert!(small.try_grow_to(&budget, 10 * PAGE) && !large.try_grow_to(&budget, 11 * PAGE));
        share.shrink_to(4 * PAGE + 1);
        check(&budget, 15, 0);
        share.clear();
        check(&budget, 10, 0);
        assert!(large.try_grow_to(&budget, 30 * PAGE));
    }

    /// Many that have grown to a half of a small share each would otherwise keep all of them waiting.
    #[tokio::test(start_paused = true)]
    async fn small_shares_that_grow_do_not_wait_for_each_other() {
        let budget = budget(30);
        let mut shares: [MemoryShare; 6] = Default::default();
        // The small pages are gone, and the third share has large ones.
        for share in &mut shares[..3] {
            assert_eq!(grow(share, &budget, 5).await, Ok(()));
        }
        check(&budget, 15, 0);
        for (share, reserved) in shares.iter_mut().zip([16, 17, 18]) {
            assert_eq!(grow(share, &budget, 6).await, Ok(()));
            check(&budget, reserved, 0);
        }
    }

    /// Shares that hold all small pages, and wait for more of them, get large ones once these are free.
    #[tokio::test(start_paused = true)]
    async fn small_shares_that_wait_get_large_pages() {
        let (budget, [mut large, mut first, mut second]) = (budget(12), Default::default());
        assert_eq!(grow(&mut large, &budget, 12).await, Ok(()));
        assert_eq!([grow(&mut first, &budget, 2).await, grow(&mut second, &budget, 2).await], [Ok(()); 2]);
        let waits =
            async { tokio::join!(biased; grow(&mut first, &budget, 4), grow(&mut second, &budget, 4)) };
        let release = async {
            tokio::task::yield_now().await;
            check(&budget, 16, 2);
            large.clear();
        };
        assert_eq!(tokio::join!(biased; waits, release).0, (Ok(()), Ok(())));
        assert_eq!(budget.counts().waiting, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn shares_wait_in_turn_and_not_for_ever() {
        let (budget, [mut first, mut many, mut few]) = (budget(12), Default::default());
        assert_eq!(grow(&mut first, &budget, 11).await, Ok(()));
        let waits = async { tokio::join!(biased; grow(&mut many, &budget, 12), grow(&mut few, &budget, 5)) };
        let release = async {
            tokio::task::yield_now().await;
            check(&budget, 12, 2);
            assert!(budget.is_contended() && !MemoryShare::default().try_grow_to(&budget, 5 * PAGE));
            let mut small = MemoryShare::default();
            assert_eq!(grow(&mut small, &budget, 4).await, Ok(()), "small ones do not wait for large ones");
            first.clear();
        };
        let few_limit = Err(MemoryError::TimedOut(LIMIT));
        assert_eq!(tokio::join!(biased; waits, release).0, (Ok(()), few_limit));
        check(&budget, 12, 0);
        // A share that does not wait any longer leaves the queue.
        let wait = tokio::time::timeout(Duration::from_secs(1), grow(&mut few, &budget, 5)).await;
        assert!(wait.is_err() && few.is_waiting());
        check(&budget, 12, 1);
        drop((few, many));
        check(&budget, 0, 0);
    }

    /// A share that waits for large pages, and still has small ones.
    #[tokio::test(start_paused = true)]
    async fn shares_leave_pages_that_they_have_outgrown_once_others_wait() {
        let (budget, [mut large, mut early, mut late, mut small]) = (budget(12), Default::default());
        assert_eq!(grow(&mut large, &budget, 12).await, Ok(()));
        assert_eq!([grow(&mut early, &budget, 1).await, grow(&mut late, &budget, 2).await], [Ok(()); 2]);
        let outgrows = async |share: &mut MemoryShare| {
            let grown = grow(share, &budget, 5).await;
            // Its owner gives it back with the error.
            grown.inspect_err(|_| share.clear())
        };
        let waits = async { tokio::join!(biased; outgrows(&mut early), outgrows(&mut late)) };
        let others = async {
            tokio::task::yield_now().await;
            check(&budget, 15, 2);
            assert_eq!(grow(&mut small, &budget, 1).await, Ok(()), "what is free takes nothing away");
            sleep(LIMIT / 2).await;
            check(&budget, 16, 2);
            assert_eq!(grow(&mut small, &budget, 3).await, Ok(()));
        };
        let refused = Err(MemoryError::NoneLeft);
        assert_eq!(tokio::join!(biased; waits, others).0, (refused, refused));
        check(&budget, 15, 0);
        // One that has just begun to wait has some time.
        let mut other = MemoryShare::default();
        assert_eq!(grow(&mut late, &budget, 1).await, Ok(()));
        let outgrows_later = async {
            tokio::task::yield_now().await;
            let start = super::super::now();
            assert_eq!(outgrows(&mut late).await, refused);
            assert!(start.elapsed() >= OUTGROWN_WAIT);
            small.clear();
        };
        assert_eq!(tokio::join!(biased; grow(&mut other, &budget, 2), outgrows_later).0, Ok(()));
    }

    /// A share that waits for more large pages once gave up for small ones, which it had none of.
    #[tokio::test(start_paused = true)]
    async fn shares_with_large_pages_give_up_for_no_small_ones() {
        let (budget, [mut first, mut other, mut small, mut late]) = (budget(12), Default::default());
        assert_eq!([grow(&mut first, &budget, 5).await, grow(&mut other, &budget, 7).await], [Ok(()); 2]);
        assert_eq!(grow(&mut small, &budget, 4).await, Ok(()));
        let waits = async { tokio::join!(biased; grow(&mut first, &budget, 6), grow(&mut late, &budget, 1)) };
        let release = async {
            sleep(2 * OUTGROWN_WAIT).await;
            check(&budget, 16, 2);
            other.clear();
            small.clear();
        };
        assert_eq!(tokio::join!(biased; waits, release).0, (Ok(()), Ok(())));
    }

    /// Grows a share, which is given back at once if that fails, or else after `run`. Returns how long it has waited.
    async fn upload(
        mut share: MemoryShare,
        budget: &MemoryBudget,
        pages: usize,
        run: Duration,
    ) -> Result<Duration, MemoryError> {
        let start = now();
        grow(&mut share, budget, pages).await?;
        let waited = start.elapsed();
        sleep(run).await;
        Ok(waited)
    }

    /// A share with so many large pages.
    async fn large(budget: &MemoryBudget, pages: usize) -> MemoryShare {
        let mut share = MemoryShare::default();
        assert_eq!(grow(&mut share, budget, 5.max(pages)).await, Ok(()));
        share.shrink_to(pages * PAGE);
        share
    }

    /// Shares that have large pages, and wait for more in this order.
    #[tokio::test(start_paused = true)]
    async fn the_last_gives_way_once_all_wait() {
        let budget = budget(12);
        let [first, second] = [large(&budget, 5).await, large(&budget, 5).await];
        let start = now();
        let waits = tokio::join!(
            biased;
            upload(first, &budget, 12, Duration::ZERO),
            upload(second, &budget, 12, LIMIT),
        );
        assert_eq!((waits.0.is_ok(), waits.1), (true, Err(MemoryError::NoneLeft)));
        assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
        check(&budget, 0, 0);
        // One that holds nothing, and is first in the queue, is given way to.
        let third = large(&budget, 5).await;
        let waits = tokio::join!(
            biased;
            upload(MemoryShare::default(), &budget, 10, Duration::ZERO),
            upload(third, &budget, 12, LIMIT),
        );
        assert_eq!((waits.0.is_ok(), waits.1), (true, Err(MemoryError::NoneLeft)));
        check(&budget, 0, 0);
    }

    /// A share that has waited before is the oldest, and may yet stand behind one that has nothing to give.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_gives_way_behind_one_that_holds_nothing() {
        let budget = budget(12);
        let mut other = large(&budget, 12).await;
        let mut oldest = MemoryShare::default();
        let freed = async {
            sleep(Duration::from_millis(10)).await;
            other.clear();
        };
        tokio::join!(biased; async { grow(&mut oldest, &budget, 5).await.unwrap() }, freed);
        let start = now();
        let waits = tokio::join!(
            biased;
            upload(MemoryShare::default(), &budget, 10, Duration::ZERO),
            upload(oldest, &budget, 12, LIMIT),
        );
        assert_eq!((waits.0.is_ok(), waits.1), (true, Err(MemoryError::NoneLeft)));
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        check(&budget, 0, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_give_way_as_the_first_needs() {
        for (most, refused) in [(6, 1), (8, 2), (14, 3)] {
            let budget = budget(14);
            let mut shares = Vec::new();
            for _ in 0..4 {
                shares.push(large(&budget, 3).await);
            }
            let mut waits = shares.into_iter().zip([most, 6, 6, 6]).map(|(share, pages)| {
                let run = Duration::from_millis(200);
                Box::pin(upload(share, &budget, pages, run))
            });
            let mut next = || waits.next().unwrap();
            let start = now();
            let outcomes: [_; 4] = tokio::join!(biased; next(), next(), next(), next()).into();
            let kept = 4 - refused;
            assert!(outcomes[..kept].iter().all(Result::is_ok), "{most}: {outcomes:?}");
            assert_eq!(outcomes[kept..], vec![Err(MemoryError::NoneLeft); refused]);
            assert!(start.elapsed() < Duration::from_millis(700), "{:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_gives_way_while_one_runs() {
        let budget = budget(12);
        let [first, second, runs] =
            [large(&budget, 4).await, large(&budget, 3).await, large(&budget, 5).await];
        check(&budget, 12, 0);
        let run = Duration::from_millis(900);
        let waits = tokio::join!(
            biased;
            upload(first, &budget, 6, run),
            upload(second, &budget, 6, run),
            upload(runs, &budget, 5, run),
        );
        assert_eq!(waits.0.map(|waited| waited >= run), Ok(true));
        assert_eq!(waits.1.map(|waited| waited >= run), Ok(true));
        check(&budget, 0, 0);
    }

    /// A stream that is compressed has its pages for days, and none of those that wait gets them.
    #[tokio::test(start_paused = true)]
    async fn the_last_gives_way_if_no_wait_ends() {
        let budget = budget(12);
        let [first, second, _stream] =
            [large(&budget, 4).await, large(&budget, 3).await, large(&budget, 5).await];
        let start = now();
        let waits = tokio::join!(
            biased;
            upload(first, &budget, 6, Duration::ZERO),
            upload(second, &budget, 6, LIMIT),
        );
        assert_eq!((waits.0.is_ok(), waits.1), (true, Err(MemoryError::NoneLeft)));
        assert!(start.elapsed() < 2 * OUTGROWN_WAIT, "{:?}", start.elapsed());
    }

    /// Small shares that have all small pages, beside a large one that lasts.
    #[tokio::test(start_paused = true)]
    async fn the_last_of_small_shares_gives_way() {
        let (budget, [mut first, mut second]) = (budget(12), Default::default());
        let _lasts = large(&budget, 12).await;
        assert_eq!([grow(&mut first, &budget, 2).await, grow(&mut second, &budget, 2).await], [Ok(()); 2]);
        let start = now();
        let waits = tokio::join!(
            biased;
            upload(first, &budget, 4, Duration::ZERO),
            upload(second, &budget, 4, LIMIT),
        );
        assert_eq!((waits.0.is_ok(), waits.1), (true, Err(MemoryError::NoneLeft)));
        assert!(start.elapsed() < 2 * OUTGROWN_WAIT, "{:?}", start.elapsed());
    }

    /// A share that has waited before is older than those that have not, although it is the last in the queue.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_goes_on() {
        let budget = budget(12);
        let [mut first, mut other, mut gone] = <[MemoryShare; 3]>::default();
        assert_eq!(grow(&mut other, &budget, 12).await, Ok(()));
        let waits = tokio::join!(
            biased;
            grow(&mut first, &budget, 5),
            async { other.shrink_to(6 * PAGE) },
        );
        assert_eq!(waits.0, Ok(()));
        // A wait that is given up is no wait for which others give way.
        let wait = tokio::time::timeout(OUTGROWN_WAIT / 2, grow(&mut gone, &budget, 9)).await;
        assert!(wait.is_err());
        drop(gone);
        let waits = tokio::join!(
            biased;
            upload(other, &budget, 9, LIMIT),
            upload(first, &budget, 12, Duration::ZERO),
        );
        assert_eq!((waits.0, waits.1.is_ok()), (Err(MemoryError::NoneLeft), true));
        check(&budget, 0, 0);
    }

    /// Peers that send content of unknown length, some beside a stream that lasts. They come back when they are refused, and
    /// some leave before they are done.
    #[tokio::test(start_paused = true)]
    async fn random_histories_come_to_their_end() {
        for seed in 0..20_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut below = move |end: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random % end as u64) as usize
            };
            let budget = MemoryBudget::new((1 + below(16)) << 20);
            let most = (1 + below(16)) << 20;
            let mut stream = MemoryShare::default();
            assert!(stream.try_grow_to(&budget, budget.share_max() / 8 * below(2)));
            let peers = tokio::task::LocalSet::new();
            for _ in 0..1 + below(40) {
                let upload = Upload {
                    budget: budget.clone(),
                    len: below(most.min(budget.share_max())) / 8 * 3,
                    most,
                    pace: Duration::from_micros(below(2000) as u64),
                };
                let leaves_after = if below(10) == 0 { upload.pace * 100 } else { 10 * LIMIT };
                peers.spawn_local(async move {
                    let sent = tokio::time::timeout(leaves_after, async {
                        while upload.send().await.is_err() {
                            sleep(OUTGROWN_WAIT).await;
                        }
                    });
                    assert!(sent.await.is_ok() || leaves_after < LIMIT);
                });
            }
            let start = now();
            peers.await;
            assert!(start.elapsed() < LIMIT, "{seed}: {:?}", start.elapsed());
            stream.clear();
            check(&budget, 0, 0);
        }
    }

    struct Upload {
        budget: MemoryBudget,
        len: usize,
        most: usize,
        /// The time for four pages.
        pace: Duration,
    }

    impl Upload {
        async fn send(&self) -> Result<(), MemoryError> {
            let mut share = MemoryShare::default();
            for here in (0..=self.len).step_by(4 * PAGE) {
                sleep(self.pace).await;
                if here > share.len() {
                    let target = self.budget.growth_target(here, self.most);
                    poll_fn(|cx| share.poll_grow_to(cx, &self.budget, target, LIMIT)).await?;
                }
            }
            Ok(())
        }
    }

    #[tokio::test]
    async fn without_a_bound_nothing_is_counted() {
        let budget_of_400 = budget(400);
        let (budget, mut share) = (MemoryBudget::default(), MemoryShare::default());
        assert_eq!(grow(&mut share, &budget, usize::MAX / PAGE).await, Ok(()));
        assert_eq!((share.len(), budget.counts()), (0, MemoryCounts::default()));
        let target = |len, most| budget_of_400.growth_target(len * PAGE, most * PAGE) / PAGE;
        assert_eq!([target(1, 300), target(32, 100), target(32, 40)], [2, 64, 40], "small ones double");
        assert_eq!([target(33, 100), target(99, 100)], [100, 100], "large ones take all");
        assert_eq!([target(33, 101), target(300, 999), target(500, 999)], [66, 400, 500]);
        assert_eq!(budget.growth_target(PAGE, 9 * PAGE), PAGE);
        let mut others = MemoryShare::default();
        assert!(others.try_grow_to(&budget_of_400, 300 * PAGE));
        assert_eq!([target(33, 999), target(50, 999)], [66, 100], "steps that are free");
        assert_eq!([target(51, 150), target(51, 999), target(150, 999)], [150, 200, 300], "others wait once");
    }
}
